"""Stock programs with libggml-kvasir.so, and `kvasir` itself, answer as stock llama.cpp does.

Greedy answers are compared token by token. Two exact implementations round differently, so answers
may part, but only where the two best tokens are within 0.1 nats of each other; behind such a place
nothing is compared. Prompts of several streams are answered alone and all at once.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

NEARLY_TIED = 0.1  # nats
N_PREDICT = 32
PROMPTS = [
    "The Norse god Odin drank from the well of wisdom and",
    "The three primary colours are red,",
    "Question: What is the capital of France?\nAnswer:",
    # Long enough for several chunks of 64 tokens.
    "Once upon a time there was a king who had three daughters. " * 12 + "The eldest",
]


class Failure(Exception):
    pass


def environment(plugin):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("LLAMA_ARG_", "KVASIR_FLAGS", "GGML_BACKEND_PATH"))}
    env["OMP_WAIT_POLICY"] = "passive"
    if plugin:
        env.update(GGML_BACKEND_PATH=plugin, LLAMA_ARG_DEVICE="KVASIR0",
                   KVASIR_FLAGS="--kv-stats")
    return env


def require_kvasir(log, program):
    """The statistics line proves that the plug-in was in use, not just loaded."""
    for line in log.splitlines():
        if line.startswith("kvasir-stats: "):
            json.loads(line.removeprefix("kvasir-stats: "))
            return
    raise Failure(f"{program} did not use the device; its log ends:\n{log[-2000:]}")


def complete(program, model, plugin, prompt):
    command = [*program, "-m", model, "-p", prompt, "-n", str(N_PREDICT),
               "--temp", "0", "-no-cnv", "--no-display-prompt", "-t", "1", "-ub", "64", "-fa", "on"]
    done = subprocess.run(command, env=environment(plugin), stdin=subprocess.DEVNULL, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    log = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise Failure(f"{program}: exit code {done.returncode}\n{log[-2000:]}")
    if plugin or "--kv-stats" in program:
        require_kvasir(log, program)
    # The newline behind the answer is the program's own.
    return done.stdout.decode(errors="replace").removesuffix("\n\n").removesuffix("\n")


class Server:
    def __init__(self, program, model, plugin, log):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        port = self.url.rsplit(":", 1)[1]
        command = [*program, "-m", model, "--host", "127.0.0.1", "--port", port,
                   "-np", "4", "--no-kv-unified", "-c", "2048", "-t", "1", "-ub", "64", "-fa", "on",
                   "--no-webui"]
        self.process = subprocess.Popen(command, env=environment(plugin), stdout=log, stderr=log)

    def request(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers),
                                    timeout=300) as reply:
            return json.load(reply)

    def wait(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise Failure(f"the server ended with {self.process.returncode}")
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                self.request("/health")
                return
            time.sleep(0.1)
        raise Failure("the server did not become ready")

    def answer(self, prompt):
        """Token texts with the margin of each over the runner-up, in nats."""
        reply = self.request("/completion", {
            "prompt": prompt, "n_predict": N_PREDICT, "temperature": 0, "n_probs": 2,
            "cache_prompt": False})
        steps = []
        for step in reply["completion_probabilities"]:
            best, second = (t["logprob"] for t in step["top_logprobs"][:2])
            steps.append((step["token"], best - second))
        return steps

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure("the server did not stop on SIGTERM") from None


@contextlib.contextmanager
def serving(program, model, plugin=None):
    with tempfile.TemporaryFile() as log:
        server = Server(program, model, plugin, log)

        def read_log():
            log.seek(0)
            return log.read().decode(errors="replace")

        try:
            server.wait()
            yield server
        except Failure as failure:
            raise Failure(f"{failure}\nserver's log ends:\n{read_log()[-3000:]}") from None
        finally:
            server.stop()
        if plugin or "--kv-stats" in program:
            require_kvasir(read_log(), program)


def compare(name, reference, text):
    """text against the reference's tokens; returns how many agree."""
    at = 0
    for index, (token, margin) in enumerate(reference):
        if not text.startswith(token, at):
            found = text[at:at + 40]
            if margin > NEARLY_TIED:
                raise Failure(f"{name}: token {index} is {token!r}, {margin:.2f} nats ahead of the "
                              f"next, but this answer goes on with {found!r}")
            return index
        at += len(token)
    return len(reference)


def joined(answer):
    return "".join(token for token, _ in answer)


def compare_server(name, stock, args, program, plugin=None):
    """Each prompt alone against stock, then all at once against each alone."""
    agreeing = []
    with serving(program, args.model, plugin) as server:
        alone = [server.answer(prompt) for prompt in PROMPTS]
        for index, answer in enumerate(alone):
            agreeing.append(compare(f"{name}, prompt {index}", stock[index], joined(answer)))
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
            parallel = list(pool.map(server.answer, PROMPTS))
        for index, answer in enumerate(parallel):
            agreeing.append(compare(f"{name}, four requests at once, prompt {index}", alone[index],
                                    joined(answer)))
    return agreeing


def run(args):
    plugin = os.path.abspath(args.plugin)
    server, completion = [f"{args.bin}/llama-server"], [f"{args.bin}/llama-completion"]
    kvasir = [args.kvasir, "serve", "--kv-stats"]
    with serving(server, args.model) as stock_server:
        stock = [stock_server.answer(prompt) for prompt in PROMPTS]
    agreeing = compare_server("llama-server", stock, args, server, plugin)
    agreeing += compare_server("kvasir serve", stock, args, kvasir)
    for program, library in ((completion, plugin), ([args.kvasir, "run", "--kv-stats"], None)):
        for index in (0, 3):
            text = complete(program, args.model, library, PROMPTS[index])
            agreeing.append(compare(f"{program[0]}, prompt {index}", stock[index], text))
    # If every answer parted at once, nothing was compared.
    if sum(agreeing) < N_PREDICT * len(agreeing) // 2:
        raise Failure(f"too little was compared: {agreeing} tokens of {N_PREDICT}")
    print(f"tokens that agree, of {N_PREDICT} each: {agreeing}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="folder of stock llama.cpp programs")
    parser.add_argument("--plugin", required=True, help="libggml-kvasir.so")
    parser.add_argument("--kvasir", required=True, help="the kvasir program")
    parser.add_argument("--model", required=True, help="a GGUF file")
    try:
        run(parser.parse_args())
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
