"""Seeds depend on what they are for, not on the order in which they are drawn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparselens._random import derive_rng, derive_seed

axes = st.dictionaries(st.sampled_from(["dataset", "m", "repetition", "role"]), st.integers(0, 5) | st.text(max_size=3))


@given(seed=st.integers(0, 2**40), axes=axes)
def test_a_seed_is_a_small_integer_that_does_not_depend_on_the_order_of_the_axes(seed, axes):
    value = derive_seed(seed, **axes)
    assert 0 <= value < 2**31
    assert value == derive_seed(seed, **dict(reversed(axes.items())))


@given(seed=st.integers(0, 2**31), m=st.integers(0, 1000))
def test_another_value_of_one_axis_gives_another_seed(seed, m):
    assert derive_seed(seed, m=m) != derive_seed(seed, m=m + 1)
    assert derive_seed(seed, m=m) != derive_seed(seed + 1, m=m)
    assert derive_seed(seed, m=m) != derive_seed(seed, n=m)
    assert derive_seed(seed, m=m) != derive_seed(seed)


def test_seeds_of_neighbours_look_unrelated():
    seeds = np.array([derive_seed(0, repetition=i) for i in range(2000)])
    assert len(set(seeds)) == len(seeds)
    bits = (seeds[:, None] >> np.arange(31)) & 1
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(len(seeds))


def test_seeds_are_the_same_in_another_process():
    code = "from sparselens._random import derive_seed; print(derive_seed(3, dataset='synthetic1', m=10))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == derive_seed(3, dataset="synthetic1", m=10)


def test_integers_of_numpy_give_the_same_seed():
    assert derive_seed(np.int64(5), m=np.int32(2)) == derive_seed(5, m=2)


def test_no_seed_draws_a_new_one_each_time():
    assert len({derive_seed(None) for _ in range(20)}) > 1


def test_a_random_state_object_moves_on():
    state = np.random.RandomState(0)
    first, second = derive_seed(state, m=1), derive_seed(state, m=1)
    assert first != second
    assert derive_seed(np.random.RandomState(0), m=1) == first


def test_generators_of_the_same_axes_draw_the_same_numbers():
    np.testing.assert_array_equal(derive_rng(0, role="train").random(5), derive_rng(0, role="train").random(5))
    assert derive_rng(0, role="train").random() != derive_rng(0, role="test").random()


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (1.5, TypeError), ("a", TypeError), (True, TypeError)])
def test_what_is_no_seed_is_refused(seed, error):
    with pytest.raises(error, match="random_state must be"):
        derive_seed(seed)
