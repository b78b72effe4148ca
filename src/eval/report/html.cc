#include "eval/report/html.h"

#include <cctype>

namespace kvasir::eval {
namespace {

bool begins_with(std::string_view text, std::string_view lower_case) {
  if (text.size() < lower_case.size()) return false;
  for (size_t i = 0; i < lower_case.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(text[i])) != lower_case[i]) return false;
  }
  return true;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      out += "\xEF\xBF\xBD";  // U+FFFD
    } else {
      out += c;
    }
  }
  return out;
}

std::string script_json(const nlohmann::ordered_json& value) {
  std::string out;
  const auto dumped = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  out.reserve(dumped.size());
  for (const char c : dumped) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escape_script(std::string_view script) {
  std::string out;
  out.reserve(script.size());
  for (size_t i = 0; i < script.size(); ++i) {
    out += script[i];
    if (script[i] != '<') continue;
    const std::string_view rest = script.substr(i + 1);
    if (begins_with(rest, "/script") || begins_with(rest, "!--")) out += '\\';
  }
  return out;
}

}  // namespace kvasir::eval
