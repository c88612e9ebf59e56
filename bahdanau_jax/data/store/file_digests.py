"""Digests of the files of a folder, which reveal a damaged file."""

import json
from collections.abc import Set
from pathlib import Path

from bahdanau_jax.data.sources.hashing import sha256_of_each
from bahdanau_jax.parsing import parse_json

SEAL = "sha256.json"  # file name -> SHA-256 of the file


def seal(folder: Path) -> None:
    """Write the digests of all files of `folder` into the file SEAL beside them."""
    paths = sorted(path for path in folder.iterdir() if path.name != SEAL)
    digests = {path.name: digest for path, digest in sha256_of_each(paths).items()}
    text = json.dumps(digests, indent=2) + "\n"
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
    names = sorted(sealed.keys() | needed)
    digests = sha256_of_each(path for name in names if (path := folder / name).exists())
    for name in names:
        if folder / name not in digests:
            raise ValueError(f"{name} is missing")
        if digests[folder / name] != sealed.get(name):
            raise ValueError(f"{name} is not the file that was written")
