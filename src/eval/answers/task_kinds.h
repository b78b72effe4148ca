// `kvasir eval needle|ruler|kvretrieval|manyshot|dataset`.
#pragma once

#include <string>
#include <vector>

namespace kvasir::eval {

/// Each runs its command on the words after the kind; returns the exit code.
int needle_command(const std::vector<std::string>& args);
int ruler_command(const std::vector<std::string>& args);
int kvretrieval_command(const std::vector<std::string>& args);
int manyshot_command(const std::vector<std::string>& args);
int dataset_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
