"""Work on two items at a time, whose results come in order."""

import contextlib
import threading
import time

import jax
import pytest

from bahdanau_jax.decoding.interleaving import AT_ONCE, SETTINGS, THREAD, side_by_side


def test_results_come_in_the_order_of_the_items():
    def work(seconds):
        time.sleep(seconds)
        return seconds

    items = [0.05, 0.0, 0.02, 0.0, 0.01]
    assert list(side_by_side(work, items)) == items
    assert list(side_by_side(work, [])) == []


def at_work() -> bool:
    return any(thread.name.startswith(THREAD) for thread in threading.enumerate())


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
    while at_work():  # searches that have begun continue
        time.sleep(0.01)


def test_after_an_error_nobody_waits():
    go_on = threading.Event()

    def work(item):
        if item == 0:
            raise KeyboardInterrupt
        assert go_on.wait(20)

    with pytest.raises(KeyboardInterrupt):
        next(side_by_side(work, range(5)))
    assert at_work()
    go_on.set()
    while at_work():
        time.sleep(0.01)


def test_a_single_item_needs_no_thread():
    assert list(side_by_side(lambda item: threading.current_thread(), [1])) == [
        threading.main_thread()
    ]


def _settings(item):
    return {name: getattr(jax.config, name) for name in SETTINGS}


def test_the_callers_settings_are_those_of_the_threads():
    own = {
        "jax_default_device": jax.devices()[0],
        "jax_default_matmul_precision": "float32",
        "jax_default_prng_impl": "rbg",
        "jax_enable_x64": True,
        "jax_disable_jit": True,
        "jax_debug_nans": True,
    }
    plain = _settings(0)
    assert all(plain[name] != value for name, value in own.items())
    with contextlib.ExitStack() as stack:
        for name, value in own.items():
            stack.enter_context(SETTINGS[name](value))
        found = list(side_by_side(_settings, range(5)))
    assert found == [own] * 5
    assert list(side_by_side(_settings, range(5))) == [plain] * 5
