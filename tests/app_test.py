"""The program as users run it: app_test.py KVASIR MODEL [unittest arguments].

What a refusal prints and how it exits, which help comes first, what an interrupted run leaves, and
that an evicting policy generates past the trained context in every front end that can.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

KVASIR, MODEL = Path(sys.argv[1]), Path(sys.argv[2])

CONF = ["--kv-policy", "conf"]
ENDLESS = ["--kv-policy", "window", "--kv-budget", "64", "--kv-positions", "cache"]

# Arguments that are refused, and a word that the one line has to contain.
REFUSED = [
    (["nonsense"], "unknown command"),
    (["calibrate", "-m", "/nonexistent.gguf"], "no such file"),
    (["calibrate", "-m", str(MODEL), "--out", "/nonexistent/x.json"], "--out"),
    (["calibrate", "-m", str(MODEL), "--layers", "1000", "--out", "/tmp"], "--layers 1000"),
    (["train"], "not in this version"),
    (["inspect"], "not in this version"),
    (["run", "--kv-policy", "nonsense"], "nonsense"),
    (["run", "--kv-polcy", "conf"], "--kv-policy"),
    (["run", "--kv-budget"], "--kv-budget"),
    (["run", "--kv-policy", "conf", "--kv-tau", "2"], "--kv-tau"),
    (["run", "--kv-format", "nf5"], "--kv-format"),
    (["run", "--kv-trace", "/nonexistent/trace"], "--kv-trace"),
    (["run", "-ctk", "q8_0"], "--kv-format"),
    (["bench", "-ctv", "f16,q4_0"], "--kv-format"),
    (["run", *CONF, "-fa", "off"], "-fa off"),
    (["bench", *CONF, "-fa", "on,off"], "-fa on,off"),
    (["run", *CONF, "-nkvo"], "-nkvo"),
    (["run", *CONF, "-ngl", "0"], "-ngl 0"),
    (["run", *CONF, "--device", "none"], "--device none"),
    (["run", *CONF, "--context-shift"], "--context-shift"),
    (["run", *CONF, "--swa-full"], "--swa-full"),
    (["serve", *CONF, "--kv-unified"], "--kv-unified"),
    (["serve", *CONF, "--cache-reuse", "256"], "--cache-reuse"),
    (["perplexity", *CONF, "-f", "f"], "eval fidelity"),
    (["quantize", *CONF], "--kv-*"),
    (["run", "-m", "/nonexistent.gguf"], "no such file"),
    (["run", "-m", "nonsense"], "smollm2"),
    (["bench", "-m", "/nonexistent.gguf"], "no such file"),
    (["model", "path", "nonsense"], "smollm2"),
    (["model"], "list"),
    (["doctor", "--nonsense"], "--nonsense"),
    (["doctor", "-m", "/nonexistent.gguf"], "no such file"),
]

REFUSED_MEASURES = [
    (["--batch", "0"], "--batch"),
    (["--batch", "4", "-p", "64"], "-p 0"),
    (["--synthetic", "-m", "smollm2"], "--synthetic"),
    (["--synthetic", "--synthetic-heads", "8"], "--synthetic-kv-heads 3"),
    (["--synthetic", "-d", "100", "--kv-stats"], "--kv-stats"),
    (["--synthetic", "-d", "16000000"], "MiB"),
]


def environment(**extra):
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith(("LLAMA_", "KVASIR_", "GGML_"))}
    return {"OMP_WAIT_POLICY": "passive", **clean, **extra}


def run(*args, timeout=120, **extra):
    return subprocess.run([KVASIR, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=timeout, check=False, env=environment(**extra))


def stats_of(text):
    lines = [line for line in text.splitlines() if line.startswith("kvasir-stats: ")]
    assert len(lines) == 1, f"{len(lines)} lines of statistics"
    return json.loads(lines[0].removeprefix("kvasir-stats: "))


def wait_for(condition, what, seconds=60):
    """Polls until condition() is true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {seconds} s")
        time.sleep(0.05)


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvasir-app-test-"))
        self.addCleanup(shutil.rmtree, self.folder)


class Refusals(WithFolder):
    def expect_refused(self, args, part, **extra):
        result = run(*args, **extra)
        with self.subTest(args=args, extra=extra):
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertTrue(result.stderr.startswith("kvasir: "), result.stderr)
            self.assertIn(part, result.stderr)

    def test_one_line_and_exit_code_2(self):
        for args, part in REFUSED:
            self.expect_refused(args, part)

    def test_environment_is_checked_like_flags(self):
        self.expect_refused(["run"], "LLAMA_ARG_CACHE_TYPE_K=q8_0", LLAMA_ARG_CACHE_TYPE_K="q8_0")
        self.expect_refused(["run", *CONF], "LLAMA_ARG_FLASH_ATTN", LLAMA_ARG_FLASH_ATTN="off")
        self.expect_refused(["run"], "KVASIR_FLAGS", KVASIR_FLAGS="--kv-policy nonsense2 --oops")
        self.expect_refused(["run"], "KVASIR_ISA", KVASIR_ISA="nonsense")

    def test_damaged_models(self):
        whole = MODEL.read_bytes()
        for name, data, part in (("cut", whole[:-1], "truncated"), ("head", whole[:4000], "truncated"),
                                 ("tiny", b"GG", "shorter"), ("zip", b"PK" + whole[:100], "not a GGUF")):
            path = self.folder / f"{name}.gguf"
            path.write_bytes(data)
            for command in ("run", "serve", "bench"):
                self.expect_refused([command, "-m", str(path)], part)

    def test_flags_of_llama_itself_keep_their_own_errors(self):
        result = run("run", "--no-such-flag")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--no-such-flag", result.stderr)


class Texts(WithFolder):
    def test_ours_come_before_llamas(self):
        for args in (["--help"], ["run", "--help"], ["serve", "-h"], ["bench", "--help"],
                     ["chat", "--help"], ["perplexity", "--help"]):
            with self.subTest(args=args):
                result = run(*args)
                self.assertEqual(result.returncode, 0, result.stderr)
                ours = result.stdout.find("--kv-policy")
                llamas = result.stdout.find("--threads")
                self.assertGreaterEqual(ours, 0)
                self.assertGreater(llamas, ours)
                self.assertEqual(result.stdout.count("--kv-policy NAME"), 1)
                for line in result.stdout[:ours].splitlines():
                    self.assertLessEqual(len(line), 100)

    def test_no_arguments_is_help(self):
        self.assertEqual(run().stdout, run("--help").stdout)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^kvasir \d+\.\d+\.\d+, llama\.cpp \S+\n$")

    def test_device_is_listed(self):
        self.assertIn("KVASIR0", run("run", "--list-devices").stdout)

    def test_doctor_fits_and_counts(self):
        result = run("doctor", "-m", str(MODEL), *CONF, "--kv-budget", "1024")
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)
        self.assertIn("23040 bytes per token", result.stdout)
        row = next(line.split() for line in result.stdout.splitlines() if "131072" in line)
        self.assertEqual(row, ["131072", "512", "to", "1024", "2880.0", "22.5", "2880.0"])

    def test_models_by_name(self):
        (self.folder / "models").mkdir()
        (self.folder / "models/smollm2.gguf").symlink_to(MODEL)
        place = str(self.folder / "models/smollm2.gguf")
        cache = {"KVASIR_CACHE_DIR": str(self.folder)}
        self.assertEqual(run("model", "path", "smollm2", **cache).stdout, place + "\n")
        self.assertEqual(run("model", "path", "gemma3", **cache).returncode, 2)
        self.assertIn(place, run("doctor", **cache).stdout)
        self.assertIn("absent", run("model", "list", **cache).stdout)


class Runs(WithFolder):
    def test_answers_and_statistics_without_a_policy(self):
        result = run("run", "-m", str(MODEL), "-p", "The capital of France is", "-n", "6", "-no-cnv",
                     "--temp", "0", "--kv-stats")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Paris", result.stdout)
        stats = stats_of(result.stderr)
        self.assertEqual(stats["evicted"], 0)
        self.assertGreater(stats["kept"], 6)

    def test_flags_of_the_environment_and_of_the_command_line(self):
        args = ["run", "-m", str(MODEL), "-p", "One two three", "-n", "40", "-no-cnv", "--ignore-eos",
                "--kv-stats"]
        flags = {"KVASIR_FLAGS": "--kv-policy window --kv-budget 16"}
        self.assertEqual(stats_of(run(*args, **flags).stderr)["kept"], 16)
        self.assertEqual(stats_of(run(*args, "--kv-budget", "24", **flags).stderr)["kept"], 24)

    def test_layers_of_a_calibration_are_used(self):
        model = self.folder / "m.gguf"
        model.symlink_to(MODEL)
        found = self.folder / "m.gguf.kvasir.json"
        calibrate = ["calibrate", "-m", str(model), "--text", "gpl", "--tokens", "256", "--points", "2",
                     "--layers", "4"]
        result = run(*calibrate)
        self.assertEqual(result.returncode, 0, result.stderr)
        layers = json.loads(found.read_text())["full_layers"]
        self.assertEqual((len(layers), layers[0]), (4, 0))
        again = run(*calibrate)
        self.assertEqual((again.returncode, again.stdout), (2, ""))
        self.assertIn("--force", again.stderr)

        args = ["run", "-m", str(model), "-p", "One two three", "-n", "2", "-no-cnv"]
        line = f"kvasir: --kv-full-layers {','.join(map(str, layers))}, from {found}\n"
        self.assertIn(line, run(*args, "--kv-select", "omnikv").stderr)
        self.assertNotIn(str(found), run(*args).stderr)
        found.write_text("{}")
        refused = run(*args, "--kv-select", "omnikv")
        self.assertEqual(refused.returncode, 2)
        self.assertTrue(refused.stderr.startswith(f"kvasir: {found}: "), refused.stderr)

    def test_interruption_leaves_whole_lines_and_statistics(self):
        trace = self.folder / "trace.jsonl"
        process = subprocess.Popen(
            [KVASIR, "run", "-m", MODEL, "-p", "Once upon a time", "-n", "100000", "-no-cnv",
             "--ignore-eos", *ENDLESS, "--kv-stats", "--kv-trace", trace],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=environment())
        try:
            wait_for(lambda: trace.exists() and trace.read_bytes().count(b"\n") > 100, "hundred steps")
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 130, stderr)
        text = trace.read_text()
        self.assertTrue(text.endswith("\n"))
        steps = [json.loads(line) for line in text.splitlines()]
        self.assertLessEqual(max(step["live"]["max"] for step in steps[1:]), 64)
        stats = stats_of(stderr)
        self.assertGreaterEqual(stats["steps"], 100)
        self.assertEqual(stats["kept"], 64)

    def test_original_positions_stop_at_the_trained_context_and_cache_positions_do_not(self):
        # A context of 128 stands for the trained one: the model says it was trained for that.
        trained = ["--override-kv", "llama.context_length=int:128"]
        args = ["run", "-m", str(MODEL), "-p", "Count: one two three", "-n", "300", "-no-cnv",
                "--ignore-eos", "--kv-stats", "--kv-policy", "window", "--kv-budget", "64", *trained]
        original = stats_of(run(*args).stderr)
        endless = stats_of(run(*args, "--kv-positions", "cache").stderr)
        # llama.cpp rounds contexts up to 256 cells.
        self.assertLess(original["steps"], 256)
        self.assertGreaterEqual(endless["steps"], 300)

    def test_bench_runs_on_the_device(self):
        result = run("bench", "-m", str(MODEL), "-p", "32", "-n", "8", "-r", "1", "-o", "json",
                     *CONF)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)
        self.assertEqual({row["devices"] for row in rows}, {"KVASIR0"})

    def test_failures_of_a_front_end_exit_with_1(self):
        result = run("run", "-m", str(MODEL), "-f", "/nonexistent")
        self.assertEqual(result.returncode, 1, result.stderr)


class Measures(unittest.TestCase):
    def test_refusals(self):
        for args, part in REFUSED_MEASURES:
            result = run("measure", *args)
            with self.subTest(args=args):
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(part, result.stderr)

    def measure(self, *args):
        result = run("measure", "-o", "json", "-t", "2", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def check_machine(self, result):
        self.assertGreater(result["read_gb_per_s"], 0)
        self.assertGreater(result["resident_bytes_peak"], 1 << 20)

    def measure_model(self, *flags):
        result = self.measure("-m", str(MODEL), "-d", "0,256", "-p", "32", "-n", "3", "-r", "2",
                              "-b", "1,3", *flags)
        self.check_machine(result)
        self.assertEqual([(t["test"], t["batch"], t["depth"]) for t in result["tests"]],
                         [("prefill", 1, 0), ("decode", 1, 0), ("decode", 3, 0),
                          ("prefill", 1, 256), ("decode", 1, 256), ("decode", 3, 256)])
        self.assertIn("share_of_read", result["tests"][5])
        return [t["read_bytes"] for t in result["tests"] if t["test"] == "decode"]

    def test_every_sequence_of_a_batch_is_read(self):
        token = 2 * 30 * 3 * (64 + 64)  # f16 rows of SmolLM2-135M
        for depth, one, three in zip((0, 256), *[iter(self.measure_model())] * 2):
            self.assertEqual(one["stock"], (depth + 3) * token)
            self.assertEqual(three["stock"], 3 * one["stock"])
            self.assertEqual(three["kvasir"], 3 * one["kvasir"])
            self.assertGreaterEqual(one["kvasir"], (depth + 2) * token)
            self.assertLess(one["kvasir"], (depth + 3 + 2 * 64) * token * 1.01)

    def test_evicting_batches_stay_at_their_budget(self):
        decodes = self.measure_model("--kv-policy", "window", "--kv-budget", "128")
        rows = [test["kvasir"] / 23040 for test in decodes[2:]]  # at depth 256, of a token
        # 128 tokens and that of the step: three pages, or two and a spare one.
        self.assertAlmostEqual(rows[0], 192, delta=2)
        self.assertAlmostEqual(rows[1], 3 * 192, delta=6)

    def test_synthetic_rows(self):
        result = self.measure("--synthetic", "-d", "5000,10000", "-n", "4", "--kv-policy", "conf",
                              "--kv-budget", "50%", "--kv-format", "int8")
        self.check_machine(result)
        for test, depth in zip(result["tests"], (5000, 10000)):
            self.assertEqual(test["depth"], depth)
            self.assertAlmostEqual(test["rows_read"], depth / 2, delta=5)
            for part in "append", "attention", "ranking", "eviction", "demotion":
                self.assertGreater(test["ms"][part], 0)
                self.assertEqual(len(test["steps_ms"][part]), 4)
        self.assertEqual(len(result["slopes"]), 1)


class Serving(WithFolder):
    def serve(self, *args):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = (self.folder / "log").open("w+")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([KVASIR, "serve", "-m", MODEL, "--port", str(self.port), *args],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=self.log, env=environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(lambda: process.poll() is not None or self.healthy(), "answer of the server")
        self.assertIsNone(process.poll(), "the server ended")
        return process

    def healthy(self):
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body and json.dumps(body))
        response = connection.getresponse()
        data = json.loads(response.read())
        connection.close()
        return response.status, data

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 0)
        self.log.seek(0)
        return self.log.read()

    def test_slots_are_lifted_over_the_trained_context(self):
        process = self.serve(*ENDLESS, "--kv-stats")
        slots = self.request("GET", "/slots")[1]
        self.assertEqual([slot["n_ctx"] for slot in slots], [131072] * 4)
        status, answer = self.request("POST", "/completion", {"prompt": "Once upon a time",
                                                              "n_predict": 100, "ignore_eos": True})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["tokens_predicted"], 100)
        self.assertEqual(stats_of(self.stop(process))["evicted_tokens_mean"] > 0, True)

    def test_original_positions_keep_the_trained_context(self):
        process = self.serve("--kv-policy", "window", "--kv-budget", "64", "-np", "2")
        slots = self.request("GET", "/slots")[1]
        self.assertEqual([slot["n_ctx"] for slot in slots], [8192] * 2)
        self.stop(process)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
