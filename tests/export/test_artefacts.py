"""The exported programs against the package's own step, for every variant of the model."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from bahdanau_jax import model
from bahdanau_jax.batch import START
from bahdanau_jax.checkpoints import dotted, flatten
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.export import artefacts
from bahdanau_jax.model import decoder
from tests.model import worlds

TOKENS = np.array([[START] * 3, [2, 7, 11], [28, 3, 4]], np.int32)  # of steps 1 to 3; K = 3


def programs(config):
    return {
        name: jax.jit(export.deserialize(bytearray(data)).call)
        for name, data in artefacts.export_model(config).items()
    }


def own(config, params, source, mask):
    """log p, s and alpha of three steps by the package, with three hypotheses of each sentence."""

    @worlds.compiled
    def run(params, source, mask):
        memory = model.encode(config, params, source, mask)
        step = decoder.stepper(config, params, memory)
        state = jax.tree.map(lambda x: jnp.repeat(x[:, None], 3, 1), model.start(memory))
        steps = []
        for words in TOKENS:
            log_p, state, alpha = step(jnp.broadcast_to(words, (len(source), 3)), state)
            steps.append((log_p, state.s, alpha))
        return steps

    return run(params, source, mask)


def exported(config, params, source, mask):
    """The same by the artefacts alone."""
    call, flat = programs(config), dotted(flatten(params))
    weights = call["prepare"](flat)
    memory, state = call["encode"](flat, source, mask)
    state = jax.tree.map(lambda x: np.repeat(x, 3, 1), state)
    steps = []
    for words in TOKENS:
        tokens = np.broadcast_to(words, (len(source), 3))
        log_p, state, alpha = call["step"](flat, weights, memory, tokens, state)
        steps.append((log_p, state["s"], alpha))
    return steps


@pytest.mark.parametrize("name", worlds.each("default"))
def test_the_programs_compute_what_the_package_computes(name):
    config = worlds.CONFIGS[name]
    batch = worlds.batch(worlds.pairs(), extra_source=2, fillers=1)
    params = worlds.parameters(config)
    ours = exported(config, params, batch.source, batch.source_mask)
    theirs = own(config, params, batch.source, batch.source_mask)
    for step, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for what, a, b in zip(("log_p", "s", "alpha"), one, other, strict=True):
            assert a.shape == b.shape
            error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
            assert error < 1e-5, (what, step, error)
    assert worlds.relative(ours[0][0], ours[1][0]) > 1e-3 or not decoder.reads_words(config)


def test_products_in_bfloat16_are_exported_too():
    config = dataclasses.replace(worlds.CONFIGS["groundhog"], compute_dtype="bfloat16")
    batch, params = worlds.batch(worlds.pairs()), worlds.parameters(config)
    arguments = config, params, batch.source, batch.source_mask
    ours, theirs = exported(*arguments), own(*arguments)
    full = own(dataclasses.replace(config, compute_dtype="float32"), *arguments[1:])
    rounding = worlds.relative(full[-1][0], theirs[-1][0])
    assert 1e-4 < rounding < 1e-1
    assert worlds.relative(ours[-1][0], theirs[-1][0]) < rounding / 2


def test_an_accelerator_exports_programs_with_the_same_results(monkeypatch):
    config = dataclasses.replace(worlds.CONFIGS["default"], compute_dtype="bfloat16")
    batch, params = worlds.batch(worlds.pairs()), worlds.parameters(config)
    arguments = config, params, batch.source, batch.source_mask
    theirs = own(*arguments)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()  # of programs that were traced for a CPU
    assert worlds.relative(exported(*arguments)[-1][0], theirs[-1][0]) < 1e-5


def test_an_artefact_is_for_three_platforms_any_shape_and_a_guaranteed_version():
    for name, data in artefacts.export_model(worlds.CONFIGS["default"]).items():
        loaded = export.deserialize(bytearray(data))
        assert loaded.fun_name == name and loaded.platforms == ("cpu", "cuda", "tpu")
        assert (
            loaded.calling_convention_version <= export.maximum_supported_calling_convention_version
        )
        assert (
            loaded.calling_convention_version >= export.minimum_supported_calling_convention_version
        )
        assert not loaded.disabled_safety_checks


def test_the_same_model_gives_the_same_bytes():
    config = worlds.CONFIGS["local_p"]
    first = artefacts.export_model(config)
    jax.clear_caches()
    assert artefacts.export_model(config) == first
    assert not any(b".py" in data for data in first.values())  # no path of this machine


def test_a_step_copies_no_matrix_of_the_vocabulary():
    config = ModelConfig(**worlds.SIZES | {"target_vocabulary": 20_011})

    def large_copies(name):
        program = export.deserialize(bytearray(artefacts.export_model(config)[name])).mlir_module()
        return [
            line for line in program.splitlines() if "concatenate" in line and "x20011x" in line
        ]

    assert large_copies("prepare") and not large_copies("step")
