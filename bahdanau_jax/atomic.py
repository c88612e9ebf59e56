"""Files and folders that appear whole or not at all, even if the process is killed."""

import errno
import glob
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".unfinished-"
LONGEST_NAME = 255  # bytes of the name of a file, on most file systems


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device, such as /dev/stdout, which no file may replace."""
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG
    return os.path.dirname(path) == "/dev" or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A draft that replaces `path` when the block ends without an error.

    If `path` is a link, its target is replaced. If it is a stream (`is_stream`), it is the draft
    itself, which is written to at once. Errors name `path`: IsADirectoryError before the block
    where it is a folder, others such as FileNotFoundError where its folder is missing.

    >>> with replaced_file(Path("config.json")) as draft:
    ...     draft.write_text("{}")
    """
    if is_stream(path):
        yield path
        return
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    hidden = f".{os.getpid()}."
    is_long = len(os.fsencode(hidden + target.name)) > LONGEST_NAME
    ending = target.suffix if len(target.suffix) < 10 else ""
    short = f"{zlib.crc32(os.fsencode(target.name)):08x}{ending}"
    draft = target.with_name(hidden + (short if is_long else target.name))
    try:
        yield draft
        os.replace(draft, target)
    except (FileNotFoundError, NotADirectoryError) as error:
        if target.parent.is_dir():
            raise
        fault = "the folder is a file" if target.parent.exists() else "the folder does not exist"
        raise type(error)(error.errno, fault, str(path)) from error
    except OSError as error:
        if error.filename != str(draft):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if target.parent.is_dir():
            draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file of UTF-8 text, which appears whole."""
    with replaced_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def replaced_folder(folder: Path, is_alone: bool = False) -> Iterator[Path]:
    """A temporary folder that replaces `folder` when the block ends without an error.

    Its name contains UNFINISHED. Other such folders beside it are removed, since killed
    processes may have left them: only one process may write at a time. A folder that such a process
    was replacing is put back first. `is_alone`: other processes may write other folders beside it,
    and only what was left of `folder` is removed or put back. If `folder` is a link, its target is
    replaced, and counts as alone.

    >>> with replaced_folder(Path("store")) as new:
    ...     (new / "source.npy").write_bytes(data)
    """
    is_alone = is_alone or folder.is_symlink()
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}{UNFINISHED}" if is_alone else UNFINISHED
    replaced = f"{prefix}replaced-"  # the prefix of the name of a folder while it is replaced
    for old in folder.parent.glob(f"{glob.escape(replaced)}*"):
        _put_back(old, folder if is_alone else old.with_name(old.name.removeprefix(replaced)))
    for abandoned in folder.parent.glob(f"{glob.escape(prefix)}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    old = folder.with_name(replaced if is_alone else f"{replaced}{folder.name}")
    try:
        (ordinary := new / "ordinary").mkdir()  # a folder of mkdtemp is private
        mode = stat.S_IMODE(ordinary.stat().st_mode)
        ordinary.rmdir()
        yield new
        new.chmod(mode)
        if folder.exists():
            os.replace(folder, old)
        os.replace(new, folder)
    finally:
        _put_back(old, folder)
        shutil.rmtree(new, ignore_errors=True)


def _put_back(old: Path, folder: Path) -> None:
    """Rename the old folder to `folder`, or remove it where the new one is there."""
    if folder.exists():
        if os.path.isfile(old):
            old.unlink()
        shutil.rmtree(old, ignore_errors=True)
    elif os.path.exists(old):  # False for a name that is too long, where Path.exists raises
        os.replace(old, folder)
