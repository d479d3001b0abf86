"""Who takes part: each module offers KINDS, a function for every kind of work it can do.

Such a function takes the options of the work and returns a job: job(n) does the work n times and
returns numbers that show it was done right (losses, tokens, a checksum). All that a job needs is
built beforehand, and its results are there when it returns.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

Job = Callable[[int], list]
Kinds = dict[str, Callable[..., Job]]


@dataclass(frozen=True)
class Contestant:
    """One row of the tables: a module, the package it needs, what it takes part in.

    variant is an option of the module's jobs; environment holds for its process alone.
    """

    key: str
    title: str
    module: str
    needs: str
    parts: tuple[str, ...] = ("train", "dropout", "decode", "attend")
    variant: str = ""
    environment: dict[str, str] = field(default_factory=dict)


REFERENCE = "torch"             # every ratio is to this one, in the same round

CONTESTANTS = {c.key: c for c in (
    Contestant("npt", "npt_lib", "npt", "numpy"),
    Contestant("npt-keep", "npt_lib, keep_memory", "npt", "numpy", ("train", "dropout", "attend"),
               "keep"),
    Contestant("textbook", "textbook NumPy", "textbook", "numpy", ("attend",)),
    Contestant("torch", "PyTorch eager", "pytorch", "torch"),
    Contestant("torch-nn", "nn.Transformer", "pytorch", "torch", ("train", "dropout"), "nn"),
    Contestant("torch-compile", "torch.compile", "pytorch", "torch", ("train",), "compile"),
    Contestant("jax", "JAX jit", "jax_", "jax", ("train", "decode", "attend")),
)}
# settings of training, before and after: what it is called, at which sizes, and the two variants
SETTINGS = (
    ("freed memory", ("SMALL", "MEDIUM"), ("handed back", "bare"), ("reused", "bare reuse")),
    ("all of it", ("SMALL", "MEDIUM"), ("reused", "bare reuse"), ("kept", "bare keep")),
    ("threads", ("TINY", "SMALL", "MEDIUM"), ("in BLAS alone", "one-thread"),
     ("as train shares them", "")),
)
FORMS = Contestant("forms", "forms", "forms", "numpy", ("compare",))
ANATOMY = Contestant("anatomy", "anatomy", "anatomy", "numpy", ("kinds", "parts"))
SGEMM = Contestant("sgemm", "sgemm", "sgemm", "numpy")


def with_kernel(kernel: str) -> Contestant:
    """npt_lib held to one of OpenBLAS's kernels, such as Haswell."""
    return Contestant(f"npt-{kernel}", f"npt_lib, {kernel} kernel", "npt", "numpy",
                      environment={"OPENBLAS_CORETYPE": kernel})
