"""Who takes part.

A contestant's module has a function for each kind of work that it can do (train, products,
decode, attend).
It takes the options of the work and returns a job: job(n) does the work n times and returns
numbers that show it was done right. All that a job needs is built beforehand.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contestant:
    """One row of the tables: a module, the package it needs, what it takes part in.

    variant is an option of the module's jobs; environment holds for its process alone, and
    library is the checkout whose npt_lib it has, if not this one.
    """

    key: str
    title: str
    module: str
    needs: str
    parts: tuple[str, ...] = ("train", "products", "decode", "attend")
    variant: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    library: str = ""


REFERENCE = "torch"             # every ratio is to this one, in the same round

CONTESTANTS = {c.key: c for c in (
    Contestant("npt", "npt_lib", "with_npt", "numpy"),
    Contestant("npt-keep", "npt_lib, keep_memory", "with_npt", "numpy", ("train",), "keep"),
    Contestant("npt-threads", "npt_lib, n_threads=2", "with_npt", "numpy", ("train",), "threads"),
    Contestant("npt-bare", "npt_lib, not keeping memory", "with_npt", "numpy",
               ("train", "attend"), "bare"),
    Contestant("textbook", "textbook NumPy", "with_npt", "numpy", ("attend",), "textbook"),
    Contestant("torch", "PyTorch eager", "with_torch", "torch"),
    Contestant("torch-keep", "PyTorch eager, keep_memory", "with_torch", "torch",
               ("train", "attend"), "keep"),
    Contestant("torch-nn", "nn.Transformer", "with_torch", "torch", ("train",), "nn"),
    Contestant("torch-compile", "torch.compile", "with_torch", "torch", ("train",), "compile"),
    Contestant("jax", "JAX jit", "with_jax", "jax", ("train", "decode", "attend")),
)}
OTHER_STATE = "npt-against"


def with_kernel(kernel: str) -> Contestant:
    """npt_lib held to one of OpenBLAS's kernels, such as Haswell."""
    return Contestant(f"npt-{kernel}", f"npt_lib, {kernel} kernel", "with_npt", "numpy",
                      environment={"OPENBLAS_CORETYPE": kernel})


def with_library(folder: str) -> Contestant:
    """npt_lib of another checkout."""
    return Contestant(OTHER_STATE, "npt_lib, the other state", "with_npt", "numpy", library=folder)
