"""Exercises of chapter 16: other people's weights."""

import json
import struct

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(16)


def file_of(**arrays):
    """A safetensors file of float32, as bytes."""
    header, data = {}, b""
    for name, x in arrays.items():
        x = np.array(x, "<f4")
        header[name] = {"dtype": "F32", "shape": x.shape,
                        "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    words = json.dumps(header).encode()
    return struct.pack("<Q", len(words)) + words + data


def parsed(content, name):
    (n,) = struct.unpack("<Q", content[:8])
    entry = json.loads(content[8:8 + n])[name]
    return n, entry["shape"], *entry["data_offsets"]


def tensor(content, name):
    n, shape, start, end = parsed(content, name)
    return np.frombuffer(content[8 + n:][start:end], "<f4").reshape(shape)


def without_the_eight(content, name):
    n, shape, start, end = parsed(content, name)
    return np.frombuffer(content[n:][start:end], "<f4").reshape(shape)


def flat(content, name):
    return tensor(content, name).ravel()


def columns_first(content, name):
    x = tensor(content, name)
    return x.ravel().reshape(x.shape[::-1]).T


def heads(W, n_heads):
    return W.reshape(len(W), 3, n_heads, -1).transpose(1, 2, 0, 3)


def heads_first(W, n_heads):
    return W.reshape(len(W), n_heads, 3, -1).transpose(2, 1, 0, 3)


def unmoved(W, n_heads):
    return W.reshape(3, n_heads, len(W), -1)


def width_first(W, n_heads):
    return W.reshape(len(W), 3, -1, n_heads).transpose(1, 3, 0, 2)


def first_off(apart, limit):
    off = ~(apart <= limit)                      # NaN is not within
    return int(np.argmax(off)) if off.any() else -1


def worst_off(apart, limit):
    return int(np.argmax(apart)) if np.max(apart) > limit else -1


def worst_or_nan(apart, limit):
    return int(np.argmax(apart)) if first_off(apart, limit) >= 0 else -1


def without_nan(apart, limit):
    off = apart > limit
    return int(np.argmax(off)) if off.any() else -1


def never_right(apart, limit):
    return int(np.argmax(~(apart <= limit)))


def last_off(apart, limit):
    off = np.flatnonzero(~(apart <= limit))
    return int(off[-1]) if len(off) else -1


def fused_linear(x, A):
    q, k, v = np.split(x @ A.T, 3, axis=-1)
    return q * k + v


def fused_backward(dy, x, A):
    q, k, _ = np.split(x @ A.T, 3, axis=-1)
    together = np.concatenate([dy * k, dy * q, dy], axis=-1)          # (T, 3D)
    return together @ A, together.T @ x


def as_ours(dy, x, A):
    dx, dA = fused_backward(dy, x, A)
    return dx, dA.T


def alone(dy, x, A):
    q, k, _ = np.split(x @ A.T, 3, axis=-1)
    dx, _ = fused_backward(dy, x, A)
    return dx, np.stack([(dy * k).T @ x, (dy * q).T @ x, dy.T @ x])


def own_factor(dy, x, A):
    q, k, _ = np.split(x @ A.T, 3, axis=-1)
    together = np.concatenate([dy * q, dy * k, dy], axis=-1)
    return together @ A, together.T @ x


def last_path(dy, x, A):
    _, dA = fused_backward(dy, x, A)
    return dy @ A[2 * A.shape[1]:], dA


def numbered(*shape):
    """1, 2, 3 …: an order that can be followed by eye."""
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


EXERCISES = [
    predict(
        "16.1",
        "A safetensors file holds a (2, 3), b (4,) and c (3, 3) in float32, in this order. Its "
        "header is 200 bytes long. At which byte of the file does c begin, if the first is "
        "byte 0?",
        248,
        mistakes=[
            Mistake("the first eight bytes are forgotten", 240,
                    "What stands in the file before the header?"),
            Mistake("that is the offset in the header", 40,
                    "From which byte of the file are data_offsets counted?"),
            Mistake("numbers are counted, not bytes", 218,
                    "How many bytes does one float32 take?"),
            Mistake("that is where b begins", 232,
                    "How many bytes does b take before c can begin?"),
            Mistake("that is where c ends", 284,
                    "Is that the first byte of c, or the first one after c?"),
        ],
    ),
    predict(
        "16.2",
        "GPT-2 has D = 768 and F = 3072. Somebody rebuilds it with PyTorch's nn.Linear and saves "
        "the weights as they are. What is the shape of mlp.c_proj.weight there?",
        (768, 3072),
        mistakes=[
            Mistake("as GPT-2's own files hold it", (3072, 768),
                    "Which stands first in the weight of nn.Linear: what goes in, or what "
                    "comes out?"),
            Mistake("that is attention's c_proj", (768, 768),
                    "How many numbers go into the second layer of the feed-forward network?"),
            Mistake("that is attention's fused layer", (2304, 768),
                    "How many numbers go into mlp.c_proj, and how many come out?"),
        ],
    ),
    code(
        "16.3",
        "Write tensor(content, name): the array of this name from the bytes of a safetensors file "
        "whose arrays are all F32.",
        tensor,
        cases=[(file_of(a=[[1, 2, 3], [4, 5, 6]]), "a"),
               (file_of(a=[7, 8], b=[[1, 2], [3, 4], [5, 6]]), "b"),
               (file_of(first=[[1]], second=[2, 3, 4], third=[[5, 6]]), "second")],
        mistakes=[
            Mistake("the numbers are read from eight bytes too early", without_the_eight,
                    "At which byte of the file does the header begin, and where does it end?"),
            Mistake("the numbers have no shape", flat,
                    "What does the header say of an array besides its type and its place?"),
            Mistake("the numbers go down the columns", columns_first,
                    "Which numbers of a matrix stand side by side in the file: those of a row, or "
                    "those of a column?"),
        ],
    ),
    code(
        "16.4",
        "Write heads(W, n_heads): c_attn.weight (D, 3 D) as (3, H, D, K): of queries, keys and "
        "values, each head's own matrix.",
        heads,
        cases=[(numbered(4, 12), 2), (rng.standard_normal((6, 18)), 3)],
        mistakes=[
            Mistake("heads before queries, keys and values", heads_first,
                    "The first third of the columns makes the queries of all heads. So what are "
                    "the columns cut into first?"),
            Mistake("reshaped without moving axes", unmoved,
                    "A reshape keeps the numbers in their order. Which numbers of W does it put "
                    "into the first head's matrix?"),
            Mistake("a head's columns are taken apart", width_first,
                    "Where do the K columns of one head stand in W: side by side, or apart?"),
        ],
    ),
    mend(
        "16.5",
        "Mend first_off(apart, limit): the number of the first part that is off by more than "
        "limit, or by NaN; -1 if none is.",
        worst_off,
        first_off,
        cases=[(np.array([0, 1e-7, 1e-3, 2.0, 0.5]), 1e-6),
               (np.array([0, 1e-8, 1e-7]), 1e-6),
               (np.array([0, np.nan, 3.0, np.nan]), 1e-6)],
        mistakes=[
            Mistake("NaN is passed over", without_nan,
                    "What is NaN > limit, and what is NaN <= limit?"),
            Mistake("the worst part in place of the first", worst_or_nan,
                    "If an early slip grows from block to block, which part is off the most?"),
            Mistake("if no part is off, it says 0", never_right,
                    "What does argmax return for an array that is False everywhere?"),
            Mistake("the last in place of the first", last_off,
                    "Of the parts that are off, which one was still given right numbers?"),
        ],
    ),
    derive(
        "16.6",
        "Write fused_backward(dy, x, A): dx and dA of y = q * k + v, where q, k and v are the "
        "thirds of x @ A.T, with x (T, D) and A (3 D, D), as PyTorch lays it out.",
        fused_linear,
        cases=[(numbered(2, 2) / 4, numbered(6, 2) / 10),
               (rng.standard_normal((4, 3)), rng.standard_normal((9, 3)))],
        mistakes=[
            Mistake("dA in our layout", as_ours,
                    "What is the shape of A, and what must the shape of its gradient be?"),
            Mistake("dA is not fused", alone,
                    "A is one matrix. Where in it do the parts for q, k and v stand?"),
            Mistake("each factor is taken as its own slope", own_factor,
                    "Let a number of q grow a little while k stays. With which slope does q * k "
                    "grow?"),
            Mistake("dx comes by one path alone", last_path,
                    "Through how many of q, k and v does x reach y?"),
        ],
    ),
]
