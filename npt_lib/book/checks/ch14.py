"""Exercises of chapter 14: fewer bits."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(14)


def ready(dW, db, scale, max_norm):
    dW, db = (g.astype(np.float32) / np.float32(scale) for g in (dW, db))
    norm = np.sqrt(np.sum(dW * dW) + np.sum(db * db))
    factor = min(np.float32(1), np.float32(max_norm) / norm)
    return dW * factor, db * factor


def clipped_first(dW, db, scale, max_norm):
    dW, db = (g.astype(np.float32) for g in (dW, db))
    norm = np.sqrt(np.sum(dW * dW) + np.sum(db * db))
    factor = min(np.float32(1), np.float32(max_norm) / norm)
    return dW * factor / np.float32(scale), db * factor / np.float32(scale)


def divided_in_float16(dW, db, scale, max_norm):
    with np.errstate(all="ignore"):
        dW, db = ((g / np.float16(scale)).astype(np.float32) for g in (dW, db))
    return ready(dW, db, 1.0, max_norm)


def never_divided(dW, db, scale, max_norm):
    return ready(dW, db, 1.0, max_norm)


def each_alone(dW, db, scale, max_norm):
    none = np.zeros(1, np.float32)
    return ready(dW, none, scale, max_norm)[0], ready(none, db, scale, max_norm)[1]


def next_scale(scale, good, finite, grow_after):
    if not finite:
        return scale / 2, 0
    if good + 1 == grow_after:
        return scale * 2, 0
    return scale, good + 1


def keeps_counting(scale, good, finite, grow_after):
    if not finite:
        return scale / 2, good
    return next_scale(scale, good, finite, grow_after)


def doubles_for_ever(scale, good, finite, grow_after):
    if not finite:
        return scale / 2, 0
    return (scale * 2 if good + 1 >= grow_after else scale), good + 1


def one_late(scale, good, finite, grow_after):
    if not finite:
        return scale / 2, 0
    return (scale * 2, 0) if good == grow_after else (scale, good + 1)


def upside_down(scale, good, finite, grow_after):
    if not finite:
        return scale * 2, 0
    return (scale / 2, 0) if good + 1 == grow_after else (scale, good + 1)


def to_int8(W):
    scale = np.abs(W).max(axis=0) / 127
    return np.rint(W / scale).astype(np.int8), scale


def with_dtype(answer, W):
    """The answer, with the width of its whole numbers as a result; that of the scales is free."""
    result = answer(W)
    if result is None or result is ...:
        return result
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise ValueError("two results expected, the numbers and the scales")
    numbers, scale = result
    dtype = np.asarray(numbers).dtype
    return numbers, np.asarray(scale, np.float64), dtype.name if dtype.kind in "iu" else "no width"


def one_for_all(W):
    scale = np.full(W.shape[1], np.abs(W).max() / 127)
    return np.rint(W / scale).astype(np.int8), scale


def cut_off(W):
    scale = np.abs(W).max(axis=0) / 127
    return (W / scale).astype(np.int8), scale


def without_sign(W):
    scale = W.max(axis=0) / 127
    return np.clip(np.rint(W / scale), -127, 127).astype(np.int8), scale


def of_256(W):
    scale = np.abs(W).max(axis=0) / 255
    return np.clip(np.rint(W / scale), -127, 127).astype(np.int8), scale


def still_floats(W):
    numbers, scale = to_int8(W)
    return numbers.astype(W.dtype), scale


def scaled_product(x, Q, s):
    return (x @ Q) * s


f16 = np.float16

EXERCISES = [
    predict(
        "14.1",
        "In float16, which number comes next after 4,096?",
        4100,
        mistakes=[
            Mistake("every whole number is there", 4097,
                    "Between 2,048 and 4,096 the step is 2. What becomes of it at the next "
                    "power of 2?"),
            Mistake("the step from below", 4098,
                    "float16 has 1,024 numbers from 4,096 up to 8,192. How far apart are they?"),
            Mistake("bfloat16's step", 4128, "How many bits does float16's fraction have?"),
            Mistake("one step too far", 4104,
                    "float16 has 1,024 numbers from 4,096 up to 8,192. How far apart are they?"),
        ],
    ),
    predict(
        "14.2",
        "Mixed precision with Adam keeps for each parameter: the master weight and Adam's two "
        "means in float32, the rounded weight and its gradient in float16. How many bytes is that?",
        16,
        mistakes=[
            Mistake("the two numbers of float16 alone", 4,
                    "Which numbers are kept beside these two, and how many bytes does each take?"),
            Mistake("4 bytes are missing", 12,
                    "Which are the five numbers, and how many bytes does each of them take?"),
            Mistake("one of the numbers in float16 is missing", 14,
                    "What does the pass forward read in 16 bits, and what does the way back "
                    "leave?"),
            Mistake("everything has 2 bytes", 10,
                    "Which of the five numbers are float32, and how many bytes does float32 "
                    "take?"),
        ],
    ),
    code(
        "14.3",
        "Write next_scale(scale, good, finite, grow_after): the loss scale and the number of good "
        "steps in a row after one more step. finite says whether all its gradients were. After a "
        "doubling, the row begins anew.",
        next_scale,
        cases=[(1024.0, 0, True, 3), (1024.0, 2, True, 3), (1024.0, 2, False, 3),
               (512.0, 4, True, 5), (512.0, 1, False, 1), (8.0, 0, True, 1)],
        mistakes=[
            Mistake("an overflow does not end the row", keeps_counting,
                    "How many good steps in a row are there just after a bad one?"),
            Mistake("a doubling does not end the count", doubles_for_ever,
                    "After the scale has doubled, when does it double again?"),
            Mistake("one step too late", one_late,
                    "good counts the steps before this one. Does this step count, too?"),
            Mistake("the wrong way round", upside_down,
                    "A gradient became infinite. Was the scale too large or too small?"),
        ],
    ),
    mend(
        "14.4",
        "Mend ready(dW, db, scale, max_norm): from the float16 gradients of a loss times scale, "
        "make those that the optimizer may use: float32, as large as without the scale, and with "
        "a norm of at most max_norm for both together.",
        clipped_first,
        ready,
        cases=[(np.array([[3, 4]], f16), np.array([12], f16), 4.0, 2.0),
               (np.array([[0.5], [1]], f16), np.array([2], f16), 8.0, 2.0),
               (np.array([[1024, 2048, 2048]], f16), np.array([8192, 0], f16), 2.0**16, 0.1)],
        mistakes=[
            Mistake("divided in float16", divided_in_float16,
                    "Can float16 hold the number 2^16? And the gradients that only the scale kept "
                    "from becoming 0?"),
            Mistake("never divided by the scale", never_divided,
                    "How large would these gradients be if the loss had not been multiplied by "
                    "scale?"),
            Mistake("each array is clipped alone", each_alone,
                    "Which norm should be at most max_norm: that of each array, or that of both "
                    "together?"),
        ],
        tells_where=False,
    ),
    code(
        "14.5",
        "Write to_int8_again(W): for W (D, F), whole numbers (D, F) of dtype int8 and a scale (F,),"
        " one for each column, so that numbers * scale is as near as it can be and the largest of "
        "a column is 127 or -127.",
        to_int8,
        cases=[(np.array([[1.27, 10.0], [-0.5, -12.7]]),), (np.array([[-2.54], [0.3], [1.0]]),),
               (rng.standard_normal((4, 3)),)],
        outputs=("numbers", "scale", "dtype of numbers"),
        call=with_dtype,
        mistakes=[
            Mistake("one scale for the whole matrix", one_for_all,
                    "Take the column with the smallest numbers. How many of the 127 steps does "
                    "it use?"),
            Mistake("cut off instead of rounded", cut_off,
                    "Which whole number is nearest to 99.7? And which one does astype make of it?"),
            Mistake("the sign is forgotten", without_sign,
                    "In the column (1, -3), which number should become 127 or -127?"),
            Mistake("the scale is made for numbers up to 255", of_256,
                    "int8 is a signed byte. What is the largest number that it holds?"),
            Mistake("the numbers are still floats", still_floats,
                    "How many bytes does each of the numbers that you return take?"),
        ],
    ),
    derive(
        "14.6",
        "Write scaled_product_backward(dy, x, Q, s): the gradients dx, dQ and ds of y = (x @ Q) * "
        "s, with x (N, D), Q (D, F) and a scale s (F,) for each column.",
        scaled_product,
        cases=[(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 3.0], [2.0, 1.0, -1.0]]),
                np.array([0.5, 2.0, 1.0])),
               tuple(rng.standard_normal(shape) for shape in ((4, 2), (2, 3), (3,)))],
        mistakes=[
            Mistake("dx and dQ without the scale",
                    lambda dy, x, Q, s: (dy @ Q.T, x.T @ dy, (dy * (x @ Q)).sum(axis=0)),
                    "If a number of x @ Q grows by a small step, by how many such steps does y "
                    "grow?"),
            Mistake("ds is not summed over the rows",
                    lambda dy, x, Q, s: ((dy * s) @ Q.T, x.T @ (dy * s), dy * (x @ Q)),
                    "One scale serves every row. What becomes of the gradients of a number that is "
                    "used often?"),
            Mistake("ds is multiplied by the scale",
                    lambda dy, x, Q, s: ((dy * s) @ Q.T, x.T @ (dy * s),
                                         (dy * (x @ Q) * s).sum(axis=0)),
                    "What is the derivative of u * s with respect to s? Does s still stand in it?"),
        ],
    ),
]
