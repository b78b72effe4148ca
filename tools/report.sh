#!/usr/bin/env bash
# The evaluation of the default model: results and one page under build/report/, and docs/results.md.
# What is finished is not run again, what was interrupted goes on; remove a file to have it made anew.
#   tools/report.sh [full]   full: sweeps, formats alone, rankers at recorded budgets, other models
#                            and tasks; many hours
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

kind=${1:-main}
[[ $kind == main || $kind == full ]] || refuse "report.sh: found '$kind', expected nothing or: full"
out=build/report
made=()
left=0 # minutes
make_folder "$out"

# One pass adds up what is left to do, the next does it.
pass=estimate

# evaluate NAME MINUTES ARGUMENTS...: kvasir eval ARGUMENTS, its table beside its result. MINUTES is
# what it takes on 2 quiet cores, about.
evaluate() {
  local name=$1 minutes=$2
  shift 2
  if [[ $pass == estimate ]]; then
    [[ -f $out/$name.json ]] || left=$((left + minutes))
    return 0
  fi
  made+=("$out/$name.json")
  [[ ! -f $out/$name.json ]] || return 0
  say "about $minutes min: kvasir eval $*"
  build/bin/kvasir eval "$@" --json "$out/$name.json" >"$out/$name.txt" ||
    die "kvasir eval $name failed; its words are above"
}

# --- The main table: every policy and format with the bytes of 256 f16 tokens a layer
main_table() {
  evaluate fidelity 10 fidelity -m smollm2-f16 --text bible --tokens 2048 --prefix 1024 --methods 256
  evaluate needle 16 needle -m smollm2-q4_0 --length 1024 --depth 5,15,25,35,45,55,65,75,85,95 --samples 2 \
    --methods 256
  evaluate premise 2 premise -m smollm2-f16 --text bible --tokens 2048 --prefix 512 --every 4
  # Formats with every token kept.
  evaluate formats 5 fidelity -m smollm2-f16 --text bible --tokens 2048 --prefix 1024 --formats
}

conf=(--set "conf: --kv-policy conf --kv-high 128 --kv-low 256")
short=(-m smollm2-f16 --text bible --tokens 1024 --prefix 512)
window512=(--set "window 512: --kv-policy window --kv-budget 512")
conf512=(--set "conf 512/1024: --kv-policy conf --kv-high 512 --kv-low 1024")

# --- The premise on a second model, what DeltaKV observes, then one parameter after another
sweeps() {
  evaluate premise-gemma3 6 premise -m gemma3-f16 --text bible --tokens 2048 --prefix 512 --every 4
  evaluate neighbours 1 neighbours -m smollm2-f16
  evaluate neighbours-gemma3 1 neighbours -m gemma3-f16
  evaluate sweep-tau 3 fidelity "${short[@]}" "${conf[@]}" --sweep kv-tau=0.3,0.5,0.7,0.8,0.9
  evaluate sweep-budget 3 fidelity "${short[@]}" --set "conf: --kv-policy conf" \
    --sweep kv-budget=128,192,256,384,512
  evaluate sweep-recent 3 fidelity "${short[@]}" \
    --set "conf int8-channel: --kv-policy conf --kv-high 256 --kv-low 512 --kv-format int8-channel" \
    --sweep kv-recent=0,32,64,128,256
  evaluate sweep-ranker 7 fidelity "${short[@]}" "${conf[@]}" --sweep kv-alpha=0,0.35,0.65,0.85,1 \
    --sweep kv-lambda=0.9,0.98,0.999
}

# --- Every policy with a quarter and an eighth of the tokens
shares() {
  local share policies=window,recency,random,streaming,scissorhands,h2o,snapkv,pyramidkv,tova,keydiff,knorm
  policies+=,attention,conf,conf+
  for share in 25 12.5; do
    evaluate "shares-$share" 10 fidelity -m smollm2-f16 --text bible --tokens 2048 --prefix 1024 \
      --set "$share %: --kv-budget $share%" --sweep "kv-policy=$policies"
  done
}

# --- Rankers alone, at the budgets of each step that conf had
rankers() {
  local trace=$out/conf.trace random recency attention
  # A trace that was cut cannot be continued: its run is made anew.
  if [[ $pass == run && ! -f $out/conf-trace.json ]]; then rm -f "$trace" "$out/conf-trace.json.partial"; fi
  evaluate conf-trace 1 fidelity "${short[@]}" --set "conf: --kv-policy conf --kv-high 128 --kv-low 256 --kv-trace $trace"
  random="random: --kv-policy random --kv-schedule $trace"
  recency="recency: --kv-policy recency --kv-schedule $trace"
  attention="attention: --kv-policy attention --kv-schedule $trace"
  [[ $pass == estimate || -f $trace ]] || die "$trace is missing; remove $out/conf-trace.json to have it made anew"
  evaluate rankers 3 fidelity "${short[@]}" "${conf[@]}" --set "$random" --set "$recency" --set "$attention"
}

# --- What formats cost with every token kept, 128 newest tokens as f16
formats_alone() {
  local model text
  for model in smollm2-f16 gemma3-f16; do
    for text in bible gpl; do
      evaluate "formats-$model-$text" "$([[ $model == gemma3-f16 ]] && echo 40 || echo 15)" \
        fidelity -m "$model" --text "$text" --tokens 3072 --prefix 2304 --formats
    done
  done
}

# --- Other shares of the tokens, texts and models
other_tables() {
  evaluate fidelity-512 20 fidelity -m smollm2-f16 --text bible --tokens 2048 --prefix 1024 --methods 512
  evaluate fidelity-gpl 20 fidelity -m smollm2-f16 --text gpl --tokens 2048 --prefix 1024 --methods 256
  evaluate fidelity-gemma3 60 fidelity -m gemma3-f16 --text bible --tokens 2048 --prefix 1024 --methods 256
}

# --- Other questions about a compressed context
questions() {
  evaluate needle-4096 20 needle -m smollm2-q4_0 --length 4096 --samples 2 "${window512[@]}" "${conf512[@]}"
  evaluate needle-long 30 needle -m smollm2-q4_0 --length 1024,4096 --samples 2 --kind uuid,digits64 \
    "${window512[@]}" "${conf512[@]}"
  evaluate kvretrieval 3 kvretrieval -m smollm2-q4_0 --length 1024 --samples 3 --questions 3 "${window512[@]}" \
    "${conf512[@]}"
  evaluate ruler 20 ruler -m smollm2-q4_0 --length 2048 --samples 3 "${window512[@]}" "${conf512[@]}"
  evaluate manyshot 5 manyshot -m smollm2-q4_0 --length 2048 --samples 3 "${window512[@]}" "${conf512[@]}"
  evaluate agent 60 agent -m gemma3 --samples 1 --set "window 4096: --kv-policy window --kv-budget 4096" \
    --set "conf 2048/4096: --kv-policy conf --kv-high 2048 --kv-low 4096"
}

everything() {
  main_table
  [[ $kind == full ]] || return 0
  rankers
  sweeps
  shares
  formats_alone
  other_tables
  questions
}

everything
say "about $left min of work are left on 2 quiet cores"
pass=run
everything

page=$out/report.html
rm -f "$page"
build/bin/kvasir eval report "${made[@]}" --html "$page" --markdown docs/results.md || die "the page was not written"
for result in "${made[@]}"; do
  printf '\n== %s\n' "$(basename "$result" .json)"
  head -n 40 "${result%.json}.txt"
done
say "the page is $page, the tables are docs/results.md"
