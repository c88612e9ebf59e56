r"""Lines of text in and out: one line is what ends in \n, and nothing else ends one.

\r, form feeds, U+0085 and U+2028 stay part of their line when read, and become a space when
written, so that whoever counts lines, by whatever rule, counts as many out as in.
"""

import contextlib
import logging
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from bahdanau_jax.atomic import replaced_file
from bahdanau_jax.cli import leaving
from bahdanau_jax.compression import DAMAGE, OPENERS
from bahdanau_jax.reporting import ignore

log = logging.getLogger(__name__)

# Ends of lines, to some readers, that JSON leaves as they are.
JSON_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}

WINDOW = 1024  # lines held at once
CHUNK = 1 << 20  # bytes asked for at once
LONGEST = 1 << 20  # bytes of a line: a longer one takes minutes to tokenise


def opened(path: Path | None) -> contextlib.AbstractContextManager[BinaryIO]:
    """A file to read, unpacked by its suffix, or stdin."""
    if path is None:
        if sys.stdin is None:
            raise OSError("stdin is closed: name a file to read")
        return contextlib.nullcontext(sys.stdin.buffer)
    return OPENERS.get(path.suffix, open)(path, "rb")


def read(
    path: Path | None, window: int = WINDOW, too_long: Callable[[int], object] = ignore
) -> Iterator[list[str]]:
    """Windows of at most so many lines, each as soon as its text is there: a terminal can converse.

    Invalid UTF-8 is replaced, with one warning on stderr. A line above LONGEST bytes is read as an
    empty one, with a warning each, and `too_long` is told its number, from 1. Raises OSError or
    ValueError for a file that cannot be read or unpacked.
    """
    name = "stdin" if path is None else str(path)
    number, warned = 0, False

    def warn(line: int) -> None:
        log.warning(f"{name}:{line}: a line of more than {LONGEST:,} bytes is read as an empty one")
        too_long(line)

    with _told_of_damage(name), opened(path) as stream:
        for lines in _windows(_chunks(path, stream), window, warn):
            wrong = [] if warned else [i for i, line in enumerate(lines) if not _valid(line)]
            if wrong:
                warned = True
                where = f"{name}:{number + wrong[0] + 1}"
                log.warning(f"{where}: invalid UTF-8, read as U+FFFD (later ones not shown)")
            number += len(lines)
            yield [line.decode("utf-8", "replace") for line in lines]


def read_all(path: Path) -> list[str]:
    """All lines of a file."""
    return [line for window in read(path) for line in window]


def count(path: Path) -> int:
    """How many lines a file has. Raises as `read` does."""
    with _told_of_damage(str(path)), opened(path) as stream:
        return sum(map(len, _windows(_chunks(path, stream))))


def total(path: Path | None) -> int | None:
    """How many lines there will be, where that is known: of a file that can be read twice.

    A damaged file is left to whoever reads it, after its good lines.
    """
    if path is None or not path.is_file():
        return None
    try:
        return count(path)
    except (ValueError, OSError):
        return None


def to_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


@contextlib.contextmanager
def _told_of_damage(name: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{name}: cannot be unpacked: {error}") from error


def _windows(
    chunks: Iterator[bytes],
    size: int = WINDOW,
    too_long: Callable[[int], object] = ignore,
) -> Iterator[list[bytes]]:
    """Lines as they become complete; `too_long` is told, as soon as it is known, of each line above
    LONGEST bytes by its number, and nothing of that line is kept."""
    number, pieces = 1, []  # of a line whose end has not come yet
    held = 0  # bytes of it so far
    for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        before, held = held, held + len(head)
        if held <= LONGEST:
            pieces.append(head)
        elif before <= LONGEST:
            too_long(number)
            pieces.clear()
        if not lines:
            continue
        complete = [b"".join(pieces), *lines[:-1]]
        number += len(complete)
        pieces, held = [lines[-1]], len(lines[-1])
        for start in range(0, len(complete), size):
            yield complete[start : start + size]
    if held:
        yield [b"".join(pieces)]


def _chunks(path: Path | None, stream: BinaryIO) -> Iterator[bytes]:
    """A file in large pieces; of a pipe or terminal, what there is at the moment."""
    patient = path is not None and path.is_file()
    read = stream.read if patient else stream.read1  # type: ignore[attr-defined]
    return iter(lambda: read(CHUNK), b"")


def _valid(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def flat(text: str) -> str:
    r"""The text on one line: whatever Python or Unicode takes for a line's end becomes a space.

    >>> flat("one\u2028two")
    'one two'
    """
    return " ".join(text.splitlines())


@contextlib.contextmanager
def writer(path: Path | None) -> Iterator[Callable[[Iterable[str]], None]]:
    """A function that writes pieces of text, which hold the ends of lines, and sees them on their
    way; a file appears when all is written.

    A pipe or a device, such as /dev/stdout, is written to directly.
    """
    if path is None:
        if sys.stdout is None:
            raise OSError("stdout is closed: name a file to write")
        yield _to(sys.stdout.buffer)
    elif path.parent == Path("/dev") or (path.exists() and not stat.S_ISREG(path.stat().st_mode)):
        with open(path, "wb") as stream:
            yield _to(stream)
    else:
        opened = OPENERS.get(path.resolve().suffix, open)
        with (
            replaced_file(path) as draft,
            leaving.cleanup(lambda: draft.unlink(missing_ok=True)),
            opened(draft, "wb") as stream,
        ):
            yield _to(stream)


def _to(stream: BinaryIO) -> Callable[[Iterable[str]], None]:
    def write(pieces: Iterable[str]) -> None:
        stream.writelines(piece.encode("utf-8", "replace") for piece in pieces)
        stream.flush()

    return write
