"""An update of ours, or of plain JAX, in a process of its own that speaks as the peers do.

python -m bahdanau_jax.benchmarks.updates '{"program": "ours", "size": {...}, "settings": {}}'
"""

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax import model, training
from bahdanau_jax.batch import Batch
from bahdanau_jax.benchmarks import machine
from bahdanau_jax.benchmarks.peers import plain, serving
from bahdanau_jax.benchmarks.sizes import Size
from bahdanau_jax.config import ModelConfig, OptimizerConfig
from bahdanau_jax.model import decoder, recurrence
from bahdanau_jax.trained import example
from bahdanau_jax.training import parallel

OPTIMIZER = OptimizerConfig()  # the paper's: summed loss, clipped, Adadelta


class Program(NamedTuple):
    """One way to make an update: its state, its jitted function, where its result has the loss."""

    state: Any
    step: Any
    loss: Callable[[Any], Any]


def architecture(size: Size, **changes: Any) -> ModelConfig:
    """The default model in this size."""
    sizes = {"source_vocabulary": size.V, "target_vocabulary": size.V, "embedding_size": size.m}
    layers = {"hidden_size": size.n, "alignment_size": size.a, "maxout_size": size.l}
    return ModelConfig(**{**sizes, **layers, **changes})


def ours(
    config: ModelConfig,
    params: Any,
    optimizer: OptimizerConfig = OPTIMIZER,
    backend: parallel.Backend | None = None,
    accumulate: int = 1,
) -> Program:
    """The project's own train_step, as `run.train` has it, by `jit` over all devices or as told."""
    network, backend = model.Seq2Seq(config), backend or training.Jit(training.mesh())

    def loss_fn(params, batch: Batch, key):
        return network.apply({"params": params}, batch, key, optimizer.label_smoothing)

    tx = training.make(optimizer, 1_000)
    state = training.init_state(params, tx, jax.random.key(1), optimizer)
    step = training.train_step(loss_fn, tx, optimizer, backend, accumulate, elementwise=True)
    return Program(backend.place(state), step, lambda sums: sums.loss)


def simple(config: ModelConfig, params: Any) -> Program:
    """What one writes first, with its state donated."""
    step = jax.jit(plain.step, donate_argnums=0)
    return Program((params, plain.TX.init(params)), step, lambda loss: loss)


def rounded(config: ModelConfig, params: Any) -> Program:
    """Ours with bfloat16 factors in every matrix product."""
    return ours(dataclasses.replace(config, products="bfloat16"), params)


# Ours without one of the things that make it fast. Each changes this process for good.


def summed_in_loops(config: ModelConfig, params: Any) -> Program:
    """Weight gradients added up in every step of a recurrence, as plain autodiff does."""
    return ours(dataclasses.replace(config, gradients="autodiff"), params)


def whole_logits(config: ModelConfig, params: Any) -> Program:
    """The logits of all time steps in memory at once."""
    model.loss.CHUNK_BYTES = sys.maxsize
    return ours(config, params)


def whole_update(config: ModelConfig, params: Any) -> Program:
    """The optimiser on whole arrays."""
    parallel.BLOCKS = {}
    return ours(config, params)


def default_order(config: ModelConfig, params: Any) -> Program:
    """Operations in the compiler's own order."""
    parallel.COMPILER = {}
    return ours(config, params)


def counted_ties(config: ModelConfig, params: Any) -> Program:
    """Maxout with JAX's own gradient."""
    plain_maxout = decoder.Readout(2, lambda t: jnp.max(t.reshape(*t.shape[:-1], -1, 2), axis=-1))
    decoder.READOUTS = {**decoder.READOUTS, "maxout": plain_maxout}
    return ours(config, params)


def unrolled(config: ModelConfig, params: Any) -> Program:
    """Four steps of a recurrence in each turn of its loops."""
    recurrence.UNROLL = 4
    return ours(config, params)


WITHOUT: Mapping[str, Callable[[ModelConfig, Any], Program]] = MappingProxyType(
    {
        "summed-in-loops": summed_in_loops,
        "whole-logits": whole_logits,
        "whole-update": whole_update,
        "default-order": default_order,
        "counted-ties": counted_ties,
        "unrolled": unrolled,
    }
)
PROGRAMS: Mapping[str, Callable[[ModelConfig, Any], Program]] = MappingProxyType(
    {"ours": ours, "bfloat16": rounded, "jax": simple, **WITHOUT}
)


def parameters(config: ModelConfig, weights: str = "") -> Any:
    """Those of a file of `save_weights`, or else fresh ones."""
    network = model.Seq2Seq(config)
    if not weights:
        return jax.jit(network.init)(jax.random.key(1), example())["params"]
    wanted = jax.eval_shape(network.init, jax.random.key(1), example())["params"]
    with np.load(weights) as file:
        return jax.tree.map_with_path(lambda path, _: jnp.asarray(file[_name(path)]), wanted)


def save_weights(path: Path, params: Any) -> None:
    """All weights as one .npz, their paths joined by "/"."""
    leaves, _ = jax.tree.flatten_with_path(params)
    arrays: dict[str, Any] = {_name(place): np.asarray(leaf) for place, leaf in leaves}
    np.savez(path, **arrays)


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def random_batch(size: Size) -> Batch:
    """Random ids of full length; the same in every peer that reads our weights."""
    rng = np.random.default_rng(1)
    source, target = (
        rng.integers(2, size.V, (size.B, length)).astype(np.int32) for length in (size.S, size.T)
    )
    real = np.ones_like(source, bool), np.ones_like(target, bool)
    return Batch(source, real[0], target, real[1], np.ones(size.B, np.float32))


def planned(compiled: Any) -> dict[str, float]:
    """MiB that a compiled program needs: arguments + temporaries + output − donated."""
    plan = compiled.memory_analysis()
    parts = {
        "arguments": plan.argument_size_in_bytes,
        "temporaries": plan.temp_size_in_bytes,
        "output": plan.output_size_in_bytes,
        "donated": -plan.alias_size_in_bytes,
    }
    return {name: round(bytes / 2**20, 1) for name, bytes in parts.items()} | {
        "all": round(sum(parts.values()) / 2**20, 1)
    }


def main(given: dict[str, Any]) -> None:
    answers, before = serving.Answers(), serving.resident()
    size = Size(**given["size"])
    config = architecture(size, **given["settings"])
    params = parameters(config, given.get("weights", ""))
    state, step, loss = PROGRAMS[given["program"]](config, params)
    held, batch = [state], jax.device_put(random_batch(size))
    greeting: dict[str, Any] = {name: metadata.version(name) for name in ("jax", "jaxlib")}
    greeting = {"versions": greeting, "parameters": model.count(params), "device": machine.device()}
    del params, state  # a donated state has no second owner
    start = time.perf_counter()
    compiled = step.lower(held[0], batch).compile()
    greeting["compile_seconds"] = time.perf_counter() - start

    def update() -> float:
        held[0], result = compiled(held[0], batch)
        return float(loss(result))

    def matrix(size: int, repeats: int, products: str) -> dict[str, float]:
        a, b = jax.random.normal(jax.random.key(0), (2, size, size)).astype(products)
        product = jax.jit(functools.partial(jnp.matmul, preferred_element_type=jnp.float32))
        return serving.matrix_rate(lambda: product(a, b), jax.block_until_ready, size, repeats)

    def device_peak() -> int:
        return jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]

    greeting |= {"planned_mib": planned(compiled), "first_loss": update()}
    greeting["first_step_seconds"] = time.perf_counter() - start
    answers.give(greeting)
    elsewhere = jax.default_backend() != "cpu"
    stepping = serving.Stepping(update, device_peak if elsewhere else None)
    memory = lambda: stepping.memory(before)  # noqa: E731
    answers.serve({"step": stepping.step, "memory": memory, "matrix": matrix})


if __name__ == "__main__":
    serving.keep_memory()
    main(json.loads(sys.argv[1]))
