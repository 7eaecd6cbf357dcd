#!/usr/bin/env python3
"""Draws tokens per step out of what `forerun sim LOG --csv` prints.

    forerun sim LOG --csv | plot_acceptance.py OUT.svg

Two panels, of outputs cut where they start to loop and trees of the widest width: tokens per step by memory size, and by task with no
memory (light) and with 32K tokens of it. Needs matplotlib (deps/plots). The same figures give the same bytes.
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "forerun"
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"lookup": "#b0b0b0", "suffix": "#e0a030", "mixing": "#3070b0", "fixed": "#208050"}
LABELS = {"lookup": "prompt lookup", "suffix": "suffix tree", "mixing": "context mixing", "fixed": "the device's drafter"}
WITH_MEMORY = "32768"


def size_name(size):
    return size if size == "all" or int(size) < 1024 else f"{int(size) // 1024}K"


def by_size(axes, tau, drafters, sizes, nodes):
    for d in drafters:
        axes.plot(range(len(sizes)), [tau[d, nodes, s, "*"] for s in sizes], marker="o", markersize=3.5, color=COLOURS[d], label=LABELS[d])
    axes.set_xticks(range(len(sizes)), [size_name(s) for s in sizes])
    axes.set_xlabel("tokens of session memory")
    axes.set_ylabel(f"tokens per step, {nodes} nodes")
    axes.set_title("all tasks", fontsize=10)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, frameon=False)


def by_task(axes, tau, drafters, tasks, nodes):
    high = 0.8 / len(drafters)
    for i, d in enumerate(drafters):
        places = [t - 0.4 + (i + 0.5) * high for t in range(len(tasks))]
        axes.barh(places, [tau[d, nodes, WITH_MEMORY, t] for t in tasks], high, color=COLOURS[d])
        axes.barh(places, [tau[d, nodes, "0", t] for t in tasks], high, color="white", alpha=0.55)
    axes.set_yticks(range(len(tasks)), tasks)
    axes.invert_yaxis()
    axes.set_xlim(left=1)
    axes.set_xlabel("tokens per step; light: without memory, full: with 32K tokens")
    axes.set_title("by task", fontsize=10)
    axes.grid(axis="x", alpha=0.3)


def main():
    if len(sys.argv) != 2:
        print("usage: forerun sim LOG --csv | plot_acceptance.py OUT.svg", file=sys.stderr)
        return 2
    rows = list(csv.DictReader(sys.stdin))
    tau = {(r["drafter"], r["nodes"], r["memory"], r["task"]): float(r["cut_tau"]) for r in rows}
    drafters, sizes = (list(dict.fromkeys(r[k] for r in rows)) for k in ("drafter", "memory"))
    tasks = sorted({r["task"] for r in rows} - {"*"})
    nodes = str(max(int(r["nodes"]) for r in rows))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    by_size(left, tau, drafters, sizes, nodes)
    by_task(right, tau, drafters, tasks, nodes)
    figure.savefig(sys.argv[1], metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
