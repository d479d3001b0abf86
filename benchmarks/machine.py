"""What everything was measured on, in words that name no person and no path."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contestants import OTHER_STATE, Contestant
from benchmarks.race import ROOT, Process

LOAD = "Load by others"


def machine(contestants: Sequence[Contestant]) -> dict[str, str]:
    """When, processor, cores, memory, system, and what each contestant says about itself."""
    found = {"Measured": time.strftime("%Y-%m-%d"), "npt_lib": commit(ROOT),
             "Processor": processor(), "Cores": str(cores()), "Memory": memory(),
             "System": f"{platform.system()} {platform.machine()}",
             "Python": platform.python_version()}
    for contestant in contestants:
        if contestant.key == OTHER_STATE:
            found[contestant.title] = commit(Path(contestant.library))
        elif not contestant.variant:
            with Process(contestant, "about") as process:
                about = dict(process.run(1)["values"])
            found |= {f"BLAS of {contestant.title}": about["BLAS"]} if contestant.environment \
                else about
    return found


def commit(folder: Path) -> str:
    """The state of a checkout, by git's name for it."""
    done = subprocess.run(["git", "-C", str(folder), "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else "unknown"


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.+)$", info.read_text(), re.M))
    flags = fields.get("flags", "").split()
    widest = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else ""
    family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return ", ".join(filter(None, (fields.get("model name", ""), family, widest)))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> str:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
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
        share = 1 - (own() - self.ours) / max(now - self.busy, 1e-9)
        return {LOAD: f"{max(0.0, share):.0%} of the busy time"}


def busy() -> float | None:
    """Seconds that all cores together have worked since the system started, where it says so."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _, _, irq, softirq = map(int, stat.read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own() -> float:
    """Seconds that this process and its ended children have worked."""
    return sum(os.times()[:4])
