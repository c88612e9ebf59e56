"""The update of several runs: groups of runs in vmapped programs that run at the same time.

Each accelerator gets a group. A CPU has groups of at most two runs, and as many threads as cores,
because a small update does not keep all cores busy. The states of all groups are a tuple. The state
of a group of R runs has an axis of length R in front of every leaf.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax import data
from bahdanau_jax.batch import Batch
from bahdanau_jax.compiler_faults import PLAIN_REDUCTIONS
from bahdanau_jax.training.step import StepSums, TrainState, train_step
from bahdanau_jax.training.trainer import Trainer

OWN, SHARED = "own", "shared"
# The order of the data of several runs -> the axis of runs in their batches; None: they share it.
DATA_ORDERS: Mapping[str, int | None] = MappingProxyType({OWN: 0, SHARED: None})

# The most runs of a group on a CPU, for temporary arrays that glibc keeps (training/dispatch.py).
RUNS_OF_A_GROUP = 2

States = tuple[TrainState, ...]


class VmappedUpdate:
    """The compiled update: (states, batch) -> (states, sums of all runs). It consumes the states.

    It has the methods of a jitted function that `precompilation.Ahead` calls.

    Args:
        trainer: that of any of the runs, which differ in their seeds alone.
        runs: their number.
        order: a key of DATA_ORDERS. With "own", every array of a batch has an axis of runs.
    """

    def __init__(self, trainer: Trainer, runs: int, order: str):
        config = trainer.config
        step = train_step(
            trainer.loss,
            trainer.optimizer,
            config.optimizer,
            accumulate=config.training.accumulate,
        )
        axis = DATA_ORDERS[order]
        devices, threads = jax.local_devices(), jax.local_device_count()
        self._step: Any = jax.jit(
            jax.vmap(step, (0, axis)),
            donate_argnums=0,
            compiler_options=PLAIN_REDUCTIONS.get(devices[0].platform),
        )
        self._has_own_batches = axis is not None
        if threads == 1 and devices[0].platform == "cpu":
            threads = data.cores()
            devices = devices * groups_of_cores(runs, threads)
        count = min(len(devices), runs)
        self.groups = [part.tolist() for part in np.array_split(np.arange(runs), count)]
        self._devices = devices[:count]
        self._threads = ThreadPoolExecutor(threads, "update") if count > 1 else None

    def place(self, states: Sequence[TrainState]) -> States:
        """The states of single runs, stacked, on the devices of their groups."""
        return tuple(
            jax.device_put(
                jax.tree.map(lambda *leaves: jnp.stack(leaves), *(states[i] for i in group)), device
            )
            for group, device in zip(self.groups, self._devices, strict=True)
        )

    def _batches(self, batch: Batch) -> list[Batch]:
        if not self._has_own_batches:
            return [batch] * len(self.groups)
        return [
            jax.tree.map(lambda leaf, group=group: leaf[group[0] : group[-1] + 1], batch)
            for group in self.groups
        ]

    def lower(self, states: Any, batch: Batch) -> "_Lowered":
        """Trace the programs. Groups of one size on one device share theirs."""
        kinds = [*zip(map(len, self.groups), self._devices, strict=True)]
        jobs = dict(zip(kinds, zip(states, self._batches(batch), strict=True), strict=True))
        lowered = {}
        for (size, device), job in jobs.items():
            with jax.default_device(device):  # the shapes in `job` do not name one
                lowered[size, device] = self._step.lower(*job)
        return _Lowered(self, lowered, kinds)

    def __call__(self, states: States, batch: Batch) -> tuple[States, StepSums]:
        return self.run([self._step] * len(states), states, batch)

    def run(self, programs: Sequence[Any], states: States, batch: Batch):
        """Run the programs of all groups at the same time."""
        jobs = programs, states, self._batches(batch)
        if self._threads is None:
            results = [program(*job) for program, *job in zip(*jobs, strict=True)]
        else:
            results = [*self._threads.map(_finished, *jobs)]
        new, sums = zip(*results, strict=True)
        if len(sums) == 1:  # the loop fetches them while the next update runs
            return new, sums[0]
        return new, jax.tree.map(lambda *parts: np.concatenate(parts), *jax.device_get(sums))

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()


def groups_of_cores(runs: int, cores: int) -> int:
    """The number of groups on a CPU: at least one for each core, of at most RUNS_OF_A_GROUP runs.

    Less than twice as many are taken where all of these have one size, so that one program serves
    them. Compiling a second one takes as long as hundreds of updates.

    >>> groups_of_cores(10, 2), groups_of_cores(7, 2)  # 2 runs each; 1 run each
    (5, 7)
    """
    fewest = max(cores, math.ceil(runs / RUNS_OF_A_GROUP))
    equal = (count for count in range(fewest, 2 * fewest) if runs % count == 0)
    return next(equal, fewest)


def _finished(program: Any, *arguments: Any) -> Any:
    return jax.block_until_ready(program(*arguments))


class _Lowered:
    """The traced programs: `kinds` has the key of the program of each group."""

    def __init__(self, update: VmappedUpdate, lowered: Mapping[Any, Any], kinds: Sequence[Any]):
        self._update, self._lowered, self._kinds = update, lowered, kinds

    def compile(self) -> Any:
        compiled = {kind: each.compile() for kind, each in self._lowered.items()}
        programs = [compiled[kind] for kind in self._kinds]
        return lambda states, batch: self._update.run(programs, states, batch)


@jax.jit
def row(state: TrainState, index: int) -> TrainState:
    """The state of one run of a group."""
    return jax.tree.map(lambda leaf: leaf[index], state)
