"""As a program: the fused attention on two virtual devices beside one, as JSON on stdout."""

import collections
import dataclasses
import json
from typing import Any, NamedTuple

import jax

jax.config.update("jax_num_cpu_devices", 2)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from bahdanau_jax import model, training  # noqa: E402
from tests import small  # noqa: E402
from tests.model import worlds  # noqa: E402

CONFIG = dataclasses.replace(worlds.CONFIGS["default"], attention_kernel="pallas")


class Rows(NamedTuple):
    """Sentences that are encoded already."""

    annotations: Any
    mask: Any
    initial: Any
    target: Any


def gradient(backend):
    """A step as training has it: the state is the parameters, and becomes their gradient."""

    def loss(params, rows):
        keys = rows.annotations @ params["attention"]["U_a"]
        memory = model.Memory(rows.annotations, keys, rows.mask, rows.initial)
        return jnp.sum(model.teacher_force(CONFIG, params, memory, rows.target)[0] ** 2)

    def sums(params, rows, _):
        return jax.grad(loss)(params, rows)

    return lambda params, rows: (backend.total(sums, params, rows, None), jnp.zeros(()))


def measure() -> dict:
    params = jax.tree.map(jnp.asarray, worlds.parameters(CONFIG))
    rng = np.random.default_rng(0)
    annotations, initial = (rng.normal(size=size).astype("f") for size in ((6, 4, 10), (6, 5)))
    rows = Rows(annotations, rng.random((6, 4)) < 0.7, initial, np.ones((6, 3), np.int32))
    mesh = training.mesh()
    one = training.Jit(training.mesh(jax.devices()[:1]))
    expected = jax.jit(gradient(one))(params, rows)[0]
    found = {"devices": mesh.size}
    for name, backend in (("jit", training.Jit(mesh)), ("pmap", training.Pmap(mesh))):
        step = backend.compile(gradient(backend))
        placed, fed = backend.place(jax.tree.map(jnp.copy, params)), backend.feed(rows)
        text = step.lower(placed, fed).compile().as_text()
        grads = step(placed, fed)[0]
        pairs = zip(*map(jax.tree.leaves, (grads, expected)), strict=True)
        found[name] = {
            "worst": max(worlds.relative(np.asarray(a), b) for a, b in pairs),
            "messages": collections.Counter(n for _, n in small.MESSAGES.findall(text)),
        }
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
