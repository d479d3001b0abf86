"""Which BLAS multiplies NumPy's matrices, with which kernel and how many threads."""

import ctypes
from pathlib import Path

import numpy as np

FOLDERS = ("numpy.libs", "numpy/.dylibs")       # where NumPy's wheels keep their OpenBLAS
PREFIXES, SUFFIXES = ("scipy_openblas", "openblas"), ("64_", "")


def blas() -> str:
    """Such as "scipy-openblas 0.3.30, kernel Zen, 2 threads"; the kernel where it can be asked."""
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    name = f"{built['name']} {built['version']}"
    library = _library()
    if library is None:
        return name
    kernel = _function(library, "get_corename")
    threads = _function(library, "get_num_threads")
    if kernel is None or threads is None:
        return name
    kernel.restype = ctypes.c_char_p
    return f"{name}, kernel {kernel().decode()}, {threads()} threads"


def _library() -> ctypes.CDLL | None:
    """NumPy's own copy, which is loaded already."""
    site = Path(np.__file__).resolve().parent.parent
    found = [file for folder in FOLDERS for file in sorted((site / folder).glob("*openblas*"))]
    return ctypes.CDLL(str(found[0])) if found else None


def _function(library: ctypes.CDLL, name: str):
    for prefix in PREFIXES:
        for suffix in SUFFIXES:
            function = getattr(library, f"{prefix}_{name}{suffix}", None)
            if function is not None:
                return function
    return None
