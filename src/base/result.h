// Result<T>: a value or one line of text that says what is wrong.
//
// For errors of the outside world: files, flags, requests, memory. A broken invariant asserts
// instead. The text names the thing, the value found and what is allowed, without a trailing
// newline; the caller decides where it is shown and with which exit code.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace kvasir {

/// An error as people read it: one line, no newline.
struct Error {
  std::string message;
};

/// A value of type T or an Error. Test it, then read it.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : message_(std::move(error.message)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return value_.has_value(); }

  /// Requires: this holds a value.
  T& value() {
    assert(value_.has_value());
    return *value_;
  }
  const T& value() const {
    assert(value_.has_value());
    return *value_;
  }

  /// Empty when this holds a value.
  const std::string& error() const { return message_; }

 private:
  std::optional<T> value_;
  std::string message_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error)
      : message_(std::move(error.message)), ok_(false) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return ok_; }
  const std::string& error() const { return message_; }

 private:
  std::string message_;
  bool ok_ = true;
};

}  // namespace kvasir
