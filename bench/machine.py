"""Facts about the machine, and the memory that a family of processes and its GPU take."""

import os
import platform
import shutil
import subprocess


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def smi(query):
    return output("nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits") if shutil.which("nvidia-smi") else ""


def facts(chrome):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), platform.machine())
    return {"gpu": smi("gpu=name,driver_version"), "cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "chrome": output(chrome, "--version")}


def children():
    """Process id > ids of its children."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        found.setdefault(parent, []).append(int(name))
    return found


def resident(pid):
    """Bytes of a process, shared pages by share."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration, ValueError):
        return 0


class Memory:
    """GPU memory beyond what was taken before, and main memory of a process and all its descendants."""

    def __init__(self):
        self.root = None
        self.before = self.gpu()

    @staticmethod
    def gpu():
        text = smi("gpu=memory.used")
        return int(text.splitlines()[0]) << 20 if text else None

    def watch(self, pid):
        self.root = pid

    def sample(self):
        tree, todo, total = children(), [self.root], 0
        while todo:
            pid = todo.pop()
            total += resident(pid)
            todo += tree.get(pid, [])
        gpu = self.gpu()
        return {"host_bytes": total, "gpu_bytes": gpu - self.before if gpu is not None and self.before is not None else None}
