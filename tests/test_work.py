"""What a computation costs: counted by the arrays themselves, and timed step by step."""

import numpy as np

from npt_lib import Config, Linear, Transformer
from npt_lib.book.work import counted, multiplications, seconds_of

rng = np.random.default_rng(9)


def test_a_product_costs_rows_times_inner_times_columns():
    layer = counted(Linear(5, 7, rng))
    assert multiplications(layer, np.ones((2, 3, 5), np.float32)) == 2 * 3 * 5 * 7
    assert multiplications(lambda: None) == 0


def test_counting_changes_no_result_and_not_the_model_itself():
    config = Config(6, 8, d_model=8, n_heads=2, d_ff=6, n_layers=1, max_len=8)
    model, src, tgt = Transformer(config, rng), np.array([[3, 4, 5]]), np.array([[1, 3]])
    counting = counted(model)
    assert np.allclose(np.asarray(counting(src, tgt)), model(src, tgt), atol=1e-6)
    assert all(type(p.value) is np.ndarray for p in model.parameters().values())


def test_every_turn_is_timed_and_only_so_many_are_taken():
    taken = []

    def turns():
        while True:
            taken.append(len(taken))
            yield

    seconds = seconds_of(turns, 4, runs=2)
    assert seconds.shape == (4,) and (0 < seconds).all() and len(taken) == 10


def test_turns_that_warm_up_are_not_timed():
    taken = []

    def turns():
        run = len(taken)
        taken.append(0)
        while True:
            yield
            taken[run] += 1

    assert seconds_of(turns, 4, runs=2, warm=3).shape == (4,)
    assert taken == [4, 3, 4, 3]
