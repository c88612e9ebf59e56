"""Which attention kernel a run has: found out once, at its start, where that is auto.

On an accelerator that is a measurement: the gradient of a decoder of the run's sizes, by XLA alone
and with our kernels, which also have to find the same.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import ACTIVATIONS, Memory, Seq2Seq, annotation_size, teacher_force

REPEATS = 5  # of each kernel, in turn
TOLERANCE = 0.1  # of a gradient's norm: devices round factors to 8 or 11 bits, a wrong kernel shows

Sizes = tuple[int, int, int]  # sentences on a device, source and target positions
Note = Callable[[str], None]


def attention_kernel(
    config: ModelConfig, before: str, sizes: Callable[[], Sizes], note: Note
) -> str:
    """`xla` or `pallas`: what is configured, else what the run had `before`, else the faster one.

    `before` is empty at the beginning of a run. A CPU takes `pallas` only where that is configured:
    it interprets. `sizes` is asked for where they are measured; `note` is told what was found.

    >>> attention_kernel(config.model, "", lambda: (80, 50, 50), print)
    """
    if config.attention_kernel != "auto":
        return config.attention_kernel
    if config.attention not in ACTIVATIONS or jax.default_backend() == "cpu":
        return "xla"
    if before:
        return "xla" if before == "auto" else before  # a run from before there was a choice
    try:
        seconds = measure(config, *sizes())
    except Exception as error:  # of any kind: compilers have many
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        note(f"model.attention_kernel is xla: no comparison with pallas here: {reason[:200]}")
        return "xla"
    faster = min(seconds, key=lambda name: seconds[name])
    times = ", ".join(f"{name} {1e3 * each:.1f} ms" for name, each in seconds.items())
    note(f"model.attention_kernel is {faster}: {times}")
    return faster


def measure(config: ModelConfig, rows: int, source: int, target: int) -> dict[str, float]:
    """Median seconds of the gradient of a decoder of these sizes, without its output softmax.

    Raises whatever keeps a kernel from being compiled, and ArithmeticError where the two find
    different gradients.
    """
    small = {"source_vocabulary": 3, "target_vocabulary": 3, "output_size": 0}
    config = dataclasses.replace(config, **small, embedding_size=8, maxout_size=8)
    given = _made_up(config, rows, source)
    words = jnp.zeros((rows, target), jnp.int32)
    # Sentences of every length, since a kernel has to leave out what is padding.
    real = jnp.arange(source)[None] <= jnp.arange(rows)[:, None] % source

    def update(name: str) -> Callable[[Any], Any]:
        chosen = dataclasses.replace(config, attention_kernel=name)

        def loss(given: tuple[Any, Array, Array, Array]) -> Array:
            params, annotations, keys, initial = given
            memory = Memory(annotations, keys, real, initial)
            return jnp.sum(teacher_force(chosen, params, memory, words)[0] ** 2)

        return jax.jit(jax.grad(loss))

    updates = {name: update(name) for name in ("xla", "pallas")}
    found = {name: jax.device_get(run(given)) for name, run in updates.items()}
    if not _alike(found["pallas"], found["xla"]):
        raise ArithmeticError("its gradients are others than those of xla")
    times: dict[str, list[float]] = {name: [] for name in updates}
    for _ in range(REPEATS):
        for name, run in updates.items():
            began = time.perf_counter()
            jax.block_until_ready(run(given))
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in times.items()}


def _alike(ours: Any, theirs: Any) -> bool:
    """Whether every gradient is finite and the same but for rounding."""
    pairs = zip(*map(jax.tree.leaves, (ours, theirs)), strict=True)
    return all(np.linalg.norm(a - b) <= TOLERANCE * np.linalg.norm(b) < np.inf for a, b in pairs)


def _made_up(config: ModelConfig, rows: int, source: int) -> tuple[Any, Array, Array, Array]:
    """Parameters, annotations, keys and s_0, drawn so that no gradient is next to nothing."""
    network = Seq2Seq(config)
    key = jax.random.key(0)
    shapes = (
        jax.eval_shape(lambda: network.init(key, method=lambda net: net.parts)["params"]),
        jax.ShapeDtypeStruct((rows, source, annotation_size(config)), jnp.float32),
        jax.ShapeDtypeStruct((rows, source, config.alignment_size), jnp.float32),
        jax.ShapeDtypeStruct((rows, config.hidden_size), jnp.float32),
    )
    leaves, tree = jax.tree.flatten(shapes)

    def draw(key: Array, leaf: Any) -> Array:
        scale = leaf.shape[-2] ** -0.5 if len(leaf.shape) == 2 else 0.3
        return scale * jax.random.normal(key, leaf.shape, leaf.dtype)

    return jax.tree.unflatten(tree, map(draw, jax.random.split(key, len(leaves)), leaves))
