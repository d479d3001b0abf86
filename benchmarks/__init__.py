"""npt_lib beside PyTorch and JAX: the same work, the same weights, in turn, in one run.

    python -m benchmarks                     everything, a quarter to half an hour
    python -m benchmarks --quick             a smoke test, about a minute
    python -m benchmarks --against PATH      beside npt_lib of another checkout
    python -m benchmarks --report-only       the report again, from the stored numbers
    python -m benchmarks.passes              bytes that an encoder block moves (no times)

The report is written to _build/bench; the book quotes the one in benchmarks/report (--out).
Each contestant lives in a process of its own (worker.py), which the parent (race.py) asks for
one round of work at a time, while all the others sleep. Nothing here is imported by npt_lib.
Who is not installed (requirements-bench.txt) is left out. Memory and load are read on Linux only.
"""
