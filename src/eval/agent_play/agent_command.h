// `kvasir eval agent`: episodes on the web shop and form site.
#pragma once

#include <string>
#include <vector>

namespace kvasir::eval {

/// Runs the command on the words after `agent`; returns the exit code.
int agent_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
