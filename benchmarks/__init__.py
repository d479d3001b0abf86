"""npt_lib beside PyTorch and JAX: the same work, the same weights, in turn, in one run.

    python -m benchmarks                 everything, about a quarter of an hour
    python -m benchmarks --quick         a smoke test, about a minute
    python -m benchmarks --report-only   the report again, from the stored numbers

Each contestant lives in a process of its own (worker.py), which the parent (race.py) asks for
one round of work at a time, while all the others sleep. Nothing here is imported by npt_lib.
Linux and macOS; the packages of the others are in requirements-bench.txt, and who is not
installed is left out. Let the machine do nothing else: the report says if it did.
"""
