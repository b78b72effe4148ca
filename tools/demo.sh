#!/usr/bin/env bash
# `make demo`: one model, one document, one question, three caches; prints a table.
# Needs what `make build` made. Other budgets: tools/demo.sh --budget 512.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kvasir=${KVASIR:-$root/build/bin/kvasir}
if [[ ! -x $kvasir ]]; then
  echo "kvasir: $kvasir is not there; run \`make build\` first" >&2
  exit 2
fi
# Idle threads that spin would slow the others down where the machine has more to do than this.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
exec python3 "$root/tools/demo.py" --kvasir "$kvasir" "$@"
