"""The placement of arrays on devices."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from bahdanau_jax import distributed
from bahdanau_jax.distributed import placement
from tests import small
from tests.training import toy


@pytest.mark.parametrize(
    ("number", "sizes"), [(1, (1,)), (2, (2,)), (8, (2, 2, 2)), (12, (2, 2, 3)), (7, (7,))]
)
def test_a_mesh_has_an_axis_for_each_prime_factor(number, sizes):
    assert placement._factors(number) == sizes


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        ((30_000, 620), 8),
        ((30_001, 620), 4),  # along 620
        ((30_002, 620), 8),  # 2 along the words, 4 along 620
        ((500, 30_001), 4),
        ((30_001, 621), 1),
        ((3, 14, 14), 4),
        ((30_000,), 1),
        ((), 1),
    ],
)
def test_a_matrix_is_split_as_far_as_its_sides_divide(shape, parts):
    axes = tuple(f"data{i}" for i in range(3))
    devices = jax.sharding.AbstractMesh((2, 2, 2), axes)
    sharding = placement.split(shape, devices)
    assert np.prod(shape) // np.prod(sharding.shard_shape(shape)) == parts
    assert placement.replicated(devices).spec == PartitionSpec()


def test_rows_of_a_batch_lie_on_the_devices():
    batch = placement.shard(toy.batch(0), distributed.mesh())
    assert jnp.asarray(batch.source).shape == (toy.ROWS, toy.LENGTH)


def test_what_is_gathered_has_its_values():
    state = placement.replicate(toy.parts()[0], distributed.mesh())
    for ours, theirs in zip(
        *map(jax.tree.leaves, (distributed.gathered(state.params), toy.init())), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert jnp.array_equal(jax.random.key_data(state.key), jax.random.key_data(jax.random.key(3)))


def test_what_is_gathered_is_bound_to_one_device():
    arrays = distributed.gathered(
        [jnp.ones(3), placement.put(np.ones(3), placement.replicated(distributed.mesh()))]
    )
    assert all(array.committed and len(array.devices()) == 1 for array in arrays)


def test_what_is_owned_is_no_view():
    array = jax.block_until_ready(jnp.ones((64, 64)))
    arrays = {"a": array}
    (copy,) = placement.owned(arrays).values()
    assert not arrays  # so that the memory of a view is free before the next copy
    assert copy.unsafe_buffer_pointer() != array.unsafe_buffer_pointer()
    np.testing.assert_array_equal(copy, array)
    assert copy.sharding == array.sharding and copy.committed


def test_what_is_owned_needs_no_program(caplog):
    """It would be traced and compiled for each shape, whenever a state is read."""
    array = jax.block_until_ready(jnp.ones((3, 41)))
    with jax.log_compiles():
        placement.owned({"a": array})
        assert not caplog.records
        jax.block_until_ready(jnp.copy(array))
        assert "Compiling" in caplog.text


OWNED_BY_EIGHT = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from bahdanau_jax.distributed import placement
mesh = jax.make_mesh((2, 4), ("x", "y"))
for spec in (P(), P("x"), P("x", "y")):
    array = jax.device_put(np.arange(384.0).reshape(16, 24), NamedSharding(mesh, spec))
    copy = placement.owned({"a": array})["a"]
    places = [[p.data.unsafe_buffer_pointer() for p in a.addressable_shards] for a in (array, copy)]
    assert not {*places[0]} & {*places[1]} and copy.sharding == array.sharding, spec
    np.testing.assert_array_equal(copy, array)
print(jax.device_count())
"""


def test_what_eight_devices_own_are_no_views(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    done = subprocess.run(
        [sys.executable, "-c", OWNED_BY_EIGHT], capture_output=True, text=True, cwd=small.ROOT
    )
    assert done.stdout == "8\n", done.stderr


def test_a_cpu_updates_in_blocks():
    assert distributed.Jit(distributed.mesh()).block > 0


def test_an_update_reuses_the_memory_of_a_placed_array():
    array = jax.block_until_ready(jnp.ones((64, 64)))
    placed = placement.put(array, placement.replicated(distributed.mesh()))
    place = placed.unsafe_buffer_pointer()
    assert jax.jit(jnp.square, donate_argnums=0)(placed).unsafe_buffer_pointer() == place
    assert not array.is_deleted()
