// Text made fit to stand in a page: nothing that comes from a file may become markup or script.
//
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvasir::eval {

/// Text for an element or a quoted attribute.
std::string escape_html(std::string_view text);

/// JSON for a <script type="application/json">: without "<", which could end the element.
std::string script_json(const nlohmann::ordered_json& value);

/// JavaScript for a <script>: "</script" and "<!--" inside its strings are written with a
/// backslash.
std::string escape_script(std::string_view script);

}  // namespace kvasir::eval
