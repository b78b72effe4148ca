#!/usr/bin/env python3
"""Compares Kvasir's samples of RULER's tasks with those that the package lm-eval generates.

  python3 -m venv VENV && VENV/bin/pip install numpy wonderwords==3.0.1
  VENV/bin/pip install --no-deps lm-eval==0.4.13
  VENV/bin/python tests/eval/ruler_crosscheck.py --samples build/tests/kvasir_samples

Both make all thirteen tasks from the same essay and files of questions, at the same lengths, with
the same toy tokenizer; what differs by design (words of the prompts, noise, draws) is not compared,
the structure is: needles and their form, questions, depths, chains, frequencies, documents. Only
lm-eval's generators are run, without its data sets and models. Exits with 1 on a mismatch, with 77
if a package is absent.
"""
import argparse
import collections
import importlib
import importlib.metadata as metadata
import importlib.util
import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import types

VERSIONS = {"lm-eval": "0.4.13", "wonderwords": "3.0.1", "numpy": None}
LENGTHS = (2000, 8000)  # on either side of the 4096 from which cwe has its full size
# Of a task and length; qa compares the first ones of both sides one by one.
SAMPLES = {"ours": 100, "lm-eval": 40}
NEW_TOKENS = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}

# Haystack, kind of key, kind of value, keys, values, queries: the
# arguments lm-eval's functions give.
NIAH = {
    "niah_single_1": ("repeat", "words", "numbers", 1, 1, 1),
    "niah_single_2": ("essay", "words", "numbers", 1, 1, 1),
    "niah_single_3": ("essay", "words", "uuids", 1, 1, 1),
    "niah_multikey_1": ("essay", "words", "numbers", 4, 1, 1),
    "niah_multikey_2": ("needle", "words", "numbers", 1, 1, 1),
    "niah_multikey_3": ("needle", "uuids", "uuids", 1, 1, 1),
    "niah_multivalue": ("essay", "words", "numbers", 1, 4, 1),
    "niah_multiquery": ("essay", "words", "numbers", 1, 1, 4),
}
NEEDLE = re.compile(r"One of the special magic (\w+) for (.+?) is: (.+?)\.")
FORMS = {"words": r"\D+-\D+", "numbers": r"[1-9]\d{6}",
         "uuids": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"}


class Tokenizer:
    """A token for each word and each mark, as kvasir_samples counts."""

    def __call__(self, text):
        return types.SimpleNamespace(input_ids=re.findall(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]", text))


TOKENIZER = Tokenizer()


def tokens(text):
    return len(TOKENIZER(text).input_ids)


def skip(why):
    print(f"SKIPPED, nothing was compared: {why}; the top of this file says what to install")
    sys.exit(77)


def stand_in(name, **members):
    module = types.ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    sys.modules[name] = module
    return module


def generators():
    """lm-eval's modules of RULER. What they import and do not need here is stood in for."""
    for name, wanted in VERSIONS.items():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            skip(f"{name} is not installed")
        if wanted and found != wanted:
            skip(f"{name} is {found}, expected {wanted}")
    root = pathlib.Path(importlib.util.find_spec("lm_eval").submodule_search_locations[0])
    for name, path in (("lm_eval", root), ("lm_eval.tasks", root / "tasks"),
                       ("lm_eval.tasks.ruler", root / "tasks" / "ruler")):
        stand_in(name, __path__=[str(path)])  # without lm_eval's own __init__, which needs torch
    stand_in("datasets", load_dataset=None, Dataset=None, Split=None)
    stand_in("transformers", AutoTokenizer=None)
    stand_in("requests")
    stand_in("tqdm", tqdm=lambda values, **_: values)
    stand_in("scipy")
    stand_in("scipy.special", zeta=lambda alpha: math.pi**2 / 6 if alpha == 2 else None)
    stand_in("packaging")
    stand_in("packaging.version", parse=lambda text: tuple(int(part) for part in text.split(".")))
    stand_in("nltk", sent_tokenize=lambda text: re.split(r"(?<=[.!?]) ", text),
             data=types.SimpleNamespace(find=lambda name: name))
    real_version = metadata.version
    metadata.version = lambda name: "3.9.1" if name == "nltk" else real_version(name)
    names = ("prepare_niah", "niah_utils", "vt_utils", "cwe_utils", "fwe_utils", "qa_utils")
    return {name: importlib.import_module(f"lm_eval.tasks.ruler.{name}") for name in names}


# --- Material -----------------------------------------------------------
def sentence(dice, words):
    text = " ".join("".join(dice.choices("etaoinsrhld", k=dice.randint(2, 8)))
                    for _ in range(words))
    return text.capitalize() + "."


def paragraph(dice):
    return " ".join(sentence(dice, 14) for _ in range(5))


def squad(dice):
    articles = []
    for article in range(20):
        paragraphs = []
        for place in range(10):
            answer = f"answer{article}x{place}"
            qas = [{"question": f"What of {article} and {place}?", "is_impossible": False,
                    "answers": [{"text": answer}]}]
            paragraphs.append({"context": f"{paragraph(dice)} It is {answer}.", "qas": qas})
        articles.append({"paragraphs": paragraphs})
    return {"data": articles}


def hotpot(dice):
    items = []
    for i in range(50):
        context = [
            [f"Title {i} {j}", [paragraph(dice), f" It is answer{i}x{j}."]] for j in range(10)]
        items.append({"question": f"What of {i}?", "answer": f"answer{i}x3", "context": context,
                      "supporting_facts": [[f"Title {i} 3", 0], [f"Title {i} 6", 0]]})
    return items


def write_material(folder):
    dice = random.Random(5)
    essay = " ".join(sentence(dice, dice.randint(6, 20)) for _ in range(2000))
    (folder / "essay.txt").write_text(essay)
    files = {"qa_1": squad(dice), "qa_2": hotpot(dice)}
    for task, content in files.items():
        (folder / f"{task}.json").write_text(json.dumps(content))
    return essay, files


# --- Samples of both sides ----------------------------------------------
def ours(program, folder, task, length):
    command = [program,
    task,
    "--length",
    str(length),
    "--count",
    str(SAMPLES["ours"]),
    "--seed",
    "0",
    "--essay",
     str(folder / "essay.txt")]
    if task.startswith("qa"):
        command += ["--questions", str(folder / f"{task}.json")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    samples = [json.loads(line) for line in lines]
    return [{"context": s["context"], "question": s["questions"][0]["text"].strip(),
             "prefix": s["questions"][0]["answer_prefix"],
             "references": s["questions"][0]["references"],
             "new_tokens": s["questions"][0]["max_new_tokens"],
             "tokens": tokens(s["instructions"] + s["context"] + s["questions"][0]["text"])}
            for s in samples]


def theirs(modules, essay, files, task, length):
    """lm-eval counts new tokens as part of the length, except for fwe; its prompts are one text."""
    family = task.split("_")[0]
    full = length + (0 if family == "fwe" else NEW_TOKENS[family])
    random.seed(7)
    if family == "niah":
        haystack, key, value, keys, values, queries = NIAH[task]
        niah = modules["prepare_niah"]
        text = essay.split(" ") if haystack == "essay" else niah.get_haystack(haystack)
        lines = niah.generate_samples(
            text, TOKENIZER, max_seq_length=full, type_haystack=haystack, type_needle_k=key,
            type_needle_v=value, num_needle_k=keys, num_needle_v=values, num_needle_q=queries,
            template=modules["niah_utils"].TEMPLATE, num_samples=SAMPLES["lm-eval"])
    elif family == "vt":
        vt = modules["vt_utils"]
        vt.np.random.seed(7)
        vt.print = lambda *_: None
        example = vt.sys_vartrack_w_noise_random(TOKENIZER, 1, 500, incremental=5)[0]
        cost = tokens(example["input"] + " " + " ".join(example["outputs"]))
        lines = vt.sys_vartrack_w_noise_random(
    TOKENIZER, SAMPLES["lm-eval"], full + cost, icl_example=example)
    elif family == "cwe":
        lines = modules["cwe_utils"].sys_word_pair_random(SAMPLES["lm-eval"], full, TOKENIZER)
    elif family == "fwe":
        lines = modules["fwe_utils"].sys_kwext(TOKENIZER, full, num_samples=SAMPLES["lm-eval"])
    else:
        qa = modules["qa_utils"]
        qa.download_json = lambda url: files[task]
        qas, docs = qa.read_squad() if task == "qa_1" else qa.read_hotpotqa()
        lines = qa.generate_samples(TOKENIZER, docs, qas, full, num_samples=SAMPLES["lm-eval"])
    # A worked example comes first in vt; what counts starts after it.
    texts = [line["input"].split("\n\n\n\n")[-1] if family ==
                                 "vt" else line["input"] for line in lines]
    return [{"context": text, "question": text.strip().split("\n")[-1].strip(),
             "prefix": line["gen_prefix"], "references": line["outputs"],
             "new_tokens": NEW_TOKENS[family], "tokens": tokens(text)}
            for line, text in zip(lines, texts)]


# --- Comparison ---------------------------------------------------------
class Comparison:
    def __init__(self):
        self.compared = 0
        self.mismatches = 0

    def equal(self, where, what, ours, theirs):
        self.judge(where, what, ours, theirs, ours == theirs)

    def near(self, where, what, ours, theirs, limit):
        """Relative difference, or absolute where theirs is a share."""
        scale = 1 if what.startswith("share") else abs(theirs)
        self.judge(
    where, what, round(
        ours, 3), round(
            theirs, 3), abs(
                ours - theirs) <= limit * scale)

    def judge(self, where, what, ours, theirs, passed):
        self.compared += 1
        self.mismatches += not passed
        sides = [text if len(text) < 200 else text[:200] +
     "..." for text in (repr(ours), repr(theirs))]
        print("ok      " if passed else "MISMATCH",
     f"{where}: {what}: ours {sides[0]}, lm-eval {sides[1]}")


def both(compare, where, what, describe, ours, theirs):
    """`describe` gives what must be the same in every sample of both sides."""
    sides = [sorted({json.dumps(describe(s)) for s in side}) for side in (ours, theirs)]
    compare.equal(where, what, *[", ".join(side) for side in sides])


def form_of(text, sample):
    """A text with the keys asked for replaced, longest first."""
    keys = sorted({n[1] for n in NEEDLE.findall(sample["context"])}, key=len, reverse=True)
    for key in keys:
        text = text.replace(key, "KEY")
    return text


def depths(sample):
    return [m.start() / len(sample["context"]) for m in NEEDLE.finditer(sample["context"])]


def compare_niah(compare, where, task, a, b):
    haystack, key, value, _, _, _ = NIAH[task]
    if haystack == "needle":
        rate = [statistics.mean(1000 * len(depths(s)) / s["tokens"]
                                for s in side) for side in (a, b)]
        compare.near(where, "needles of 1000 tokens", *rate, 0.05)
    else:
        both(compare, where, "needles", lambda s: len(depths(s)), a, b)
        both(compare, where, "different keys",
             lambda s: len({n[1] for n in NEEDLE.findall(s["context"])}), a, b)
    both(compare, where, "references", lambda s: len(s["references"]), a, b)
    both(compare, where, "needles of the asked keys are the references, in any order",
         lambda s: sorted(n[2] for n in NEEDLE.findall(s["context"]) if n[1] in asked(s)) ==
         sorted(s["references"]), a, b)
    both(compare, where, "noun of the needle", lambda s: NEEDLE.search(s["context"])[1], a, b)
    both(compare, where, "form of keys and values", lambda s: all(
        re.fullmatch(FORMS[key], n[1]) and re.fullmatch(FORMS[value], n[2])
        for n in NEEDLE.findall(s["context"])), a, b)
    both(compare, where, "question", lambda s: form_of(s["question"], s), a, b)
    both(compare, where, "answer prefix", lambda s: form_of(s["prefix"], s), a, b)
    if haystack != "needle":
        means = [statistics.mean(d for s in side for d in depths(s)) for side in (a, b)]
        compare.near(where, "share before a needle, mean", *means, 0.2)
        spans = [[min(d for s in side for d in depths(s)) < 0.15,
                  max(d for s in side for d in depths(s)) > 0.85] for side in (a, b)]
        compare.equal(where, "needles near the start, near the end", *spans)


def asked(sample):
    """The keys of a question: what stands between 'for' and 'mentioned'."""
    keys = re.search(r" for (.+) mentioned", sample["question"])[1]
    return set(re.split(r", and |, ", keys))


def chain(sample):
    return re.findall(r"VAR (\w+) = (?:VAR )?(\w+)", sample["context"])


def compare_vt(compare, where, a, b):
    both(compare, where, "statements", lambda s: len(chain(s)), a, b)
    both(compare, where, "first is a number of 5 digits, each other names the one before it",
         lambda s: bool(re.fullmatch(r"\d{5}", chain(s)[0][1])) and
         all(chain(s)[i][1] == chain(s)[i - 1][0] for i in range(1, len(chain(s)))), a, b)
    both(compare, where, "letters of a name", lambda s: [len(n) for n, _ in chain(s)], a, b)
    both(compare, where, "references are the names", lambda s: set(s["references"]) ==
         {n for n, _ in chain(s)}, a, b)
    both(compare, where, "question and prefix give the value, the prefix how many",
         lambda s: [chain(s)[0][1] in s["question"], chain(s)[0][1] in s["prefix"],
                    " 5 variables" in s["prefix"]], a, b)


def listed(sample):
    return re.findall(r"(\d+)\. (.+?)(?= \d+\. |\n|$)", sample["context"])


def compare_cwe(compare, where, a, b):
    def counts(s):
        return collections.Counter(word for _, word in listed(s))

    both(compare, where, "numbers run from 1", lambda s: [int(n) for n, _ in listed(s)] ==
         list(range(1, len(listed(s)) + 1)), a, b)
    both(compare, where, "how often words of the answer occur",
         lambda s: sorted({counts(s)[r] for r in s["references"]}), a, b)
    both(compare, where, "how often others occur", lambda s: sorted(
        {n for word, n in counts(s).items() if word not in s["references"]}), a, b)
    both(compare, where, "references", lambda s: len(set(s["references"])), a, b)
    rate = [statistics.mean(1000 * len(listed(s)) / s["tokens"] for s in side) for side in (a, b)]
    compare.near(where, "listed words of 1000 tokens", *rate, 0.05)


def coded(sample):
    words = [w for w in sample["context"].split() if re.fullmatch(r"[a-z]{6}|\.\.\.", w)]
    return collections.Counter(words)  # with a few plain words of lm-eval's prompt


def follows_zeta(sample):
    """Some number of words gives the counts of noise and answer, each rounded down."""
    found = [coded(sample)[word] for word in ["..."] + sample["references"]]
    low, high = 0, math.inf
    for rank, count in enumerate(found, 1):
        scale = rank**2 * math.pi**2 / 6
        low, high = max(low, count * scale), min(high, (count + 1) * scale)
    return low < high


def compare_fwe(compare, where, a, b):
    both(compare, where, "counts of dots and answer fall with the square of the rank",
         follows_zeta, a, b)
    both(compare, where, "nothing else occurs as often", lambda s: coded(s).most_common(4)[-1][1] ==
         coded(s)[s["references"][2]] and set(dict(coded(s).most_common(4))) ==
         {"...", *s["references"]}, a, b)
    both(compare, where, "references in order of frequency", lambda s: s["references"] ==
         sorted(s["references"], key=lambda w: -coded(s)[w]) and len(s["references"]), a, b)
    rate = [statistics.mean(1000 * coded(s)["..."] / s["tokens"] for s in side) for side in (a, b)]
    compare.near(where, "dots of 1000 tokens", *rate, 0.08)
    sizes = [statistics.mean(sum(n > 2 for n in coded(s).values())
                             for s in side) for side in (a, b)]
    compare.near(where, "words that occur more than twice", *sizes, 0.25)


def documents(sample):
    parts = re.split(r"(?:^|\n\n)Document (\d+):\n", sample["context"])
    return [int(n) for n in parts[1::2]], parts[2::2]


def compare_qa(compare, where, a, b):
    both(compare, where, "documents are numbered from 1",
         lambda s: documents(s)[0] == list(range(1, len(documents(s)[0]) + 1)), a, b)
    for what, of in (("questions", lambda s: s["question"].split("\n")[-1]),
                     ("references", lambda s: s["references"])):
        compare.equal(where, what, *[[of(s) for s in side[:SAMPLES["lm-eval"]]] for side in (a, b)])
    both(compare, where, "prefix", lambda s: s["prefix"], a, b)
    both(compare, where, "the answer's document is there once",
         lambda s: s["context"].count(f"It is {s['references'][0]}."), a, b)
    # lm-eval adds documents by tens; ours fills up to the length.
    counts = [statistics.mean(len(documents(s)[0]) for s in side) for side in (a, b)]
    compare.judge(where, "documents", counts[0], counts[1],
                  counts[1] <= counts[0] <= counts[1] + 12)
    # Those of the same article or question come first.
    near = [statistics.mean(same_article(s) for s in side) for side in (a, b)]
    compare.near(where, "documents of the same article or question", *near, 0.01)
    # lm-eval shuffles with one fixed seed, so that the answer stands at the same place in samples
    # of one size; ours must move.
    places = [s["context"].find(f"It is {s['references'][0]}.") / len(s["context"]) for s in a]
    compare.judge(where, "share before the answer, quartiles (lm-eval's place is fixed)",
                  [round(q, 2) for q in statistics.quantiles(places)], "-",
                  statistics.quantiles(places)[0] < 0.4 and statistics.quantiles(places)[2] > 0.6)


def same_article(sample):
    article = re.match(r"answer(\d+)x", sample["references"][0])[1]
    return len(set(re.findall(rf"It is (answer{article}x\d+)\.", sample["context"])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", required=True, help="the program kvasir_samples")
    arguments = parser.parse_args()
    modules = generators()
    compare = Comparison()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        essay, files = write_material(folder)
        for task in [*NIAH, "vt", "cwe", "fwe", "qa_1", "qa_2"]:
            for length in LENGTHS:
                where = f"{task} {length}"
                a = ours(arguments.samples, folder, task, length)
                b = theirs(modules, essay, files, task, length)
                for side, samples in (("ours", a), ("lm-eval", b)):
                    compare.judge(where, f"samples of {side}", len(
                        samples), "-", len(samples) == SAMPLES[side])
                both(compare, where, "new tokens", lambda s: s["new_tokens"], a, b)
                family = task.split("_")[0]
                if family == "niah":
                    compare_niah(compare, where, task, a, b)
                elif family == "qa":
                    compare_qa(compare, where, a, b)
                else:
                    {"vt": compare_vt, "cwe": compare_cwe, "fwe": compare_fwe}[
                        task](compare, where, a, b)
    print(f"{compare.compared} comparisons, {compare.mismatches} mismatches")
    return 1 if compare.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
