#!/usr/bin/env python3
"""Opens the page of made-up results of every kind in headless Chromium: every figure must have
become an SVG with marks in it, texts of the files must not have become markup, and the console must
be silent. Exits with 77 where there is no Chromium.

  report_page_test.py --report PROGRAM [--shots FOLDER]   with --shots, pictures of each page too
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import report_samples  # noqa: E402

# Kinds of figures by kind of result, with the least number of marks (lines, rectangles, symbols).
EXPECTED = {
    "fidelity": {"memory": 7, "position": 100, "sawtooth": 3000, "confidence": 15, "step_time": 30},
    "methods": {"memory": 54, "position": 200, "confidence": 15, "step_time": 150},
    "needle": {"memory": 4, "scores": 10, "needle": 25, "length": 20},
    "ruler": {"memory": 5, "scores": 60, "length": 12},
    "kvretrieval": {"memory": 5, "scores": 12, "length": 18},
    "manyshot": {"memory": 5, "scores": 12, "length": 24},
    "dataset": {"memory": 5, "scores": 60},
    "agent": {"memory": 3, "scores": 16},
    "premise": {"premise": 2000, "confidence": 15},
    "neighbours": {"lines": 40},
}
MARKUP = "<script>document.title='ran'</script><b id=\"injected\">"


def chromium(arguments, page, folder):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    # Settings of the user stay out; as root there is no sandbox, and the page is our own.
    command = [program, "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
               "--enable-logging=stderr", "--virtual-time-budget=10000", *arguments, page.as_uri()]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


def figures_of(dom):
    """Kind and content of each place, in order."""
    return re.findall(r'<div class="plot[^"]*" id="[^"]*" data-kind="(\w+)"[^>]*>(.*?)</div>', dom, re.DOTALL)


def marks_in(svg):
    groups = re.findall(r'<g class="mark-(?:symbol|rect|line|rule) [^"]*role-mark[^"]*"[^>]*>(.*?)</g>', svg, re.DOTALL)
    return sum(len(re.findall(r"<(?:path|line|rect)\b", group)) for group in groups)


def check(kind, dom, console):
    problems = [f"{kind}: console: {line}" for line in console]
    found = figures_of(dom)
    drawn = re.search(r'<html[^>]* data-drawn="(\d+)"', dom)
    if not drawn or int(drawn.group(1)) != len(found):
        problems.append(f"{kind}: the script drew {drawn.group(1) if drawn else 'nothing'} of {len(found)} figures")
    for name, least in EXPECTED[kind].items():
        contents = [content for figure, content in found if figure == name]
        if not contents:
            problems.append(f"{kind}: no figure '{name}'")
        for content in contents:
            marks = marks_in(content) if "<svg" in content else -1
            if marks < least:
                problems.append(f"{kind}: {name} has {marks} marks, expected at least {least}")
            if "NaN" in content or "undefined" in content:
                problems.append(f"{kind}: {name} has NaN or undefined in it")
    unknown = {figure for figure, _ in found} - set(EXPECTED[kind])
    if unknown:
        problems.append(f"{kind}: figures that this test does not know: {', '.join(sorted(unknown))}")
    if '<b id="injected"' in dom or "<title>ran" in dom:
        problems.append(f"{kind}: a text of the file became markup")
    return problems


def with_markup(result):
    """The same result with markup in its model, machine, errors and the names of settings."""
    text = json.dumps(result).replace('"conf-256"', json.dumps("conf-256 " + MARKUP))
    result = json.loads(text)
    result["model"] = dict(result["model"], name=MARKUP, description=MARKUP)
    result["machine"] = dict(result["machine"], cpu=MARKUP)
    for sample in result.get("samples", []):
        if sample["status"] == "error":
            sample["error"] = MARKUP
    return result


def shoot(kind, page, folder, shots):
    # Chromium makes no window narrower than 500 pixels; a frame may be.
    frame = pathlib.Path(folder) / "frame.html"
    for width, height in ((1280, 5000), (390, 9000)):
        frame.write_text(f'<body style="margin:0"><iframe src="{page.name}" style="border:0;width:{width}px;'
                         f'height:{height}px"></iframe>', encoding="utf-8")
        for scheme, number in (("light", 1), ("dark", 0)):
            target = pathlib.Path(shots).resolve() / f"{kind}-{width}-{scheme}.png"
            chromium([f"--window-size={max(width, 500)},{height}", f"--screenshot={target}",
                      f"--blink-settings=preferredColorScheme={number}"], frame, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", required=True)
    parser.add_argument("--shots")
    arguments = parser.parse_args()
    if not (shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")):
        print("report_page_test: skipped: found no chromium; to run it: apt-get install chromium")
        return 77
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, make in report_samples.ALL.items():
            file = pathlib.Path(folder) / f"{kind}.json"
            page = pathlib.Path(folder) / f"{kind}.html"
            file.write_text(json.dumps(with_markup(make())), encoding="utf-8")
            subprocess.run([arguments.report, page, file], check=True)
            dom, console = chromium(["--dump-dom"], page, folder)
            found = check(kind, dom, console)
            print(f"{kind}: {len(figures_of(dom))} figures, {len(found)} problems", flush=True)
            problems += found
            if arguments.shots:
                shoot(kind, page, folder, arguments.shots)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
