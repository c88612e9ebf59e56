"""The text of a sweep: all its cells, also those of later calls, have to read the same."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from bahdanau_jax import data, run_folder
from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import DataConfig
from bahdanau_jax.experiments.sweep_cells import DATA, Cells
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.resuming import changed

TEXTS = "texts.json"  # in DATA: address -> names and SHA-256 of its files


def checked_texts(workdir: Path, cells: Cells) -> dict[str, Any]:
    """The files of the training and dev text by address, with those of earlier calls.

    Raises ValueError where the sweep in the folder, or an earlier cell, read other files.
    """
    try:
        texts = dict(parse_json((workdir / DATA / TEXTS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        texts = {}
    roots: dict[str, str] = {}  # of each address, in this call
    for name, config in cells.items():
        for field in ("train", "dev"):
            if not (address := getattr(config.data, field)):
                continue
            now = data.file_digests(address, config.data)
            if texts.setdefault(address, now) != now:
                if roots.get(address, config.data.root) != config.data.root:
                    raise ValueError(
                        f"cell {name}: another cell has data.{field} {address!r} in another "
                        f"data.root: vary data.{field} instead, with the folders in its names"
                    )
                raise ValueError(f"cell {name}: {changed(f'data.{field}', 'the sweep')}")
            roots.setdefault(address, config.data.root)
    return texts


def record_texts(workdir: Path, texts: dict[str, Any]) -> None:
    """Record the files of `checked_texts` for later calls."""
    (workdir / DATA).mkdir(exist_ok=True)
    write_text(workdir / DATA / TEXTS, json.dumps(texts, indent=2, ensure_ascii=False) + "\n")


def digest_of_pairs(address: str, config: DataConfig) -> str:
    """SHA-256 of all pairs of an address."""
    hashed = hashlib.sha256()
    for pair in data.pairs(address, config):
        hashed.update(f"{pair.source}\n{pair.target}\n".encode())
    return hashed.hexdigest()


def link_prepared(shared: Path, folder: Path) -> None:
    """Give a run folder the prepared text of another one, by hard links where there are any."""
    for part in (run_folder.VOCABULARY, run_folder.STORE):
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(shared / part, folder / part, copy_function=_link)


def _link(source: str, target: str) -> None:
    """Share a file by a hard link, or copy it where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
