"""A training from top to bottom: the update of a configuration, and the run that uses it."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import Array

from bahdanau_jax import data, distributed, model
from bahdanau_jax.batch import Batch
from bahdanau_jax.checkpoints import Checkpointer, Records
from bahdanau_jax.config import Config
from bahdanau_jax.reporting import PLAIN, Reporter
from bahdanau_jax.run_folder import CHECKPOINTS
from bahdanau_jax.training.loop import run
from bahdanau_jax.training.monitor import Monitor
from bahdanau_jax.training.optimizer import OPTIMIZERS, make
from bahdanau_jax.training.phases import OneRun, Outcome
from bahdanau_jax.training.precompilation import Ahead, Program, once_a_shape
from bahdanau_jax.training.profiling import Profile
from bahdanau_jax.training.run_record import append_record
from bahdanau_jax.training.step import TrainState, init_state, train_step
from bahdanau_jax.training.telemetry import Telemetry


class Evaluator(NamedTuple):
    """A function of the state that runs whenever the dev scores are due.

    `evaluate` returns numbers, and pictures [height, width, 3] with 8 bits per colour, by name.
    They are written to metrics.jsonl and TensorBoard as `name`_ plus their own name. The number
    `dev_score`, higher is better, selects the best checkpoint, and with `training.patience`, which
    needs dev pairs too, it stops a training early.

    >>> Evaluator("params", lambda state: {"norm": float(optax.tree.norm(state.weights))})
    """

    name: str  # the beginning of the names of its numbers
    evaluate: Callable[[TrainState], Mapping[str, Any]]  # state -> numbers and pictures by name


class Trainer:
    """The update of a configuration on all devices, and its first state.

    >>> trainer = Trainer(config)
    >>> state = trainer.backend.place(trainer.begin())
    >>> state, sums = trainer.update(state, trainer.backend.feed(batch))

    `config` has every setting, with the sizes of the vocabularies. `backend` is by default that of
    the configuration on all devices.
    """

    def __init__(self, config: Config, backend: distributed.Backend | None = None):
        settings = config.training
        self.config = config
        self.backend = backend or distributed.BACKENDS[settings.parallel](
            distributed.mesh(), settings.shard
        )
        self.network = model.Seq2Seq(config.model)
        self.optimizer = make(config.optimizer, settings.steps)
        # Those of the table are elementwise, and telemetry understands their accumulators.
        self.has_known_optimizer = config.optimizer.name in OPTIMIZERS
        self.update = train_step(
            self.loss,
            self.optimizer,
            config.optimizer,
            self.backend,
            settings.accumulate,
            elementwise=self.has_known_optimizer,
        )

        def drawn(seed: Array, key: Array) -> TrainState:
            params = model.init(config.model, seed)
            return init_state(params, self.optimizer, key, config.optimizer)

        # Both keys are arguments, so that all seeds share one compiled program, also on disk.
        self._drawn = jax.jit(drawn)

    @property
    def row_multiple(self) -> int:
        """The number of rows of every batch is a multiple of this."""
        return self.backend.devices.size * self.config.training.accumulate

    @property
    def telemetry(self) -> Telemetry | None:
        """Statistics of the optimiser; None for one that is the user's own."""
        settings = self.config.optimizer, self.config.training.steps
        return Telemetry(*settings) if self.has_known_optimizer else None

    def loss(self, params: model.Params, batch: Batch, keys: Array) -> Any:
        """The sums of a batch in training: with dropout, label smoothing and coverage."""
        settings = self.config.optimizer
        weights = settings.label_smoothing, settings.coverage
        return self.network.apply({"params": params}, batch, keys, *weights)

    def begin(self, params: model.Params | None = None, seed: int | None = None) -> TrainState:
        """The state before the first update, with `params` or those drawn from the seed.

        `seed` is by default `training.seed`.
        """
        number = self.config.training.seed if seed is None else seed
        drawing, key = jax.random.split(jax.random.key(number))
        if params is not None:
            return init_state(params, self.optimizer, key, self.config.optimizer)
        return self._drawn(drawing, key)


def phases_of(
    trainer: Trainer,
    workdir: Path,
    evaluators: Sequence[Evaluator],
    epoch_steps: float,
    reporter: Reporter,
    least_kept: int = 1,
) -> OneRun:
    """The phases of a run in its folder, which keeps at least so many newest checkpoints.

    The caller closes their checkpointer and their monitor.
    """
    config, settings = trainer.config, trainer.config.training
    keep = max(settings.keep_checkpoints, least_kept)
    return OneRun(
        evaluation(evaluators),
        Checkpointer(workdir / CHECKPOINTS, keep, Records.of(workdir)),
        Monitor(
            workdir,
            settings.steps,
            log_every=settings.log_every,
            epoch_steps=epoch_steps,
            may_stop=settings.patience > 0,
            reporter=reporter,
        ),
        settings,
        settings.steps,
        config.optimizer.max_nonfinite,
        trainer.telemetry,
    )


def train_and_evaluate(
    trainer: Trainer,
    store: data.Store,
    workdir: Path,
    evaluators: Sequence[Evaluator] = (),
    began: float | None = None,
    reporter: Reporter = PLAIN,
    profile: Profile | None = None,
) -> Outcome:
    """Train on the pairs of a store from the newest checkpoint to the configured steps.

    The time to the first step counts from `began`, a value of time.perf_counter.
    """
    config, settings, backend = trainer.config, trainer.config.training, trainer.backend
    plan = data.Plan.of(store, config.data, settings.seed)
    phases = phases_of(trainer, workdir, evaluators, plan.steps(), reporter)
    checkpoints, monitor = phases.checkpointer, phases.monitor
    began = time.perf_counter() if began is None else began
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(checkpoints))
        stack.enter_context(contextlib.closing(monitor))
        monitor.watch_programs()
        start = max(checkpoints.steps(), default=0)
        steps = start if phases.has_ended(start) else settings.steps
        programs = _programs(trainer, store, plan, (start, steps), monitor, began, reporter)
        stack.enter_context(contextlib.closing(programs))
        shapes = jax.eval_shape(trainer.begin)
        template = distributed.template(shapes, backend.shardings(shapes))
        if backend.devices.size > 1:
            monitor.note(distributed.memory_line(template, backend.devices))
        # A state is drawn only where none was saved: the device may have no room for two.
        state = checkpoints.restore(template) or backend.place(trainer.begin())
        append_record(workdir, config, int(state.step), phases.has_ended(int(state.step)))
        process = distributed.process_index(), distributed.process_count()
        return run(
            state,
            phases=phases,
            next_batches=data.train_batches(
                store, plan, int(state.step), *process, trainer.row_multiple
            ),
            step_fn=lambda state, batch: programs(state, backend.feed(batch)),
            profile=profile,
            ready=once_a_shape(lambda batch: programs.program(backend.feed(batch))),
        )[1]


def _programs(
    trainer: Trainer,
    store: data.Store,
    plan: data.Plan,
    ends: tuple[int, int],
    monitor: Monitor,
    began: float,
    reporter: Reporter,
) -> Ahead:
    """The update, compiled in threads for every padded shape that the next epoch needs.

    `ends` are the updates already made, and those to be made in all. Several processes compile each
    program when it is needed, so that their order is the same.
    """
    settings, backend = trainer.config.training, trainer.backend
    ahead = settings.parallel == "jit" and not distributed.is_distributed()
    start, last = ends
    steps = range(start, min(last, start + plan.steps()) if ahead else start)
    examples = [*map(backend.feed, data.each_shape(store, plan, steps, trainer.row_multiple))]
    state = jax.eval_shape(trainer.begin)
    return compiled_ahead(trainer.update, state, examples, [monitor], start, began, reporter)


def compiled_ahead(
    update: Any,
    state: Any,
    examples: Sequence[Any],
    monitors: Sequence[Monitor],
    start: int,
    began: float,
    reporter: Reporter,
) -> Ahead:
    """The jitted update, compiled in threads for these examples; the monitors log its programs."""
    compiling = reporter.stage("compiling", len(examples) or None, "programs")

    def log(batch: Batch) -> None:
        for monitor in monitors:
            monitor.compiling(start, batch)

    def first_step(program: Program) -> None:
        for monitor in monitors:
            monitor.first_step(time.perf_counter() - began, program)

    return Ahead(
        update,
        state,
        examples,
        compiling=log,
        first_step=first_step,
        barrier=distributed.barrier if distributed.is_distributed() else None,
        finished=compiling.advance,
    )


def evaluation(
    evaluators: Sequence[Evaluator],
) -> Callable[[TrainState], dict[str, Any]] | None:
    """A function that runs all evaluators on one device of each process; None without evaluators.

    The processes do not wait for each other during it, and the numbers of the main process count.
    """
    if not evaluators:
        return None

    def evaluated(state: Any) -> dict[str, Any]:
        on_one_device = state.replace(params=distributed.gathered(state.weights), ema=())
        results = {
            f"{evaluator.name}_{name}": value
            for evaluator in evaluators
            for name, value in evaluator.evaluate(on_one_device).items()
        }
        pictures = {name: value for name, value in results.items() if getattr(value, "ndim", 0)}
        numbers = {name: float(results[name]) for name in results if name not in pictures}
        return distributed.broadcast(numbers) | pictures

    return evaluated
