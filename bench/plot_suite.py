"""Plots of report.py's rows, as SVG; the same rows give the same bytes. Needs matplotlib (deps/plots)."""

import os

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "forerun"
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt  # noqa: E402

from report import engine_name  # noqa: E402

OURS = ["#104028", "#208050", "#60b088", "#a8d8c0", "#d0e890", "#3090a0", "#90c8d0"]  # this engine, by mode
PEERS = {"wllama, Chrome": "#3070b0", "Transformers.js, Chrome": "#b04040", "llama.cpp Vulkan, native": "#e0a030"}
LINES = ["#208050", "#3070b0", "#e0a030", "#b04040", "#9060a8", "#808080", "#3090a0", "#604020"]


def save(figure, folder, name):
    figure.savefig(os.path.join(folder, name), metadata={"Date": None})
    plt.close(figure)


def label(row):
    return engine_name(row["engine"]) + ("" if row["mode"] == "default" else f", {row['mode']}")


def unique(values):
    return list(dict.fromkeys(values))


def colours(series):
    ours = iter(OURS * 2)
    return {s: PEERS.get(s) or next(ours) for s in series}


def key_above(figure, axes):
    """One legend for all panels."""
    known = {label: handle for a in axes for handle, label in zip(*a.get_legend_handles_labels())}
    figure.legend(known.values(), known.keys(), fontsize=8, frameon=False, ncols=min(len(known), 4), loc="outside upper center")


def bars(axes, groups, series, value, error=None):
    """A cluster of bars for each group; value(group, series) may be None."""
    high, colour = 0.85 / max(len(series), 1), colours(series)
    for i, s in enumerate(series):
        for g, group in enumerate(groups):
            v = value(group, s)
            if v is None:
                continue
            place = g - 0.425 + (i + 0.5) * high
            least, most = error(group, s) if error else (v, v)
            axes.barh(place, v, high * 0.92, color=colour[s], label=s, xerr=[[max(v - least, 0)], [max(most - v, 0)]], error_kw={"lw": 0.8})
            axes.text(v, place, f" {v:,.2f}" if v < 100 else f" {v:,.0f}", va="center", fontsize=7)
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xscale("log")
    axes.set_xlim(right=axes.get_xlim()[1] * 2)  # room for the figures


def speed(folder, rows):
    groups, series = unique(r["model"] for r in rows), unique(label(r) for r in rows)
    at = {(r["model"], label(r)): r for r in rows}
    figure, axes = plt.subplots(1, 2, figsize=(13, 1.8 + 0.2 * len(groups) * len(series)), layout="constrained")
    for a, key, title in zip(axes, ("ms_per_token", "prompt_tokens_per_s"), ("ms a token (least to most)", "tokens of the prompt a second")):
        bars(a, groups, series, lambda g, s: at.get((g, s), {}).get(key), lambda g, s: (at[g, s][key + "_least"], at[g, s][key + "_most"]))
        a.set_xlabel(title)
    key_above(figure, axes)
    save(figure, folder, "speed.svg")


def steps(folder, rows):
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    models = unique(r["model"] for r in rows)
    for model, where in unique((r["model"], r["where"]) for r in rows):
        mine = [r for r in rows if (r["model"], r["where"]) == (model, where)]
        x, style = [r["nodes"] for r in mine], "-" if where == "Chrome" else "--"
        for a, key in zip(axes, ("ms", "ratio")):
            a.plot(x, [r[key] for r in mine], style, marker="o", markersize=3, color=LINES[models.index(model) % len(LINES)], label=f"{model}, {where}")
        axes[0].fill_between(x, [r["ms_least"] for r in mine], [r["ms_most"] for r in mine], color=LINES[models.index(model) % len(LINES)], alpha=0.15)
    for a, title in zip(axes, ("ms a step", "T(N) / T(1)")):
        a.set_xscale("log", base=2)
        a.set_xticks(unique(r["nodes"] for r in rows), unique(r["nodes"] for r in rows))
        a.set_xlabel("nodes N")
        a.set_ylabel(title)
        a.set_ylim(bottom=0)
        a.grid(alpha=0.3)
    axes[0].legend(fontsize=7, frameon=False)
    save(figure, folder, "steps.svg")


def windows(folder, rows):
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for i, model in enumerate(unique(r["model"] for r in rows)):
        mine = [r for r in rows if r["model"] == model]
        axes.plot([r["window"] for r in mine], [r["ms_per_token"] for r in mine], marker="o", markersize=3, color=LINES[i % len(LINES)], label=model)
    axes.set_xscale("log", base=2)
    axes.set_xticks(unique(r["window"] for r in rows), unique(r["window"] for r in rows))
    axes.set_xlabel("steps in a window, Chrome")
    axes.set_ylabel("ms a token")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    save(figure, folder, "windows.svg")


def workload(folder, rows):
    """Time to the first token and to the whole answer on prompts that all engines answered, by task."""
    shared = [r for r in rows if r["scope"] == "shared"]
    groups, series = unique(r["task"] for r in shared if r["task"] != "*") + ["*"], unique(label(r) for r in shared)
    at = {(r["task"], label(r)): r for r in shared}
    figure, axes = plt.subplots(1, 3, figsize=(16, 1.8 + 0.14 * len(groups) * len(series)), layout="constrained")
    for a, key, title in zip(axes, ("tokens_per_s", "first_ms", "total_ms"), ("tokens a second behind the first", "ms to the first token (median)", "ms to the whole answer (median)")):
        bars(a, groups, series, lambda g, s: at.get((g, s), {}).get(key))
        a.set_xlabel(title)
    key_above(figure, axes)
    save(figure, folder, "workload.svg")


def profile(folder, rows):
    names = unique((r["model"], r["where"], r["nodes"]) for r in rows)
    kernels = unique(f"{r['kernel']}" for r in rows)
    figure, axes = plt.subplots(figsize=(11, 1.8 + 0.4 * len(names)), layout="constrained")
    for y, name in enumerate(names):
        left = 0
        for r in rows:
            if (r["model"], r["where"], r["nodes"]) == name:
                axes.barh(y, r["share"], 0.8, left=left, color=plt.get_cmap("tab20")(kernels.index(r["kernel"]) % 20), edgecolor="white", label=r["kernel"])
                if r["share"] > 0.05:
                    axes.text(left + r["share"] / 2, y, f"{r['us']:.1f}", ha="center", va="center", fontsize=7)
                left += r["share"]
    axes.set_yticks(range(len(names)), [f"{m}, {w}, {n} node{'s' if n > 1 else ''}" for m, w, n in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the kernels' time; in the bars, microseconds a dispatch")
    key_above(figure, [axes])
    save(figure, folder, "profile.svg")


def draw(folder, rows):
    for name, plot in (("speed", speed), ("steps", steps), ("windows", windows), ("tasks", workload), ("profile", profile)):
        if rows[name]:
            plot(folder, rows[name])
