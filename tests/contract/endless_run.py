"""`kvasir run` and `kvasir serve` past the trained length: no stop at n_ctx, no growth.

No -c is given: with an evicting policy the program must find cells enough by itself. The time of
steps early and late is printed, not judged: the machine may be busy.
"""
import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BUDGET = 256
PROMPT = "Once upon a time"


def kv_flags(trace):
    return ["--kv-policy", "conf", "--kv-budget", str(BUDGET), "--kv-positions", "cache",
            "--kv-trace", trace]


def generate_by_run(args, trace):
    command = [args.kvasir, "run", "-m", args.model, "-p", PROMPT, "-n", str(args.tokens),
               "--ignore-eos", "--seed", "1", "-no-cnv", "-t", "1", *kv_flags(trace)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr.decode()[-2000:]}")


def connect(port, process):
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().read() and connection.sock is not None:
                return connection
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server did not become ready")


def print_step_times(stamps):
    gaps = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])]
    tenth = max(1, len(gaps) // 10)
    print(f"ms a token, median: second tenth {statistics.median(gaps[tenth:2 * tenth]):.2f}, "
          f"last tenth {statistics.median(gaps[-tenth:]):.2f}")


def generate_by_serve(args, trace):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [args.kvasir, "serve", "-m", args.model, "--port", str(port), "-np", "1", "-t", "1",
               *kv_flags(trace)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            connection = connect(port, process)
            connection.request("POST", "/completion", json.dumps({
                "prompt": PROMPT, "n_predict": args.tokens, "ignore_eos": True, "seed": 1,
                "stream": True}), {"Content-Type": "application/json"})
            stamps, last = [], {}
            for line in connection.getresponse():
                if line.startswith(b"data: {"):
                    stamps.append(time.monotonic())
                    last = json.loads(line[6:])
            if last.get("tokens_predicted") != args.tokens:
                raise SystemExit(f"the server stopped early: {json.dumps(last)[:400]}")
            print_step_times(stamps[:-1])
            process.send_signal(signal.SIGINT)
            if process.wait(timeout=60) != 0:
                raise SystemExit(f"exit code {process.returncode}")
        finally:
            process.kill()
            process.wait()


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
    parser.add_argument("--front-end", choices=("run", "serve"), required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl")
        {"run": generate_by_run, "serve": generate_by_serve}[args.front_end](args, trace)
        with open(trace, encoding="utf-8") as file:
            problems = check([json.loads(line) for line in file], args.tokens)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
