"""A run that was killed and resumed equals an uninterrupted one, bit for bit."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from bahdanau_jax import training
from bahdanau_jax.batch import Batch
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.training import monitor, phases
from tests.model import worlds
from tests.training import toy


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def step():
    return toy.parts()[1]


@pytest.fixture(scope="module")
def unbroken(step, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("unbroken")
    state, outcome = toy.train(workdir, step)
    assert outcome is training.Outcome.FINISHED
    return workdir, state


def lines(workdir: Path) -> list[dict]:
    text = (workdir / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in monitor.TIMES} for line in text]


def leaves(state) -> list[np.ndarray]:
    state = state.replace(key=jax.random.key_data(state.key))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


def assert_same(workdir, state, unbroken) -> None:
    assert lines(workdir) == lines(unbroken[0])
    for ours, theirs in zip(leaves(state), leaves(unbroken[1]), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def kept(workdir) -> dict:
    checkpoints = Checkpointer(workdir / "checkpoints")
    found, _ = checkpoints.survey()
    checkpoints.close()
    return found


def test_lines_of_a_run(step, unbroken):
    found = lines(unbroken[0])
    assert [line["step"] for line in found if "loss" in line] == [5, 10, 14]
    assert [line["step"] for line in found if "dev_loss" in line] == [4, 8, 12, 14]
    state, made = toy.parts()[0], []
    for i in range(5):
        state, sums = step(state, toy.batch(i))
        made.append({name: float(value) for name, value in sums._asdict().items()})
    total = {name: sum(sums[name] for sums in made) for name in made[0]}
    assert found[1]["loss"] == total["loss"] / total["words"]
    assert found[1]["gradient_norm"] == total["gradient_norm"] / 5
    assert found[1]["clipped_share"] == 1.0
    assert found[1]["epoch"] == pytest.approx(5 / 6)
    positions = 5 * 2 * toy.ROWS * toy.LENGTH
    real = sum(b.source_mask.sum() + b.target_mask.sum() for b in map(toy.batch, range(5)))
    assert found[1]["padding_share"] == pytest.approx((positions - real) / positions)


@pytest.mark.parametrize("at", worlds.each(1, 6, 14, of=range(1, toy.CONFIG.steps + 1)))
def test_broken_off_after_any_step(at, step, unbroken, tmp_path):
    def dying(state, batch):
        result = step(state, batch)
        if int(result[0].step) == at:
            raise Killed
        return result

    with pytest.raises(Killed):
        toy.train(tmp_path, dying)
    state, _ = toy.train(tmp_path, step)
    assert_same(tmp_path, state, unbroken)
    assert kept(tmp_path) == kept(unbroken[0])


@pytest.mark.parametrize(
    "at, number",
    [(1, signal.SIGTERM), (4, signal.SIGTERM), (7, signal.SIGINT), (12, signal.SIGTERM)]
    + [(14, signal.SIGTERM)],
)
def test_a_signal_saves_and_leaves(at, number, step, unbroken, tmp_path):
    def signalled(state, batch):
        result = step(state, batch)
        if int(result[0].step) == at:
            os.kill(os.getpid(), number)
        return result

    before = signal.getsignal(number)
    state, outcome = toy.train(tmp_path, signalled)
    assert signal.getsignal(number) is before
    assert outcome is training.Outcome.INTERRUPTED
    assert int(state.step) == at and max(kept(tmp_path)) == at
    state, outcome = toy.train(tmp_path, step)
    assert outcome is training.Outcome.FINISHED
    assert_same(tmp_path, state, unbroken)


def test_a_signal_that_is_ignored_stays_so(step, unbroken, tmp_path):
    """A shell ignores Ctrl-C for a job in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:

        def signalled(state, batch):
            os.kill(os.getpid(), signal.SIGINT)
            return step(state, batch)

        state, outcome = toy.train(tmp_path, signalled)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome is training.Outcome.FINISHED
    assert_same(tmp_path, state, unbroken)


def test_a_second_interrupt_is_immediate(step, tmp_path):
    def signalled(state, batch):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second interrupt came too late")

    with pytest.raises(KeyboardInterrupt):
        toy.train(tmp_path, signalled)


def test_the_first_interrupt_after_sigterm_saves_too(step, tmp_path):
    def signalled(state, batch):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        return step(state, batch)

    state, outcome = toy.train(tmp_path, signalled)
    assert outcome is training.Outcome.INTERRUPTED and max(kept(tmp_path)) == int(state.step) == 1


def test_a_signal_ends_an_evaluation_which_is_made_later(step, unbroken, tmp_path):
    def signalled(state):
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the evaluation went on")

    state, outcome = toy.train(tmp_path, step, evaluate=signalled)
    assert outcome is training.Outcome.INTERRUPTED
    assert max(kept(tmp_path)) == int(state.step) > 0
    state, outcome = toy.train(tmp_path, step)
    assert outcome is training.Outcome.FINISHED
    assert_same(tmp_path, state, unbroken)


def test_a_signal_ends_the_wait_for_a_program(step, unbroken, tmp_path):
    """Before the first step nothing is saved; later, the last complete step is."""
    for at in (0, 3):

        def ready(batch, at=at, count=iter(range(100))):  # noqa: B008
            if next(count) == at:
                os.kill(os.getpid(), signal.SIGTERM)
                pytest.fail("the wait went on")

        state, outcome = toy.train(tmp_path, step, ready=ready)
        assert (outcome, int(state.step)) == (training.Outcome.INTERRUPTED, at)
        assert max(kept(tmp_path), default=0) == at
    state, outcome = toy.train(tmp_path, step)
    assert outcome is training.Outcome.FINISHED
    assert_same(tmp_path, state, unbroken)


def test_a_signal_during_the_last_save_ends_what_would_come_after_it(step, unbroken, tmp_path):
    save, last = Checkpointer.save, toy.CONFIG.steps

    def signalled(self, at, *rest):
        if at == last:
            os.kill(os.getpid(), signal.SIGTERM)
        return save(self, at, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpointer, "save", signalled)
        state, outcome = toy.train(tmp_path, step)
    assert (outcome, int(state.step)) == (training.Outcome.INTERRUPTED, last)
    state, outcome = toy.train(tmp_path, lambda *_: pytest.fail("a step was made"))
    assert outcome is training.Outcome.FINISHED
    assert_same(tmp_path, state, unbroken)


def test_a_finished_run_makes_no_step(step, unbroken):
    before = lines(unbroken[0])
    state, outcome = toy.train(unbroken[0], lambda *_: pytest.fail("a step was made"))
    assert outcome is training.Outcome.FINISHED
    assert lines(unbroken[0]) == before


@pytest.mark.parametrize("at", worlds.each(None, 9, of=[None, 5, 8, 9, 15]))
def test_early_stopping_survives_a_break(at, step, tmp_path):
    """With scores 1 3 2 3 at steps 4 8 12 16, two evaluations without a better one end the run."""
    config = dataclasses.replace(toy.CONFIG, steps=40, patience=2)
    scores = {4: 1.0, 8: 3.0, 12: 2.0, 16: 3.0}
    evaluate = lambda state: {"dev_score": scores[int(state.step)]}  # noqa: E731

    def dying(state, batch):
        result = step(state, batch)
        if int(result[0].step) == at:
            raise Killed
        return result

    if at:
        with pytest.raises(Killed):
            toy.train(tmp_path, dying, config, evaluate)
    for _ in range(2):  # the second time there is nothing to do
        state, outcome = toy.train(tmp_path, step, config, evaluate)
        assert outcome is training.Outcome.STOPPED_EARLY and int(state.step) == 16
    assert kept(tmp_path) == {15: None, 16: 3.0}  # of two equal scores, the last


def poisoned(start: int):
    """Batches of which those of step 6 and later give NaN."""
    for step in range(start, 100):
        batch = toy.batch(step)
        yield batch if step < 6 else Batch(*batch[:4], np.full(toy.ROWS, np.nan, np.float32))


def test_divergence_stops_the_run(step, tmp_path):
    with pytest.raises(training.Diverged, match="not finite 3 times in a row, up to step 9"):
        toy.train(tmp_path, step, next_batches=poisoned, max_nonfinite=3, evaluate=None)
    checkpoints = Checkpointer(tmp_path / "checkpoints")
    state = checkpoints.restore(toy.parts()[0])
    checkpoints.close()
    assert all(np.isfinite(leaf).all() for leaf in leaves(state))
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_save_that_failed_in_the_background_ends_the_run_before_the_next_update(step, tmp_path):
    made = []

    def failing(checkpoints):
        check = checkpoints.check

        def late():
            check()
            if len(made) == 5:
                raise OSError("the disk is full")

        checkpoints.check = late

    def counted(state, batch):
        made.append(int(state.step))
        return step(state, batch)

    with pytest.raises(OSError, match="the disk is full"):
        toy.train(tmp_path, counted, wrap=failing)
    assert made == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_dev_score_that_is_no_number_is_never_the_best(value):
    progress = phases.Progress()
    progress.record(4, value)
    assert (progress.best, progress.score, progress.stale) == (None, None, 1)
    progress.record(8, 1.0)
    progress.record(12, value)
    assert (progress.best, progress.best_step, progress.stale) == (1.0, 8, 1)


def test_batches_that_end(step, tmp_path):
    with pytest.raises(ValueError, match="batches ended at step 2 of 14"):
        toy.train(tmp_path, step, next_batches=lambda start: iter(map(toy.batch, range(2))))


def program(workdir: Path, *how: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "error", toy.__file__, str(workdir), *how]
    root = str(Path(training.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.mark.exhaustive
def test_killed_again_and_again(unbroken, tmp_path):
    ends = [
        ("kill-save=2", -signal.SIGKILL),
        ("kill-evaluation=2", -signal.SIGKILL),
        ("term-step=11", 0),
        ("kill-step=13", -signal.SIGKILL),
    ]
    for how, code in ends:
        done = program(tmp_path, how)
        assert done.returncode == code, done.stderr
    done = program(tmp_path)
    assert done.stdout.strip() == "finished", done.stderr
    assert lines(tmp_path) == lines(unbroken[0])
    checkpoints = Checkpointer(tmp_path / "checkpoints")
    assert_same(tmp_path, checkpoints.restore(toy.parts()[0]), unbroken)
    checkpoints.close()


def test_weights_that_are_not_finite_are_not_saved(step, tmp_path):
    """An optimiser can make them of a finite gradient."""

    def overflowing(state, batch):
        state, sums = step(state, batch)
        if int(state.step) == 6:
            state = state.replace(params=jax.tree.map(lambda leaf: leaf * np.inf, state.params))
        return state, sums

    with pytest.raises(training.Diverged, match="weights are not finite after step 6: lower"):
        toy.train(tmp_path, overflowing, evaluate=None)
    assert kept(tmp_path) == {3: None}
