#!/usr/bin/env bash
# clang-format and clang-tidy, both of version 14, on the C++ files that changed since the branch
# point (or the last commit) and on what is not committed; with --all on every file.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

# changed_since: the commit to compare with; the empty tree where there is none, so that all count.
changed_since() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [[ -z $base || $base == $(git rev-parse HEAD 2>/dev/null) ]]; then
    base=$(git rev-parse --verify -q HEAD~1 || true)
  fi
  echo "${base:-$(git hash-object -t tree /dev/null)}"
}

# files: one existing C++ file a line, relative to the root.
files() {
  local patterns=('*.h' '*.cc')
  if [[ ${1:-} == --all ]]; then
    git ls-files --cached --others --exclude-standard -- "${patterns[@]}"
  else
    git diff --name-only --diff-filter=d "$(changed_since)" -- "${patterns[@]}"
    git ls-files --others --exclude-standard -- "${patterns[@]}"
  fi | sort -u | while read -r file; do if [[ -f $file ]]; then echo "$file"; fi; done
}

[[ ${1:-} == --all || $# == 0 ]] || refuse "found '$1', expected: --all or nothing"
mapfile -t all < <(files "$@")
if (( ${#all[@]} == 0 )); then
  say "no C++ file has changed"
  exit 0
fi

# clang-tidy reads the flags of the release build and headers that come with the set-up.
[[ -f build/compile_commands.json ]] || tools/build.sh release

clang-format-14 --dry-run -Werror "${all[@]}" ||
  die "the files above are not formatted; mend them with: clang-format-14 -i FILE"

# A header is checked through a source file of its own name, or on its own where it has none; but
# Highway's -inl.h files only make sense inside the file that includes them.
units=()
for file in "${all[@]}"; do
  if [[ $file == *-inl.h ]]; then file=$(dirname "$file")/tables.cc; fi
  if [[ $file == *.h && -f ${file%.h}.cc ]]; then file=${file%.h}.cc; fi
  if [[ $file == *.h ]] || grep -qF "\"file\": \"$repo/$file\"" build/compile_commands.json; then
    units+=("$file")
  fi
done
mapfile -t units < <(printf '%s\n' "${units[@]}" | sort -u)

# In tests and benchmarks sizes are small constants, time is nobody's, fixtures lie open, and an
# exception may end main.
lenient=-bugprone-implicit-widening-of-multiplication-result,-bugprone-misplaced-widening-cast
lenient+=,-performance-inefficient-vector-operation,-misc-non-private-member-variables-in-classes
lenient+=,-bugprone-exception-escape
checks_of() {
  case $1 in
    *_test.cc | */test_*.h | tests/* | bench/*) echo "--checks=$lenient" ;;
    *) echo --checks= ;;
  esac
}

# A file that passed is not read again until it, any header, the flags or the rules change.
passed=$cache/tidy
make_folder "$passed"
find "$passed" -type f -mtime +30 -delete
surroundings=$({ git ls-files --cached --others --exclude-standard -- '*.clang-tidy' | xargs cat; clang-tidy-14 --version; readlink -f "$cache/llama.cpp/current/build"
  git ls-files --cached --others --exclude-standard -- '*.h' '*.cmake' '*CMakeLists.txt' | sort |
    xargs -d '\n' cat; } 2>/dev/null | sha256sum)
stamp_of() { { echo "$surroundings $lenient $1"; cat "$1"; } | sha256sum | cut -d ' ' -f 1; }

# tidy_all UNIT...: as many at once as there are cores; only what clang-tidy refuses is shown.
tidy_all() {
  local i=0 log=$cache/logs/clang-tidy.log jobs=() unit
  for unit in "$@"; do jobs+=("[$((++i))/$#]" "$unit" "$passed/$(stamp_of "$unit")" "$(checks_of "$unit")"); done
  # shellcheck disable=SC2016  # the inner shell expands
  run_logged "clang-tidy" "$log" xargs -0 -n 4 -P "$(nproc)" -a <(printf '%s\0' "${jobs[@]}") nice bash -c '
    if found=$(clang-tidy-14 -p build --quiet "$4" "$2" 2>&1); then
      touch "$3"
      echo "$1 $2"
    else
      printf "%s\n" "$found" | grep -vE "^[0-9]+ warnings|^Error while processing"
      exit 1
    fi' tidy || {
    grep -v '^\[' "$log" >&2
    die "clang-tidy refused what is above; .clang-tidy has the rules"
  }
}

unread=()
for unit in "${units[@]}"; do
  [[ -f $passed/$(stamp_of "$unit") ]] || unread+=("$unit")
done
if (( ${#unread[@]} )); then tidy_all "${unread[@]}"; fi
say "lint passed: clang-format on ${#all[@]} files, clang-tidy on ${#units[@]} (${#unread[@]} of them new to it)"
