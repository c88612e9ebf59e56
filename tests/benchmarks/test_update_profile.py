"""The profile of an update names each operation's source, and knows the matrix products."""

import json
import subprocess
import sys

import pytest

from bahdanau_jax.cli import jax_defaults
from benchmarks import update_profile
from benchmarks.__main__ import main

PROGRAM = """
HloModule jit_step

%fused (p: f32[4,4]) -> f32[4,4] {
  ROOT %dot.1 = f32[4,4]{1,0} dot(%p, %p), lhs_contracting_dims={1}
}

%other (p: f32[4,4]) -> f32[4,4] {
  ROOT %tanh.2 = f32[4,4]{1,0} tanh(%p)
}

ENTRY %main (x: f32[4,4]) -> f32[4,4] {
  %fusion.7 = f32[4,4]{1,0} fusion(%x), kind=kCustom, calls=%fused, metadata={op_name="jit(f)/dot"}
  %fusion.8 = f32[4,4]{1,0} fusion(%x), kind=kLoop, calls=%other, metadata={op_name="jit(f)/tanh"}
  ROOT %dot.9 = f32[4,4]{1,0} dot(%fusion.7, %fusion.8), metadata={op_name="jit(f)/last"}
}
"""


def test_products_are_dots_and_the_fusions_that_contain_one():
    found = update_profile.products(PROGRAM)
    assert {"dot.9", "fusion.7"} <= found
    assert not found & {"fusion.8", "other", "tanh.2"}


def test_operations_come_with_their_source():
    named = {"fusion.7": "jit(f)/dot", "fusion.8": "jit(f)/tanh", "dot.9": "jit(f)/last"}
    assert update_profile.sources(PROGRAM) == named


@pytest.mark.skipif(sys.platform != "linux", reason="the settings are those of glibc")
def test_an_update_is_measured_as_a_training_makes_it(monkeypatch):
    """Also where the memory settings of the command line are not in the environment yet."""
    for variable, _ in jax_defaults.MALLOC.values():
        monkeypatch.delenv(variable, raising=False)
    program = """
import jax
from benchmarks import updates
from benchmarks.sizes import SIZES

(size,) = SIZES["small"]
updates.as_a_training(updates.of_size(updates.architecture(size), size))
print(jax.config.read("jax_cpu_enable_async_dispatch"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.slow
def test_the_command_profiles_an_update(capfd):
    assert main(["profile", "--size", "tiny", "--updates", "2"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["sizes"]
    assert found["seconds_per_update"] > 0 and 0 < found["busy_share_of_cores"] <= 1.1
    kinds = {row["name"]: row["share"] for row in found["traced"]["kinds"]}
    assert 0 < kinds[update_profile.PRODUCT] < 1
    assert any("while/body" in row["source"] for row in found["traced"]["operations"])
