#!/usr/bin/env python3
"""Puts the legs of suite.py together: report.py FOLDER writes summary.md, CSV files and, with matplotlib, plots beside them.

Times are medians over repeats, with the least and the most. Where engines are compared on the workload, only prompts count that all of them
answered.
"""

import csv
import glob
import json
import os
import statistics
import sys

NAMES = {"chrome-forerun": "Forerun, Chrome", "chrome-wllama": "wllama, Chrome", "chrome-transformers": "Transformers.js, Chrome",
         "native-llama": "llama.cpp Vulkan, native", "native-forerun": "Forerun, native"}


def read(folder):
    legs = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            leg = json.load(file)
        if isinstance(leg, dict) and "leg" in leg:
            legs[leg["leg"]] = leg
    return legs


def parts(name):
    """"chrome-wllama.Qwen2.5-0.5B.1" > engine, model, and what follows (which a leg without it lacks)."""
    engine, _, rest = name.partition(".")
    model, _, last = rest.rpartition(".")
    return (engine, model, last) if last.isdigit() or last == "workload" else (engine, rest, "")


def events(leg, kind):
    return [e for e in leg.get("events", []) if e["event"] == kind]


def spread(values):
    values = [v for v in values if v is not None]
    return (statistics.median(values), min(values), max(values), len(values)) if values else (None, None, None, 0)


def number(value, digits=2):
    return "-" if value is None else f"{value:,.{digits}f}"


# ---- rows of the tables


def speed_rows(legs):
    """The fixed prompt: a row for each engine, model and mode, over all rounds."""
    found = {}
    for name, leg in legs.items():
        engine, model, last = parts(name)
        if not last.isdigit():
            continue
        loaded = next(iter(events(leg, "loaded")), {})
        ended = next(iter(events(leg, "end")), {})
        for e in events(leg, "speed"):
            row = found.setdefault((model, engine, e["mode"]), {"samples": [], "loads": [], "gpu": [], "host": []})
            row["samples"].append(e)
            row["loads"].append(loaded.get("load_ms"))
            row["gpu"].append(ended.get("memory", {}).get("gpu_bytes"))
            row["host"].append(ended.get("memory", {}).get("host_bytes"))
    for name, leg in legs.items():
        engine, model, _ = parts(name)
        if engine != "native-bench" or "result" not in leg:
            continue
        r = leg["result"]
        prefill = [1000 * r["prompt_tokens"] / ms for ms in r["prefill"]["samples_ms"] if ms]
        for mode in ("greedy", "loop", "adaptive"):
            samples = [{"ms_per_token": ms, "first_ms": None, "prompt_tokens_per_s": None, "prompt_tokens": r["prompt_tokens"], "tokens": r["tokens"]} for ms in r[mode]["samples_ms"]]
            if mode == "loop":
                samples += [{"ms_per_token": None, "first_ms": 1000 * r["prompt_tokens"] / rate, "prompt_tokens_per_s": rate} for rate in prefill]
            found[model, "native-forerun", mode] = {"samples": samples, "loads": [r["load_ms"]], "gpu": [r["device_bytes"]], "host": []}
    rows = []
    for (model, engine, mode), row in found.items():
        s = row["samples"]
        token, first, prompt = (spread([e.get(k) for e in s]) for k in ("ms_per_token", "first_ms", "prompt_tokens_per_s"))
        rows.append({
            "model": model, "engine": engine, "mode": mode, "prompt_tokens": s[0]["prompt_tokens"], "tokens": s[0]["tokens"],
            "samples": token[3], "ms_per_token": token[0], "ms_per_token_least": token[1], "ms_per_token_most": token[2],
            "first_ms": first[0], "first_ms_least": first[1], "first_ms_most": first[2],
            "prompt_tokens_per_s": prompt[0], "prompt_tokens_per_s_least": prompt[1], "prompt_tokens_per_s_most": prompt[2],
            "load_ms": spread(row["loads"])[0], "gpu_mb": scaled(spread(row["gpu"])[0]), "host_mb": scaled(spread(row["host"])[0]),
        })
    return rows


def scaled(value):
    return None if value is None else value / 1e6


def computes_on(engine, start, loaded):
    """The adapter; engines that do without it when they can't use it say so in different ways."""
    if engine == "native-llama":
        return ", ".join(loaded.get("device", [])) or "CPU"
    if engine == "chrome-wllama" and not start.get("shader_f16"):
        return "CPU (no shader-f16)"
    return start.get("adapter") or "-"


def load_rows(legs):
    """A row for each leg that loaded a model: times in ms, memory in MB when it was loaded and at the end."""
    rows = []
    for name, leg in legs.items():
        engine, model, last = parts(name)
        for e in events(leg, "loaded"):
            end = next(iter(events(leg, "end")), {}).get("memory", {})
            start = next(iter(events(leg, "start")), {})
            row = {"engine": engine, "model": model, "leg": last, "on": computes_on(engine, start, e), **{k: e.get(k) for k in ("load_ms", "engine_load_ms", "compile_ms", "pipelines", "prepare_ms", "calibrate_ms")}}
            for when, memory in (("loaded", e.get("memory", {})), ("end", end)):
                row |= {f"gpu_mb_{when}": scaled(memory.get("gpu_bytes")), f"host_mb_{when}": scaled(memory.get("host_bytes"))}
            rows.append({**row, "device_mb": scaled(e.get("device_bytes")), "wasm_mb": scaled(e.get("host_bytes"))})
    return rows


def prompt_rows(legs):
    rows = []
    for name, leg in legs.items():
        engine, model, last = parts(name)
        for e in events(leg, "prompt") if last == "workload" else []:
            rows.append({"engine": engine, "model": model, **{k: e.get(k) for k in (
                "mode", "task", "id", "prompt_tokens", "tokens", "first_ms", "total_ms", "ms_per_token", "steps", "tau", "hash")}})
    return rows


def task_rows(prompts):
    """Sums by engine, mode and task ("*": all), over the prompts that every engine answered ("shared") and over all of an engine's own."""
    answered = {}
    for p in prompts:
        answered.setdefault((p["engine"], p["mode"]), set()).add(p["id"])
    shared = set.intersection(*answered.values()) if answered else set()
    rows = []
    same = all(ids == shared for ids in answered.values())
    for scope in ("shared",) if same else ("shared", "own"):
        groups = {}
        for p in prompts:
            if scope == "own" or p["id"] in shared:
                for task in (p["task"], "*"):
                    groups.setdefault((p["engine"], p["mode"], task), []).append(p)
        for (engine, mode, task), list_ in groups.items():
            tokens, total = sum(p["tokens"] for p in list_), sum(p["total_ms"] for p in list_)
            later = sum(max(p["tokens"] - 1, 0) for p in list_)
            decode = sum(p["total_ms"] - p["first_ms"] for p in list_ if p["tokens"] > 1)
            first, whole = spread([p["first_ms"] for p in list_]), spread([p["total_ms"] for p in list_])
            steps = sum(p["steps"] or 0 for p in list_)
            rows.append({
                "scope": scope, "engine": engine, "mode": mode, "task": task, "prompts": len(list_), "tokens": tokens,
                "tokens_per_s": 1000 * later / decode if decode else None, "tokens_per_s_with_prompt": 1000 * tokens / total if total else None,
                "ms_per_token": decode / later if later else None, "first_ms": first[0], "first_ms_most": first[2],
                "total_ms": whole[0], "total_ms_most": whole[2], "tau": tokens / steps if steps else None,
            })
    return rows


def step_rows(legs):
    rows = []
    for name, leg in legs.items():
        engine, model, _ = parts(name)
        if engine not in ("chrome-steps", "native-bench") or "result" not in leg:
            continue
        steps = leg["result"].get("steps", [])
        for s in steps:
            middle, least, most, n = spread(s["samples_ms"])
            rows.append({"model": model, "where": "Chrome" if engine == "chrome-steps" else "native", "nodes": s["width"], "samples": n, "ms": middle, "ms_least": least,
                         "ms_most": most, "ratio": middle / steps[0]["ms_per_step"], "dispatches": s["dispatches_per_step"], "compile_ms": s["prepare_ms"]})
    return rows


def window_rows(legs):
    return [{"model": parts(name)[1], "window": int(w), "ms_per_token": ms}
            for name, leg in legs.items() if parts(name)[0] == "chrome-steps" and "result" in leg
            for w, ms in leg["result"].get("loop_by_window", {}).items()]


def profile_rows(legs):
    rows = []
    for name, leg in legs.items():
        engine, model, _ = parts(name)
        if engine not in ("native-profile", "chrome-profile") or "result" not in leg:
            continue
        for p in leg["result"]["profiles"]:
            total = sum(k["dispatches"] * k["us"] for k in p["kernels"])
            for k in p["kernels"]:
                rows.append({"model": model, "where": engine.partition("-")[0], "nodes": p["nodes"], "step": p["name"], "kernel": k["kernel"], "matrix": k["matrix"],
                             "dispatches": k["dispatches"], "us": k["us"], "us_least": min(k["samples_us"]), "us_most": max(k["samples_us"]),
                             "one_layer_us": k["one_layer_us"], "ms_a_step": k["dispatches"] * k["us"] / 1000, "share": k["dispatches"] * k["us"] / total,
                             "bytes": k.get("bytes"), "floor_us": k.get("floor_us")})
    return rows


# ---- output


def write_csv(folder, name, rows):
    if not rows:
        return
    with open(os.path.join(folder, name), "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        out.writeheader()
        for row in rows:
            out.writerow({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *("| " + " | ".join(str(c) for c in row) + " |" for row in rows), ""]


def engine_name(engine):
    return NAMES.get(engine, engine)


def different_answers(prompts):
    """Ids of prompts whose answer is not the same in all of our modes: there must be none."""
    hashes = {}
    for p in prompts:
        if p["engine"] == "chrome-forerun":
            hashes.setdefault(p["id"], set()).add(p["hash"])
    return sorted(i for i, h in hashes.items() if len(h) > 1), len(hashes)


def different_prompts(prompts):
    """Ids of prompts that are not of the same number of tokens for all engines."""
    sizes = {}
    for p in prompts:
        sizes.setdefault(p["id"], set()).add(p["prompt_tokens"])
    return sorted(i for i, n in sizes.items() if len(n) > 1)


def summary(legs, speeds, loads, tasks, steps, windows, profiles, prompts):
    machine = next(iter(legs.values()))["machine"]
    first = min(leg["date"] for leg in legs.values())
    out = ["# Benchmark", "", f"{first}; {machine['gpu'] or 'no NVIDIA GPU'}; {machine['cpu']}, {machine['cores']} cores; {machine['chrome']}", ""]
    wrong = {n: leg["error"] for n, leg in legs.items() if leg.get("error")}
    if wrong:
        out += ["## Legs that failed", "", *(f"- {n}: {e.splitlines()[0][:200]}" for n, e in wrong.items()), ""]
    if speeds:
        out += ["## Fixed prompt", "", "Medians; in brackets the least and the most.", ""]
        out += table(["model", "engine", "mode", "ms a token", "prompt, tokens/s", "first token, ms", "load, ms", "GPU, MB", "host, MB", "n"], [
            [r["model"], engine_name(r["engine"]), r["mode"], f"{number(r['ms_per_token'])} ({number(r['ms_per_token_least'])} to {number(r['ms_per_token_most'])})",
             f"{number(r['prompt_tokens_per_s'], 0)} ({number(r['prompt_tokens_per_s_least'], 0)} to {number(r['prompt_tokens_per_s_most'], 0)})", number(r["first_ms"], 1),
             number(r["load_ms"], 0), number(r["gpu_mb"], 0), number(r["host_mb"], 0), r["samples"]] for r in speeds])
    if loads:
        out += ["## Loading", "", "From the call to an engine that takes requests; of this engine also from the first byte, of which compiling, and compiling the tree's kernels afterwards. Memory at the end of the leg.", ""]
        out += table(["model", "engine", "leg", "computes on", "load, ms", "from the first byte, ms", "pipelines, ms", "pipelines", "tree, ms", "GPU, MB", "host, MB"], [
            [r["model"], engine_name(r["engine"]), r["leg"], r["on"], number(r["load_ms"], 0), number(r["engine_load_ms"], 0), number(r["compile_ms"], 0), r["pipelines"] or "-", number(r["prepare_ms"], 0),
             number(r["gpu_mb_end"], 0), number(r["host_mb_end"], 0)] for r in loads])
    whole = [r for r in tasks if r["task"] == "*"]
    if whole:
        different, answered = different_answers(prompts)
        out += ["## Workload", "", f"Our modes gave the same tokens for {answered - len(different)} of {answered} prompts{'; not for ' + ', '.join(different) if different else ''}.", ""]
        uneven = different_prompts(prompts)
        if uneven:
            out += [f"Engines cut these prompts into different numbers of tokens: {', '.join(uneven)}.", ""]
        slowest = next((r["tokens_per_s"] for r in whole if r["scope"] == "shared" and r["engine"] == "chrome-wllama"), None)
        out += table(["prompts", "engine", "mode", "tokens/s", "against wllama", "with the prompt's time, tokens/s", "ms a token", "tau", "first token, ms", "whole answer, ms"], [
            [f"{r['prompts']} {r['scope']}", engine_name(r["engine"]), r["mode"], number(r["tokens_per_s"], 1), number(r["tokens_per_s"] / slowest, 1) if slowest and r["tokens_per_s"] else "-",
             number(r["tokens_per_s_with_prompt"], 1), number(r["ms_per_token"]), number(r["tau"]), number(r["first_ms"], 1), number(r["total_ms"], 1)] for r in whole])
        by_task = [r for r in tasks if r["task"] != "*" and r["scope"] == tasks[-1]["scope"]]
        out += ["By task, tokens/s:", ""]
        columns = list(dict.fromkeys((r["engine"], r["mode"]) for r in by_task))
        rate = {(r["task"], r["engine"], r["mode"]): r["tokens_per_s"] for r in by_task}
        out += table(["task", *(f"{engine_name(e)}, {m}" for e, m in columns)], [[t, *(number(rate.get((t, e, m)), 1) for e, m in columns)] for t in dict.fromkeys(r["task"] for r in by_task)])
    for name, leg in legs.items():
        if parts(name)[0].startswith("native-compare") and "result" in leg:
            r = leg["result"]
            out += [f"## {name}", "", f"{r['answers']} answers compared with those of greedy, {r['different']} differ.", ""]
            out += table(["way", "tokens", "tau", "ms a token", "ms a step"], [[w, t["tokens"], number(t["tau"], 3), number(t["ms_per_token"], 3), number(t["ms_per_step"], 3)] for w, t in r["all"].items()])
    if steps:
        out += ["## A step over N nodes", ""]
        out += table(["model", "where", "N", "ms", "T(N)/T(1)", "dispatches", "compile, ms"], [
            [r["model"], r["where"], r["nodes"], f"{number(r['ms'], 3)} ({number(r['ms_least'], 3)} to {number(r['ms_most'], 3)})", number(r["ratio"]), r["dispatches"], number(r["compile_ms"], 0)] for r in steps])
    if windows:
        out += ["## Windows of `loop`, Chrome, ms a token", ""]
        sizes = sorted({r["window"] for r in windows})
        at = {(r["model"], r["window"]): r["ms_per_token"] for r in windows}
        out += table(["model", *(f"W = {w}" for w in sizes)], [[m, *(number(at.get((m, w)), 3) for w in sizes)] for m in dict.fromkeys(r["model"] for r in windows)])
    if profiles:
        out += ["## Kernels", "", "Microseconds a dispatch, in a step and over one layer again and again; milliseconds a step.", ""]
        out += table(["model", "where", "nodes", "kernel", "matrix", "n", "us", "one layer", "ms", "share", "floor, us"], [
            [r["model"], r["where"], r["nodes"], r["kernel"], r["matrix"], r["dispatches"], number(r["us"]), number(r["one_layer_us"]), number(r["ms_a_step"], 3), f"{100 * r['share']:.1f} %", number(r["floor_us"])] for r in profiles])
    return "\n".join(out)


def main():
    if len(sys.argv) != 2:
        print("usage: report.py FOLDER", file=sys.stderr)
        return 2
    folder = sys.argv[1]
    legs = read(folder)
    if not legs:
        print(f"report.py: {folder} has no results of suite.py", file=sys.stderr)
        return 1
    prompts = prompt_rows(legs)
    rows = {"speed": speed_rows(legs), "loads": load_rows(legs), "tasks": task_rows(prompts), "steps": step_rows(legs), "windows": window_rows(legs), "profile": profile_rows(legs), "prompts": prompts}
    for name, list_ in rows.items():
        write_csv(folder, name + ".csv", list_)
    with open(os.path.join(folder, "summary.md"), "w", encoding="utf-8") as file:
        file.write(summary(legs, rows["speed"], rows["loads"], rows["tasks"], rows["steps"], rows["windows"], rows["profile"], prompts))
    try:
        import plot_suite
    except ImportError as e:
        print(f"report.py: no plots ({e}); deps/plots has what they need")
        return 0
    plot_suite.draw(folder, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
