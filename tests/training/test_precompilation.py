"""Programs are compiled ahead, once for each shape, and equal the jitted update."""

import contextlib
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

from bahdanau_jax.training.compile_log import CACHE_HIT
from bahdanau_jax.training.precompilation import Ahead


def batch(*shape, value=1.0):
    return {"x": jnp.full(shape, value)}


def state():
    return {"w": jnp.arange(3.0), "step": jnp.zeros((), jnp.int32)}


@pytest.fixture
def update():
    """A jitted update that counts how often it is traced."""

    def step(state, batch):
        step.traced.append((batch["x"].shape, threading.current_thread().name))
        loss = jnp.sum(batch["x"]) * jnp.sum(state["w"])
        return {"w": state["w"] + jnp.sum(batch["x"]), "step": state["step"] + 1}, loss

    step.traced = []
    return step, jax.jit(step, donate_argnums=0)


def test_planned_shapes_are_compiled_in_threads_and_never_again(update):
    step, jitted = update
    ahead = Ahead(jitted, jax.eval_shape(state), [batch(2, 3), batch(4, 5)], 2)
    for made in list(ahead._futures.values()):
        made.result(60)
    assert {shape for shape, _ in step.traced} == {(2, 3), (4, 5)}
    assert all(name.startswith("compile") for _, name in step.traced)
    before = len(step.traced)
    now = state()
    for shape in ((2, 3), (4, 5), (2, 3)):
        now, loss = ahead(now, batch(*shape))
    assert len(step.traced) == before and jitted._cache_size() == 0
    assert int(now["step"]) == 3 and jnp.isfinite(loss)
    ahead.close()


def test_a_shape_that_nobody_planned_is_compiled_once_when_it_comes(update):
    step, jitted = update
    ahead = Ahead(jitted, state(), [], 1)
    now = state()
    for _ in range(3):
        now, _ = ahead(now, batch(7))
    assert [shape for shape, _ in step.traced] == [(7,)]
    ahead.close()


def test_processes_meet_between_a_program_and_its_first_run(update):
    step, jitted = update
    met = []
    ahead = Ahead(jitted, state(), [], 1, barrier=lambda: met.append(len(step.traced)))
    now = state()
    for shape in ((7,), (7,), (2, 3)):
        now, _ = ahead(now, batch(*shape))
    assert met == [1, 2] and jitted._cache_size() == 0
    ahead.close()


def test_it_computes_what_the_jitted_update_computes(update):
    _, jitted = update
    ahead = Ahead(jitted, state(), [batch(2, 3)], 1)
    ours, theirs = ahead(state(), batch(2, 3, value=0.7)), jitted(state(), batch(2, 3, value=0.7))
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(mine, other)
    ahead.close()


def test_a_program_that_waits_in_line_is_compiled_at_once(update):
    step, jitted = update
    free = threading.Event()
    blocked = jax.jit(lambda state, batch: free.wait(60) and jitted(state, batch))
    ahead = Ahead(blocked, state(), [batch(1), batch(2)], 1)  # the one thread waits in batch(1)
    threading.Timer(0.5, free.set).start()
    assert not ahead._futures[((2,),)].running()
    ahead(state(), batch(2))
    assert [name for shape, name in step.traced if shape == (2,)] != ["compile_0"]
    ahead.close()


def test_the_first_step_is_told_once_with_its_program(update):
    _, jitted = update
    told, made = [], []
    ahead = Ahead(jitted, state(), [batch(2)], 1, made.append, told.append)
    now, _ = ahead(state(), batch(2))
    ahead(now, batch(2))
    assert [one["x"].shape for one in made] == [(2,)]
    (program,) = told
    assert program.seconds > 0
    ahead.close()


@pytest.mark.parametrize("from_disk", [False, True])
def test_a_program_knows_whether_it_was_read_from_disk(from_disk):
    class Jitted:
        def lower(self, state, batch):
            return self

        def compile(self):
            if from_disk:
                monitoring.record_event(CACHE_HIT)
            return self

    with contextlib.closing(Ahead(Jitted(), state(), [batch(2)], 1)) as ahead:
        assert ahead.program(batch(2)).cached is from_disk


def test_what_is_not_begun_when_it_closes_is_never_compiled(update):
    step, jitted = update
    free = threading.Event()
    blocked = jax.jit(lambda state, batch: free.wait(60) and jitted(state, batch))
    ahead = Ahead(blocked, state(), [batch(n) for n in range(1, 9)], 1)
    ahead.close()
    free.set()
    ahead._threads.shutdown(wait=True)
    assert len(step.traced) <= 1


def test_an_error_of_the_compiler_comes_out_of_the_step():
    ahead = Ahead(jax.jit(lambda state, batch: state @ batch), jnp.ones((3, 4)), [jnp.ones(5)], 1)
    with pytest.raises(TypeError, match="dot_general"):
        ahead(jnp.ones((3, 4)), jnp.ones(5))
    ahead.close()
