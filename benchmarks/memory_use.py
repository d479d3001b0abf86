"""How much memory this process holds, and how much it held at most."""

import re
import resource
import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int:
    """Bytes held now; where the system does not say, the most so far."""
    return _field("VmRSS") or peak()


def peak() -> int:
    """The most bytes held at once since the start, or since reset_peak."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _field("VmHWM") or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak() -> None:
    """Let the peak begin at what is held now, where the system can."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return


def _field(name: str) -> int | None:
    if not STATUS.exists():
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.M)
    return 1024 * int(found[1]) if found else None
