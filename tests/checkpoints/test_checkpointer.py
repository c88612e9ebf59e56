"""A restored state equals a saved one bit for bit, whatever is damaged."""

import contextlib
import errno
import json
import logging
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orbax.checkpoint import v1 as orbax

from bahdanau_jax import distributed
from bahdanau_jax.checkpoints import (
    Checkpointer,
    inventory,
    orbax_errors,
    orbax_reading,
    state_digest,
)
from tests import small
from tests.training import toy

# Where loading fails, Orbax's own threads complain to a loop that is closed by then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def states():
    """Four successive states, as host copies: donation takes the originals."""
    state, step = toy.parts()
    found = []
    for i in range(4):
        state, _ = step(state, toy.batch(i))
        found.append(jax.tree.map(jnp.copy, state))
    return found


def bits(state) -> list[bytes]:
    state = state.replace(key=jax.random.key_data(state.key))
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)]


def fill(folder, states, scores=(None,) * 4, keep=4):
    checkpoints = Checkpointer(folder, keep)
    for step, (state, score) in enumerate(zip(states, scores, strict=True), 1):
        checkpoints.save(step, state, score, {"step": step, "third": step / 3})
    checkpoints.close()


def restored(folder, keep=None, best=False, template=None):
    checkpoints = Checkpointer(folder, keep)
    try:
        template = toy.parts()[0] if template is None else template
        if best:
            return next(iter(checkpoints.choose(template, "best", 1)[0]), None)
        return checkpoints.restore(template)
    finally:
        checkpoints.close()


def test_newest_and_best_are_kept(states, tmp_path):
    fill(tmp_path, states, (float("nan"), 9.0, float("inf"), 1.0), keep=1)
    checkpoints = Checkpointer(tmp_path)
    assert checkpoints.steps() == [2, 4]
    assert checkpoints.survey() == ({2: 9.0, 4: 1.0}, {})
    assert checkpoints.progress(4) == {"step": 4, "third": 4 / 3}
    assert checkpoints.progress(3) == {}
    checkpoints.close()
    assert bits(restored(tmp_path)) == bits(states[3])
    assert bits(restored(tmp_path, best=True)) == bits(states[1])


def test_the_best_of_an_earlier_start_is_kept(states, tmp_path):
    first = Checkpointer(tmp_path, keep=1)
    first.save(1, states[0], 9.0)
    first.save(2, states[1], 1.0)
    first.close()
    resumed = Checkpointer(tmp_path, keep=1)
    resumed.save(3, states[2], 2.0)
    resumed.save(4, states[3], 1.5)
    resumed.close()
    assert bits(restored(tmp_path, best=True)) == bits(states[0])
    assert bits(restored(tmp_path)) == bits(states[3])


def test_an_update_reuses_the_memory_of_what_is_restored(states, tmp_path):
    fill(tmp_path, states)
    state = restored(tmp_path)
    again = jax.jit(lambda state: state.replace(step=state.step + 1), donate_argnums=0)
    before = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state.params)]
    after = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(again(state).params)]
    assert after == before


def test_of_equal_scores_the_last_is_best(states, tmp_path):
    """A score that stays at 0 for long would otherwise leave the first checkpoint the best."""
    fill(tmp_path, states, (3.0, 9.0, 9.0, 1.0), keep=1)
    assert bits(restored(tmp_path, best=True)) == bits(states[2])


def test_without_scores_the_best_is_the_newest(states, tmp_path):
    fill(tmp_path, states)
    assert bits(restored(tmp_path, best=True)) == bits(states[3])


def test_nothing_yet(tmp_path):
    assert restored(tmp_path / "new", keep=2) is None
    with pytest.raises(FileNotFoundError, match="holds no checkpoints"):
        Checkpointer(tmp_path / "none")


def test_a_step_is_replaced(states, tmp_path):
    checkpoints = Checkpointer(tmp_path, 2)
    checkpoints.save(1, states[0])
    checkpoints.save(1, states[1], 5.0)
    checkpoints.close()
    assert bits(restored(tmp_path, best=True)) == bits(states[1])


def test_saving_does_not_see_the_next_step(tmp_path):
    """The state is donated to the next step while it is being written."""
    state, step = toy.parts()
    checkpoints = Checkpointer(tmp_path, 3)
    expected = {}
    for i in range(1, 4):
        state, _ = step(state, toy.batch(i))
        expected[i] = bits(state)
        checkpoints.save(i, state)
    state, _ = step(state, toy.batch(4))
    checkpoints.close()
    assert bits(restored(tmp_path)) == expected[3]


def test_a_part_by_name(states, tmp_path):
    fill(tmp_path, states)
    part = restored(tmp_path, template={"params": toy.init()})
    assert jax.tree.all(jax.tree.map(np.array_equal, part["params"], states[3].params))


def test_abstract_template(states, tmp_path):
    fill(tmp_path, states)
    template = jax.eval_shape(lambda: toy.parts()[0].replace(key=jax.random.key(0)))
    assert bits(restored(tmp_path, template=template)) == bits(states[3])


def files(folder):
    return sorted(
        path for path in (folder / "4").rglob("*") if path.is_file() and path.stat().st_size
    )


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.slow
def test_whatever_file_is_damaged(states, tmp_path, caplog):
    """With any file emptied or removed, the newest checkpoint or the one before it is restored."""
    fill(tmp_path / "whole", states, (None, None, None, 2.0))
    names = [path.relative_to(tmp_path / "whole") for path in files(tmp_path / "whole")]
    fallbacks = 0
    for damage in (lambda path: path.write_bytes(b""), lambda path: path.unlink()):
        for name in names:
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            damage(tmp_path / "copy" / name)
            found = bits(restored(tmp_path / "copy"))
            assert found in (bits(states[3]), bits(states[2])), name
            fallbacks += found == bits(states[2])
    assert fallbacks >= len(names) / 2


@pytest.mark.slow
def test_a_flipped_bit_is_noticed(states, tmp_path, caplog):
    """With any bit flipped, the newest checkpoint or the one before it is restored."""
    fill(tmp_path / "whole", states)
    data = max(files(tmp_path / "whole"), key=lambda path: path.stat().st_size)
    name, size = data.relative_to(tmp_path / "whole"), data.stat().st_size
    noticed = 0
    for position in np.linspace(0, size - 1, 12).astype(int):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "copy")
        flip(tmp_path / "copy" / name, position)
        found = bits(restored(tmp_path / "copy"))
        assert found in (bits(states[3]), bits(states[2]))
        noticed += found == bits(states[2])
    assert noticed


def test_digests_alone_notice_a_flipped_bit(states, tmp_path, monkeypatch, caplog):
    """A storage that returns wrong data without an error is detected, in any array."""
    fill(tmp_path, states)
    checkpoints = Checkpointer(tmp_path)
    load = orbax.load_checkpointables
    for name in state_digest.flatten(states[3]):

        def flipped(folder, abstract, name=name):
            loaded = load(folder, abstract)
            if folder == str(tmp_path / "4"):
                array = np.array(loaded["state"][name])
                array.reshape(-1).view(np.uint8)[-1] ^= 1
                loaded["state"][name] = jnp.asarray(array)
            return loaded

        monkeypatch.setattr(orbax, "load_checkpointables", flipped)
        with caplog.at_level(logging.WARNING, logger="bahdanau_jax"):
            assert bits(checkpoints.restore(toy.parts()[0])) == bits(states[2])
        assert f"{tmp_path / '4'} is damaged: {name} does not match its digest" in caplog.text
    checkpoints.close()


def test_metadata_that_still_can_be_read_are_sealed(states, tmp_path, caplog):
    """A changed digit of the loop's progress is detected, which no array's digest covers."""
    fill(tmp_path, states)
    path = tmp_path / "4" / "_CHECKPOINT_METADATA"
    before, after = '"third": 1.3', '"third": 1.2'
    assert path.read_text().count(before) == 1
    path.write_text(path.read_text().replace(before, after))
    assert bits(restored(tmp_path)) == bits(states[2])
    assert "its metadata do not match their digest" in caplog.text


def test_a_damaged_one_is_set_aside_by_a_trainer_only(states, tmp_path, caplog):
    fill(tmp_path, states)
    (tmp_path / "4" / "_CHECKPOINT_METADATA").write_text("{")
    assert bits(restored(tmp_path)) == bits(states[2])
    assert (tmp_path / "4").exists()
    checkpoints = Checkpointer(tmp_path, 4)
    assert bits(checkpoints.restore(toy.parts()[0])) == bits(states[2])
    assert checkpoints.steps() == [1, 2, 3] and (tmp_path / "damaged-4").exists()
    checkpoints.save(4, states[3])
    checkpoints.close()
    assert bits(restored(tmp_path)) == bits(states[3])


def test_a_step_that_is_damaged_twice_is_set_aside_twice(states, tmp_path, caplog):
    fill(tmp_path, states)
    for _ in range(2):
        (tmp_path / "4" / "_CHECKPOINT_METADATA").write_text("{")
        checkpoints = Checkpointer(tmp_path, 4)
        assert bits(checkpoints.restore(toy.parts()[0])) == bits(states[2])
        checkpoints.save(4, states[3])
        checkpoints.close()
    assert {path.name for path in tmp_path.glob("damaged-*")} == {"damaged-4", "damaged-4-2"}
    aside = [each.folder.name for each in inventory(tmp_path) if each.step == 4]
    assert sorted(aside) == ["4", "damaged-4", "damaged-4-2"]
    assert bits(restored(tmp_path)) == bits(states[3])


def test_a_checkpoint_saved_after_the_folder_was_opened_is_read(states, tmp_path, caplog):
    fill(tmp_path, states[:2], (None, None))
    reader, writer = Checkpointer(tmp_path), Checkpointer(tmp_path, 4)
    writer.save(3, states[2])
    writer.close()
    found, _ = reader.choose(toy.parts()[0], "newest", 1)
    reader.close()
    assert bits(found[0]) == bits(states[2]) and not caplog.text


def test_a_checkpoint_that_is_removed_while_it_is_read_is_not_damaged(
    states, tmp_path, monkeypatch, caplog
):
    fill(tmp_path, states)
    reader = Checkpointer(tmp_path)
    read = reader._read

    def removed_first(step, *rest):
        if step == 4:
            shutil.rmtree(tmp_path / "4", ignore_errors=True)
        return read(step, *rest)

    monkeypatch.setattr(reader, "_read", removed_first)
    found, chosen = reader.choose(toy.parts()[0], "newest", 1)
    reader.close()
    assert bits(found[0]) == bits(states[2])
    assert chosen.passed == () and not caplog.text


def test_a_checkpoint_that_is_no_longer_kept_disappears_at_once(states, tmp_path, monkeypatch):
    """Orbax removes one file after the other, and a reader would call the rest damaged."""
    removed, rmtree = [], shutil.rmtree

    def watched(path, *rest, **options):
        name = Path(path).name
        assert not (tmp_path / name.removeprefix("pruned-")).exists()
        removed.append(name)
        rmtree(path, *rest, **options)

    monkeypatch.setattr(shutil, "rmtree", watched)
    fill(tmp_path, states, keep=2)
    assert removed == ["pruned-1", "pruned-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


def test_files_that_a_reader_holds_do_not_end_the_training(states, tmp_path, monkeypatch):
    """A network disk refuses to remove their folder. The next start of a training removes it."""

    def busy(path, ignore_errors=False, **options):
        if not ignore_errors:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", busy)
        fill(tmp_path, states, keep=3)
    assert (tmp_path / "pruned-1").is_dir()
    Checkpointer(tmp_path, keep=3).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3", "4"]


def test_all_damaged(states, tmp_path, caplog):
    fill(tmp_path, states)
    for step in range(1, 5):
        shutil.rmtree(tmp_path / str(step) / "state")
    with pytest.raises(OSError, match="every checkpoint in .* is damaged"):
        restored(tmp_path, keep=2)
    assert (tmp_path / "4").exists()


def test_another_model(states, tmp_path):
    fill(tmp_path, states)
    template = toy.parts()[0]
    params = dict(template.params)
    cases = {
        r"params/embedding is float32\[11, 5\] there, but this .* has float32\[12, 5\]": {
            **params,
            "embedding": jnp.zeros((12, 5)),
        },
        r"has bfloat16\[11, 5\]": {**params, "embedding": jnp.zeros((11, 5), jnp.bfloat16)},
        r"params/bias is nothing there": {**params, "bias": jnp.zeros(3)},
        r"params/embedding is float32\[11, 5\] there, .* has nothing": {"out": params["out"]},
    }
    for message, other in cases.items():
        with pytest.raises(ValueError, match=message):
            restored(tmp_path, template=template.replace(params=other))
    assert restored(tmp_path, template=template) is not None


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot keep checkpoints in .*file"):
        Checkpointer(tmp_path / "file", 2)


def test_a_full_disk(states, tmp_path):
    checkpoints = Checkpointer(tmp_path, 2)
    checkpoints.save(1, states[0])
    checkpoints.wait()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        with pytest.raises(OSError, match="cannot keep checkpoints in [^\n]*$"):
            checkpoints.save(2, states[1])
            checkpoints.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert bits(restored(tmp_path)) == bits(states[0])


def test_a_process_that_is_gone_is_no_full_disk(states, tmp_path, monkeypatch, one_of_two):
    def gone(*_, **__):
        raise jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: barrier timed out\nmore")

    checkpoints = Checkpointer(tmp_path, 2)
    monkeypatch.setattr(checkpoints._orbax, "save_checkpointables_async", gone)
    one_of_two(0)
    with pytest.raises(
        distributed.Lost, match=r"ended or hangs: see what it printed \(cannot keep .* timed out\)$"
    ):
        checkpoints.save(1, states[0])


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "free some space or choose"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "free some space or choose"),
        (ValueError("RESOURCE_EXHAUSTED: write [OS error 28: No space left on device]"), "free"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "repair it or choose"),
    ],
)
def test_space_is_only_asked_for_where_there_is_none(states, tmp_path, monkeypatch, error, advice):
    def failing(*_, **__):
        raise error

    checkpoints = Checkpointer(tmp_path, 2)
    monkeypatch.setattr(checkpoints._orbax, "save_checkpointables_async", failing)
    with pytest.raises(OSError, match=f"cannot keep checkpoints in [^\n]*; {advice}"):
        checkpoints.save(1, states[0])


def test_a_disk_that_times_out_has_failed_and_is_not_still_at_work(states, tmp_path):
    class Save:
        def __init__(self, error):
            self.error = error

        def result(self, timeout=None):
            raise self.error

    checkpoints = Checkpointer(tmp_path, 2)
    checkpoints._pending = Save(TimeoutError())
    checkpoints.check()
    checkpoints._pending = Save(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
    with pytest.raises(OSError, match="cannot keep checkpoints in [^\n]*Connection timed out"):
        checkpoints.check()
    assert checkpoints._pending is None


def test_a_folder_that_cannot_be_read(states, tmp_path, monkeypatch):
    fill(tmp_path, states)
    refused = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr("orbax.checkpoint.v1.training.Checkpointer", mock.Mock(side_effect=refused))
    with pytest.raises(OSError, match="cannot read the checkpoints in [^\n]*; repair it or"):
        Checkpointer(tmp_path)


MACHINE = {
    "memory": (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 4 bytes"), MemoryError, "4 bytes"),
    "memory of Python": (MemoryError("4 bytes"), MemoryError, "4 bytes"),
    "files": (ValueError("[OS error 24: Too many open files]"), OSError, "/4 cannot be read: .*24"),
    "server": (OSError(errno.ESTALE, "Stale file handle"), OSError, "/4 cannot be read: .*Stale"),
}


@pytest.mark.parametrize("case", MACHINE)
def test_what_the_machine_lacks_is_no_damage(case, states, tmp_path, monkeypatch):
    """Otherwise an intact checkpoint would be set aside, and the training go on from an older."""
    error, kind, message = MACHINE[case]
    fill(tmp_path, states)
    checkpoints = Checkpointer(tmp_path, keep=4)

    def fail(folder, abstract):
        raise RuntimeError("a task failed") from error

    monkeypatch.setattr(orbax, "load_checkpointables", fail)
    with pytest.raises(kind, match=message):
        checkpoints.restore(toy.parts()[0])
    checkpoints.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "4"]


def test_files_of_another_user_are_no_damage(states, tmp_path, monkeypatch):
    """Orbax calls such a step a missing one."""
    fill(tmp_path, states)
    checkpoints = Checkpointer(tmp_path, keep=4)
    files = [str(path) for path in (tmp_path / "4").rglob("*") if path.is_file()]
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, *a, **k: path not in files and access(path, *a))
    failed = mock.Mock(side_effect=KeyError("step 4"))
    monkeypatch.setattr(orbax, "load_checkpointables", failed)
    with pytest.raises(PermissionError, match=f"Permission denied: '{tmp_path}/4/"):
        checkpoints.restore(toy.parts()[0])
    checkpoints.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "4"]


def test_a_leaf_that_is_gone_is_damage(states, tmp_path, monkeypatch, caplog):
    """Orbax returns the requested ShapeDtypeStruct for a leaf that it does not find."""
    fill(tmp_path, states)
    checkpoints = Checkpointer(tmp_path)
    load = orbax.load_checkpointables

    def without(folder, abstract):
        loaded = load(folder, abstract)
        if folder == str(tmp_path / "4"):
            loaded["state"]["params/out/W"] = abstract["state"]["params/out/W"]
        return loaded

    monkeypatch.setattr(orbax, "load_checkpointables", without)
    assert bits(checkpoints.restore(toy.parts()[0])) == bits(states[2])
    checkpoints.close()
    assert "params/out/W is missing" in caplog.text


@pytest.mark.parametrize("best", [False, True])
def test_the_metadata_of_each_checkpoint_are_read_once(states, tmp_path, monkeypatch, best):
    fill(tmp_path, states, (1.0, 4.0, 3.0, 2.0), keep=3)
    read, note = [], Checkpointer._note
    monkeypatch.setattr(
        Checkpointer, "_note", lambda self, step: read.append(step) or note(self, step)
    )
    assert bits(restored(tmp_path, best=best)) == bits(states[1 if best else 3])
    assert read == [2, 3, 4]


def test_arrays_need_no_template(states, tmp_path):
    fill(tmp_path, states)
    checkpoints = Checkpointer(tmp_path)
    arrays = checkpoints.arrays(4)
    checkpoints.close()
    assert {"params/embedding", "params/out/W"} < set(arrays)
    assert arrays["params/out/W"].tobytes() == np.asarray(states[3].params["out"]["W"]).tobytes()


class Killed(BaseException):
    pass


def test_a_checkpoint_that_is_replaced_stays_until_the_new_one_is_whole(
    states, tmp_path, monkeypatch
):
    """Otherwise a kill between removing and writing would lose the only checkpoint of a run."""
    checkpoints = Checkpointer(tmp_path, 1)
    checkpoints.save(4, states[0], 1.0)
    checkpoints.wait()

    def killed(*args, **kwargs):
        raise Killed

    monkeypatch.setattr(checkpoints._orbax, "save_checkpointables_async", killed)
    with pytest.raises(Killed):
        checkpoints.save(4, states[1], 2.0)
    checkpoints._orbax.close()
    assert not (tmp_path / "4").exists()
    again = Checkpointer(tmp_path, 1)
    assert bits(again.restore(toy.parts()[0])) == bits(states[0])
    again.save(4, states[1], 2.0)
    again.close()
    assert [path.name for path in tmp_path.iterdir()] == ["4"]
    assert bits(restored(tmp_path)) == bits(states[1])


def test_what_a_kill_leaves_of_a_checkpoint_that_was_replaced_is_removed(states, tmp_path):
    """The new one is whole, and is kept."""
    fill(tmp_path, states)
    shutil.copytree(tmp_path / "1", tmp_path / "replaced-4")
    with contextlib.closing(Checkpointer(tmp_path, 4)) as checkpoints:
        found = checkpoints.restore(toy.parts()[0])
    assert bits(found) == bits(states[3])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "4"]


def test_too_little_space_is_told_before_anything_is_written(states, tmp_path, monkeypatch):
    checkpoints = Checkpointer(tmp_path, 2)
    checkpoints.save(1, states[0])
    checkpoints.wait()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("", (), {"free": 100})())
    with pytest.raises(OSError, match=r"one needs 0\.\d MB, and 0\.0 MB are free"):
        checkpoints.save(2, states[1])
    checkpoints.close()
    assert bits(restored(tmp_path)) == bits(states[0])


def test_a_failed_save_is_told_without_waiting_for_the_next(states, tmp_path):
    """`check`, which the loop calls at every step, raises the error."""
    checkpoints = Checkpointer(tmp_path, 2)
    checkpoints.check()
    checkpoints.save(1, states[0])
    checkpoints.wait()
    checkpoints.check()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        with pytest.raises(OSError, match="cannot keep checkpoints in [^\n]*$"):
            checkpoints.save(2, states[1])
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                checkpoints.check()
                time.sleep(0.01)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with contextlib.suppress(OSError):
        checkpoints.close()


@pytest.mark.slow
def test_other_devices_restore_the_same(states, tmp_path):
    """Eight devices with sharded arrays restore what one device saved, and the reverse."""
    fill(tmp_path / "one", states)
    script = """
import sys, jax, numpy as np
from pathlib import Path
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from bahdanau_jax.checkpoints import Checkpointer
from tests.training import toy
mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
def place(leaf):
    split = leaf.ndim == 2 and leaf.shape[0] % 8 == 0
    return jax.device_put(leaf, NamedSharding(mesh, P("data") if split else P()))
template = jax.tree.map(place, {"params": {**toy.init(), "wide": np.zeros((16, 3), np.float32)}})
one = Checkpointer(Path(sys.argv[1]) / "one")
found = one.restore({"params": {k: v for k, v in template["params"].items() if k != "wide"}})
one.close()
found["params"]["wide"] = template["params"]["wide"] + 1.5
eight = Checkpointer(Path(sys.argv[1]) / "eight", 2)
eight.save(1, found)
eight.wait()
back = eight.restore(template)
eight.close()
assert back["params"]["wide"].sharding.num_devices == 8
print(jax.device_count())
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=root,
        env=environment,
    )
    assert done.stdout == "8\n", done.stderr
    checkpoints = Checkpointer(tmp_path / "eight")
    found = checkpoints.arrays(1)
    checkpoints.close()
    assert found["params/wide"].tolist() == np.full((16, 3), 1.5).tolist()
    assert found["params/out/W"].tobytes() == np.asarray(states[3].params["out"]["W"]).tobytes()


@pytest.mark.parametrize("here", [True, False])
def test_what_one_process_cannot_read_is_damaged_for_all(here, monkeypatch):
    """The other process finds damage; this one finds it too, or nothing."""
    monkeypatch.setattr(orbax_reading, "holds_everywhere", lambda condition: False)

    def read():
        if here:
            raise orbax_errors.Damaged("its own fault")
        return 7

    with pytest.raises(orbax_errors.Damaged) as damage:
        orbax_reading.read_by_all(read)
    assert str(damage.value) == ("its own fault" if here else "another process cannot read it")


def test_a_process_may_have_another_number_of_orbax_than_of_jax(states, tmp_path, monkeypatch):
    """As on TPUs, where JAX numbers processes by their devices."""
    fill(tmp_path, states)
    monkeypatch.setattr(jax._src.distributed.global_state, "process_id", 1)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    wanted = {"step": state_digest.abstract(states[0].step)}
    found = orbax_reading.load(tmp_path / "4", {"state": wanted})
    assert int(found["state"]["step"]) == 4


@pytest.mark.slow
def test_processes_do_not_wait_for_one_that_finds_damage(tmp_path):
    """Orbax makes all processes wait for each other at the end of a read, for five minutes."""
    with socket.create_server(("localhost", 0)) as free:
        address = f"localhost:{free.getsockname()[1]}"
    program = str(Path(__file__).with_name("damaged_shard.py"))
    started = [
        subprocess.Popen(
            [sys.executable, program, str(process), address, str(tmp_path / "checkpoints")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(small.ROOT)},
        )
        for process in range(2)
    ]
    written = [process.communicate(timeout=600) for process in started]
    for out, err in written:
        found = json.loads(out.splitlines()[-1])  # the library of the all-reduce prints too
        assert found["same"] and found["seconds"] < 60, err
    assert "is damaged: another process cannot read it" in written[0][1]
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"1", "damaged-2"}
