"""One contestant at one kind of work, in a process of its own.

It reads a JSON line that says what to do, answers {} when all is built, and from then on does the
work as often as each line says: seconds, what was computed, and the most memory so far.
"""

import contextlib
import importlib
import json
import re
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from benchmarks.work import SIZES, Size

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def answers(request: dict[str, Any], counts: TextIO) -> Iterator[dict[str, Any]]:
    """An empty answer when the job is built, then one for each count."""
    if request.get("library"):
        use_library(request["library"])
    module = importlib.import_module(f"benchmarks.{request['module']}")
    reset_peak()
    at_start = held("VmRSS")
    job = getattr(module, request["kind"])(**understood(request["options"]))
    yield {}
    for count in counts:
        start = time.perf_counter()
        values = job(int(count))
        seconds = time.perf_counter() - start
        yield {"seconds": seconds, "values": values, "bytes": held("VmHWM") - at_start}


def use_library(folder: str) -> None:
    """npt_lib of another checkout; all else stays this one's."""
    sys.path.insert(0, folder)
    importlib.import_module("npt_lib")
    del sys.path[0]


def understood(options: dict[str, Any]) -> dict[str, Any]:
    """A size by its name, or by its numbers."""
    if "size" not in options:
        return options
    size = options["size"]
    return options | {"size": SIZES[size] if isinstance(size, str) else Size(**size)}


def reset_peak() -> None:
    """Let the peak begin at what is held now, where the system can."""
    with contextlib.suppress(OSError):
        CLEAR.write_text("5")


def held(field: str) -> int:
    """Bytes held now (VmRSS), or at most (VmHWM); 0 where the system does not say."""
    if not STATUS.exists():
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(), re.M)
    return 1024 * int(found[1]) if found else 0


def main() -> None:
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):           # whatever a framework prints
        try:
            for answer in answers(json.loads(sys.stdin.readline()), sys.stdin):
                print(json.dumps(answer), file=out, flush=True)
        except Exception:
            print(json.dumps({"error": traceback.format_exc()}), file=out, flush=True)


if __name__ == "__main__":
    main()
