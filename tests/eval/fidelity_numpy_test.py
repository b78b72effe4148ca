"""The figures of `kvasir eval fidelity` against NumPy on the logits that it dumps."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy

SETS = ["same: --kv-policy none", "window: --kv-policy window --kv-budget 64",
        "conf: --kv-policy conf --kv-budget 96"]
DIGITS = 5e-4  # three digits


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))


def figures(reference, own, next_tokens):
    kl = (numpy.exp(reference) * (reference - own)).sum(axis=1)
    return {"kl.mean": kl.mean(), "kl.median": numpy.median(kl), "kl.p99": numpy.quantile(kl, .99),
            "same_top": (reference.argmax(axis=1) == own.argmax(axis=1)).mean(),
            "ppl": numpy.exp(-own[numpy.arange(len(own)), next_tokens].mean()),
            "ppl_reference": numpy.exp(-reference[numpy.arange(len(own)), next_tokens].mean())}


def run(kvasir, folder, *more):
    command = [kvasir, "eval", "fidelity", "-t", "1", "--tokens", "220", "--prefix", "160",
               "--text", "gpl", *more]
    for one in SETS:
        command += ["--set", one]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr}")
    print(done.stdout)


def load(folder, name):
    return log_softmax(numpy.load(os.path.join(folder, f"{name}.npy")).astype(numpy.float64))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kvasir", required=True)
    args = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        run(args.kvasir, folder, "--json", "a.json", "--dump", "rows")
        run(args.kvasir, folder, "--json", "b.json", "--reference", "ref")
        run(args.kvasir, folder, "--json", "c.json", "--reference", "ref")
        results = [json.load(open(os.path.join(folder, name), encoding="utf-8"))
                   for name in ("a.json", "b.json", "c.json")]
        for written, read in zip(results[1]["sets"], results[2]["sets"]):
            for field in ("kl", "same_top", "ppl", "curve"):
                same = [[{k: v for k, v in x.items() if k != "bytes"} for x in one[field]]
                        if field == "curve" else one[field] for one in (written, read)]
                if same[0] != same[1]:
                    failures.append(f"{read['name']}: {field} differs when the reference is read")
            if read["kv"]["bytes_full"] != written["kv"]["bytes_full"] or not read["kv"]["bytes_full"]:
                failures.append(f"{read['name']}: bytes_full is lost")
        rows = os.path.join(folder, "rows")
        reference = load(rows, "full")
        next_tokens = numpy.load(os.path.join(rows, "next_tokens.npy"))
        for whole, stored in zip(results[0]["sets"], results[1]["sets"]):
            name = whole["name"]
            expected = figures(reference, load(rows, name), next_tokens)
            for field, value in expected.items():
                found = whole
                for part in field.split("."):
                    found = found[part]
                print(f"{name} {field}: {found:.6g}, numpy {value:.6g}")
                if not abs(found - value) <= DIGITS * abs(value) + 1e-12:
                    failures.append(f"{name}: {field} is {found}, numpy finds {value}")
            # From the stored top of the reference: a lower bound, and close to the whole.
            low = stored["kl"]["mean"]
            if stored["kl"]["exact"] or not 0.9 * whole["kl"]["mean"] <= low <= whole["kl"]["mean"] + 1e-6:
                failures.append(f"{name}: from stored logits {low}, whole {whole['kl']['mean']}")
        run(args.kvasir, folder, "--json", "stock.json", "--against", "stock")
        with open(os.path.join(folder, "stock.json"), encoding="utf-8") as file:
            from_stock = json.load(file)["sets"][0]["kl"]["mean"]
        print(f"the full cache against stock: {from_stock:.3g}")
        if not 0 < from_stock <= 2e-5:  # as parity allows; not 0, which would be the same kernels
            failures.append(f"the full cache is {from_stock} from stock")
        if results[0]["sets"][0]["kl"]["mean"] != 0:
            failures.append("the same cache is not exactly at 0")
        if len({one["kl"]["mean"] for one in results[0]["sets"]}) != len(SETS):
            failures.append("the settings do not differ")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
