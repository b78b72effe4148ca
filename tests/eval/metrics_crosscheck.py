#!/usr/bin/env python3
"""Compares Kvasir's scores of texts with those of other packages.

  python3 -m venv VENV && VENV/bin/pip install rouge==1.0.1 rapidfuzz==3.14.6
  VENV/bin/python tests/eval/metrics_crosscheck.py --score build/tests/kvasir_score

Pairs of texts are made from a seed. rouge_l is compared with the package rouge, code_edit with
rapidfuzz, the F1s with a count by Python's own re, string and Counter. Exits with 1 if a score is
more than 1e-6 away, with 77 if a package is absent. --write FILE puts a few pairs of each metric
with the packages' scores into FILE, which eval_metrics_test reads.
"""
import argparse
import collections
import json
import random
import re
import string
import subprocess
import sys

VERSIONS = {"rouge": "1.0.1", "rapidfuzz": "3.14.6"}
LIMIT = 1e-6

WORDS = """the a an The river An engine's valve opened late; engineers (two of them) closed it at
12:30, because pressure fell 3.5 bar below what the manual allows. “Quoted” words – with dashes – and
l'été naïve Übermut ÉCOLE Привет МИР Ωmega façade the-end under_score a's THE. an, ‘a’ €5 ½ x² …
Mayor Hanna Lindqvist said that a new bridge over the river would open in May. No. Yes! U.S. e.g.
costs rose. Costs fell. the the the . .. , - -- ?""".split()
CHINESE = "会议讨论了大桥的预算，市长说：“五月开放。”工程师检查了12个阀门，压力下降3.5巴！Ａ区 the B区、结束。"
CODE = ["return self.cache[key]", "for i in range(len(rows)):", "if (count > 0) {", "# a comment",
        "int total = sum(values) / n;", "// nothing here", "```python", "self.items.append(item)",
        "x = {'a': 1, 'b': [2, 3]}", "    def close(self):", "", "é = 'ü' + \"ß\"", "}"]


def packages():
    """rouge's and rapidfuzz's scorers, or leaves with 77."""
    try:
        import importlib.metadata as metadata

        import rapidfuzz
        import rouge
    except ImportError as error:
        print(f"SKIPPED, nothing was compared: {error}; the top of this file says what to install")
        sys.exit(77)
    for name, wanted in VERSIONS.items():
        if metadata.version(name) != wanted:
            print(f"{name} is {metadata.version(name)}, expected {wanted}")
            sys.exit(77)
    return rouge.Rouge(metrics=["rouge-l"]), rapidfuzz.fuzz


def shuffled(pieces, dice, rate):
    """A copy with pieces dropped, doubled, replaced and swapped."""
    result = []
    for piece in pieces:
        draw = dice.random()
        if draw < rate / 3:
            continue
        result.append(dice.choice(pieces) if draw < 2 * rate / 3 else piece)
        if draw > 1 - rate / 4:
            result.append(piece)
    if len(result) > 1 and dice.random() < rate:
        i, j = dice.randrange(len(result)), dice.randrange(len(result))
        result[i], result[j] = result[j], result[i]
    return result


def pair(metric, dice):
    """One random prediction and one to three references."""
    rate = dice.choice([0.05, 0.2, 0.6, 1.5])
    if metric == "code_edit":
        prediction = [dice.choice(CODE) for _ in range(dice.randint(0, 4))]
        lines = [dice.choice([first_code_line("\n".join(prediction)), dice.choice(CODE)])
                 for _ in range(dice.randint(1, 3))]
        return "\n".join(prediction), ["".join(shuffled(list(line), dice, rate)) for line in lines]
    pieces = list(CHINESE) if metric.endswith("_zh") else WORDS
    join = "" if metric.endswith("_zh") else " "
    base = [dice.choice(pieces) for _ in range(dice.randint(0, dice.choice([4, 40, 200])))]
    references = [join.join(shuffled(base, dice, rate)) for _ in range(dice.randint(1, 3))]
    return join.join(base), references


def counted_f1(prediction, reference):
    common = sum((collections.Counter(prediction) & collections.Counter(reference)).values())
    if common == 0:
        return 0.0
    return 2 * common / (len(prediction) + len(reference))


def plain_words(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(?:an?|the)\b", " ", text).split()


def plain_characters(text):
    signs = string.punctuation + "，。：；！？、（）“”‘’《》【】…"
    return [c for c in text.lower() if not c.isspace() and c not in signs]


def spaced(text):
    return re.sub(r"([^0-9A-Za-z])", r" \1 ", text)


def first_code_line(text):
    for line in text.lstrip("\n").split("\n"):
        if not re.search("`|#|//", line):
            return line
    return ""


def rouge_l(rouge, prediction, reference):
    try:
        return rouge.get_scores(prediction, reference)[0]["rouge-l"]["f"]
    except ValueError:  # a side without a sentence
        return 0.0


def expected(metric, prediction, reference, rouge, fuzz):
    if metric == "rouge_l":
        return rouge_l(rouge, prediction, reference)
    if metric == "rouge_l_zh":
        return rouge_l(rouge, spaced(prediction), spaced(reference))
    if metric == "f1":
        return counted_f1(plain_words(prediction), plain_words(reference))
    if metric == "f1_zh":
        return counted_f1(plain_characters(prediction), plain_characters(reference))
    return fuzz.ratio(first_code_line(prediction), reference) / 100


def make(metrics, count, seed, rouge, fuzz):
    dice = random.Random(seed)
    rows = []
    for metric in metrics:
        for _ in range(count):
            prediction, references = pair(metric, dice)
            score = max(expected(metric, prediction, r, rouge, fuzz) for r in references)
            rows.append({"metric": metric, "prediction": prediction, "references": references,
                         "score": score})
    return rows


def report(rows, scores):
    """Prints the largest difference of each metric; returns the largest of all."""
    worst = collections.defaultdict(float)
    means = collections.defaultdict(list)
    for row, score in zip(rows, scores):
        difference = abs(row["score"] - score)
        if difference > LIMIT:
            print(json.dumps({**row, "kvasir": score}, ensure_ascii=False))
        worst[row["metric"]] = max(worst[row["metric"]], difference)
        means[row["metric"]].append(row["score"])
    for metric, difference in worst.items():
        values = means[metric]
        inside = sum(0 < v < 0.999 for v in values)
        print(f"{metric}: {len(values)} pairs, {inside} strictly between 0 and 1, "
              f"mean {sum(values) / len(values):.3f}, largest difference {difference:.2g}")
    return max(worst.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--score", help="the program kvasir_score")
    parser.add_argument("--count", type=int, default=400, help="pairs of each metric")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", help="write pairs with the packages' scores to this file")
    options = parser.parse_args()
    rouge, fuzz = packages()
    metrics = ["f1", "f1_zh", "rouge_l", "rouge_l_zh", "code_edit"]
    rows = make(metrics, options.count, options.seed, rouge, fuzz)
    if options.write:
        with open(options.write, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return 0
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    run = subprocess.run([options.score], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    scores = [json.loads(line)["score"] for line in run.stdout.decode().splitlines()]
    if len(scores) != len(rows):
        print(f"{len(scores)} scores came back for {len(rows)} pairs")
        return 1
    return 1 if report(rows, scores) > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
