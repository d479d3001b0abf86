"""A language model that has read NumPy's documentation: two minutes of training on a laptop.

    python -m examples.language_model                     trains, judges and lets it write
    python -m examples.language_model --steps 100         less of it
    python -m examples.language_model --save numpy.npz    keeps the model and its tokenizer
    python -m examples.language_model --steps 1800 --record book/beyond/language_model.json
                                                          the longer run that chapter 11 prints

Nothing is downloaded: the text is in the docstrings of the NumPy that is installed. How good the
model is, held-out docstrings tell, in bits per byte: how many bits a perfect compressor would
need for each byte of them, if it believed the model. Beside it stand simple guessers.
"""

import argparse
import json
import lzma
import math
import time
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

import npt_lib as npt
from npt_lib.tasks import Texts, numpy_documentation

LENGTH, BATCH, RATE = 128, 16, 4e-3
PROMPTS = "Return the", "Parameters\n----------\n", ">>> import numpy as np\n>>> a = "
PRIOR = 0.1                         # added to each count, so that nothing is impossible
MEMORY = 20                         # bytes that the table that falls back may look at
RUN = 60                            # bytes in a row that are no chance, but copied


def bits_per_byte(
    nats_per_token: float, texts: list[str], tokenizer: npt.BytePairTokenizer
) -> float:
    """A mean loss over tokens, as bits for each byte of these texts (an end token is one more)."""
    n_tokens = sum(len(tokenizer.encode(text, eos=True)) for text in texts)
    n_bytes = sum(len(text.encode()) + 1 for text in texts)
    return nats_per_token / math.log(2) * n_tokens / n_bytes


def guessers(texts: Texts) -> dict[str, float]:
    """Bits per byte of the held-out text for who knows less, or knows it otherwise."""
    train, test = ("\n".join(part).encode() for part in (texts.train, texts.test))
    read = len(lzma.compress(train, preset=9))
    return {
        "every byte alike": 8.0,
        "how often each byte comes": by_counts(train, test, 0),
        "the same, after the byte before": by_counts(train, test, 1),
        "after the two before": by_counts(train, test, 2),
        f"after {MEMORY}, or as many as were met": falling_back(train, test, MEMORY)[-1],
        "zlib": 8 * len(zlib.compress(test, 9)) / len(test),
        "lzma": 8 * len(lzma.compress(test, preset=9)) / len(test),
        "lzma that has read the training text": 8 * (len(
            lzma.compress(train + test, preset=9)) - read) / len(test),
    }


def by_counts(train: bytes, test: bytes, n_before: int) -> float:
    """A table of which byte followed which n bytes in the training text."""
    width = n_before + 1
    followed = Counter(train[i:i + width] for i in range(len(train) - n_before))
    before = Counter(train[i:i + n_before] for i in range(len(train) - n_before))
    nats = 0.0
    for i in range(n_before, len(test)):
        seen = followed[test[i - n_before:i + 1]] + PRIOR
        nats -= math.log(seen / (before[test[i - n_before:i]] + 256 * PRIOR))
    return nats / math.log(2) / (len(test) - n_before)


def falling_back(
    train: bytes, test: bytes, n_before: int, of: np.ndarray | None = None
) -> list[float]:
    """Bits per byte with a memory of 0, 1, … n_before bytes; what was rare asks one byte less.

    A mean over all bytes, or over those of them where `of` is true.

    Both texts are numbered together: equal contexts have equal numbers, and a byte more makes a
    number of an earlier number and a byte.
    """
    text = np.frombuffer(train + test, np.uint8).astype(np.int64)
    contexts, met = np.zeros(len(text) + 1, np.int64), np.array([len(train)])
    first = len(train)                              # the first place that is asked
    p, found = np.full(len(test), 1 / 256), []
    for n in range(n_before + 1):
        places = contexts[:-1] * 256 + text[n:]     # a context of n bytes, and the byte after it
        _, longer = np.unique(places, return_inverse=True)
        count = np.bincount(longer[:len(train) - n], minlength=longer.max() + 1)
        asked = slice(first, None)
        p = (count[longer[asked]] + 256 * PRIOR * p[-len(longer[asked]):]) / (
            met[contexts[:-1][asked]] + 256 * PRIOR)
        found.append(float(-np.log2(p if of is None else p[of[-len(p):]]).mean()))
        contexts, met = longer, count
    return found


def copied(train: bytes, test: bytes, run: int = RUN) -> np.ndarray:
    """For each byte of the test text: does it stand in a run that the training text has, too?"""
    known = {train[i:i + run] for i in range(len(train) - run + 1)}
    found = np.zeros(len(test), bool)
    for i in range(len(test) - run + 1):
        if test[i:i + run] in known:
            found[i:i + run] = True
    return found


def byte_by_byte(
    model: npt.GPT, rows: np.ndarray, tokenizer: npt.BytePairTokenizer, n_bytes: int
) -> np.ndarray:
    """The model's bits for each byte of the text in these rows: a token's in equal shares.

    An end is one byte. What is not asked, the first token and the rest behind the last row, is nan.
    """
    bits = np.full(n_bytes, np.nan)
    place = len(tokenizer.pieces[rows[0, 0]]) or 1
    for i in range(0, len(rows), 32):
        p, _ = npt.softmax(model(rows[i:i + 32, :-1]).astype(float))
        right = rows[i:i + 32, 1:]
        p = np.take_along_axis(p, right[..., None], axis=-1).ravel()
        for one, token in zip(p, right.ravel(), strict=True):
            n = len(tokenizer.pieces[token]) or 1
            bits[place:place + n] = -np.log2(one) / n
            place += n
    return bits


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.language_model",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--merges", type=int, default=768)
    parser.add_argument("--save")
    parser.add_argument("--record", type=Path, help="a file for what was measured")
    options = parser.parse_args()

    texts, rng = numpy_documentation(), np.random.default_rng(0)
    tokenizer = npt.BytePairTokenizer.from_texts(texts.train, options.merges)
    rows, held_out = (texts.rows(tokenizer, LENGTH, part) for part in ("train", "test"))
    print(f"{texts}: {sum(map(len, texts.train)):,} letters to learn from, "
          f"{rows[0].size:,} tokens of {len(tokenizer)} kinds")
    for name, bits in guessers(texts).items():
        print(f"  {bits:5.2f} bits per byte   {name}")

    config = npt.gpt_config(len(tokenizer), d_model=128, n_heads=4, d_ff=512, n_layers=4,
                            dropout=0.0, max_len=LENGTH + 1)
    model = npt.GPT(config, rng)
    model.embed.positions.table.value[:] = 0           # as in chapter 11; chapter 12 says why
    optimizer, batches = npt.Adam(model.parameters(), RATE), npt.Batches(rows, BATCH, rng)
    npt.keep_memory()                                  # freed memory stays: faster
    began = time.perf_counter()
    by_step: dict[int, float] = {}

    def tell(step: int) -> None:
        loss = npt.evaluate(model, held_out).loss
        by_step[step] = bits = bits_per_byte(loss, texts.test, tokenizer)
        print(f"  {bits:5.2f} bits per byte   the model after {step} steps, "
              f"{time.perf_counter() - began:.0f} s")

    print(f"{model.n_parameters():,} parameters")
    tell(0)
    for done in range(0, options.steps, 100):
        n = min(100, options.steps - done)
        npt.train(model, optimizer, batches, None, n, n_threads=2,
                  schedule=lambda step, done=done: npt.warmup_cosine(
                      done + step, RATE, 50, max(options.steps, 51)))
        tell(done + n)

    step = max(1, len(rows[0]) // len(held_out[0]))    # as many rows, from all over the text
    read_before = npt.evaluate(model, tuple(part[::step] for part in rows)).loss
    print(f"  {bits_per_byte(read_before, texts.train, tokenizer):5.2f} bits per byte   "
          "the same of the training text")
    writes = {}
    for prompt in PROMPTS:
        ids = np.array([tokenizer.encode(prompt)])
        room = config.max_len - ids.shape[1]
        written = npt.sample(model, ids, room, rng, temperature=0.7, top_p=0.95)
        writes[prompt] = prompt + tokenizer.decode(written[0])
        print(f"{'-' * 70}\n{writes[prompt]}")
    if options.record:
        train, test = ("\n".join(part).encode() for part in (texts.train, texts.test))
        record = {"numpy": np.__version__, "model": by_step, "writes": writes,
                  "training text": bits_per_byte(read_before, texts.train, tokenizer),
                  "falls back": falling_back(train, test, MEMORY)}
        bits = byte_by_byte(model, held_out[0], tokenizer, len(test))
        old = copied(train, test)
        for part, of in (("copied", old), ("new", ~old)):
            record[part] = {"model": float(np.nanmean(bits[of])),
                            "falls back": falling_back(train, test, MEMORY, of)}
        options.record.write_text(json.dumps(record, indent=1) + "\n", "utf8")
    if options.save:
        npt.save(options.save, model, tokenizer)


if __name__ == "__main__":
    main()
