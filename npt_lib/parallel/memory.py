"""Freed memory kept for the next arrays, instead of fetched from the system anew at every step.

glibc, the C library of most Linux systems, hands a large array's memory back when it is freed;
the next array's pages are then fetched, and filled with zeros, one by one. Elsewhere neither
function changes anything.
"""

import ctypes
import sys

import numpy as np

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3     # names and numbers of glibc's malloc.h
NEVER = -1
MOST = 32 << 20            # the largest array, in bytes, that glibc can be told to keep


def reuse_memory() -> None:
    """From now on some 60 MB of freed memory are kept: glibc takes the hint from one large array.

    ``train`` begins with it. It takes no memory: the array is freed before a page is touched.
    """
    np.empty(MOST - (1 << 20), np.uint8)


def keep_memory() -> bool:
    """Keep freed memory for the rest of the process; returns whether that could be arranged.

    For models whose step needs more than the 62 MB that ``train`` keeps by itself; it works for
    arrays of up to 32 MB each. Call it once, before training. It is for you to choose: the process
    then stays about as large as it ever was.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(*setting) == 1 for setting in ((MMAP_THRESHOLD, MOST), (TRIM_THRESHOLD, NEVER))
    )
