"""Digests of the files of a folder, which reveal a damaged file."""

import hashlib
import json
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bahdanau_jax.parsing import parse_json

SEAL = "sha256.json"  # file name -> SHA-256 of the file


def seal(folder: Path) -> None:
    """Write the digests of all files of `folder` into the file SEAL beside them."""
    text = json.dumps(_digests(folder, _names(folder)), indent=2) + "\n"
    (folder / SEAL).write_text(text, encoding="utf-8")


def verify(folder: Path, needed: Set[str] = frozenset()) -> None:
    """Compare every file with its digest in SEAL; other files than `needed` may have none.

    Raises ValueError that names the first file that is missing or differs, FileNotFoundError where
    there is no SEAL.
    """
    if not (folder / SEAL).exists():
        raise FileNotFoundError(f"{SEAL} is missing")
    try:
        sealed = parse_json((folder / SEAL).read_bytes())
    except ValueError as error:
        raise ValueError(f"{SEAL} cannot be read: {error}") from error
    if not isinstance(sealed, dict):
        raise ValueError(f"{SEAL} should be an object")
    for name, digest in _digests(folder, sealed.keys() | needed).items():
        if digest is None:
            raise ValueError(f"{name} is missing")
        if digest != sealed.get(name):
            raise ValueError(f"{name} is not the file that was written")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != SEAL}


def _digests(folder: Path, names: Set[str]) -> dict[str, str | None]:
    ordered = sorted(names)
    with ThreadPoolExecutor() as pool:
        digests = pool.map(lambda name: _digest(folder / name), ordered)
        return dict(zip(ordered, digests, strict=True))


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
