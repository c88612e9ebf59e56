"""Keeps generated corpora on disk, beside the compiled programs, for the next run that needs them.

A file has a line for each sentence, both sides in turn, after the SHA-256 of these lines. A damaged
file is written again. Without a folder or without space, the corpus is generated each time.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from bahdanau_jax.atomic import replaced_file

WORTH, MOST = 1_000, 200_000  # smaller and larger numbers of pairs are not kept
MOST_BYTES = 100_000_000  # of all files; beyond it, those that were read longest ago are removed
_OFF = ("0", "false", "f", "no", "n", "off")  # as JAX reads its variables

Texts = Iterator[tuple[str, str]]


def folder() -> Path | None:
    """The folder of the files; None where JAX keeps no compiled programs on this machine."""
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", "")
    is_off = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "1").lower() in _OFF
    return None if is_off or not cache or "://" in cache else Path(cache) / "corpora"


def key(address: str, files: Iterable[Path]) -> str:
    """A name that differs for another address or other contents of the files of its generator."""
    digest = hashlib.sha256(address.encode())
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def texts(name: str, pairs: int, generated: Texts) -> Texts:
    """The generated pairs, from the file of this name (see `key`) or written to it.

    >>> list(texts(key("copy/test?pairs=1000", files), 1_000, generated))
    """
    place = folder()
    if place is None or not WORTH <= pairs <= MOST:
        yield from generated
        return
    path = place / f"{name}.txt"
    lines = _read(path)
    if lines is not None:
        yield from zip(lines[::2], lines[1::2], strict=True)
        return
    lines = []
    for pair in generated:
        lines += pair
        yield pair
    with contextlib.suppress(OSError):  # a cache that cannot be written costs only time
        _write(path, lines)


def _read(path: Path) -> list[str] | None:
    try:
        digest, _, data = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    with contextlib.suppress(OSError):  # somebody else's file
        os.utime(path)
    is_whole = hashlib.sha256(data).hexdigest().encode() == digest
    return data.decode().split("\n") if is_whole else None


def _write(path: Path, lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as draft:
        draft.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    stats = {file: file.stat() for file in path.parent.glob("*.txt")}
    total = sum(stat.st_size for stat in stats.values())
    for file, stat in sorted(stats.items(), key=lambda item: item[1].st_mtime_ns):
        if total > MOST_BYTES and file != path:
            file.unlink(missing_ok=True)
            total -= stat.st_size
