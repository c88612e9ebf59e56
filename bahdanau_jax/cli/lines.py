r"""Input and output of lines of text. Only \n ends a line.

\r, form feeds, U+0085 and U+2028 are part of a line that is read, and become spaces in a line that
is written. Therefore input and output have equally many lines by every rule of counting.
"""

import codecs
import contextlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from bahdanau_jax.atomic import is_stream, replaced_file
from bahdanau_jax.cli import leaving
from bahdanau_jax.compression import COMPRESSED, OPENERS, UNPACKING_ERRORS
from bahdanau_jax.reporting import ignore

log = logging.getLogger(__name__)

# Characters that JSON does not escape but some programs read as the end of a line.
JSON_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}

WINDOW = 1024  # lines in memory at once
CHUNK = 1 << 20  # bytes read at once
LONGEST = 1 << 20  # bytes of a line; the tokenisation of a longer one takes minutes


def opened(path: Path | None) -> contextlib.AbstractContextManager[BinaryIO]:
    """Open a file, which is unpacked by its suffix, or stdin."""
    if path is None:
        if sys.stdin is None:
            raise OSError("stdin is closed: name a file to read")
        return contextlib.nullcontext(sys.stdin.buffer)
    return OPENERS.get(path.suffix, open)(path, "rb")


def read(
    path: Path | None, window: int = WINDOW, too_long: Callable[[int], object] = ignore
) -> Iterator[list[str]]:
    """Yield windows of at most `window` lines as soon as they arrive, also from a terminal.

    A byte-order mark at the beginning is removed. Invalid UTF-8 is replaced, with one warning for
    the file. A line of more than LONGEST bytes is read as an empty one, with a warning, and
    `too_long` is called with its number, from 1. Raises OSError or ValueError for a file that
    cannot be read or unpacked.
    """
    name = "stdin" if path is None else str(path)
    number, warned = 0, False

    def warn(line: int) -> None:
        log.warning(f"{name}:{line}: a line of more than {LONGEST:,} bytes is read as an empty one")
        too_long(line)

    with _damage_as_value_error(name), opened(path) as stream:
        for lines in _windows(_chunks(path, stream), window, warn):
            if not number:
                lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
            invalid = [] if warned else [i for i, line in enumerate(lines) if not _valid(line)]
            if invalid:
                warned = True
                where = f"{name}:{number + invalid[0] + 1}"
                log.warning(f"{where}: invalid UTF-8, read as U+FFFD (later ones not shown)")
            number += len(lines)
            yield [line.decode("utf-8", "replace") for line in lines]


def read_all(path: Path) -> list[str]:
    """All lines of a file."""
    return [line for window in read(path) for line in window]


def count(path: Path) -> int:
    """The number of lines of a file. Raises as `read` does."""
    with _damage_as_value_error(str(path)), opened(path) as stream:
        return sum(map(len, _windows(_chunks(path, stream))))


def total(path: Path | None) -> int | None:
    """The number of lines of a regular file; None for pipes and for damaged files."""
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
def _damage_as_value_error(name: str) -> Iterator[None]:
    try:
        yield
    except UNPACKING_ERRORS as error:
        raise ValueError(f"{name}: cannot be unpacked: {error}") from error


def _windows(
    chunks: Iterator[bytes],
    size: int = WINDOW,
    too_long: Callable[[int], object] = ignore,
) -> Iterator[list[bytes]]:
    """Yield complete lines. A line above LONGEST bytes is not kept: it becomes empty, and
    `too_long` is called with its number as soon as it exceeds the limit."""
    number, pieces = 1, []  # of the incomplete line
    size_so_far = 0  # bytes of the incomplete line
    for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        before, size_so_far = size_so_far, size_so_far + len(head)
        if size_so_far <= LONGEST:
            pieces.append(head)
        elif before <= LONGEST:
            too_long(number)
            pieces.clear()
        if not lines:
            continue
        complete = [b"".join(pieces), *lines[:-1]]
        number += len(complete)
        pieces, size_so_far = [lines[-1]], len(lines[-1])
        for start in range(0, len(complete), size):
            yield complete[start : start + size]
    if size_so_far:
        yield [b"".join(pieces)]


def _chunks(path: Path | None, stream: BinaryIO) -> Iterator[bytes]:
    """Chunks of a file; of a pipe or a terminal, the bytes that are available now."""
    is_regular = path is not None and path.is_file()
    read = stream.read if is_regular else stream.read1  # type: ignore[attr-defined]
    return iter(lambda: read(CHUNK), b"")


def _valid(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def flat(text: str) -> str:
    r"""The text on one line: every line end of Python or Unicode becomes a space.

    >>> flat("one\u2028two")
    'one two'
    """
    return " ".join(text.splitlines())


@contextlib.contextmanager
def writer(path: Path | None) -> Iterator[Callable[[Iterable[str]], None]]:
    """A function that writes and flushes pieces of text, which contain their line ends.

    A file appears when the block ends without an error, and is compressed by its suffix, also that
    of a link. A pipe or a device, such as /dev/stdout, is written to directly.
    """
    if path is None:
        if sys.stdout is None:
            raise OSError("stdout is closed: name a file to write")
        yield _to(sys.stdout.buffer)
    elif is_stream(path):
        with open(path, "wb") as stream:
            yield _to(stream)
    else:
        with (
            replaced_file(path) as draft,
            leaving.cleanup(lambda: draft.unlink(missing_ok=True)),
            open(draft, "wb") as file,
            COMPRESSED.get(path.suffix, contextlib.nullcontext)(file) as stream,
        ):
            yield _to(stream)


def _to(stream: BinaryIO) -> Callable[[Iterable[str]], None]:
    def write(pieces: Iterable[str]) -> None:
        stream.writelines(piece.encode("utf-8", "replace") for piece in pieces)
        stream.flush()

    return write
