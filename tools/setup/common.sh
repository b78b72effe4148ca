# shellcheck shell=bash
# Sourced by the set-up scripts: where things lie, how they speak, temporary folders, the lock and
# downloads. It decides nothing about what is fetched; that is in llama.sh, models.sh and models.tsv.
#
# Every failure is one line on stderr and exit code 1 (2 for a wrong command line). What is not
# complete lives in a temporary folder on the cache's own filesystem and is moved into place by one
# rename, so an interrupted run leaves nothing half-installed.

set -Eeuo pipefail
export LC_ALL=C
unset LANG LANGUAGE LC_CTYPE LC_MESSAGES  # ccache's keys hold them all, however they are overridden

# shellcheck disable=SC2034  # for the scripts that source this
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tmp=
job=

say() { printf 'kvasir: %s\n' "$*" >&2; }
die() { trap - ERR; say "$*"; exit 1; }
refuse() { trap - ERR; say "$*"; exit 2; }

clean_up() {
  if [[ -n $job ]]; then kill -TERM -- "-$job" 2>/dev/null || true; fi
  if [[ -n $tmp ]]; then rm -rf "$tmp"; fi
}
trap clean_up EXIT
trap 'die "interrupted; nothing half-installed is left, run it again"' INT TERM HUP
trap 'die "$(basename "$0") stopped at line $LINENO: $BASH_COMMAND failed; mend what it names and run it again"' ERR

if [[ -n ${KVASIR_CACHE_DIR:-} ]]; then
  cache=$KVASIR_CACHE_DIR
elif [[ -n ${HOME:-} ]]; then
  cache=$HOME/.cache/kvasir
else
  die "neither HOME nor KVASIR_CACHE_DIR is set; set one to say where llama.cpp and the models go"
fi
[[ $cache == /* ]] || cache=$PWD/$cache

# make_folder DIR...
make_folder() {
  local dir message
  for dir in "$@"; do
    message=$(mkdir -p "$dir" 2>&1) || die "cannot make the folder $dir (${message##*: }); free or choose another place with KVASIR_CACHE_DIR"
  done
}

# lock_cache: one set-up at a time per cache; what an earlier run that was killed left is removed.
lock_cache() {
  make_folder "$cache"
  { exec 9>"$cache/.lock"; } 2>/dev/null || die "cannot write $cache/.lock; free space there or choose another place with KVASIR_CACHE_DIR"
  if ! flock -n 9; then
    say "waiting for another set-up that is using $cache"
    flock 9
  fi
  rm -rf "$cache"/.tmp.*
}

# make_temp: sets $tmp to a new folder beside what will be installed; removed on exit.
make_temp() {
  [[ -z $tmp ]] || return 0
  tmp=$(mktemp -d "$cache/.tmp.XXXXXX" 2>/dev/null) ||
    die "cannot make a temporary folder in $cache; free space there or choose another place with KVASIR_CACHE_DIR"
}

# need_space MEGABYTES WHAT: refuses early what would fill the disk.
need_space() {
  local available
  make_folder "$cache"
  available=$(df --output=avail -BM "$cache" | tail -n 1 | tr -dc 0-9)
  if (( available < $1 )); then
    die "$2 needs $1 MB in $cache, found $available MB free; free space or choose another place with KVASIR_CACHE_DIR"
  fi
}

# reason LOG: the line of a log that says best why it failed.
reason() {
  local line
  line=$(grep -a -m 1 -E 'No space left|File too large|Disk quota' "$1" 2>/dev/null ||
         grep -a -E '^(ERROR|E):' "$1" 2>/dev/null | tail -n 1 ||
         grep -a -m 1 -iE '(error|fatal|failed|cannot)' "$1" 2>/dev/null ||
         tail -n 1 "$1" 2>/dev/null || true)
  line=${line:-no message}
  printf '%s' "${line:0:240}"
}

# run_logged LABEL LOG COMMAND...: COMMAND's output goes to LOG. A command that takes longer than two
# seconds is announced with a progress line, which a [done/total] in LOG completes: rewritten every
# second on a terminal, a new one every ten seconds elsewhere. Returns the command's status.
run_logged() {
  local label=$1 log=$2 began=$SECONDS next=2 interval=10 status=0 end=$'\n' counter passed
  shift 2
  make_folder "$(dirname "$log")"
  { : >"$log"; } 2>/dev/null || die "cannot write the log $log; free space there or choose another place with KVASIR_CACHE_DIR"
  if [[ -t 2 ]]; then interval=1 end=$'\e[K\r'; fi
  set -m  # a process group of its own, to end it whole; still this terminal's, for sudo's ticket
  "$@" >"$log" 2>&1 </dev/null 9>&- &
  job=$!
  set +m
  while kill -0 "$job" 2>/dev/null; do
    passed=$((SECONDS - began))
    if (( passed >= next )); then
      counter=$(tail -c 4000 "$log" 2>/dev/null | grep -aoE '^\[[0-9]+/[0-9]+\] ' | tail -n 1 || true)
      printf 'kvasir: %s %s(%d s)%s' "$label" "$counter" "$passed" "$end" >&2
      next=$((passed + interval))
    fi
    sleep 0.1
  done
  wait "$job" || status=$?
  job=
  passed=$((SECONDS - began))
  if (( next > 2 && status == 0 )); then say "$label: done in $passed s"; fi
  return "$status"
}

# check_sha256 FILE EXPECTED WHAT: a file that differs is removed and the script ends.
check_sha256() {
  local found
  found=$(sha256sum "$1" | cut -d ' ' -f 1)
  if [[ $found != "$2" ]]; then
    rm -f "$1"
    die "$3 has sha256 $found, expected $2; it was removed, run it again to fetch it anew"
  fi
}

# fetch REQUIREMENT FILE SHA256 MEGABYTES [pip option...]: FILE of a package on the Python package
# index into $cache/downloads, unless it is there already. Sets $fetched to its path.
fetch() {
  local requirement=$1 file=$2 sha256=$3 megabytes=$4 log=$cache/logs/fetch-$2.log python
  shift 4
  fetched=$cache/downloads/$file
  if [[ -f $fetched ]]; then
    check_sha256 "$fetched" "$sha256" "$fetched"
    return 0
  fi
  need_space $((megabytes * 2 + 10)) "fetching $requirement"
  make_temp
  make_folder "$cache/downloads" "$tmp/pip" "$tmp/pip-work"
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import pip' 2>/dev/null; then break; fi
  done
  # pip's own work folder lies on the cache's filesystem too, so that one disk is asked for space.
  TMPDIR=$tmp/pip-work run_logged "fetching $requirement ($megabytes MB)" "$log" \
    "$python" -m pip download --disable-pip-version-check --no-input --no-cache-dir --no-deps \
    --retries 2 --progress-bar off -d "$tmp/pip" "$@" "$requirement" ||
    die "cannot fetch $requirement from the Python package index: $(reason "$log"); check network and disk and run it again (log: $log)"
  [[ -f $tmp/pip/$file ]] ||
    die "fetching $requirement gave $(cd "$tmp/pip" && echo *), expected $file; check pip's settings (log: $log)"
  check_sha256 "$tmp/pip/$file" "$sha256" "$file"
  mv "$tmp/pip/$file" "$fetched"
  rm -rf "$tmp/pip" "$tmp/pip-work"
}
