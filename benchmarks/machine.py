"""What everything was measured on, in words that name no person and no path."""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contestants import Contestant
from benchmarks.process import Process


def machine(contestants: Sequence[Contestant]) -> dict[str, str]:
    """Processor, cores, memory, system, and what each contestant says about itself."""
    found = {"Processor": processor(), "Cores": str(cores()), "Memory": memory(),
             "System": f"{platform.system()} {platform.machine()}",
             "Python": platform.python_version()}
    different = {(c.module, *c.environment.values()): c for c in reversed(contestants)}
    for contestant in reversed(different.values()):
        with Process(contestant) as process:
            about = process.about()
        if contestant.environment:
            about = {f"{name} of {contestant.title}": text for name, text in about.items()
                     if name == "BLAS"}
        found |= about
    return found


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        fields = dict(re.findall(r"^([\w ]+?)\s*: (.+)$", info.read_text(), re.M))
        flags = fields.get("flags", "").split()
        widest = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else ""
        kind = f"family {fields['cpu family']} model {fields['model']}" \
            if {"cpu family", "model"} <= fields.keys() else ""
        return ", ".join(part for part in (fields.get("model name", ""), kind, widest) if part)
    return platform.processor() or platform.machine()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"


class Load:
    """How busy others kept the cores meanwhile: a run that shares them measures the sharing."""

    def __init__(self) -> None:
        self.busy, self.ours = busy(), own()

    def by_others(self) -> dict[str, str]:
        """The share of all busy time that neither this process nor its workers spent."""
        if self.busy is None or (now := busy()) is None:
            return {}
        spent, mine = now - self.busy, own() - self.ours
        return {"Load by others": f"{max(0.0, 1 - mine / max(spent, 1e-9)):.0%} of the busy time"}


def busy() -> float | None:
    """Seconds that all cores together have worked since the system started, where it says so."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _, _, irq, softirq, *_ = map(int, stat.read_text().split()[1:11])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own() -> float:
    """Seconds that this process and its ended children have worked."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
