#include "cache/flag_words.h"

#include <utility>
#include <vector>

#include "cache/options.h"

namespace kvasir {
namespace {

/// Reads one word after the other. The rules are those of a POSIX shell's quoting.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> split() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\' && quote_ != '\'') {
        if (at_ + 1 == text_.size()) return complaint("ends with a backslash");
        escaped(text_[++at_]);
      } else if (quote_ != 0) {
        quoted(c);
      } else {
        plain(c);
      }
    }
    if (quote_ != 0) return complaint(std::string("has an open quote ") + quote_);
    end_word();
    return std::move(words_);
  }

 private:
  void add(char c) {
    word_ += c;
    in_word_ = true;
  }

  // Inside double quotes a backslash escapes these four and stands for itself before others.
  void escaped(char c) {
    constexpr std::string_view kSpecial = "\"\\$`";
    if (quote_ == '"' && kSpecial.find(c) == std::string_view::npos) add('\\');
    add(c);
  }

  void quoted(char c) {
    if (c == quote_) {
      quote_ = 0;
    } else {
      add(c);
    }
  }

  void plain(char c) {
    constexpr std::string_view kBlanks = " \t\r\n\v\f";
    if (c == '\'' || c == '"') {
      quote_ = c;
      in_word_ = true;  // '' is a word
    } else if (kBlanks.find(c) != std::string_view::npos) {
      end_word();
    } else {
      add(c);
    }
  }

  void end_word() {
    if (in_word_) words_.push_back(std::exchange(word_, {}));
    in_word_ = false;
  }

  Error complaint(const std::string& what) const {
    return Error{"KVASIR_FLAGS " + what + ": " + std::string(text_)};
  }

  std::string_view text_;
  size_t at_ = 0;
  char quote_ = 0;  // the open quote, or 0
  std::vector<std::string> words_;
  std::string word_;
  bool in_word_ = false;
};

}  // namespace

Result<std::vector<std::string>> split_flags(std::string_view text) {
  return Splitter(text).split();
}

std::string quote_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:+=@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace kvasir
