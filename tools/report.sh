#!/usr/bin/env bash
# The evaluation of the default model, as docs/evaluation-results.md shows it: results and one page
# under build/report/. What is finished is not run again; remove a file to have it made anew.
#   tools/report.sh [full]   full: sweeps, RULER, many-shot, the agent, another text and model; hours
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

kind=${1:-main}
[[ $kind == main || $kind == full ]] || refuse "report.sh: found '$kind', expected nothing or: full"
out=build/report
made=()
make_folder "$out"

# evaluate NAME ARGUMENTS...: kvasir eval ARGUMENTS, its table beside its result.
evaluate() {
  local name=$1
  shift
  made+=("$out/$name.json")
  [[ ! -f $out/$name.json ]] || return 0
  say "kvasir eval $*"
  build/bin/kvasir eval "$@" --json "$out/$name.json" >"$out/$name.txt" ||
    die "kvasir eval $name failed; its words are above"
}

window256=(--set "window 256: --kv-policy window --kv-budget 256")
window512=(--set "window 512: --kv-policy window --kv-budget 512")
conf256=(--set "conf 128/256: --kv-policy conf --kv-high 128 --kv-low 256")
conf512=(--set "conf 256/512: --kv-policy conf --kv-high 256 --kv-low 512")
all=("${window256[@]}" "${window512[@]}" "${conf256[@]}" "${conf512[@]}")
# What the confidence gate, recency and attention are worth alone, at one budget.
parts=(--set "fixed 128: --kv-policy conf --kv-high 128 --kv-low 128"
       --set "recency: --kv-policy conf --kv-high 128 --kv-low 256 --kv-alpha 0"
       --set "attention: --kv-policy conf --kv-high 128 --kv-low 256 --kv-alpha 1")

evaluate fidelity fidelity -m smollm2-f16 --text bible --tokens 2048 --prefix 1024 "${all[@]}" "${parts[@]}"
evaluate premise premise -m smollm2-f16 --text bible --tokens 2048 --prefix 512 --every 4
evaluate needle needle -m smollm2-q4_0 --length 1024,4096 --samples 2 "${window512[@]}" "${conf512[@]}" \
  --set "conf 512/1024: --kv-policy conf --kv-high 512 --kv-low 1024"
evaluate kvretrieval kvretrieval -m smollm2-q4_0 --length 1024 --samples 3 --questions 3 "${window512[@]}" "${conf512[@]}"

if [[ $kind == full ]]; then
  evaluate fidelity-gpl fidelity -m smollm2-f16 --text gpl --tokens 2048 --prefix 1024 "${all[@]}" "${parts[@]}"
  evaluate fidelity-gemma3 fidelity -m gemma3-f16 --text bible --tokens 2048 --prefix 1024 "${all[@]}"
  evaluate sweep-tau fidelity -m smollm2-f16 --text bible --tokens 1024 --prefix 512 "${conf256[@]}" \
    --sweep kv-tau=0.3,0.5,0.7,0.8,0.9
  evaluate sweep-budget fidelity -m smollm2-f16 --text bible --tokens 1024 --prefix 512 \
    --set "conf: --kv-policy conf" --sweep kv-budget=128,192,256,384,512
  evaluate sweep-ranker fidelity -m smollm2-f16 --text bible --tokens 1024 --prefix 512 "${conf256[@]}" \
    --sweep kv-alpha=0,0.35,0.65,0.85,1 --sweep kv-lambda=0.9,0.98
  evaluate premise-gemma3 premise -m gemma3-f16 --text bible --tokens 2048 --prefix 512 --every 4
  evaluate needle-long needle -m smollm2-q4_0 --length 1024,4096 --samples 2 --kind uuid,digits64 \
    "${window512[@]}" "${conf512[@]}"
  evaluate ruler ruler -m smollm2-q4_0 --length 2048 --samples 3 "${window512[@]}" "${conf512[@]}"
  evaluate manyshot manyshot -m smollm2-q4_0 --length 2048 --samples 3 "${window512[@]}" "${conf512[@]}"
  evaluate agent agent -m gemma3 --samples 1 --set "window 4096: --kv-policy window --kv-budget 4096" \
    --set "conf 2048/4096: --kv-policy conf --kv-high 2048 --kv-low 4096"
fi

page=$out/report.html
rm -f "$page"
build/bin/kvasir eval report "${made[@]}" --html "$page" || die "the page was not written"
for result in "${made[@]}"; do
  printf '\n== %s\n' "$(basename "$result" .json)"
  head -n 40 "${result%.json}.txt"
done
say "the page is $page"
