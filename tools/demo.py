"""A document with one fact in its middle, asked for with three caches.

SmolLM2-135M-Instruct reads about 4,000 tokens of the King James Bible (Esther, public domain) with
one foreign sentence in the middle, and is asked for what that sentence says: with every token in
the cache, with a window of the newest ones, and with CONF-KV. Whatever the three answer is printed;
budgets are equal, and nothing is tuned towards an answer.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NEEDLE = "The secret code of the blue lighthouse is 7-4-1-9."
QUESTION = "What is the secret code of the blue lighthouse?"
SUBJECT = "The secret code of the blue lighthouse"
ANSWER = "7-4-1-9"
CHAPTERS = "est1:1-est10:3"
CHARACTERS = 15500  # about 4,000 tokens of the default model

HEADER = ("cache", "answer", "right", "peak MiB", "end MiB", "kept", "evicted", "c", "prefill/s",
          "decode/s")


def fail(message):
    print(f"kvasir: demo: {message}", file=sys.stderr)
    sys.exit(1)


def document():
    """The text up to a whole line, the needle in its middle, the question behind it."""
    if shutil.which("bible") is None:
        fail("no `bible` program, which prints the text; install Debian's bible-kjv")
    run = subprocess.run(["bible", "-f", CHAPTERS], capture_output=True, text=True, check=False)
    lines = run.stdout[:CHARACTERS].split("\n")[:-1]
    if len(lines) < 20:
        fail(f"`bible -f {CHAPTERS}` printed {len(lines)} lines, expected at least 20")
    middle = len(lines) // 2
    return "\n".join(lines[:middle] + [NEEDLE] + lines[middle:]) + "\n\n" + QUESTION


def wait_with_progress(process, label):
    """Says what is running after two seconds, then now and then."""
    start = time.monotonic()
    on_terminal = sys.stderr.isatty()
    shown, next_at = False, 2
    while process.poll() is None:
        time.sleep(0.1)
        seconds = time.monotonic() - start
        if seconds < next_at:
            continue
        line = f"kvasir: demo: {label}, reading and answering for {seconds:.0f} s"
        print(("\r" + line) if on_terminal else line, end="" if on_terminal else "\n",
              file=sys.stderr, flush=True)
        shown, next_at = True, next_at + (1 if on_terminal else 15)
    if shown and on_terminal:
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)


def ask(kvasir, model, folder, label, flags):
    """Runs one cache. Returns its answer, statistics, trace and llama.cpp's log."""
    trace = folder / f"{label}.jsonl"
    out, log = folder / f"{label}.out", folder / f"{label}.log"
    command = [kvasir, "run", "-m", model, "-f", str(folder / "document.txt"), "--single-turn",
               "--temp", "0", "-n", "32", "--no-display-prompt", "--kv-stats", "--kv-trace",
               str(trace), *flags]
    with out.open("w") as stdout, log.open("w") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
        try:
            wait_with_progress(process, label)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            fail("interrupted")
    text = log.read_text(errors="replace")
    if process.returncode != 0:
        last = text.strip().splitlines()[-1:] or ["no message"]
        fail(f"`kvasir run` with the {label} cache exited with {process.returncode}: {last[0]}")
    answer = out.read_text(errors="replace").replace("[end of text]", "")
    steps = [json.loads(line) for line in trace.read_text().splitlines()]
    return " ".join(answer.split()), statistics(text, label), steps, text


def statistics(log, label):
    found = re.findall(r"^kvasir-stats: (\{.*\})$", log, re.MULTILINE)
    if not found:
        fail(f"no statistics from the {label} cache")
    return json.loads(found[-1])


def per_second(log, what):
    """Tokens per second of llama.cpp's timing line, or "-"."""
    found = re.search(rf"\b{what} time = .*?([\d.]+) tokens per second", log)
    return f"{float(found.group(1)):.1f}" if found else "-"


def row(label, answer, stats, steps, log):
    mib = 1024 * 1024
    confidences = [step["c"] for step in steps if step["c"] is not None]
    mean = f"{sum(confidences) / len(confidences):.2f}" if confidences else "-"
    short = answer.replace(SUBJECT, "...")
    short = short if len(short) <= 24 else short[:21] + "..."
    return (label, short, "yes" if ANSWER in answer else "no", f"{stats['peak_bytes'] / mib:.1f}",
            f"{stats['live_bytes'] / mib:.1f}", f"{stats['kept']:.0f}",
            f"{stats['evicted_tokens_mean']:.0f}", mean, per_second(log, "prompt eval"),
            per_second(log, r"(?<!prompt )eval"))


def print_table(rows):
    widths = [max(len(line[i]) for line in rows) for i in range(len(HEADER))]
    for line in rows:
        cells = [cell.ljust(width) if i < 3 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvasir", required=True, help="the program")
    parser.add_argument("--model", default="smollm2", help="a GGUF file or a name (smollm2)")
    parser.add_argument("--budget", type=int, default=1024, help="live tokens per layer (1024)")
    options = parser.parse_args()
    budget = ["--kv-budget", str(options.budget)]
    caches = (("full", []), ("window", ["--kv-policy", "window", *budget]),
              ("conf", ["--kv-policy", "conf", *budget]))
    with tempfile.TemporaryDirectory(prefix="kvasir-demo-") as name:
        folder = Path(name)
        (folder / "document.txt").write_text(document())
        rows = [HEADER]
        for label, flags in caches:
            rows.append(row(label, *ask(options.kvasir, options.model, folder, label, flags)))
    print(f"{QUESTION}  (in the middle of the text: \"{NEEDLE}\")")
    print_table(rows)
    print(f"Budget of window and conf: {options.budget} tokens per layer, conf takes half of it when it is "
          "sure.\npeak: memory of the cache (rows, metadata, workspace) while the prompt is read, which all "
          "three read\nin full; end: after the answer. kept, evicted: tokens per layer, mean. c: mean "
          "confidence of the steps.\n/s: tokens per second.")


if __name__ == "__main__":
    main()
