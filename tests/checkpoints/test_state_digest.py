"""The digest changes with any single bit, and does not depend on the sharding."""

import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

from bahdanau_jax.checkpoints import state_digest

WORD = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
TYPES = [np.float32, ml_dtypes.bfloat16, np.float16, np.int32, np.uint8, np.int8, np.float64]
PROGRAM = jax.jit(state_digest.digest)

each_way = pytest.mark.parametrize(
    "digest",
    [
        pytest.param(lambda array: int(PROGRAM(array)), id="program"),
        pytest.param(state_digest._digest_on_host, id="host"),
    ],
)


def oracle(array: np.ndarray) -> int:
    """The definition as a loop over Python's integers."""
    data, size = array.tobytes(), min(array.dtype.itemsize, 4)
    total = 0
    for i in range(len(data) // size):
        h = i
        h = (h ^ (h >> 16)) * 0x85EBCA6B % 2**32
        h = (h ^ (h >> 13)) * 0xC2B2AE35 % 2**32
        odd = (h ^ (h >> 16)) | 1
        total += int.from_bytes(data[i * size : (i + 1) * size], "little") * odd
    return total % 2**32


def drawn(dtype, shape=(3, 5), seed: int = 0) -> np.ndarray:
    """An array of random bits, which include NaN and infinities."""
    word = WORD[np.dtype(dtype).itemsize]
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << (8 * word().itemsize), shape, dtype=word).view(dtype)


@each_way
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_single_bit_changes_it(dtype, digest):
    """Flipping the bit back restores the digest, and each digest equals the loop's."""
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        array = drawn(dtype)
        whole, bits = digest(array), array.view(WORD[array.dtype.itemsize])
        assert whole == oracle(array)
        for place in np.ndindex(array.shape):
            for bit in range(8 * array.dtype.itemsize):
                bits[place] ^= bits.dtype.type(1 << bit)
                changed = digest(array)
                assert changed != whole and changed == oracle(array)
                bits[place] ^= bits.dtype.type(1 << bit)


def test_booleans():
    array = np.zeros((3, 5), bool)
    found = [int(PROGRAM(array))]
    for place in np.ndindex(array.shape):
        array[place] = True
        found.append(int(PROGRAM(array)))
        assert state_digest._digest_on_host(array) == found[-1]
        array[place] = False
    assert len(set(found)) == 16


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_pieces_change_nothing_on_the_host(dtype, monkeypatch):
    """Also where the last one is not full, and for arrays that are not contiguous."""
    array = drawn(dtype, (4, 9))
    monkeypatch.setattr(state_digest, "_PIECE", 7)
    for part in (array, array[:, 1:], array.T, array[0, 0], array[:0]):
        assert state_digest._digest_on_host(part) == oracle(np.asarray(part)), part.shape


@given(st.integers(0, 2**32 - 1), st.tuples(st.integers(0, 14), st.integers(0, 31)))
def test_a_bit_of_any_array_changes_it(seed, flip):
    array = drawn(np.float32, seed=seed)
    before = int(PROGRAM(array))
    array.reshape(-1).view(np.uint32)[flip[0]] ^= np.uint32(1 << flip[1])
    assert int(PROGRAM(array)) != before


@given(st.integers(0, 2**32 - 1), st.permutations(range(15)))
def test_so_does_another_order(seed, order):
    array = drawn(np.float32, seed=seed)
    if order != list(range(15)):
        assert int(PROGRAM(array.reshape(-1)[order].reshape(3, 5))) != int(PROGRAM(array))


@pytest.mark.parametrize("small", [state_digest._SMALL, 0], ids=["host", "program"])
def test_names_go_with_values(small, monkeypatch):
    monkeypatch.setattr(state_digest, "_SMALL", small)
    flat = {"b": jnp.arange(3.0), "a": jnp.ones((2, 2), jnp.bfloat16), "n": jnp.int32(7)}
    assert state_digest.digests(flat) == {
        name: oracle(np.asarray(leaf)) for name, leaf in flat.items()
    }
    assert state_digest.digests({}) == {}


def test_an_array_of_numpy_has_the_type_that_jax_gives_it():
    """The one with which it is read again."""
    array = np.random.default_rng(0).normal(size=(3, 5))
    single = oracle(np.asarray(jnp.asarray(array)))
    assert state_digest.digests({"a": array, "b": jnp.asarray(array)}) == {"a": single, "b": single}


EIGHT = """
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from bahdanau_jax.checkpoints import state_digest
from tests.checkpoints.test_state_digest import drawn, oracle
devices = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
array = drawn(np.float32, (16, 24))
for spec in (P(), P("x"), P("y"), P("x", "y"), P(None, ("x", "y")), P(("y", "x"))):
    placed = jax.device_put(array, NamedSharding(devices, spec))
    assert state_digest.digests({"a": placed}) == {"a": oracle(array)}, spec
print(jax.device_count())
"""


def test_eight_devices_and_one_give_the_same(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", EIGHT], capture_output=True, text=True, cwd=root)
    assert done.stdout == "8\n", done.stderr


def test_a_small_state_on_one_cpu_needs_no_program(monkeypatch):
    """It would be traced and compiled, or read from disk, before the first translation."""
    if jax.default_backend() != "cpu":
        pytest.skip("NumPy reads the memory of a CPU")
    monkeypatch.setattr(state_digest, "_program", lambda platform: 1 / 0)
    state_digest.digests({"a": jnp.arange(3.0)})
    monkeypatch.setattr(state_digest, "_SMALL", 11)
    with pytest.raises(ZeroDivisionError):
        state_digest.digests({"a": jnp.arange(3.0)})


def test_an_array_whose_digest_was_read_is_still_donated():
    """A view of its memory that stayed would make the next update copy the state."""
    array = jax.block_until_ready(jax.jit(lambda x: x + 1)(jnp.zeros(1000)))
    place = array.unsafe_buffer_pointer()
    state_digest.digests({"a": array})
    updated = jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    assert array.is_deleted() and updated.unsafe_buffer_pointer() == place


def test_digests_need_no_copies_of_the_arrays():
    """A state is digested where a device may have no room for another one."""
    arrays = [jax.ShapeDtypeStruct((1000, 1000), jnp.float32)] * 8
    compiled = state_digest._program(jax.default_backend()).lower(arrays).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 100_000
