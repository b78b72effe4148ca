"""`kvasir run` past the trained length: it neither stops at n_ctx nor grows.

No -c is given: with an evicting policy the program must find cells enough by itself.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

BUDGET = 256


def generate(kvasir, model, tokens, trace):
    command = [kvasir, "run", "-m", model, "-p", "Once upon a time", "-n", str(tokens),
               "--ignore-eos", "--seed", "1", "-no-cnv", "-t", "1", "--kv-policy", "conf",
               "--kv-budget", str(BUDGET), "--kv-positions", "cache", "--kv-trace", trace]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr.decode()[-2000:]}")


def check(lines, tokens):
    problems = []
    newest = lines[-1]["pos"]
    # The last token is sampled but never decoded.
    if newest < tokens:
        problems.append(f"it stopped at position {newest}, expected at least {tokens}")
    if [line["step"] for line in lines] != list(range(len(lines))):
        problems.append("steps are missing in the trace")
    over = [line for line in lines if line["budget"] and line["live"]["max"] > line["budget"]]
    if over:
        problems.append(f"over budget: {over[0]}")
    settled = [line for line in lines if line["pos"] >= 2 * BUDGET]
    sizes = {sum(line["bytes"].values()) for line in settled}
    # f16 rows are allocated in pages, so bytes move by pages between the two budgets.
    largest = max(sum(line["bytes"].values()) for line in settled[:500])
    if max(sizes) > largest:
        problems.append(f"bytes grew from {largest} to {max(sizes)}")
    print(f"{len(lines)} steps to position {newest}, {min(sizes)} to {max(sizes)} bytes")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kvasir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl")
        generate(args.kvasir, args.model, args.tokens, trace)
        with open(trace, encoding="utf-8") as file:
            problems = check([json.loads(line) for line in file], args.tokens)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
