"""SHA-256 of files, computed in threads."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def sha256_of_each(paths: Iterable[Path]) -> dict[Path, str]:
    """SHA-256 of each file, in hexadecimal. Raises OSError for a file that cannot be read."""
    ordered = list(dict.fromkeys(paths))
    with ThreadPoolExecutor() as pool:
        return dict(zip(ordered, pool.map(_sha256, ordered), strict=True))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
