"""A progress bar where somebody is watching, and silence everywhere else."""

import os
import sys
from typing import Any


def progress_bar(start: int, total: int) -> Any:
    """A tqdm bar in a notebook or a terminal; otherwise, or with TQDM_DISABLE=1, a silent one."""
    if not is_watched() or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return SilentBar()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return SilentBar()
    return tqdm(total=total, initial=start, unit="step")


def is_watched() -> bool:
    shell = sys.modules.get("ipykernel") and sys.modules.get("IPython")
    return bool(shell and shell.get_ipython()) or sys.stderr.isatty()


class SilentBar:
    """Has what train calls on a bar, and does nothing."""

    def update(self, n: int) -> None: ...

    def set_postfix(self, **numbers: Any) -> None: ...

    def close(self) -> None: ...
