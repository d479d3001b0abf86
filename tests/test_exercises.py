"""The exercises' checks: what they say of right answers, of wrong ones, and of known mistakes."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npt_lib import attention, softmax
from npt_lib.book import exercises
from npt_lib.book.exercises import Mistake, check, code, derive, judge, mend, predict

rng = np.random.default_rng(5)
Q, K, V = (rng.standard_normal(shape) for shape in [(2, 3, 5), (2, 7, 5), (2, 7, 4)])
X = rng.standard_normal((2, 3, 5))
KNOWN = "This looks like a known mistake: "


def attend(q, k, v):
    return attention(q, k, v)[0]


def unscaled(q, k, v):
    return attend(q * np.sqrt(q.shape[-1]), k, v)


def over_queries(q, k, v):
    w = softmax((q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])).swapaxes(-1, -2))[0]
    return w.swapaxes(-1, -2) @ v


def softmax_gradient(dy, x):
    w = softmax(x)[0]
    return w * (dy - (w * dy).sum(-1, keepdims=True))


def diagonal_only(dy, x):
    w = softmax(x)[0]
    return dy * w * (1 - w)


SHAPE = predict(
    "2.1", "q is (2, 3, 5) and k is (2, 7, 5). What is the shape of the scores?", (2, 3, 7),
    mistakes=[Mistake("keys by queries", (2, 7, 3), "Which axis has one row for each query?")],
)
ATTEND = code(
    "2.2", "Write attend(q, k, v).", attend, [(Q, K, V), (3 * Q, K, V)],
    mistakes=[
        Mistake("the scores are not divided by sqrt(d_k)", unscaled, "How large do they grow?"),
        Mistake("the softmax runs over the queries", over_queries, "Which weights add up to 1?"),
    ],
)
WITH_BACKWARD = code("2.3", "Write attention with its backward.", attention, [(Q, K, V)])
DERIVE = derive(
    "2.4", "Write softmax_backward(dy, x).", softmax, [(X,)],
    mistakes=[Mistake("only the diagonal of the Jacobian", diagonal_only, "Who else moves?")],
)


def wrong(exercise, answer):
    """What is said of a wrong answer, after the head line and without the case's own numbers."""
    verdict = exercise.judge(answer)
    head = f"Exercise {exercise.id}: not yet.\n"
    assert verdict.status == "not yet" and verdict.text.startswith(head)
    lines = verdict.text.removeprefix(head).splitlines()
    return " ".join(line for line in lines if not line.startswith("  "))


# ---- before an attempt

def empty(*arguments): ...
def dots(*arguments): return ...
def not_implemented(*arguments): raise NotImplementedError


@pytest.mark.parametrize("answer", [None, ..., empty, dots, not_implemented])
@pytest.mark.parametrize("exercise", [ATTEND, WITH_BACKWARD, DERIVE])
def test_an_exercise_says_what_to_do_before_an_attempt(exercise, answer):
    verdict = exercise.judge(answer)
    assert verdict.status == "to do"
    assert verdict.text == (
        f"Exercise {exercise.id}: to do.\n{exercise.prompt}\n"
        "Write your answer above and run this cell again."
    )


@pytest.mark.parametrize("answer", [None, ...])
def test_a_prediction_says_what_to_do_before_an_attempt(answer):
    assert SHAPE.judge(answer).text == (
        "Exercise 2.1: to do.\n"
        "q is (2, 3, 5) and k is (2, 7, 5). What is the shape of the scores?\n"
        "Write your answer above and run this cell again."
    )


@pytest.mark.parametrize("backward", [None, ..., lambda dy: None, lambda dy: ..., not_implemented])
def test_a_right_forward_without_its_backward_is_half_done(backward):
    verdict = WITH_BACKWARD.judge(lambda q, k, v: (attend(q, k, v), backward))
    assert verdict.status == "to do"
    assert "y is right; what is left is backward." in verdict.text


@pytest.mark.parametrize("backward", [None, lambda dy: None, not_implemented])
def test_a_wrong_forward_is_told_before_its_missing_backward(backward):
    text = wrong(WITH_BACKWARD, lambda q, k, v: (2 * attend(q, k, v), backward))
    assert "y: 24 of 24 values differ." in text and "2 times" in text


# ---- right

@pytest.mark.parametrize("exercise,answer,text", [
    (SHAPE, (2, 3, 7), "Exercise 2.1: correct."),
    (SHAPE, [2, 3, 7], "Exercise 2.1: correct."),
    (SHAPE, np.zeros((2, 3, 7)).shape, "Exercise 2.1: correct."),
    (SHAPE, np.array([2, 3, 7]), "Exercise 2.1: correct."),
    (ATTEND, attend, "Exercise 2.2: correct (2 cases)."),
    (ATTEND, lambda q, k, v: attend(q, k, v) + 1e-9, "Exercise 2.2: correct (2 cases)."),
    (WITH_BACKWARD, attention, "Exercise 2.3: correct."),
    (DERIVE, softmax_gradient, "Exercise 2.4: correct."),
])
def test_what_is_right_is_correct(exercise, answer, text):
    assert exercise.judge(answer).text == text


# ---- known mistakes

@pytest.mark.parametrize("exercise,i", [(SHAPE, 0), (ATTEND, 0), (ATTEND, 1), (DERIVE, 0)])
def test_a_known_mistake_is_named_and_a_question_asked(exercise, i):
    mistake = exercise.mistakes[i]
    text = wrong(exercise, mistake.answer)
    assert text.startswith(f"{KNOWN}{mistake.name}. Ask yourself: {mistake.question}")


def test_a_mistake_must_show_in_every_case():
    def sometimes(q, k, v):
        return unscaled(q, k, v) if abs(q).max() < 2 else attend(q, k, v)

    assert abs(Q).max() < 2 < abs(3 * Q).max()
    assert "looks like" not in wrong(ATTEND, sometimes)


def test_a_mistake_that_raises_is_recognised_by_its_error():
    mean = code("1.1", "Subtract each row's mean.", lambda x: x - x.mean(-1, keepdims=True),
                [(np.arange(6.0).reshape(2, 3),)],
                [Mistake("keepdims is missing", lambda x: x - x.mean(-1), "What shape has it?")])
    text = wrong(mean, lambda x: x - np.mean(x, axis=-1))
    assert text.startswith(KNOWN + "keepdims is missing. Ask yourself: What shape has "
                           "it? With x (2, 3): ValueError: operands could not be broadcast")
    assert not wrong(mean, lambda x: x.no_such_name).endswith("What shape has it?")


def test_a_mistake_in_dtype_alone_is_not_taken_for_one_in_values():
    x = np.ones((2, 3), np.float32)
    double = code("6.1", "Double x.", lambda x: 2 * x, [(x,)],
                  [Mistake("float64 slipped in", lambda x: x * np.float64(2), "What promotes?")])
    text = wrong(double, lambda x: (2 * x).astype(float))
    assert text == (KNOWN + "float64 slipped in. Ask yourself: What promotes? "
                    "With x (2, 3) float32: the values are right, but dtype float32 is expected, "
                    "got float64.")
    assert double.judge(lambda x: x + x).status == "correct"
    assert "looks like" not in wrong(double, lambda x: 3 * x)


# ---- other wrong answers

CASE = "Case 1 of 2, q (2, 3, 5), k (2, 7, 5), v (2, 7, 4): "


@pytest.mark.parametrize("change,told", [
    (lambda y: y[0], "shape (2, 3, 4) expected, got (3, 4)."),
    (lambda y: y.swapaxes(1, 2), "shape (2, 3, 4) expected, got (2, 4, 3). "
                                 "The values are those expected, with axes 1 and 2 swapped."),
    (lambda y: y.reshape(6, 4), "shape (2, 3, 4) expected, got (6, 4). "
                                "The values are right, the shape is not."),
    (lambda y: y.astype(np.float32), "the values are right, but dtype float64 is expected, "
                                     "got float32."),
    (lambda y: (y, y), "one result expected, got a tuple of 2."),
    (lambda y: (y, lambda dy: dy), "one result expected, got a pair (y, backward)."),
    (lambda y: "abc", "expected an array (2, 3, 4), got the text 'abc'."),
    (lambda y: [[1], [2, 3]], "expected an array (2, 3, 4), got the list [[1], [2, 3]]."),
    (lambda y: {"y": y}, "one result expected, got a dict of 1."),
])
def test_other_wrong_results_are_told_with_names_and_numbers(change, told):
    assert wrong(ATTEND, lambda q, k, v: change(attend(q, k, v))) == CASE + told


VALUES = code("1.2", "Write f(x).", lambda x: x, [(np.array([[1.0, -2.0], [0.5, 4.0]]),)])


@pytest.mark.parametrize("change,told", [
    (lambda x: -x, "4 of 4 values differ. The first is at [0, 0]: expected 1, got -1. "
                   "Largest difference: 8. Every value has the wrong sign."),
    (lambda x: x / 2, "4 of 4 values differ. The first is at [0, 0]: expected 1, got 0.5. "
                      "Largest difference: 2. Every value is 0.5 times the one expected."),
    (lambda x: x + (x == 4), "1 of 4 values differ. The first is at [1, 1]: expected 4, got 5."),
    (lambda x: x + x * (x > 0), "3 of 4 values differ. The first is at [0, 0]: expected 1, got 2. "
                                "Largest difference: 4."),
    (lambda x: np.where(x == 4, np.nan, x), "1 of 4 values differ. The first is at [1, 1]: "
                                            "expected 4, got nan. "
                                            "Some values are not finite (inf or nan)."),
    (lambda x: x * 0, "4 of 4 values differ. The first is at [0, 0]: expected 1, got 0. "
                      "Largest difference: 4."),
])
def test_patterns_in_the_numbers_are_told(change, told):
    assert wrong(VALUES, change) == f"With x (2, 2): {told}"


def test_numpy_warnings_are_told_only_when_the_values_are_wrong(recwarn):
    big = code("1.3", "Write softmax.", lambda x: softmax(x)[0], [(np.array([[1000.0, 0.0]]),)])
    with np.errstate(all="warn"):
        text = wrong(big, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True))
        assert "NumPy warned: overflow encountered in exp." in text
        assert big.judge(lambda x: [softmax(x)[0], np.exp(x)][0]).status == "correct"
    assert not recwarn.list


def test_an_error_is_one_line_with_its_type_and_place():
    def mine(q, k, v):
        scores = q @ k.swapaxes(1, 2)
        return scores.median()

    line = mine.__code__.co_firstlineno + 2
    assert wrong(ATTEND, mine) == (
        CASE + "AttributeError: 'numpy.ndarray' object has no attribute 'median' "
        f"(line {line}: return scores.median())"
    )


def test_the_place_of_an_error_is_in_the_readers_code_not_in_the_librarys():
    def mine(q, k, v):
        return attention(q, k[..., :4], v)[0]

    assert f"(line {mine.__code__.co_firstlineno + 1}: return attention(" in wrong(ATTEND, mine)


def test_a_wrong_number_of_arguments_is_told():
    assert "TypeError" in wrong(ATTEND, lambda q: q)
    assert "takes 1 positional argument but 3 were given" in wrong(ATTEND, lambda q: q)


def test_an_interrupt_is_not_swallowed():
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ATTEND.judge(interrupted)


def test_a_backward_that_changes_its_dy_is_told():
    def mine(x):
        def backward(dy):
            dy *= 2
            return dy

        return 2 * x, backward

    double = code("6.5", "Double x.", lambda x: (2 * x, lambda dy: 2 * dy), [(X,)])
    assert wrong(double, mine) == "With x (2, 3, 5): the argument dy was changed in place."


def test_an_argument_changed_in_place_is_told_and_does_not_spoil_the_next_case():
    def doubles(q, k, v):
        y = attend(q, k, v)
        k *= 2
        return y

    before = K.copy()
    assert wrong(ATTEND, doubles) == CASE + "the argument k was changed in place."
    assert (before == K).all()


@pytest.mark.parametrize("answer,told", [
    (3, "The answer is a function, got 3."),
    ("attend", "The answer is a function, got the text 'attend'."),
    (X, "The answer is a function, got an array (2, 3, 5)."),
    ((1, 2), "The answer is a function, got a tuple of 2."),
])
def test_a_value_where_a_function_is_asked_for(answer, told):
    assert wrong(ATTEND, answer) == told


SUMS = code("1.7", "Write sums(x, ids).", lambda x, ids: x.sum(-1),
            [(np.array([[0.5, -2.0], [1 / 3, 0.0]]), np.array([[1, 2, 3]] * 9))])


def test_the_small_inputs_of_a_failing_case_are_shown():
    assert SUMS.judge(lambda x, ids: x.sum(0)).text.endswith(
        "Largest difference: 2.333.\n"
        "  x = [[ 0.5   , -2.    ],\n"
        "       [ 0.3333,  0.    ]]")


def print_it(x, ids):
    print(x.sum(-1))


def forget_it(x, ids):
    y = x.sum(-1)  # noqa: F841


def begin_it(x, ids):
    y = x.sum(-1)  # noqa: F841
    ...


def test_what_is_printed_must_be_returned(capsys):
    assert wrong(SUMS, print_it) == ("The function prints its result and returns None. What it "
                                     "prints is lost to whoever calls it: return it.")
    assert capsys.readouterr().out.startswith("[-1.5 ")


def test_a_forgotten_return_is_told_and_a_stub_with_a_beginning_is_to_do():
    assert wrong(SUMS, forget_it) == "The function returns None. Does it end with return?"
    assert wrong(SUMS, eval("lambda x, ids: x.fill(0)")).startswith("The function returns None.")
    assert SUMS.judge(begin_it).status == SUMS.judge(empty).status == "to do"


# ---- a bug to be found

def over_rows(x):
    return x - x.mean(0)


MEND = mend("1.8", "centre(x) should make every row's mean zero. It does not: mend it.", over_rows,
            lambda x: x - x.mean(-1, keepdims=True), [(np.array([[1.0, 2.0, 3.0], [0, 0, 6.0]]),)],
            [Mistake("nothing is left of the rows", lambda x: x * 0, "What do you subtract?")])


def test_a_bug_is_to_do_as_long_as_it_is_there():
    verdict = MEND.judge(lambda x: x - x.sum(axis=0) / 2)
    assert verdict.status == "to do" and MEND.kind == "mend"
    assert verdict.text == (
        "Exercise 1.8: to do.\n"
        "centre(x) should make every row's mean zero. It does not: mend it.\n"
        "This is still the broken one.\n"
        "With x (2, 3): 6 of 6 values differ. The first is at [0, 0]: expected\n"
        "-1, got 0.5. Largest difference: 2.5.\n"
        "  x = [[1., 2., 3.],\n"
        "       [0., 0., 6.]]\n"
        "Mend it above and run this cell again.")


def test_a_mended_bug_is_correct_and_another_one_is_not_yet():
    assert MEND.judge(lambda x: x - x.mean(1)[:, None]).text == "Exercise 1.8: correct."
    assert wrong(MEND, lambda x: 0 * x).startswith(KNOWN + "nothing is left")
    assert wrong(MEND, lambda x: x + 1).startswith("With x (2, 3): 6 of 6 values differ.")


# ---- forward with backward, and gradients

def with_gradients(change):
    def mine(q, k, v):
        y, backward = attention(q, k, v)
        return y, lambda dy: change(*backward(dy))
    return mine


@pytest.mark.parametrize("change,told", [
    (lambda dq, dk, dv: (dk, dq, dv), "dq: shape (2, 3, 5) expected, got (2, 7, 5)."),
    (lambda dq, dk, dv: dq, "backward must return 3 gradients (dq, dk, dv), got 1."),
    (lambda dq, dk, dv: (dq, dk), "backward must return 3 gradients (dq, dk, dv), got 2."),
    (lambda dq, dk, dv: (dq, None, dv), "dk: expected an array (2, 7, 5), got None."),
])
def test_wrong_gradients_are_named(change, told):
    case = "With q (2, 3, 5), k (2, 7, 5), v (2, 7, 4): "
    assert wrong(WITH_BACKWARD, with_gradients(change)) == case + told


def test_the_first_wrong_gradient_is_named():
    text = wrong(WITH_BACKWARD, with_gradients(lambda dq, dk, dv: (dq, -dk, dv)))
    assert ": dk: 70 of 70 values differ." in text and text.endswith("has the wrong sign.")


def test_a_bare_result_where_a_backward_is_asked_for():
    assert wrong(WITH_BACKWARD, attend).endswith(
        "a pair (y, backward) expected, got an array (2, 3, 4).")


def test_an_error_in_backward_is_placed():
    def mine(q, k, v):
        y, _ = attention(q, k, v)
        return y, lambda dy: dy[0, 0, 99]

    text = wrong(WITH_BACKWARD, mine)
    assert "IndexError: index 99 is out of bounds" in text
    assert f"(line {mine.__code__.co_firstlineno + 2}: " in text


def test_derive_names_its_gradients_and_skips_what_is_not_float():
    ids = np.array([[0, 2, 2], [1, 0, 2]])
    table, scale = rng.standard_normal((3, 5)), rng.standard_normal(5)
    exercise = derive("5.5", "Write it.", lambda ids, table, scale: table[ids] * scale,
                      [(ids, table, scale)])

    def right(dy, ids, table, scale):
        dtable = np.zeros_like(table)
        np.add.at(dtable, ids, dy * scale)
        return dtable, (dy * table[ids]).sum((0, 1))

    def repeated_ids_lost(dy, ids, table, scale):
        dtable = np.zeros_like(table)
        dtable[ids] += dy * scale
        return dtable, right(dy, ids, table, scale)[1]

    assert exercise.judge(right).status == "correct"
    assert wrong(exercise, repeated_ids_lost).startswith(
        "With dy (2, 3, 5), ids (2, 3) int64, table (3, 5), scale = [")
    assert ": dtable: 9 of 15 values differ." in wrong(exercise, repeated_ids_lost)
    assert wrong(exercise, lambda *a: {"x": 1}).endswith("a tuple of 2 expected, got a dict of 1.")


def test_derive_of_a_loss():
    target = np.array([[0.0, 1.0], [2.0, -1.0]])
    loss = derive("1.6", "Write it.", lambda y: ((y - target) ** 2).sum(), [(np.eye(2),)])
    assert loss.judge(lambda dy, y: dy * 2 * (y - target)).status == "correct"
    assert "Every value is 0.5 times" in wrong(loss, lambda dy, y: dy * (y - target))


def test_a_loss_whose_backward_takes_no_argument():
    def loss(y):
        return float((y**2).sum()), lambda: 2 * y

    exercise = code("10.2", "Write the loss.", loss, [(X,)])
    assert exercise.judge(loss).status == "correct"
    assert exercise.judge(lambda y: ((y**2).sum(), lambda dl=1.0: dl * 2 * y)).status == "correct"
    assert "dy: 30 of 30" in wrong(exercise, lambda y: ((y**2).sum(), lambda: y))


# ---- other kinds of results

def test_several_results_are_named():
    both = code("2.6", "Return y and w.", lambda x: (x.sum(), x), [(X,)], outputs=("y", "w"))
    assert both.judge(lambda x: (x.sum(), x)).status == "correct"
    assert "w: 30 of 30 values differ" in wrong(both, lambda x: (x.sum(), 2 * x))
    assert wrong(both, lambda x: x).endswith("a tuple of 2 expected, got an array (2, 3, 5).")
    assert wrong(both, lambda x: (x, x, x)).endswith("a tuple of 2 expected, got a tuple of 3.")


@pytest.mark.parametrize("expected,right,other,told", [
    ("hola", "hola", "hello", "expected the text 'hola', got the text 'hello'."),
    ([1, 2], np.array([1, 2]), [1, 3], "1 of 2 values differ. The first is at [1]: "
                                       "expected 2, got 3."),
    (["a", "b"], ["a", "b"], ["a"], "expected the list ['a', 'b'], got the list ['a']."),
    (3, np.int64(3), 4, "expected 3, got 4."),
    (2.0, 2, 1.0, "expected 2, got 1."),
    (True, np.bool_(True), False, "expected True, got False."),
    (np.eye(2) > 0, np.eye(2) == 1, np.eye(2) < 1,
     "4 of 4 values differ. The first is at [0, 0]: expected True, got False. "
     "Every value is the opposite of the one expected."),
    (np.array([True, False]), np.array([True, False]), np.array([1, 0]),
     "the values are right, but dtype bool is expected, got int64."),
])
def test_texts_lists_and_numbers(expected, right, other, told):
    exercise = code("5.1", "Write f(n).", lambda n: expected, [(7,)])
    assert exercise.judge(lambda n: right).status == "correct"
    assert wrong(exercise, lambda n: other) == f"With n = 7: {told}"


def test_call_says_how_an_answer_is_used():
    class Doubler:
        def __init__(self, factor):
            self.factor = factor

        def forward(self, x):
            return self.factor * x

    class Broken(Doubler):
        def forward(self, x):
            return self.factor + missing  # noqa: F821

    class Adder(Doubler):
        def forward(self, x):
            return self.factor + x

    exercise = code("4.1", "Write the class.", Doubler, [(X,)], [Mistake("it adds", Adder, "?")],
                    call=lambda answer, x: answer(2).forward(x))
    assert exercise.judge(Doubler).status == "correct"
    assert wrong(exercise, Adder).startswith(KNOWN + "it adds. Ask yourself: ?")
    assert "NameError: name 'missing' is not defined (line" in wrong(exercise, Broken)
    assert wrong(exercise, Broken).startswith("With x (2, 3, 5): ")


def test_a_generator_in_a_case_starts_the_same_every_time():
    draw = code("6.2", "Draw.", lambda x, rng: x + rng.random(3), [(X[0, 0, :3], rng)])
    assert draw.judge(lambda x, rng: rng.random(3) + x).status == "correct"
    assert draw.judge(lambda x, rng: rng.random(3) + x).status == "correct"
    assert draw.judge(lambda x, rng: rng.normal(size=3) + x).status == "not yet"


def test_tolerance_follows_the_dtype_and_can_be_set():
    def off(by):
        return lambda x: x + x.dtype.type(by)

    single, double = X.astype(np.float32), X
    for x, fine, far in [(single, 3e-5, 1e-3), (double, 3e-7, 1e-4)]:
        exercise = code("1.4", "Return x.", lambda x: x, [(x,)])
        assert exercise.judge(off(fine)).status == "correct"
        assert exercise.judge(off(far)).status == "not yet"
    loose = code("1.4", "Return x.", lambda x: x, [(X,)], tol=0.1)
    assert loose.judge(off(0.05)).status == "correct"


# ---- predictions

@pytest.mark.parametrize("answer,told", [
    ((2, 3), "The answer has 3 parts, (2, 3) has 2."),
    ((2, 3, 5), "In (2, 3, 5), position 2 is not right; positions 0 and 1 are right."),
    ((5, 3, 5), "In (5, 3, 5), positions 0 and 2 are not right; position 1 is right."),
    ((9, 9, 9), "In (9, 9, 9), positions 0, 1 and 2 are not right."),
    (42, "The answer is a tuple, got a number: 42."),
    (True, "The answer is a tuple, got True or False: True."),
    (attend, "The answer is a tuple, got something else (function)."),
])
def test_a_wrong_shape_is_told_without_the_answer(answer, told):
    assert wrong(SHAPE, answer) == told


@pytest.mark.parametrize("expected,right,other,told", [
    (12, np.int64(12), 7, "7 is too small."),
    (12, 12.0, 13, "13 is too large."),
    (0.25, 0.25001, 0.5, "0.5 is too large."),
    (1, 1, True, "The answer is a number, got True or False: True."),
    (True, np.bool_(True), False, "It is not False."),
    ("cat", " Cat ", "ball", "It is not ball."),
    ("cat", "cat", ("cat",), "The answer is a word, got a tuple: ('cat',)."),
    ((3,), (3,), 3, "The answer is a tuple, got a number: 3."),
    (((2, 3), (3,)), [[2, 3], [3]], ((2, 3), (2,)),
     "In ((2, 3), (2,)), position 1 is not right; position 0 is right."),
])
def test_predictions_of_other_kinds(expected, right, other, told):
    exercise = predict("1.1", "What is it?", expected)
    assert exercise.judge(right).status == "correct"
    assert wrong(exercise, other) == told


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.just(np.zeros((2, 3))) | st.just(np.zeros(0)) | st.just(len) | st.binary(max_size=3)
    | st.just(np.array(["a"])) | st.just(np.float32(2)) | st.just(1j),
    lambda part: st.lists(part, max_size=3) | st.tuples(part, part)
    | st.dictionaries(st.text(max_size=2), part, max_size=2),
    max_leaves=5,
)


@settings(deadline=None)
@given(anything)
def test_whatever_is_handed_in_the_check_gives_a_verdict(answer):
    def half_right(q, k, v):
        return attend(q, k, v), lambda dy: answer

    for exercise in (SHAPE, ATTEND, WITH_BACKWARD, DERIVE):
        for handed_in in (answer, lambda *a: answer, half_right):
            verdict = exercise.judge(handed_in)
            assert verdict.status in ("to do", "not yet")
            assert max(map(len, verdict.text.split("\n"))) <= 100


# ---- finding an exercise

@pytest.fixture
def chapters(monkeypatch):
    def fake(chapter):
        return {2: [SHAPE, ATTEND], 10: [predict("10.1", "?", 1)]}[chapter]

    monkeypatch.setattr(exercises, "chapters", lambda: [2, 10])
    monkeypatch.setattr(exercises, "exercises", fake)


def test_check_prints_its_verdict_and_returns_nothing(chapters, capsys):
    assert check("2.2", attend) is None
    assert capsys.readouterr().out == "Exercise 2.2: correct (2 cases).\n"
    assert check("2.1") is None
    assert capsys.readouterr().out.startswith("Exercise 2.1: to do.\n")
    assert judge("10.1", 1).status == "correct"


@pytest.mark.parametrize("id,message", [
    ("2.9", "exercise '2.9' is unknown: chapter 2 has 2.1, 2.2."),
    ("2", "exercise '2' is unknown: chapter 2 has 2.1, 2.2."),
    ("3.1", "exercise '3.1' is unknown: chapters with exercises are [2, 10]."),
    ("02.1", "exercise '02.1' is unknown: chapters with exercises are [2, 10]."),
    ("", "exercise '' is unknown: chapters with exercises are [2, 10]."),
    (2.1, "exercise 2.1 is unknown: chapter 2 has 2.1, 2.2."),
])
def test_an_unknown_id_names_the_known_ones(chapters, id, message):
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        check(id, attend)


# ---- the chapters' own entries

ENTRIES = [entry for chapter in exercises.chapters() for entry in exercises.exercises(chapter)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_entry_holds_together(entry):
    """The reference is correct, a stub is to do, and every mistake is known by its own name."""
    assert entry.judge(entry.expected).status == "correct"
    assert entry.judge(None).status == "to do"
    assert not entry.cases or entry.judge(empty).status == "to do"
    assert entry.prompt.strip()
    assert entry.broken is None or entry.judge(entry.broken).status == "to do"
    for mistake in entry.mistakes:
        text = entry.judge(mistake.answer).text.replace("\n", " ")
        assert f"{KNOWN}{mistake.name}." in text
        assert mistake.question in text


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_a_chapters_ids_are_its_own_and_in_order(chapter):
    ids = [entry.id for entry in exercises.exercises(chapter)]
    assert ids == [f"{chapter}.{i + 1}" for i in range(len(ids))]


def test_short_arguments_are_told_in_full_and_long_ones_by_their_kind():
    from npt_lib.book.checks.outcome import show_arguments

    case = ((2.0, 1 / 3, np.array([1.0, np.float32(0.1)])), range(1, 4), np.zeros((2, 3)), len,
            {"a": 1}, b"xyz", "abc", np.float32(1e-6), [len, len], list(range(40)))
    told = show_arguments(case, tuple("abcdefghij"))
    assert told.startswith("a = (2.0, 0.3333, [1.0, 0.1]), b = range(1, 4), c (2, 3), d, "
                           "e (a dict of 1), f (3 bytes), g = 'abc', h = 1e-06, "
                           "i (a list of 2), j (the list [0, 1, 2,")


def test_a_small_case_with_a_wrong_gradient_shows_the_dy_that_it_got():
    square = code("1.1", "Square x.", lambda x: (x * x, lambda dy: 2 * x * dy),
                  [(np.array([[1.0, 2.0]]),)])
    text = square.judge(lambda x: (x * x, lambda dy: x * dy)).text
    assert "dx: 2 of 2 values differ." in text
    assert text.endswith("\n  dy = [[ 0.1257, -0.1321]]\n  x = [[1., 2.]]")
    text = square.judge(lambda x: (x, lambda dy: x * dy)).text
    assert "y: 1 of 2 values differ." in text and "dy =" not in text


@pytest.mark.parametrize("numbers,scale,status", [
    (np.int8, np.float64, "correct"), (np.int8, np.float32, "correct"),
    (np.int64, np.float64, "not yet"), (np.uint8, np.float64, "not yet"),
    (np.float32, np.float64, "not yet"), (np.float64, np.float64, "not yet"),
])
def test_bytes_are_asked_for_and_the_width_of_their_scales_is_free(numbers, scale, status):
    def to_int8(W):
        largest = np.abs(W).max(axis=0)
        return np.rint(127 * W / largest).astype(numbers), (largest / 127).astype(scale)

    verdict = judge("14.5", to_int8)
    assert verdict.status == status
    told = KNOWN + "the numbers are still floats." in verdict.text
    assert told == (numbers().dtype.kind == "f")


def test_a_mistake_in_one_results_dtype_is_not_seen_in_another_result():
    def halves(x):
        return x.astype(np.float32), x / 2

    both = code("1.7", "Return x as float32, and its half.", halves, [(X,)], [
        Mistake("the first is float64", lambda x: (x, x / 2), "Which dtype has x?")])
    assert KNOWN in both.judge(lambda x: (x, x / 2)).text
    assert KNOWN not in both.judge(lambda x: (x.astype(np.float32), np.float32(x / 2))).text
