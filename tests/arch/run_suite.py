"""Runs llama.cpp's architecture suite on KVASIR0 and reads its table.

The suite compares each architecture with the CPU, but its comparison lets a NaN pass ("nan > 1e-4"
is false) and a row that is missing goes unnoticed. So the rows are read here: all architectures that
the suite can run must be there, with finite figures.
"""
import re
import subprocess
import sys

# What the suite of the pinned llama.cpp runs.
EXPECTED_TESTS = 133
SEED = "1"
ROW = re.compile(r"^\|\s*([\w.-]+)\|[^|]*\|\s*(Dense|MoE)\|(.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FINITE = re.compile(r"\d\.\d+e[+-]\d+")


def judge(line):
    """(ran, problem) of one line of output; problem is None for a good row."""
    match = ROW.match(line)
    if not match:
        return False, None
    name, kind, result = match.groups()
    where = f"{name} ({kind})"
    figure = re.search(r"\(([^)]*)\)", result)
    if "FAIL" in result:
        return True, f"{where}: {result.strip()}"
    if not figure:
        return False, None if "SKIP" in result else f"{where}: no result, the suite stopped there"
    if not FINITE.fullmatch(figure.group(1)):
        return True, f"{where}: NMSE {figure.group(1)}"
    return True, None


def main():
    program, *arguments = sys.argv[1:]
    command = [program, "-b", "KVASIR0", "-s", SEED, *arguments]
    # Warnings go to stderr and would cut rows in two.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    output = COLOUR.sub("", done.stdout.decode(errors="replace"))
    rows = [judge(line) for line in output.splitlines()]
    problems = [problem for _, problem in rows if problem]
    count = sum(ran for ran, _ in rows)
    if "-a" not in arguments and count != EXPECTED_TESTS:
        problems.append(f"{count} tests ran, expected {EXPECTED_TESTS}")
    if done.returncode != 0:
        problems.append(f"exit code {done.returncode}")
    if problems:
        print(output[-4000:], done.stderr.decode(errors="replace")[-2000:], sep="\n")
    print("\n".join(problems) or f"{count} architectures agree with the CPU")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
