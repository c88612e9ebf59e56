"""Which thread of a CPU executes the updates of a training."""

import dataclasses
import subprocess
import sys

import jax
import pytest

from bahdanau_jax import configurations
from bahdanau_jax.training import dispatch, dispatch_updates

# A command line of `bahdanau` in a new process. It prints whether a long program has ended when its
# call returns, as it has only where the caller executes it.
COMMAND = """
import sys
from bahdanau_jax.cli.main import main

assert main(sys.argv[1:]) == 0
import jax, jax.numpy as jnp

product = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda i, y: jnp.tanh(y @ x), x))
x = jnp.eye(512)
product.lower(x).compile()
product(x).block_until_ready()
print("ended" if product(x).is_ready() else "running")
"""


@pytest.fixture
def unchanged():
    """The setting of this process stays as it is."""
    before = jax.config.read("jax_cpu_enable_async_dispatch")
    yield
    jax.config.update("jax_cpu_enable_async_dispatch", before)


@pytest.mark.parametrize("mappings, kept", [("0", True), ("65536", False), ("", False)])
def test_the_limit_is_units_times_sentences(mappings, kept, unchanged, monkeypatch):
    monkeypatch.setenv(dispatch.MAPPINGS, mappings)
    config = configurations.configuration("primes")
    units = config.model.hidden_size
    least = dispatch.LARGE // units
    jax.config.update("jax_cpu_enable_async_dispatch", True)
    for rows, asynchronous in ((least - 1, True), (least, not kept)):
        data = dataclasses.replace(config.data, batch_size=rows)
        dispatch_updates(dataclasses.replace(config, data=data))
        assert jax.config.read("jax_cpu_enable_async_dispatch") is asynchronous


@pytest.mark.parametrize("sentences, asynchronous", [(1, True), (dispatch.LARGE, False)])
def test_a_batch_of_words_has_sentences_of_a_usual_length(
    sentences, asynchronous, unchanged, monkeypatch
):
    monkeypatch.setenv(dispatch.MAPPINGS, "0")
    config = configurations.configuration("primes")
    data = dataclasses.replace(
        config.data,
        plan="buckets",
        batch_words=sentences * dispatch.POSITIONS,
        batch_size=dispatch.LARGE // sentences,  # has no effect
    )
    jax.config.update("jax_cpu_enable_async_dispatch", True)
    dispatch_updates(dataclasses.replace(config, data=data))
    assert jax.config.read("jax_cpu_enable_async_dispatch") is asynchronous


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the setting is that of a CPU")
@pytest.mark.skipif(sys.platform != "linux", reason="the memory settings are those of glibc")
@pytest.mark.parametrize(
    "command, rows, at_return",
    [
        ("train", 256, "ended"),
        pytest.param("train", 32, "running", marks=pytest.mark.slow),
        pytest.param("sweep", 256, "ended", marks=pytest.mark.slow),
    ],
)
def test_a_command_sets_it_before_it_uses_a_device(command, rows, at_return, tmp_path):
    """One update of a batch of `rows` sentences and 64 units."""
    settings = {
        "data.train": f"builtin:reverse/train?pairs={rows}",
        "data.dev": "",
        "data.test": "" if command == "train" else "builtin:reverse/test?pairs=2",
        "data.batch_size": rows,
        "data.shapes": 1,
        "training.steps": 1,
        "training.dev_metric": "loss",
        "training.evaluate_every": 0,
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    seeds = ["--seeds", "1"] if command == "sweep" else []
    line = [command, "reverse", "--workdir", str(tmp_path / "run"), *seeds, *options]
    program = [sys.executable, "-c", COMMAND, *line]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1:] == [at_return]
