#!/usr/bin/env bash
# Cross-compiles the libraries that need no llama.cpp for AArch64 and runs their fast tests in QEMU.
#   tools/arm.sh [FOLDER...]   those folders of src/; without any, all of them, and bench/ is compiled
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

known=(kernels format policy select cache)
folders=("$@") targets=()
(( $# )) || folders=("${known[@]}") targets=(bench/all)
for folder in "${folders[@]}"; do
  [[ " ${known[*]} " == *" $folder "* ]] || refuse "found '$folder', expected any of: ${known[*]}"
done
[[ $(uname -m) != aarch64 ]] || die "this machine is AArch64 itself: make test-fast tests its kernels"

tools/setup/packages.sh arm
tools/setup/sysroot.sh

export CCACHE_DIR=$cache/ccache CCACHE_BASEDIR=$repo CCACHE_NOHASHDIR=1 OMP_WAIT_POLICY=passive
log=$cache/logs/kvasir-configure-aarch64.log
run_logged "configuring Kvasir (aarch64)" "$log" cmake --preset aarch64 "-DKVASIR_CACHE_DIR=$cache" ||
  die "cannot configure Kvasir (aarch64): $(reason "$log") (log: $log)"
for folder in "${folders[@]}"; do targets+=("src/$folder/all"); done
NINJA_STATUS="[%f/%t] aarch64: " cmake --build --preset aarch64 --target "${targets[@]}" >&2 ||
  die "cannot build Kvasir (aarch64); the compiler's words are above"

for folder in "${folders[@]}"; do
  ctest --test-dir "build-aarch64/src/$folder" -L '^fast$' -j "$(nproc)" --output-on-failure --no-tests=error ||
    die "tests of src/$folder failed on AArch64; they are named above"
done
