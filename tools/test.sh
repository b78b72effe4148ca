#!/usr/bin/env bash
# The test stages, cheapest first; the first that fails ends the run and is named.
#   tools/test.sh fast|all|long
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

stage() {
  local name=$1 began=$SECONDS
  shift
  say "stage: $name"
  "$@" || die "stage failed: $name"
  say "stage passed: $name ($((SECONDS - began)) s)"
}

# run_ctest FOLDER LABEL JOBS: an empty selection is a failure, not a success.
run_ctest() {
  ctest --test-dir "$1" -L "^$2\$" -j "$3" --output-on-failure --no-tests=error
}

# What tests alone need.
set_up() { tools/setup/packages.sh test && tools/setup/python.sh; }

fast=(run_ctest build fast "$(nproc)")
case ${1:-all} in
  fast)
    stage "build" tools/build.sh release
    stage "fast tests" "${fast[@]}" ;;
  all | long)
    stage "set-up of tests" set_up
    stage "build" tools/build.sh release
    stage "lint of changed files" tools/lint.sh
    stage "fast tests" "${fast[@]}"
    stage "build with address and undefined-behaviour sanitizers" tools/build.sh asan-ubsan
    stage "fast tests with sanitizers" run_ctest build-asan fast "$(nproc)"
    if [[ $(uname -m) != aarch64 ]]; then
      stage "kernels and formats on AArch64" tools/arm.sh kernels format
    fi
    stage "slow tests" run_ctest build slow 1
    if [[ ${1:-all} == long ]]; then
      stage "build with the thread sanitizer" tools/build.sh tsan
      stage "fast tests with the thread sanitizer" run_ctest build-tsan fast "$(nproc)"
      stage "long tests" run_ctest build long 1
      if [[ $(uname -m) != aarch64 ]]; then
        stage "libraries on AArch64, without the cache" tools/arm.sh kernels format policy select
      fi
    fi ;;
  *) refuse "found '$1', expected: fast, all or long" ;;
esac
