"""Work that is done two at a time, and given back in order."""

import threading
import time

import jax
import jax.numpy as jnp
import pytest

from bahdanau_jax.decoding.side_by_side import AT_ONCE, side_by_side


def test_results_come_in_the_order_of_the_items():
    def work(seconds):
        time.sleep(seconds)
        return seconds

    items = [0.05, 0.0, 0.02, 0.0, 0.01]
    assert list(side_by_side(work, items)) == items
    assert list(side_by_side(work, [])) == []


def test_two_are_at_work_at_once():
    both = threading.Barrier(2, timeout=20)
    assert list(side_by_side(lambda item: both.wait() in (0, 1), range(4))) == [True] * 4


def test_no_more_is_begun_than_may_wait():
    taken = []
    results = side_by_side(lambda item: item, (taken.append(i) or i for i in range(100)))
    for done in range(1, 5):
        assert next(results) == done - 1
        assert len(taken) == done + AT_ONCE


def test_an_error_is_raised_in_its_turn_and_ends_it():
    begun = []

    def work(item):
        begun.append(item)
        if item == 1:
            raise ValueError("of the second")
        return item

    results = side_by_side(work, range(100))
    assert next(results) == 0
    with pytest.raises(ValueError, match="of the second"):
        next(results)
    assert max(begun) <= 1 + AT_ONCE
    assert not [each for each in threading.enumerate() if each.name.startswith("search")]


def test_the_callers_device_and_precision_are_those_of_the_threads():
    device = jax.devices()[0]

    def work(item):
        return jax.config.jax_default_device, (jnp.ones(2, float) * item).dtype

    for wide in (False, True):
        with jax.default_device(device), jax.enable_x64(wide):
            found = set(side_by_side(work, [1.0, 2.0, 3.0]))
        assert found == {(device, jnp.dtype("float64" if wide else "float32"))}
    assert next(side_by_side(work, [1.0]))[0] is None
