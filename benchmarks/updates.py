"""A program that runs updates of ours or of plain JAX, and answers as the peers do.

python -c 'from benchmarks.updates import main; main()' '{"program": "ours", ...}'
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

from bahdanau_jax import model
from bahdanau_jax.batch import Batch
from bahdanau_jax.cli import jax_defaults
from bahdanau_jax.config import Config, DataConfig, ModelConfig
from bahdanau_jax.training import OWN, SHARED, Trainer, dispatch_updates
from bahdanau_jax.training.vmapped_update import VmappedUpdate
from benchmarks import device_program, machine
from benchmarks.peers import plain, serving
from benchmarks.sizes import Size

SEEDS = 10  # models of the programs "vmapped" and "vmapped-own"


def random_batch(size: Size, seed: int = 1) -> Batch:
    """A batch of random ids of full length. The default equals that of every peer."""
    rng = np.random.default_rng(seed)
    source, target = (
        rng.integers(2, size.V, (size.B, length)).astype(np.int32) for length in (size.S, size.T)
    )
    real = np.ones_like(source, bool), np.ones_like(target, bool)
    return Batch(source, real[0], target, real[1], np.ones(size.B, np.float32))


def random_batches(size: Size) -> Batch:
    """A batch for each of SEEDS models along a first axis. The first one is `random_batch`."""
    batches = (random_batch(size, seed) for seed in range(1, SEEDS + 1))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)


class Program(NamedTuple):
    """An update: its state, its jitted function, and the loss of its result."""

    state: Any
    step: Any
    loss: Callable[[Any], Any]
    models: int = 1  # that an update changes
    batch: Callable[[Size], Batch] = random_batch  # which it reads


def architecture(size: Size, **changes: Any) -> ModelConfig:
    """The default model of this size."""
    sizes = {"source_vocabulary": size.V, "target_vocabulary": size.V, "embedding_size": size.m}
    layers = {"hidden_size": size.n, "alignment_size": size.a, "readout_size": size.l}
    return ModelConfig(**{**sizes, **layers, **changes})


def as_a_training(config: Config) -> None:
    """Ask of the C library and of JAX what `bahdanau train` does, before a device is used."""
    jax_defaults.keep_memory()
    dispatch_updates(config)


def of_size(config: ModelConfig, size: Size) -> Config:
    """The configuration of a training with batches of this size."""
    return Config(model=config, data=DataConfig(batch_size=size.B))


def ours(config: ModelConfig, params: Any) -> Program:
    """Our update, that of `run.train`, by `jit` over all devices."""
    trainer = Trainer(Config(model=config))
    state = trainer.backend.place(trainer.begin(params))
    return Program(state, trainer.update, lambda sums: sums.loss)


def simple(config: ModelConfig, params: Any) -> Program:
    """The update of plain JAX, which donates its state."""
    step = jax.jit(plain.step, donate_argnums=0)
    return Program((params, plain.TX.init(params)), step, lambda loss: loss)


def rounded(config: ModelConfig, params: Any) -> Program:
    """Our update with compute dtype bfloat16."""
    return ours(dataclasses.replace(config, compute_dtype="bfloat16"), params)


def summed_in_loops(config: ModelConfig, params: Any) -> Program:
    """Our update by autodiff: it sums weight gradients in every step, and computes logits twice."""
    return ours(dataclasses.replace(config, gradients="autodiff"), params)


def vmapped(config: ModelConfig, params: Any, order: str = SHARED) -> Program:
    """Our update of many models with weights and accumulators of their own.

    The first model has these parameters. `order` is a key of DATA_ORDERS.
    """
    trainer, batch = Trainer(Config(model=config)), {OWN: random_batches, SHARED: random_batch}
    update = VmappedUpdate(trainer, SEEDS, order)
    others = (_drawn(config, seed) for seed in range(2, SEEDS + 1))
    states = update.place([trainer.begin(each) for each in (params, *others)])
    return Program(states, update, lambda sums: sums.loss[0], SEEDS, batch[order])


vmapped_own = functools.partial(vmapped, order=OWN)


PROGRAMS: Mapping[str, Callable[[ModelConfig, Any], Program]] = MappingProxyType(
    {
        "ours": ours,
        "bfloat16": rounded,
        "jax": simple,
        "summed-in-loops": summed_in_loops,
        "vmapped": vmapped,
        "vmapped-own": vmapped_own,
    }
)


def parameters(config: ModelConfig, weights: str = "") -> Any:
    """Read the parameters from `weights`, an .npz with their paths as names; "": draw them."""
    if not weights:
        return _drawn(config, 1)
    with np.load(weights) as file:
        return jax.tree.map_with_path(
            lambda path, _: jnp.asarray(file[_name(path)]), model.shapes(config)
        )


def _drawn(config: ModelConfig, seed: int) -> Any:
    return jax.jit(model.init, static_argnums=0)(config, jax.random.key(seed))


def save_parameters(file: Path, params: Any) -> None:
    """Write what `parameters` reads, and the programs in PyTorch."""
    np.savez(file, **{_name(path): leaf for path, leaf in jax.tree.leaves_with_path(params)})


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def planned(compiled: Any) -> dict[str, float]:
    """The memory plan of a compiled program in MiB: arguments + temporaries + output − donated."""
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


def main() -> None:
    request = json.loads(sys.argv[1])
    answers, before = serving.Answers(), serving.resident()
    size = Size(**request["size"])
    config = architecture(size, **request["settings"])
    if request["program"].startswith("vmapped"):  # whose groups have threads of their own
        jax_defaults.keep_memory()
    else:
        as_a_training(of_size(config, size))
    params = parameters(config, request.get("weights", ""))
    state, step, loss, models, batch_of = PROGRAMS[request["program"]](config, params)
    held, batch = [state], jax.device_put(batch_of(size))
    greeting: dict[str, Any] = {name: metadata.version(name) for name in ("jax", "jaxlib")}
    greeting = {"versions": greeting, "parameters": model.count(params), "device": machine.device()}
    greeting["models"] = models
    del params, state  # so that the state can be donated
    start = time.perf_counter()
    compiled = step.lower(held[0], batch).compile()
    greeting["compile_seconds"] = time.perf_counter() - start

    def update() -> float:
        held[0], result = compiled(held[0], batch)
        return float(loss(result))

    def matrix(size: int, repeats: int, compute_dtype: str) -> dict[str, float]:
        a, b = jax.random.normal(jax.random.key(0), (2, size, size)).astype(compute_dtype)
        product = jax.jit(functools.partial(jnp.matmul, preferred_element_type=jnp.float32))
        return serving.matrix_rate(lambda: product(a, b), jax.block_until_ready, size, repeats)

    if models == 1:  # several models have a program for each of their groups
        greeting["planned_mib"] = planned(compiled)
    greeting["first_loss"] = update()
    greeting["first_step_seconds"] = time.perf_counter() - start
    answers.give(greeting)
    elsewhere = jax.default_backend() != "cpu"
    stepping = serving.Stepping(update, device_program.device_peak if elsewhere else None)
    memory = lambda: stepping.memory(before)  # noqa: E731
    answers.serve({"step": stepping.step, "memory": memory, "matrix": matrix})
