#!/usr/bin/env bash
# Runs the benchmark programs of build/ one after the other; arguments go to each of them.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

mapfile -t programs < <(find build/bin build/bench -maxdepth 1 -name '*_bench' -type f -executable 2>/dev/null | sort)
(( ${#programs[@]} )) || die "found no benchmark program (*_bench) under build/bin or build/bench; run make build"
for program in "${programs[@]}"; do
  say "$program"
  "$program" "$@" || die "$program failed"
done
