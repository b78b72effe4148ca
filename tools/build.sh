#!/usr/bin/env bash
# Sets up what is missing, then configures and builds one preset of CMakePresets.json.
#   tools/build.sh [dev|release|asan-ubsan|tsan]
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

preset=${1:-release}
"$repo/tools/setup/packages.sh"
"$repo/tools/setup/llama.sh"
"$repo/tools/setup/models.sh" pull all

cd "$repo"
# Paths of this clone stay out of ccache's keys, so that another clone need not compile again.
export CCACHE_DIR=$cache/ccache CCACHE_BASEDIR=$repo CCACHE_NOHASHDIR=1
log=$cache/logs/kvasir-configure-$preset.log
run_logged "configuring Kvasir ($preset)" "$log" \
  cmake --preset "$preset" "-DKVASIR_CACHE_DIR=$cache" ||
  die "cannot configure Kvasir ($preset): $(reason "$log") (log: $log)"
NINJA_STATUS="[%f/%t] $preset: " cmake --build --preset "$preset" >&2 ||
  die "cannot build Kvasir ($preset); the compiler's words are above"
