"""What every kernel and every test of the book runs under: outputs are the same anywhere."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = {
    # one thread: sums are added up in one order
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "agg",
    # not the user's own settings, nor a list of fonts that another project's Matplotlib wrote
    "MPLCONFIGDIR": str(ROOT / "_build" / "matplotlib"),
    "COLUMNS": "88",
    # progress bars show seconds: a reader has them, stored outputs do not
    "TQDM_DISABLE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


def list_fonts() -> None:
    """Have Matplotlib list the fonts now: where it is slow, a kernel would say so in its output."""
    import matplotlib.font_manager  # noqa: F401


def start_again(start):
    """A kernel's start, tried once more: another process may open its ports before it does."""
    def twice(**options):
        try:
            return start(**options)
        except RuntimeError:
            return start(**options)

    return twice
