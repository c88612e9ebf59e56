"""Known faults of JAX's compiler, and the options that avoid them."""

import json
import os
import subprocess
import sys

import jax
import pytest

from bahdanau_jax import compiler_faults

# Ten lines of https://github.com/jax-ml/jax/issues/39103: the worst relative error of a jitted sum.
REPORTED = """
import jax, json
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)

def error(dtype, rows):
    i = jnp.arange(rows, dtype=dtype)
    x = jnp.stack((i, jnp.zeros_like(i), jnp.zeros_like(i)), axis=1)
    f = jax.vmap(lambda row: jnp.sum((jnp.eye(3, dtype=dtype) @ row) ** 2))
    return float(jnp.max(jnp.abs(f(x) - jax.jit(f)(x))) / jnp.max(f(x)))

print(json.dumps([error(jnp.float32, 32_769), error(jnp.float64, 16_385)]))
"""


def worst(prepare: str, flags: str) -> list[float]:
    """The errors of REPORTED in a new process with these XLA_FLAGS, after `prepare`."""
    environment = {**os.environ, "XLA_FLAGS": flags}
    command = [sys.executable, "-c", prepare + REPORTED]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


AS_THE_COMMAND_LINE = "from bahdanau_jax.cli import jax_defaults\njax_defaults.apply()\n"


def test_the_command_line_computes_the_reported_program_correctly():
    assert worst(AS_THE_COMMAND_LINE, "") == [0.0, 0.0]


@pytest.mark.skipif(
    jax.lib.__version__ not in compiler_faults.FAULTS, reason="this jaxlib has no known fault"
)
def test_without_the_option_the_compiler_is_still_wrong():
    """Once this fails, the version's entry in FAULTS can go."""
    assert max(worst("", "")) > 1e-3


@pytest.fixture
def faulty(monkeypatch):
    """An installed jaxlib that has the fault."""
    monkeypatch.setattr(compiler_faults.metadata, "version", lambda name: "0.10.2")


def test_other_flags_stay(faulty):
    environment = {"XLA_FLAGS": "--xla_dump_to=somewhere"}
    compiler_faults.avoid(environment)
    flags = "--xla_dump_to=somewhere --xla_cpu_experimental_ynn_fusion_type=-reduce"
    assert environment == {"XLA_FLAGS": flags}
    compiler_faults.avoid(environment)
    assert environment == {"XLA_FLAGS": flags}


def test_the_name_of_a_file_of_flags_stays(faulty):
    """XLA reads what does not begin with - as a name, and ends the process where there is none."""
    environment = {"XLA_FLAGS": "/etc/xla_flags.txt"}
    compiler_faults.avoid(environment)
    assert environment == {"XLA_FLAGS": "/etc/xla_flags.txt"}
    assert compiler_faults.present(environment)


@pytest.mark.parametrize(
    ("values", "avoided"),
    [(['"-reduce"'], True)]
    + [(["-reduce"], True), (["+dot,-reduce"], True), ([""], True), (["reduce", "-reduce"], True)]
    + [(["reduce"], False), (["+dot"], False), (["-reduce", "reduce"], False)],
)
def test_a_users_own_value_stays_and_the_last_one_counts(values, avoided, faulty):
    flags = " ".join(f"--xla_cpu_experimental_ynn_fusion_type={value}" for value in values)
    environment = {"XLA_FLAGS": flags}
    compiler_faults.avoid(environment)
    assert environment == {"XLA_FLAGS": flags}
    assert (compiler_faults.present(environment) is None) == avoided


def test_a_version_without_a_fault_gets_no_option(monkeypatch):
    """XLA ends a process for an option that it does not know."""
    monkeypatch.setattr(compiler_faults.metadata, "version", lambda name: "0.11.2")
    environment = {}
    compiler_faults.avoid(environment)
    assert environment == {}


@pytest.mark.skipif(
    jax.lib.__version__ not in compiler_faults.FAULTS, reason="this jaxlib has no known fault"
)
def test_a_library_user_reads_of_it_once():
    program = "import bahdanau_jax as bj\nbj.encode, bj.Seq2Seq, bj.loss\n"
    environment = {**os.environ, "XLA_FLAGS": ""}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stderr.count("jax-ml/jax/issues/39103") == 1
    assert found.stderr.count("\n") == 1
