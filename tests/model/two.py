"""As a program: the fused attention on two virtual devices beside one, as JSON on stdout."""

import collections
import dataclasses
import json
import re

import jax

jax.config.update("jax_num_cpu_devices", 2)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from bahdanau_jax import model, training  # noqa: E402
from tests.model import worlds  # noqa: E402

CONFIG = dataclasses.replace(worlds.CONFIGS["default"], attention_kernel="pallas")
MESSAGES = re.compile(r"(all-reduce|all-gather|collective-permute|all-to-all|reduce-scatter)\(")


def gradient(backend):
    """A step as training has it: the state is the parameters, and becomes their gradient."""

    def sums(params, batch, keys):
        return jax.grad(lambda params: model.sums(CONFIG, params, batch).loss)(params)

    return lambda params, batch: (backend.total(sums, params, batch, None), jnp.zeros(()))


def measure() -> dict:
    params = jax.tree.map(jnp.asarray, worlds.parameters(CONFIG))
    batch = worlds.batch(worlds.pairs(count=6), 1, 1)
    mesh = training.mesh()
    one = training.Jit(training.mesh(jax.devices()[:1]))
    expected = jax.jit(gradient(one))(params, batch)[0]
    found = {"devices": mesh.size}
    for name, backend in (("jit", training.Jit(mesh)), ("pmap", training.Pmap(mesh))):
        step = backend.compile(gradient(backend))
        placed, fed = backend.place(jax.tree.map(jnp.copy, params)), backend.feed(batch)
        text = step.lower(placed, fed).compile().as_text()
        grads = step(placed, fed)[0]
        pairs = zip(*map(jax.tree.leaves, (grads, expected)), strict=True)
        found[name] = {
            "worst": max(worlds.relative(np.asarray(a), b) for a, b in pairs),
            "messages": collections.Counter(MESSAGES.findall(text)),
        }
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
