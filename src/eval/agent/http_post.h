// One HTTP or HTTPS request, by libcurl.
//
// Knows nothing of what is sent. No redirect is followed; certificates are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvasir::eval::agent {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  std::string body;
  int64_t timeout_ms = 0;     ///< of all of it, connecting included
  size_t max_body_bytes = 0;  ///< of the reply
};

struct HttpReply {
  int64_t status = 0;  ///< 0: none came
  std::string body;
  bool too_long = false;  ///< the body passed max_body_bytes and was left
  bool timed_out = false;
  std::string error;  ///< libcurl's words where no whole reply came; empty otherwise
};

HttpReply http_post(const HttpRequest& request);

}  // namespace kvasir::eval::agent
