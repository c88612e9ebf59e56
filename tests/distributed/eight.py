"""A program that compares back ends on 8 virtual devices with one device, as JSON on stdout.

Its arguments name back ends to ask in float32; without any, it asks all, and two in float64 too.
"tied" as the first argument asks a model with tied embeddings.
"""

import collections
import dataclasses
import json
import re
import sys

import jax

jax.config.update("jax_num_cpu_devices", 8)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

from bahdanau_jax import distributed, model  # noqa: E402
from bahdanau_jax.batch import Batch, pad  # noqa: E402
from bahdanau_jax.config import ModelConfig, OptimizerConfig  # noqa: E402
from bahdanau_jax.distributed import backends  # noqa: E402
from bahdanau_jax.training.optimizer import make  # noqa: E402
from bahdanau_jax.training.step import init_state, train_step  # noqa: E402
from tests import small  # noqa: E402

ROWS, REAL, STEPS = 16, 11, 20
SIZES = {"source": 101, "target": 103}  # not divisible by the devices
CONFIG = ModelConfig(
    source_vocabulary=SIZES["source"],
    target_vocabulary=SIZES["target"],
    embedding_size=12,
    hidden_size=14,
    alignment_size=10,
    readout_size=6,
    word_dropout=0.1,
    embedding_dropout=0.2,
    state_dropout=0.1,
    annotation_dropout=0.3,
    readout_dropout=0.4,
)
BACKENDS = sys.argv[1:]
if BACKENDS[:1] == ["tied"]:
    BACKENDS = BACKENDS[1:]
    CONFIG = dataclasses.replace(CONFIG, output_size=12, tied_embeddings=True)
NETWORK = model.Seq2Seq(CONFIG)
DIMENSIONS = re.compile(r"[a-z]\d+\[([\d,]*)\]")


COMPILED = []  # an entry for each program
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: COMPILED.append(event) if "backend_compile" in event else None
)


def batch(step: int) -> Batch:
    """Sentences of all lengths; the last rows are filler, so that devices have unequal work."""
    rng = np.random.default_rng(step)
    sides = []
    for size in SIZES.values():
        rows = [rng.integers(2, size, rng.integers(1, 10)) for _ in range(REAL)]
        sides += pad([*rows, *[[]] * (ROWS - REAL)], 9)
    return Batch(*sides, (np.arange(ROWS) < REAL).astype(np.float32))


def loss_fn(params, batch, keys):
    return NETWORK.apply({"params": params}, batch, keys)


def recorded(tx: optax.GradientTransformation) -> optax.GradientTransformation:
    """`tx` that also keeps its gradients in its state, because Adadelta hides their size."""
    zeros = lambda params: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
    raw = optax.GradientTransformation(zeros, lambda gradient, *_: (gradient, gradient))
    return optax.chain(raw, tx)


def messages(compiled: str) -> dict:
    found = collections.defaultdict(list)
    for types, name in small.MESSAGES.findall(compiled):
        sizes = [np.prod([int(n) for n in d.split(",") if n]) for d in DIMENSIONS.findall(types)]
        found[name].append(int(sum(sizes)))
    return found


def host(tree):
    return jax.tree.map(np.asarray, distributed.gathered(tree))


def run(dtype, backend, accumulate: int, steps: int, scale: str) -> dict:
    config = OptimizerConfig(loss_normalization=scale)
    tx = recorded(make(config, steps))
    shapes = jax.eval_shape(NETWORK.init, jax.random.key(0), batch(0))["params"]
    rng = np.random.default_rng(0)  # what begins at zero would leave other gradients at zero
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.2, leaf.shape), dtype), shapes)
    state = init_state(params, tx, jax.random.key(3), config)
    state = backend.place(state) if backend else state
    feed = backend.feed if backend else lambda batch: batch
    step = train_step(loss_fn, tx, config, backend, accumulate, elementwise=True)
    before = state.params["target_embedding"]["E"]
    state, first = step(state, feed(batch(0)))
    clipped = max(1.0, float(first.gradient_norm) / config.clip_norm)
    raw = jax.tree.map(lambda leaf: leaf * clipped, host(state.opt_state[0]))
    found = {"gradient": raw, "donated": before.is_deleted()}
    if backend:
        found["messages"] = messages(step.lower(state, feed(batch(0))).compile().as_text())
        found["memory"] = distributed.memory_line(state, backend.devices)
        parts = {"params": state.params, "accumulators": state.opt_state}
        found["split"] = {
            part: sum(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(tree))
            for part, tree in parts.items()
        }
    state, _ = step(state, feed(batch(1)))
    COMPILED.clear()
    for number in range(2, steps):
        state, _ = step(state, feed(batch(number)))
    found["compiled later"] = len(COMPILED)
    counts = {name: float(value) for name, value in first._asdict().items()}
    return {**found, "params": host(state.params), "counts": counts}


def difference(ours, theirs) -> float:
    """The largest of a leaf's ‖Δ‖ / ‖theirs‖."""
    one = lambda a, b: float(np.linalg.norm(a - b) / np.linalg.norm(b))  # noqa: E731
    return max(jax.tree.leaves(jax.tree.map(one, ours, theirs)))


def main() -> None:
    devices = distributed.mesh()
    jit, pmap = distributed.Jit(devices), backends.Pmap(devices)
    ways = {
        "one device, 4 parts": (None, 4),
        "jit": (jit, 1),
        "pmap": (pmap, 1),
        "jit, 2 parts": (jit, 2),
        "vocabulary": (distributed.Jit(devices, "vocabulary"), 2),
        "optimizer": (distributed.Jit(devices, "optimizer"), 1),
    }
    asked = {"float32": (BACKENDS or [*ways], STEPS)}
    if not BACKENDS:
        asked["float64"] = (["jit, 2 parts", "pmap"], 1)
    report = {"devices": devices.size}
    for dtype, (names, steps) in asked.items():
        scale = "sum" if dtype == "float32" else "token"
        with jax.enable_x64(dtype == "float64"):
            one = run(dtype, None, 1, steps, scale)
            norms = [float(np.linalg.norm(leaf)) for leaf in jax.tree.leaves(one["gradient"])]
            report[dtype] = {"smallest gradient": min(norms), "one": one["counts"]}
            for name in names:
                print(dtype, name, file=sys.stderr)
                found = run(dtype, *ways[name], steps, scale)
                for what in ("gradient", "params"):
                    found[what] = difference(found[what], one[what])
                report[dtype][name] = found
    report["leaves"] = [leaf.size for leaf in jax.tree.leaves(one["params"])]
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
