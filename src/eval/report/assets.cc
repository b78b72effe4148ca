#include "eval/report/assets.h"

// KVASIR_PART(name, file) puts the bytes of a file between kvasir_name_begin and kvasir_name_end.
#define KVASIR_PART(name, file)                                                             \
  __asm__(".pushsection .rodata\n.balign 16\n.global kvasir_" #name "_begin\nkvasir_" #name \
          "_begin:\n.incbin \"" file "\"\n.global kvasir_" #name "_end\nkvasir_" #name      \
          "_end:\n.byte 0"                                                                  \
          "\n.popsection\n");                                                               \
  extern "C" const char kvasir_##name##_begin[];                                            \
  extern "C" const char kvasir_##name##_end[]

KVASIR_PART(vega, KVASIR_VEGA_SCRIPT);
KVASIR_PART(style, KVASIR_PAGE_PARTS "/page.css");
KVASIR_PART(figures, KVASIR_PAGE_PARTS "/figures.js");
KVASIR_PART(page, KVASIR_PAGE_PARTS "/page.js");

namespace kvasir::eval {

std::string_view vega_script() { return {kvasir_vega_begin, kvasir_vega_end}; }
std::string_view page_style() { return {kvasir_style_begin, kvasir_style_end}; }
std::string_view figures_script() { return {kvasir_figures_begin, kvasir_figures_end}; }
std::string_view page_script() { return {kvasir_page_begin, kvasir_page_end}; }

}  // namespace kvasir::eval
