#include "eval/agent/http_post.h"

#include <curl/curl.h>

#include <memory>
#include <mutex>

namespace kvasir::eval::agent {
namespace {

struct Receiver {
  HttpReply* reply;
  size_t max_bytes;
};

size_t receive(char* data, size_t size, size_t count, void* user) {
  auto& receiver = *static_cast<Receiver*>(user);
  const size_t bytes = size * count;
  if (receiver.reply->body.size() + bytes > receiver.max_bytes) {
    receiver.reply->too_long = true;
    return CURL_WRITEFUNC_ERROR;
  }
  receiver.reply->body.append(data, bytes);
  return bytes;
}

void start_library() {
  static std::once_flag started;
  std::call_once(started, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

Headers header_list(const std::vector<std::string>& headers) {
  curl_slist* list = nullptr;
  for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
  return {list, curl_slist_free_all};
}

}  // namespace

HttpReply http_post(const HttpRequest& request) {
  start_library();
  HttpReply reply;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(),
                                                                   curl_easy_cleanup);
  if (handle == nullptr) {
    reply.error = "libcurl cannot be started";
    return reply;
  }
  const Headers headers = header_list(request.headers);
  Receiver receiver{&reply, request.max_body_bytes};
  CURL* curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &receiver);
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  reply.status = status;
  reply.timed_out = code == CURLE_OPERATION_TIMEDOUT;
  if (code != CURLE_OK && !reply.too_long) reply.error = curl_easy_strerror(code);
  return reply;
}

}  // namespace kvasir::eval::agent
