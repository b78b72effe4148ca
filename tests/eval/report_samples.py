"""Made-up result files of every kind, as docs/evaluation-schema.md has them; the same each time."""
import math
import random

MODEL = {"name": "llama-3.2-1b", "file": "llama-3.2-1b-q8_0.gguf",
         "description": "llama 1B Q8_0", "bytes": 1321079200}
MACHINE = {"cpu": "AMD EPYC 9B14", "threads": 2, "kernels": "AVX3_ZEN4"}
FULL = {"name": "full", "flags": "--kv-policy none"}
SETTINGS = [FULL] + [
    {"name": f"conf-{n}", "flags": f"--kv-policy conf --kv-low {n} --kv-high {n // 2} --kv-tau 0.7"}
    for n in (128, 256, 512)] + [
    {"name": f"window-{n}", "flags": f"--kv-policy=window --kv-budget={n}"} for n in (256, 1024)]


def head(kind, settings=None):
    return {"schema": 1, "kind": kind, "kvasir": "0.1.0", "command": f"eval {kind} --model llama-3.2-1b",
            "model": MODEL, "machine": MACHINE, "began": "2025-01-15T09:30:00Z", "seconds": 4321.5,
            "settings": settings or SETTINGS}


def wilson(right, n):
    z, p = 1.959964, right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def times(mean):
    return {"p50": mean * 0.97, "p95": mean * 1.3, "mean": mean}


def histogram(values, bins=20):
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(value * bins))] += 1
    return counts


def confidence(values, tau=0.7):
    return {"mean": sum(values) / len(values), "above_tau": sum(v >= tau for v in values) / len(values),
            "tau": tau, "histogram": histogram(values)}


def fidelity_set(setting, rng, steps):
    name, flags = setting["name"], setting["flags"]
    policy, budget = name.split("-")
    budget = int(budget)
    kl = {"conf": 1.6, "window": 9.0}[policy] / budget ** 0.8
    trace, live, cs = [], budget, []
    for i in range(steps):
        level = 0.56 + 0.22 * math.sin(i / 45) * math.sin(i / 311)
        c = min(1.0, max(0.15, level + rng.gauss(0, 0.09)))
        cs.append(c)
        if policy == "conf":
            live = live + 1 if c < 0.7 else min(live + 1, budget // 2)
            live = min(live, budget)
        trace.append({"position": 1024 + i, "live": live, "bytes": live * 32768, "c": c})
    mean_live = sum(t["live"] for t in trace) / steps
    curve = [{"position": 1024 + i * steps // 32, "tokens": steps // 32,
              "kl": kl * (0.4 + 1.2 * i / 32) * math.exp(rng.gauss(0, 0.25)), "ppl": 11.2, "ppl_reference": 10.9,
              "live": mean_live, "bytes": mean_live * 32768} for i in range(32)]
    attention = 1.5 + mean_live / 160
    parts = {"attention": attention, "append": 0.21, "metadata": 0.12, "compaction": 0.4 if policy == "conf" else 0.1,
             "confidence": 0.55 if policy == "conf" else 0, "rest": 17.0}
    return {"name": name, "kl": {"mean": kl, "median": kl * 0.3, "p99": kl * 14, "exact": policy == "conf"},
            "same_top": 1 - min(0.5, kl * 1.8), "ppl": 10.9 * (1 + kl), "ppl_reference": 10.9, "tokens": steps,
            "kv": {"flags": flags, "bytes_per_token": mean_live * 32768 / 4024, "bytes_peak": 4024 * 32768 * 0.4,
                   "bytes_mean": mean_live * 32768, "bytes_full": 4024 * 32768, "live_mean": mean_live,
                   "evicted": (4024 - budget) * 16},
            "curve": curve, "trace": trace, "confidence": confidence(cs),
            "step_ms": {"total": times(sum(parts.values())), **{k: times(v) for k, v in parts.items()}}}


def fidelity(steps=3000):
    rng = random.Random(11)
    result = head("fidelity")
    result["text"] = {"name": "kjv", "tokens": 1024 + steps, "prefix": 1024}
    result["floor"] = {"kl": 8.1e-3, "flash_attention_off": 8.1e-3, "ubatch_64": 2.2e-3, "tokens": 1024, "text": "kjv"}
    result["sets"] = [fidelity_set(s, rng, steps) for s in SETTINGS[1:]]
    return result


METHODS = ["window", "conf", "conf+", "streaming", "h2o", "scissorhands", "snapkv", "pyramidkv", "tova", "keydiff", "knorm",
           "random", "recency", "attention"]
FORMATS = ["int8", "int8-channel", "kivi4", "kivi2", "int4", "nf4", "k8v4", "k5v4", "k4v4", "k4v2", "k3v2"]


def methods(steps=200):
    """The many settings of --methods, all of about the same size."""
    rng = random.Random(5)
    settings = [FULL] + [{"name": p, "flags": f"--kv-policy {p} --kv-budget 256"} for p in METHODS]
    settings += [{"name": f, "flags": f"--kv-policy window --kv-budget 400 --kv-format {f}"} for f in FORMATS]
    settings += [{"name": "conf, int8-channel", "flags": "--kv-policy conf --kv-budget 640 --kv-format int8-channel"},
                 {"name": "conf, int8-channel, pyramid",
                  "flags": "--kv-policy conf --kv-budget 640 --kv-format int8-channel --kv-pyramid 0.5,96"}]
    result = head("fidelity", settings)
    result["methods"] = 256
    result["text"] = {"name": "kjv", "tokens": 1024 + steps, "prefix": 1024}
    result["floor"] = {"kl": 2e-5}
    result["sets"] = []
    for setting in settings[1:]:
        one = fidelity_set({"name": "window-256", "flags": setting["flags"]}, rng, steps)
        one["name"] = setting["name"]
        kl = 0.08 * math.exp(rng.gauss(0, 0.5))
        one["kl"] = {"mean": kl, "low": kl * 0.85, "high": kl * 1.18, "median": kl / 3, "p99": kl * 9, "exact": True}
        one["ppl_ratio"] = {"mean": 1 + kl, "low": 1 + kl * 0.8, "high": 1 + kl * 1.2}
        one["kv"]["bytes_mean"] = 7.5e6 * (1 + rng.gauss(0, 0.08))
        result["sets"].append(one)
    result["reference"] = {"name": "full", "ppl": 10.9, "tokens": steps, "bytes_end": 1224 * 32768,
                           "step_ms": {"total": times(24)}}
    return result


class Asked:
    """Samples, scores and flips of one result, question by question."""

    def __init__(self, kind, seed, settings=None):
        self.result = head(kind, settings)
        self.rng = random.Random(seed)
        self.result.update(samples=[], scores=[], flips=[])
        self.tasks, self.groups = [], []

    def ask(self, task, sample, tags, share, extra=None):
        if task not in self.tasks:
            self.tasks.append(task)
        common = self.rng.random()
        for i, setting in enumerate(self.result["settings"]):
            roll = 0.7 * common + 0.3 * self.rng.random()
            status = "error" if i == 2 and sample.endswith("-7") else "ok"
            score = float(roll < share(setting["name"]))
            item = {"setting": setting["name"], "task": task, "id": sample, "question": "0", "tags": tags,
                    "status": status, "score": score if status == "ok" else None, "metric": "all_found",
                    "prediction": "42", "references": ["42"], "n_context": int(tags.get("length", 4096)) - 40,
                    "n_new": 12, "kept": 256, "bytes": self.bytes_of(setting["name"], tags), "bytes_peak": 9e7,
                    "evicted": 100, "c": 0.6, "seconds": 2.5}
            if status == "error":
                item["error"] = "the context has 9,000 tokens, the model takes 8,192"
            item.update(extra(setting["name"], self.rng) if extra else {})
            self.result["samples"].append(item)

    @staticmethod
    def bytes_of(name, tags):
        length = int(tags.get("length", 4096))
        return 32768 * (length if name == "full" else min(length, int(name.split("-")[1])))

    def score(self, task, tags):
        for setting in self.result["settings"]:
            chosen = [s for s in self.result["samples"] if s["setting"] == setting["name"] and s["task"] == task and
                      s["status"] == "ok" and all(s["tags"].get(k) == v for k, v in tags.items())]
            if not chosen:
                continue
            right = sum(s["score"] for s in chosen)
            low, high = wilson(right, len(chosen))
            self.result["scores"].append({
                "setting": setting["name"], "task": task, "tags": tags, "n": len(chosen), "mean": right / len(chosen),
                "low": low, "high": high, "bytes_mean": sum(s["bytes"] for s in chosen) / len(chosen)})

    def finish(self, *grouped):
        for task in self.tasks:
            self.score(task, {})
            for names in grouped:
                seen = []
                for s in self.result["samples"]:
                    tags = {n: s["tags"][n] for n in names if n in s["tags"]}
                    if s["task"] == task and len(tags) == len(names) and tags not in seen:
                        seen.append(tags)
                for tags in seen:
                    self.score(task, tags)
            self.flips(task)
        return self.result

    def flips(self, task):
        by = {}
        for s in self.result["samples"]:
            if s["task"] == task and s["status"] == "ok":
                by.setdefault((s["id"], s["question"]), {})[s["setting"]] = s["score"] >= 0.5
        for setting in self.result["settings"][1:]:
            pairs = [(v["full"], v[setting["name"]]) for v in by.values() if "full" in v and setting["name"] in v]
            self.result["flips"].append({"setting": setting["name"], "task": task, "n": len(pairs),
                                         "to_wrong": sum(a and not b for a, b in pairs),
                                         "to_right": sum(b and not a for a, b in pairs)})


def share_of(name, length=4096, depth=50):
    if name == "full":
        return 0.95
    policy, budget = name.split("-")
    kept = min(1.0, int(budget) / length)
    if policy == "window":
        return 0.95 if depth >= 100 * (1 - kept) else 0.04
    return min(0.95, 0.25 + 1.6 * math.sqrt(kept))


def needle():
    asked = Asked("needle", 5, SETTINGS[:5])
    for length in (1024, 2048, 4096, 8192, 16384):
        for depth in (0, 25, 50, 75, 100):
            for seed in range(8):
                asked.ask("needle", f"{length}-{depth}-{seed}", {"length": length, "depth": depth, "seed": seed},
                          lambda name, n=length, d=depth: share_of(name, n, d))
    return asked.finish(["length", "depth"], ["length"])


def tasks_of_kind(kind, tasks, lengths, seed):
    asked = Asked(kind, seed)
    for number, task in enumerate(tasks):
        for length in lengths:
            for i in range(12):
                asked.ask(task, f"{length}-{i}", {"length": length, "seed": i},
                          lambda name, n=length, k=number: share_of(name, n) * (1 - 0.07 * k))
    return asked.finish(["length"])


def ruler():
    return tasks_of_kind("ruler", ["niah_single_1", "niah_multikey_1", "vt", "cwe", "fwe", "qa_1"], [4096, 8192], 6)


def kvretrieval():
    return tasks_of_kind("kvretrieval", ["kvretrieval"], [1024, 2048, 4096], 7)


def manyshot():
    return tasks_of_kind("manyshot", ["manyshot"], [1024, 2048, 4096, 8192], 8)


def dataset():
    asked = Asked("dataset", 9)
    for number, task in enumerate(["narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "gov_report"]):
        for i in range(40):
            asked.ask(task, f"{task}-{i}", {}, lambda name, k=number: share_of(name, 6000) * (0.9 - 0.1 * k))
    return asked.finish()


def agent():
    asked = Asked("agent", 10, SETTINGS[:4])
    for task in ("shop", "form"):
        for i in range(30):
            asked.ask(task, f"{task}-{i}", {"pages": 3 + i % 4}, lambda name: share_of(name, 3000) * 0.8,
                      lambda name, rng: {"turns": rng.randint(4, 14), "facts_needed": 3,
                                         "facts_lost": 0 if name == "full" else rng.randint(0, 2)})
    return asked.finish(["pages"])


def premise():
    rng = random.Random(12)
    result = head("premise", [FULL])
    result["hidden"] = 512
    result["points"] = []
    for i in range(2000):
        c = min(1.0, max(0.15, rng.betavariate(3, 2)))
        kl = math.exp(-3.2 - 1.8 * c + rng.gauss(0, 1.3))
        result["points"].append({"position": 2048 + i, "kl": kl, "c": c, "entropy": 5 * (1 - c), "p1": c ** 1.5,
                                 "margin": 3 * c})
    result["correlations"] = [{"signal": signal, "temperature": t, "n": 2000, "pearson": p, "low": p - 0.043,
                               "high": p + 0.042, "spearman": p * 1.2}
                              for signal, t, p in (("c", 1.0, -0.283), ("c", 0.7, -0.254), ("entropy", 1.0, 0.311),
                                                   ("p1", 1.0, -0.27), ("margin", 1.0, -0.199))]
    cs = [p["c"] for p in result["points"]]
    result["confidence"] = [{"temperature": 1.0, **confidence(cs)},
                            {"temperature": 0.7, **confidence([min(1, c * 1.15) for c in cs])}]
    return result


def neighbours():
    rng = random.Random(13)
    result = head("neighbours", [FULL])
    result.update({"text": {"name": "bible", "tokens": 4096, "prefix": 4096}, "model_layers": 24,
                   "references": {"stride": 10, "neighbours": 4, "sinks": 4},
                   "distance_ends": [4, 16, 64, 256, 1024], "directions": [2 ** i for i in range(10)], "layers": []})
    for layer in range(24):
        far = {of: {"far": mean + 0.05 * rng.random(), "chance": 0.975, "counts": [90, 190, 700, 900, 1400, 800]}
               for of, mean in (("earlier", 0.8), ("reference", 0.88), ("references", 0.93))}
        ratios = {kind: {"whole": mean * (0.8 + 0.02 * layer), "k": mean * 0.8, "v": mean * 1.3}
                  for kind, mean in (("nearest", 0.4), ("mean", 0.6), ("local", 0.9), ("random", 0.7))}
        spectra = [{"part": part, "of": of, "centred": centred, "effective_rank": rank * (2 if centred else 1),
                    "energy": [min(1.0, 2 ** i / rank / 4) for i in range(10)]}
                   for of, rank in (("tokens", 20), ("residuals", 60)) for part in ("whole", "k", "v")
                   for centred in (False, True)]
        result["layers"].append({"layer": layer, "tokens": 4096, "references": 414, "distances": far,
                                 "length_ratio": ratios, "k_share": {"lengths": 0.8, "nearest": 0.6, "random": 0.7},
                                 "spectra": spectra})
    return result


ALL = {f.__name__: f for f in (fidelity, methods, needle, ruler, kvretrieval, manyshot, dataset, agent, premise,
                               neighbours)}
