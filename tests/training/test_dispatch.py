"""Which thread of a CPU executes the updates of a training."""

import dataclasses
import subprocess
import sys

import jax
import pytest

from bahdanau_jax import configurations
from bahdanau_jax.training import dispatch, dispatch_updates

# One update of a batch of ROWS sentences and 64 units in a new process. It prints whether a long
# program has ended when its call returns, as it has only where the caller executes it.
TRAINING = """
import dataclasses, sys
import jax, jax.numpy as jnp
from bahdanau_jax import run
from bahdanau_jax.configurations import configuration

rows, workdir = int(sys.argv[1]), sys.argv[2]
config = configuration("reverse")
data = dataclasses.replace(
    config.data, train=f"builtin:reverse/train?pairs={rows}", dev="", test="",
    batch_size=rows, shapes=1
)
training = dataclasses.replace(config.training, steps=1, dev_metric="loss", evaluate_every=0)
run.train(dataclasses.replace(config, data=data, training=training), workdir)
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


def test_the_limit_is_units_times_sentences(unchanged):
    config = configurations.configuration("primes")
    units = config.model.hidden_size
    least = dispatch.LARGE // units
    jax.config.update("jax_cpu_enable_async_dispatch", True)
    for rows, asynchronous in ((least - 1, True), (least, False)):
        data = dataclasses.replace(config.data, batch_size=rows)
        dispatch_updates(dataclasses.replace(config, data=data))
        assert jax.config.read("jax_cpu_enable_async_dispatch") is asynchronous


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the setting is that of a CPU")
@pytest.mark.parametrize(
    "rows, at_return", [(256, "ended"), pytest.param(32, "running", marks=pytest.mark.slow)]
)
def test_a_training_sets_it_before_it_uses_a_device(rows, at_return, tmp_path):
    command = [sys.executable, "-c", TRAINING, str(rows), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1:] == [at_return]
