"""How each task is learned: sizes, steps, learning rate. One place, for the tests that train.

Found by trying: Adam with its defaults, a warm-up of 100 steps to the peak and a cosine to zero
after it. Dropout is off: with 20,000 pairs these models do not overfit. Fewer pairs would cost
more than fewer steps: with 4,000, one held-out sequence in 200 still goes wrong.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import npt_lib as npt
from npt_lib.tasks import Task


@dataclass(frozen=True)
class Recipe:
    """A model's sizes, and how it is trained."""

    sizes: dict[str, Any] = field(default_factory=dict)
    n_steps: int = 1000
    batch_size: int = 64
    peak: float = 2e-3
    warmup: int = 100

    def train(self, task: Task, seed: int = 0) -> tuple[npt.Transformer, npt.History]:
        """Train a fresh model on the task; prints how long it took, which no test asserts."""
        rng = np.random.default_rng(seed)
        model = npt.Transformer(task.config(dropout=0.0, **self.sizes), rng)
        batches = task.batches(self.batch_size, rng)
        before = time.process_time()
        history = npt.train(
            model, npt.Adam(model.parameters()), batches, None, self.n_steps,
            schedule=lambda step: npt.warmup_cosine(step, self.peak, self.warmup, self.n_steps))
        seconds = time.process_time() - before
        print(f"\n{task.name}: {self.n_steps:,} steps in {seconds:.1f} s of processor time")
        return model, history


TINY = {"d_model": 32, "d_ff": 64, "n_layers": 1}
BOOK = {"d_model": 64, "n_heads": 4, "d_ff": 256, "n_layers": 2}

BY_HEART = Recipe(TINY, n_steps=100, batch_size=8, peak=5e-3, warmup=20)
SHORT = Recipe(TINY, n_steps=600, peak=5e-3)                 # sequences of 2 to 5 tokens
SEQUENCES = Recipe({"d_model": 64, "d_ff": 128, "n_layers": 1}, n_steps=1500, peak=3e-3)
NUMBER_WORDS = Recipe(BOOK, n_steps=1200)
NOUN_PHRASES = Recipe(BOOK, n_steps=1000)
