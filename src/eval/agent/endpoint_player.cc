#include "eval/agent/endpoint_player.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "eval/agent/action.h"
#include "eval/agent/http_post.h"

namespace kvasir::eval::agent {
namespace {

using nlohmann::json;

constexpr size_t kShownBytes = 160;
constexpr std::string_view kEndpoint = "/chat/completions";

/// One try: a body, or what went wrong and whether another try may help.
struct Try {
  std::string body;
  std::string error;
  bool may_retry = false;
};

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

/// Whether "HOST", "HOST:PORT" or "[IPV6]:PORT" has a port that exists, if any.
bool is_host(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return !host.empty();
  const std::string port(host.substr(colon + 1));
  const bool digits =
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  return colon > 0 && digits && !port.empty() && port.size() <= 5 && std::stoi(port) <= 65'535;
}

Result<std::pair<std::string, std::string>> split_address(const std::string& address) {
  const Error refused{"the endpoint address '" + excerpt(address, kShownBytes) +
                      "': expected http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]"};
  const size_t scheme = address.find("://");
  if (scheme == std::string::npos || !is_printable(address)) return refused;
  const std::string name = address.substr(0, scheme);
  if (name != "http" && name != "https") return refused;
  const size_t slash = std::min(address.find('/', scheme + 3), address.size());
  if (!is_host(std::string_view(address).substr(scheme + 3, slash - scheme - 3)) ||
      address.find_first_of("?#@") != std::string::npos)
    return refused;
  std::string path = address.substr(slash);
  while (!path.empty() && path.back() == '/') path.pop_back();
  if (path.empty()) path = "/v1";
  const bool is_whole =
      path.size() >= kEndpoint.size() &&
      path.compare(path.size() - kEndpoint.size(), kEndpoint.size(), kEndpoint) == 0;
  if (!is_whole) path += kEndpoint;
  return std::pair(address.substr(0, slash), path);
}

Result<std::string> read_key(const std::string& variable) {
  if (variable.empty()) return std::string();
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0') {
    return Error{"the environment variable " + variable + " for the endpoint's key is not set"};
  }
  if (!is_printable(value)) {
    return Error{"the environment variable " + variable +
                 " for the endpoint's key holds a space or control character"};
  }
  return std::string(value);
}

std::string request_body(const EndpointOptions& options, std::span<const Message> transcript) {
  json body = {{"model", options.model},
               {"max_tokens", options.max_tokens},
               {"temperature", 0},
               {"stream", false},
               {"messages", json::array()}};
  for (const auto& message : transcript) {
    body["messages"].push_back({{"role", role_name(message.role)}, {"content", message.text}});
  }
  // Bytes that are no UTF-8 may stand in an observation that quotes a reply.
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// What the server says about an error, if it says it as OpenAI does, else the body's beginning.
std::string reason(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  const bool has_error = parsed.is_object() && parsed.contains("error");
  if (!has_error) return excerpt(body, kShownBytes);
  const json& error = parsed["error"];
  if (error.is_string()) return excerpt(error.get<std::string>(), kShownBytes);
  if (error.is_object() && error.contains("message") && error["message"].is_string()) {
    return excerpt(error["message"].get<std::string>(), kShownBytes);
  }
  return excerpt(body, kShownBytes);
}

Try post(const EndpointOptions& options, const std::string& url, const std::string& key,
         const std::string& body) {
  HttpRequest request;
  request.url = url;
  request.headers = {"Content-Type: application/json", "Accept: application/json", "Expect:"};
  if (!key.empty()) request.headers.push_back("Authorization: Bearer " + key);
  request.body = body;
  request.timeout_ms = std::max(int64_t{1}, static_cast<int64_t>(options.timeout_seconds * 1e3));
  request.max_body_bytes = options.max_body_bytes;
  HttpReply reply = http_post(request);
  Try result;
  if (reply.too_long) {
    result.error = "the body is longer than " + std::to_string(options.max_body_bytes) + " bytes";
  } else if (!reply.error.empty()) {
    result.may_retry = true;
    result.error = reply.timed_out
                       ? "no answer within " + std::to_string(request.timeout_ms) + " ms"
                       : "no answer (" + reply.error + ")";
  } else if (reply.status != 200) {
    result.may_retry = reply.status == 408 || reply.status == 429 || reply.status >= 500;
    result.error = "status " + std::to_string(reply.status) + ": " + reason(reply.body);
  }
  result.body = std::move(reply.body);
  return result;
}

/// choices[0].message.content, or what of it is missing.
Result<std::string> content(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_discarded()) {
    return Error{"the body is no JSON: '" + excerpt(body, kShownBytes) + "'"};
  }
  const auto missing = [](const std::string& what) {
    return Error{"the body's JSON lacks " + what};
  };
  if (!parsed.is_object() || !parsed.contains("choices") || !parsed["choices"].is_array()) {
    return missing("the array choices");
  }
  if (parsed["choices"].empty()) return Error{"the body's array choices is empty"};
  const json& choice = parsed["choices"][0];
  if (!choice.is_object() || !choice.contains("message") || !choice["message"].is_object()) {
    return missing("the object choices[0].message");
  }
  const json& message = choice["message"];
  if (!message.contains("content") || !message["content"].is_string()) {
    return missing("the string choices[0].message.content");
  }
  return message["content"].get<std::string>();
}

}  // namespace

Result<std::unique_ptr<EndpointPlayer>> EndpointPlayer::make(const EndpointOptions& options) {
  auto address = split_address(options.address);
  if (!address) return Error{address.error()};
  auto key = read_key(options.key_variable);
  if (!key) return Error{key.error()};
  if (options.model.empty()) return Error{"the endpoint's model name is empty"};
  if (!(options.timeout_seconds > 0 && options.timeout_seconds <= 86'400)) {
    return Error{"an endpoint timeout of " + std::to_string(options.timeout_seconds) +
                 " s, allowed is more than 0 up to 86400"};
  }
  if (options.retries < 0 || options.retries > 20) {
    return Error{std::to_string(options.retries) + " retries of an endpoint, allowed are 0 to 20"};
  }
  if (!(options.retry_wait_seconds >= 0 && options.retry_wait_seconds <= 60)) {
    return Error{"a wait of " + std::to_string(options.retry_wait_seconds) +
                 " s before a retry, allowed are 0 to 60"};
  }
  if (options.max_tokens < 1) {
    return Error{std::to_string(options.max_tokens) + " tokens of a reply, at least 1 is allowed"};
  }
  std::unique_ptr<EndpointPlayer> player(new EndpointPlayer);
  player->options_ = options;
  player->host_ = std::move(address.value().first);
  player->path_ = std::move(address.value().second);
  player->key_ = std::move(key.value());
  return player;
}

Result<std::string> EndpointPlayer::act(std::span<const Message> transcript) {
  const std::string body = request_body(options_, transcript);
  double wait = options_.retry_wait_seconds;
  Try last;
  int32_t tries = 0;
  do {
    if (tries > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      wait *= 2;
    }
    last = post(options_, host_ + path_, key_, body);
    ++tries;
  } while (last.may_retry && tries <= options_.retries);
  const std::string from = "the endpoint " + host_ + path_ + ": ";
  if (!last.error.empty()) {
    return Error{from + last.error +
                 (tries > 1 ? " (after " + std::to_string(tries) + " tries)" : "")};
  }
  auto text = content(last.body);
  if (!text) return Error{from + text.error()};
  return text;
}

}  // namespace kvasir::eval::agent
