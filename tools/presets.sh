#!/usr/bin/env bash
# Measures the presets on the F16 copy of the default model and writes src/app/preset_costs.inc, from
# which `kvasir doctor` tells what they cost. Three minutes; `make build` first.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
cd "$repo"

out=build/report/presets.json
make_folder build/report
sets=()
for preset in exact light balanced small paper; do
  sets+=(--set "$preset: --kv-preset $preset")
done
rm -f "$out"
build/bin/kvasir eval fidelity -m smollm2-f16 --text bible --tokens 2048 --prefix 1024 "${sets[@]}" --json "$out" ||
  die "the presets were not measured"
python3 - "$out" >src/app/preset_costs.inc <<'PYTHON'
import json
import sys

run = json.load(open(sys.argv[1], encoding="utf-8"))
print("// Written by tools/presets.sh: kvasir " + " ".join(run["command"]) if isinstance(run["command"], list)
      else "// Written by tools/presets.sh: kvasir " + run["command"])
name = run["model"]["name"]
print(f'constexpr Measurement kMeasurement{{"{name}", "{run["text"]["name"]}", {run["sets"][0]["tokens"]}, '
      f'{run["floor"]["kl"]:.3g}}};')
print("constexpr std::array kMeasured = {")
for one in run["sets"]:
    print(f'    Measured{{"{one["name"]}", {one["kl"]["mean"]:.3g}, {100 * one["same_top"]:.4g}}},')
print("};")
PYTHON
say "written: src/app/preset_costs.inc"
