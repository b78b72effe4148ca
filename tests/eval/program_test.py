"""`kvasir eval` as a user calls it: results, pages, interruption, and what is refused."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = None
WINDOW = ["--set", "window: --kv-policy window --kv-budget 100"]
NEEDLE = ["needle", "-t", "1", "--length", "300", "--depth", "10,90", "--samples", "1", "--essay",
          "noise", *WINDOW]


def run(*args, cwd=None):
    return subprocess.run([ARGS.kvasir, "eval", *args], capture_output=True, text=True, check=False,
                          cwd=cwd, stdin=subprocess.DEVNULL)


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def load(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def ok(self, *args):
        done = run(*args, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"{args}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def refused(self, expected, *args, code=2):
        done = run(*args, cwd=self.folder)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stderr}")
        lines = [x for x in done.stderr.splitlines() if x.startswith("kvasir")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(expected, lines[0])

    def test_needle_is_found_by_the_full_cache_and_lost_by_a_window(self):
        out = self.ok(*NEEDLE, "--json", "n.json", "--html", "n.html")
        self.assertIn("window", out)
        result = self.load("n.json")
        scores = {(s["setting"], s["tags"]["depth"]): s["score"] for s in result["samples"]}
        self.assertEqual(scores[("full", 10)], 1)
        self.assertEqual(scores[("full", 90)], 1)
        self.assertEqual(scores[("window", 10)], 0)
        self.assertEqual([f["to_wrong"] >= 1 for f in result["flips"]], [True])
        self.assertGreater(os.path.getsize(self.path("n.html")), 100_000)
        self.ok("report", "n.json", "--html", "again.html")
        self.assertGreater(os.path.getsize(self.path("again.html")), 100_000)
        compared = self.ok("compare", "n.json", "n.json")
        self.assertIn("window", compared)
        self.refused("exists and is not overwritten", *NEEDLE, "--json", "n.json")

    def interrupted(self, least, *args):
        """Runs a command into n.json, kills it once `least` lines are written, and returns them."""
        process = subprocess.Popen([ARGS.kvasir, "eval", *args, "--json", "n.json"], cwd=self.folder,
                                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        partial = self.path("n.json.partial")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if os.path.exists(partial):
                with open(partial, "rb") as file:
                    if file.read().count(b"\n") >= least:
                        break
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with open(partial, "rb") as file:
            before = file.read().splitlines()
        self.assertGreaterEqual(len(before), least)
        self.assertFalse(os.path.exists(self.path("n.json")))
        return before

    def test_goes_on_after_an_interruption(self):
        before = self.interrupted(2, *NEEDLE)
        self.refused("belongs to another run", *NEEDLE, "--question-first", "--json", "n.json")
        self.refused("belongs to another run", *NEEDLE, "--kind", "word", "--json", "n.json")
        self.ok(*NEEDLE, "--json", "n.json")
        result = self.load("n.json")
        self.assertEqual(len(result["samples"]), 4)
        first = json.loads(before[1])["entry"][0]
        self.assertIn(first, result["samples"], "what was done is kept, its seconds too")
        self.assertFalse(os.path.exists(self.path("n.json.partial")))

    def test_a_question_counts_once(self):
        data = os.path.join(ARGS.samples, "aime.jsonl")
        with open(data, encoding="utf-8") as file:
            first, second = (json.loads(file.readline()) for _ in range(2))
        for name, problem in (("a", first), ("b", second)):
            problem.pop("id", None)
            problem.pop("ID", None)
            with open(self.path(f"{name}.jsonl"), "w", encoding="utf-8") as file:
                file.write(json.dumps(problem) + "\n")
        self.ok("dataset", "-t", "1", "--format", "aime", "--file", "a.jsonl", "--file", "b.jsonl",
                "--file", "a.jsonl", "--max-new-tokens", "4", "--json", "d.json")
        samples = self.load("d.json")["samples"]
        self.assertEqual(len(samples), 2, "two problems, one of them given twice")
        self.assertNotEqual(samples[0]["id"], samples[1]["id"])
        self.assertNotEqual(samples[0]["references"], samples[1]["references"])

    def test_bytes_that_are_no_text(self):
        self.ok(*NEEDLE[:-1], os.fsdecode(b"\xff: --kv-policy window --kv-budget 64"), "--json",
                "u.json")
        self.assertEqual(self.load("u.json")["settings"][1]["name"], "\ufffd")

    def test_other_kinds_answer(self):
        for kind in (["ruler", "--task", "niah_single_1,vt", "--essay", "noise"],
                     ["kvretrieval", "--questions", "2"], ["manyshot", "--questions", "2"]):
            self.ok(*kind, "-t", "1", "--length", "600", "--samples", "1", "--json",
                    f"{kind[0]}.json")
            result = self.load(f"{kind[0]}.json")
            self.assertEqual({s["status"] for s in result["samples"]}, {"ok"}, kind)
            self.assertEqual(len(result["samples"]), 2)
        turns = self.load("kvretrieval.json")["samples"]
        self.assertEqual([t["n_context"] for t in turns], [turns[0]["n_context"]] * 2)

    def test_data_sets_on_disk(self):
        for name, file in (("longbench", "longbench.jsonl"), ("scbench", "scbench_kv.jsonl"),
                           ("aime", "aime.jsonl")):
            self.ok("dataset", "-t", "1", "--format", name, "--file",
                    os.path.join(ARGS.samples, file), "--limit", "2", "--max-new-tokens", "8",
                    "--json", f"{name}.json")
            for sample in self.load(f"{name}.json")["samples"]:
                self.assertEqual(sample["status"], "ok", sample)
        with open(self.path("bad.jsonl"), "w", encoding="utf-8") as bad:
            bad.write('{"input": "x"}\n')
        self.refused("bad.jsonl:1", "dataset", "--format", "longbench", "--file", "bad.jsonl")

    def test_agent_plays(self):
        self.ok("agent", "-t", "1", "-m", "smollm2-q4_0", "--task", "information", "--samples", "1",
                "--page-tokens", "600,1200", "--set", "window: --kv-policy window --kv-budget 64",
                "--json", "a.json")
        full, window = self.load("a.json")["samples"]
        self.assertEqual(full["score"], 1, full)
        self.assertEqual(full["facts_lost"], 0)
        self.assertGreater(window["facts_lost"], 0)
        self.assertLess(window["bytes"], full["bytes"] / 2)

    def test_premise_has_its_correlations(self):
        self.ok("premise", "-t", "1", "--tokens", "80", "--prefix", "40", "--hidden", "20",
                "--every", "4", "--json", "p.json", "--html", "p.html")
        signals = [c["signal"] for c in self.load("p.json")["correlations"]]
        self.assertEqual(signals[:4], ["c", "entropy", "p1", "margin"])

    def test_premise_goes_on_after_an_interruption(self):
        command = ["premise", "-t", "1", "--tokens", "200", "--prefix", "40", "--hidden", "20",
                   "--every", "2"]
        before = self.interrupted(4, *command)
        self.refused("belongs to another run", *command, "--tau", "0.5", "--json", "n.json")
        self.ok(*command, "--json", "n.json")
        points = self.load("n.json")["points"]
        self.assertEqual([p["position"] for p in points], list(range(40, 200, 2)))
        for line, point in zip(before[1:4], points):
            self.assertEqual(json.loads(line)["entry"]["kl"], point["kl"], "not measured again")
        self.ok(*command, "--json", "whole.json")
        for one, other in zip(points, self.load("whole.json")["points"]):
            self.assertAlmostEqual(one["kl"], other["kl"], delta=0.01 + 0.05 * other["kl"])

    def test_neighbours_has_every_layer_and_its_claims(self):
        command = ["neighbours", "-t", "1", "--tokens", "300", "--stride", "8", "--neighbours", "2"]
        out = self.ok(*command, "--json", "n.json", "--html", "n.html")
        self.assertLessEqual(max(len(line) for line in out.splitlines()), 100, out)
        self.assertIn("reproduced", out)
        result = self.load("n.json")
        self.assertEqual([layer["layer"] for layer in result["layers"]], list(range(30)))
        first = result["layers"][0]
        self.assertEqual((first["tokens"], first["references"]), (300, 41), "4 sinks, 37 of 296")
        self.assertEqual(sum(first["distances"]["earlier"]["counts"]), 299)
        self.assertEqual(sum(first["distances"]["references"]["counts"]), 2 * 259)
        self.assertLess(first["length_ratio"]["nearest"]["whole"], first["length_ratio"]["mean"]["whole"])
        self.assertLess(max(s["effective_rank"] for s in first["spectra"]), 259)
        self.ok("neighbours", "-t", "1", "-m", "gemma3-f16", "--tokens", "200", "--json", "g.json")
        self.assertEqual([layer["layer"] for layer in self.load("g.json")["layers"]], [5, 11, 17],
                         "those that keep every token")
        self.ok("report", "n.json", "--markdown", "n.md")
        self.assertIn("nearest of all earlier tokens", self.ok("compare", "n.json", "n.json"))
        self.refused("no --kv-* flags here", *command, "--kv-policy", "window", "--kv-budget", "64")
        self.refused("--sinks 300: expected at least two less", *command, "--sinks", "300")

    def test_methods_are_every_policy_and_format(self):
        self.ok("fidelity", "-t", "1", "--tokens", "230", "--prefix", "220", "--methods", "64",
                "--kv-recent", "16", "--json", "m.json")
        result = self.load("m.json")
        names = [s["name"] for s in result["settings"]]
        self.assertEqual(names[0], "full")
        self.assertTrue({"window", "conf", "h2o", "int8-channel", "nf4"} <= set(names))
        self.assertGreaterEqual(len(names), 28)
        self.assertEqual([s["name"] for s in result["sets"]], names[1:])
        self.assertEqual(result["methods"], 64)
        sets = {s["name"]: s for s in result["sets"]}
        self.assertGreater(sets["kivi4"]["kv"]["live_mean"], sets["window"]["kv"]["live_mean"])
        self.assertAlmostEqual(sets["conf"]["kv"]["live_mean"], 63, delta=8)
        self.assertGreater(result["reference"]["step_ms"]["total"]["p50"], 0)
        self.ok("report", "m.json", "--markdown", "m.md", "--html", "m.html")
        with open(self.path("m.md"), encoding="utf-8") as file:
            page = file.read()
        for name in names:
            self.assertIn(f"\n| {name} |", page)
        self.assertIn("| window | sliding |", page)
        self.ok("report", "m.json", "--markdown", "m.md")
        with open(self.path("mine.md"), "w", encoding="utf-8") as file:
            file.write("mine\n")
        self.refused("was not written by this command", "report", "m.json", "--markdown", "mine.md",
                     code=1)
        self.refused("nothing to write", "report", "m.json")
        self.refused("--methods 4, setting '", "needle", "--methods", "4")
        self.refused("has a setting named 'int8'", "fidelity", "--formats", "--methods", "300")

    def test_what_is_wrong_is_named(self):
        self.refused("unknown kind 'nonsense'", "nonsense")
        self.refused("--question-first with --same-context", *NEEDLE, "--question-first",
                     "--same-context")
        self.refused("greedy answers are all the same", "dataset", "--format", "aime", "--file",
                     os.path.join(ARGS.samples, "aime.jsonl"), "--seeds", "2")
        self.refused("not in range", "agent", "--threshold", "nan")
        self.refused("cannot write /nonexistent/x.html", *NEEDLE, "--html", "/nonexistent/x.html")
        self.refused("name the same file", *NEEDLE, "--html", "x", "--json", "x")
        self.refused("would write a_b.npy twice", "fidelity", "--tokens", "40", "--dump", "rows",
                     "--set", "a b: --kv-policy none", "--set", "a_b: --kv-policy none")
        self.refused("no setting to compare", "fidelity")
        self.refused("nonsense", "fidelity", "--kv-policy", "nonsense")
        self.refused("--prefix 9: expected less than --tokens 8", "fidelity", "--kv-policy",
                     "window", "--kv-budget", "64", "--tokens", "8", "--prefix", "9")
        self.refused("cannot read the text /nonexistent", "fidelity", "--kv-policy", "window",
                     "--kv-budget", "64", "--text", "/nonexistent")
        self.refused("no model 'nonsense'", "needle", "-m", "nonsense")
        self.refused("--kind: ", "needle", "--kind", "nonsense")
        self.refused("--task 'nonsense': expected all, niah_single_1", "ruler", "--task", "nonsense")
        self.refused("/nonexistent.json", "report", "/nonexistent.json", "--html", "x.html")
        self.refused("--page-tokens: page lengths 5 to 9", "agent", "--page-tokens", "5,9")
        self.refused("'ftp://x'", "agent", "--player", "endpoint", "--endpoint", "ftp://x",
                     "--endpoint-model", "m")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kvasir", required=True)
    parser.add_argument("--samples", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
