"""The search by hand in PyTorch: our model, our weights, our translations."""

import dataclasses
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.batch import EOS
from bahdanau_jax.trained import load
from benchmarks import decode_benchmark, sentence_latency


@pytest.mark.slow
def test_another_model_than_that_of_the_program_is_refused(trained, tmp_path):
    run = load(trained[0])
    model = dataclasses.replace(run.config.model, order="luong")
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, model=model))
    with (
        ExitStack() as stack,
        pytest.raises(ValueError, match="default model only, but model.order of the run is"),
    ):
        sentence_latency._torch_program(run, tmp_path / "python", stack)


@pytest.mark.parametrize("beam", [1, 4])
def test_pytorch_writes_our_translations(torch_python, trained, beam):
    """By random weights of a size that makes translations of all lengths."""
    run, rng = load(trained[0]), np.random.default_rng(3)
    params = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.6, x.shape), x.dtype), run.params)
    params["output"]["b_w"] = params["output"]["b_w"].at[EOS].add(2)
    run = dataclasses.replace(run, params=params)
    text = decode_benchmark.text_of(run, "builtin:en-fr/test?pairs=40&max=9", 0)
    search = {**decode_benchmark.SEARCH, "beam_size": beam}
    ours = [
        run.translate([line], compute_dtype="float32", **search)[0].text for line in text.sources
    ]
    with ExitStack() as stack:
        program = stack.enter_context(sentence_latency._torch_program(run, torch_python, stack))
        side = sentence_latency._torch(program, run, text)
        found = side.translate(beam, {"threads": 1, "precision": "float32"})
        rounded = side.translate(beam, {"threads": 1, "precision": "bfloat16"})
    assert len(set(ours)) > 20 and len(set(map(len, ours))) > 5
    assert found.texts == ours
    assert len(found.each) == len(rounded.texts) == len(ours)
