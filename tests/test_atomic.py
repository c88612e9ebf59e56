import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from bahdanau_jax.atomic import replaced_file, replaced_folder, write_text


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
    with (
        pytest.raises(IsADirectoryError, match="is a folder, not a file: .*/folder'"),
        replaced_file(tmp_path / "folder"),
    ):
        pytest.fail("work was begun whose result has no place")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_error_names_the_file_and_not_its_draft(tmp_path):
    with (
        pytest.raises(PermissionError, match="/wanted'") as caught,
        replaced_file(tmp_path / "wanted") as draft,
    ):
        raise PermissionError(errno.EACCES, "Permission denied", str(draft))
    assert caught.value.filename == str(tmp_path / "wanted")
    with (
        pytest.raises(PermissionError, match="/another'"),
        replaced_file(tmp_path / "wanted"),
    ):
        raise PermissionError(errno.EACCES, "Permission denied", "/another")


def test_the_longest_names_of_files_are_written(tmp_path):
    for name in ("a" * 251 + ".txt", "é" * 125 + ".txt", "a." + "b" * 250):
        write_text(tmp_path / name, "one\n")
        assert (tmp_path / name).read_text() == "one\n"
    assert len([*tmp_path.iterdir()]) == 3


KILLED = """
import os, sys
from pathlib import Path
from bahdanau_jax.atomic import replaced_folder
rename = os.replace
os.replace = lambda source, target: (rename(source, target), os._exit(9))
with replaced_folder(Path(sys.argv[1]), *map(eval, sys.argv[2:])):
    pass
"""


def replace(folder, text, **options):
    with replaced_folder(folder, **options) as new:
        (new / "file").write_text(text)


def test_a_folder_that_cannot_be_replaced_is_put_back(tmp_path, monkeypatch):
    replace(tmp_path / "one", "old")
    rename = os.replace

    def failing(source, target):
        if (source / "file").read_text() == "new":
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="no"):
        replace(tmp_path / "one", "new")
    assert (tmp_path / "one/file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_kill_between_the_renames_loses_no_folder(tmp_path):
    """The next call puts the old folder back, also beside another one."""
    for name in ("one", "two"):
        replace(tmp_path / name, "old")
    command = [sys.executable, "-c", KILLED, tmp_path / "one"]
    assert subprocess.run(command, check=False).returncode == 9
    assert not (tmp_path / "one").exists()
    replace(tmp_path / "two", "new")
    assert {path.name: (path / "file").read_text() for path in tmp_path.iterdir()} == {
        "one": "old",
        "two": "new",
    }


def test_a_folder_with_a_long_name_is_replaced_and_put_back(tmp_path):
    folder = tmp_path / ("n" * 200)
    for text in ("one", "two"):
        replace(folder, text, is_alone=True)
    command = [sys.executable, "-c", KILLED, folder, "True"]
    assert subprocess.run(command, check=False).returncode == 9
    assert not folder.exists()
    replace(tmp_path / "beside", "new", is_alone=True)
    assert len([*tmp_path.iterdir()]) == 3  # what was left of the first folder stays
    with pytest.raises(ZeroDivisionError), replaced_folder(folder, is_alone=True):
        assert (folder / "file").read_text() == "two"
        raise ZeroDivisionError
    assert (folder / "file").read_text() == "two"
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, "beside"}


@pytest.mark.parametrize("is_alone", [False, True])
def test_the_target_of_a_link_is_replaced_again_and_again(tmp_path, is_alone):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / ".unfinished-of-another-run").mkdir()  # it is being written
    link = tmp_path / "store"
    link.symlink_to(tmp_path / "disk" / "store")
    for text in ("one", "two", "three"):
        replace(link, text, is_alone=is_alone)
        assert (tmp_path / "disk" / "store" / "file").read_text() == text
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "store"}
    assert len([*(tmp_path / "disk").iterdir()]) == 2


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(NotADirectoryError, match=f"the folder is a file: '{tmp_path}/notes/out'"):
        write_text(tmp_path / "notes" / "out", "text")
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_name_that_is_too_long_hides_no_other_fault(tmp_path, is_alone):
    folder = tmp_path / ("n" * (234 if is_alone else 235))
    with pytest.raises(ZeroDivisionError), replaced_folder(folder, is_alone=is_alone):
        raise ZeroDivisionError


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_a_folder_has_the_mode_of_any_other(tmp_path, umask):
    tmp_path.chmod(0o2775)  # a folder of a group, whose new folders are the group's too
    before = os.umask(umask)
    try:
        with replaced_folder(tmp_path / "new") as new:
            write_text(new / "file", "one\n")
        (tmp_path / "other").mkdir()
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "other")}
    assert modes == {0o2777 & ~umask}


def test_nothing_is_left_of_a_file_in_the_place_of_a_folder(tmp_path):
    write_text(tmp_path / "new", "one\n")
    with replaced_folder(tmp_path / "new") as new:
        write_text(new / "file", "one\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "file"]
