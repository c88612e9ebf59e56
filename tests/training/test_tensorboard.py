"""Event files as TensorBoard reads them, and a full disk."""

import struct
import threading

import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from bahdanau_jax.training.tensorboard import Board


def events(folder):
    """The events of the only file, whose records are length, checksum, event, checksum."""
    (file,) = folder.iterdir()
    data, found = file.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        found.append(event_pb2.Event.FromString(data[12 : 12 + length]))  # pyright: ignore
        data = data[16 + length :]
    return found


def test_scalars_and_pictures_are_read_back(tmp_path):
    board = Board(tmp_path / "board", 0)
    board.scalar(1, "loss", 2.5)
    board.picture(2, "look", np.zeros((4, 5, 3), np.uint8))
    board.flush()  # a killed run leaves what it said
    version, _, loss, look = events(tmp_path / "board")
    assert version.file_version == "brain.Event:2"
    (value,) = loss.summary.value
    assert (loss.step, value.tag, value.simple_value) == (1, "loss", 2.5) and loss.wall_time > 1e9
    (value,) = look.summary.value
    assert (look.step, value.tag, value.image.height, value.image.width) == (2, "look", 4, 5)
    board.close()


@pytest.mark.parametrize("step", [0, 7])
def test_what_a_killed_run_wrote_after_the_checkpoint_is_taken_back(tmp_path, step):
    Board(tmp_path, step).close()
    _, start = events(tmp_path)
    assert start.step == step + 1 and start.session_log.status == start.session_log.START


def test_a_full_disk_is_told_by_the_thread_that_writes(tmp_path, monkeypatch):
    before = threading.active_count()
    board = Board(tmp_path, 0)
    assert threading.active_count() == before

    def full(event):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(board._writer, "write_event", full)
    with pytest.raises(OSError, match=f"cannot write {tmp_path}: No space left on device"):
        board.scalar(1, "loss", 1.0)
    board.close()
