// The fixed parts of the page, which lie in the program.
#pragma once

#include <string_view>

namespace kvasir::eval {

std::string_view vega_script();     ///< defines `vega`
std::string_view page_style();      ///< CSS
std::string_view figures_script();  ///< what each kind of figure looks like
std::string_view page_script();     ///< draws the figures of the page

}  // namespace kvasir::eval
