import os
import threading

import pytest

from bahdanau_jax.atomic import write_text


def test_a_pipe_is_written_to_and_stays(tmp_path):
    """As root, a file in the place of /dev/null would break other programs."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        texts = []
        reader = threading.Thread(target=lambda: texts.append(pipe.read_text()), daemon=True)  # noqa: B023
        reader.start()
        write_text(path, "one\n")
        assert pipe.is_fifo() and link.is_symlink()
        reader.join(60)
        assert texts == ["one\n"]
    assert set(tmp_path.iterdir()) == {pipe, link}


def test_a_folder_in_the_place_of_a_file_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"):
        write_text(tmp_path / "folder", "one\n")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
