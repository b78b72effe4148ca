// Words of KVASIR_FLAGS: splitting is split_flags of options.h, this is its inverse for one word.
// Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace kvasir {

/// The word with quotes where it needs them, so that a shell and split_flags give it back.
std::string quote_word(std::string_view word);

}  // namespace kvasir
