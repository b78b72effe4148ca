"""`kvasir serve --kv-budget-mb M` under mixed load never holds more than M MiB, and says what it holds.

Requests of different lengths share prefixes, come several at once, and some are dropped midway.
The peak that --kv-stats reports must be within the cap. Growth of the process's anonymous memory,
from before the first request to its maximum, must agree with that peak. What llama.cpp itself grows
by (compute buffers that requests touch, and its connections') is taken off: a stock llama-server,
whose context is allocated and cleared before the first request, grows by nothing else under the
same requests.
"""
import argparse
import concurrent.futures
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
TOPICS = ["the sea", "a mountain", "old books", "machines", "the moon", "bread", "a river", "ink"]


def prompts(count):
    """Texts of 20 to 900 tokens; many begin alike."""
    draw = random.Random(7)
    texts = []
    for index in range(count):
        shared = f"You are a patient guide who knows all of {TOPICS[index % 3]}. " * draw.choice([1, 4, 12])
        words = " ".join(draw.choice(TOPICS) for _ in range(draw.choice([5, 40, 120, 300])))
        texts.append(f"{shared}{words} Then")
    return texts


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise SystemExit("no RssAnon")


class Watch(threading.Thread):
    """The most anonymous memory of a process, looked at every few milliseconds."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.done = pid, 0, threading.Event()

    def run(self):
        while not self.done.wait(0.004):
            try:
                self.most = max(self.most, anonymous_bytes(self.pid))
            except OSError:
                return


def request(port, index, text, outcome):
    body = json.dumps({"prompt": text, "n_predict": [4, 16, 40][index % 3], "temperature": 0,
                       "ignore_eos": True, "stream": True})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            outcome["failed"].append(f"{reply.status}: {reply.read()[:300]}")
            return
        for seen, line in enumerate(reply):
            if b'"error"' in line[:40]:
                outcome["failed"].append(line[:300])
                return
            if index % 7 == 3 and seen > 2:
                outcome["cancelled"] += 1
                return
        outcome["finished"] += 1
    finally:
        connection.close()


def load(args, cap, texts):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = [args.stock, "--cache-ram", "0", "--ctx-checkpoints", "0"] if cap is None else [
        args.kvasir, "serve", "--kv-policy", args.policy, "--kv-format", args.format,
        "--kv-select", args.select, "--kv-budget-mb", str(cap), "--kv-stats"]
    command = [*program, "-m", args.model, "--host", "127.0.0.1", "--port", str(port), "-np", "8",
               "-t", "2", "-ub", "64", "-c", str(8 * 2048), "--no-webui", "--no-kv-unified"]
    outcome = {"finished": 0, "cancelled": 0, "failed": []}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait(port, process, log)
            before = anonymous_bytes(process.pid)
            watch = Watch(process.pid)
            watch.start()
            with concurrent.futures.ThreadPoolExecutor(10) as pool:
                list(pool.map(lambda item: request(port, *item, outcome), enumerate(texts)))
            watch.done.set()
            watch.join()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        log.seek(0)
        text = log.read().decode(errors="replace")
    if outcome["failed"]:
        raise SystemExit(f"{len(outcome['failed'])} requests failed: {outcome['failed'][:2]}\n{text[-3000:]}")
    if outcome["cancelled"] == 0:
        raise SystemExit("no request was cancelled midway")
    grown = watch.most - before
    print(f"{'stock' if cap is None else f'cap {cap} MiB'}: {outcome['finished']} finished, "
          f"{outcome['cancelled']} cancelled, anonymous memory grew by {grown / MIB:.2f} MiB", flush=True)
    return grown, text


def reported(log):
    """The peak and how many rows were evicted, as --kv-stats says at the end."""
    for line in log.splitlines():
        if line.startswith("kvasir-stats: "):
            stats = json.loads(line.removeprefix("kvasir-stats: "))
            peak = sum(cache["peak_bytes"] for cache in stats["caches"])
            print(f"peak {peak / MIB:.2f} MiB, {stats['evicted_tokens_mean']:.0f} tokens evicted", flush=True)
            return peak, stats["evicted"]
    raise SystemExit(f"no statistics; the log ends:\n{log[-3000:]}")


def wait(port, process, log):
    for _ in range(1200):
        if process.poll() is not None:
            log.seek(0)
            raise SystemExit(f"the server ended:\n{log.read().decode(errors='replace')[-3000:]}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server did not become ready")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kvasir", required=True)
    parser.add_argument("--stock", required=True, help="llama-server without Kvasir")
    parser.add_argument("--model", required=True)
    parser.add_argument("--policy", default="window")
    parser.add_argument("--format", default="f16")
    parser.add_argument("--select", default="dense")
    parser.add_argument("--cap", type=int, default=64)
    parser.add_argument("--requests", type=int, default=200)
    args = parser.parse_args()
    texts = prompts(args.requests)
    grown, log = load(args, args.cap, texts)
    peak, evicted = reported(log)
    if peak > args.cap * MIB:
        raise SystemExit(f"the peak is above the cap: {peak} bytes")
    if evicted == 0:
        raise SystemExit("nothing was evicted: the cap was not reached")
    others, _ = load(args, None, texts)
    ratio = (grown - others) / peak
    print(f"llama.cpp's own growth {others / MIB:.2f} MiB; resident against reported: {ratio:.3f}")
    if abs(ratio - 1) > 0.05:
        raise SystemExit("what is reported is not what the process took")


if __name__ == "__main__":
    sys.exit(main())
