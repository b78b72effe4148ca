// What a measurement says of the machine that it was made on.
#pragma once

#include <string>

namespace kvasir::eval {

/// The processor's name as the system gives it, or "unknown".
std::string cpu_name();

}  // namespace kvasir::eval
