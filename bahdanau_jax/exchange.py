"""Weights in one file: exports and imports safetensors, imports GroundHog's .npz.

The metadata of an exported file contain the configuration and the files of the vocabularies.
"""

import base64
import binascii
import dataclasses
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors
from safetensors import numpy as tensors

from bahdanau_jax import data, model, run_folder
from bahdanau_jax.atomic import replaced_file, replaced_folder
from bahdanau_jax.checkpoints import (
    Checkpointer,
    difference,
    dotted,
    flatten,
    signature,
    undotted,
    unflatten,
)
from bahdanau_jax.config import Config
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.run_folder import CHECKPOINTS, CONFIG, VOCABULARY
from bahdanau_jax.trained import Run, load
from bahdanau_jax.user_code import refuse_code

FORMAT = "bahdanau_jax"  # marks the files of this program, in the metadata


class Imported(NamedTuple):
    """The contents of a file of weights."""

    config: Config
    params: model.Params
    write_vocabulary: Callable[[Path], None]  # into a new folder


def export_weights(folder: Path, path: Path, trust_code: bool = False) -> int:
    """Write the weights of the best checkpoint as safetensors; return their number.

    Names are the paths of the parameters, joined by dots. The file is replaced atomically. Raises
    as `load`.
    """
    return write_weights(load(folder, trust_code=trust_code), path)


def write_weights(run: Run, path: str | Path) -> int:
    """Write the weights of a loaded run as `export_weights` does; return their number.

    The same weights give the same bytes. Raises ValueError for an ensemble.

    >>> write_weights(dataclasses.replace(run, params=params), "tuned.safetensors")
    """
    if run.others:
        raise ValueError("an ensemble has several weights: export each of its runs")
    flat = {name: np.asarray(array) for name, array in dotted(flatten(run.params)).items()}
    files = sorted((run.folder / VOCABULARY).iterdir())
    vocabulary = {file.name: base64.b64encode(file.read_bytes()).decode() for file in files}
    metadata = {
        "format": FORMAT,
        "config": run.config.to_json(),
        VOCABULARY: json.dumps(vocabulary),
    }
    with replaced_file(Path(path)) as draft:
        draft.write_bytes(_sorted_metadata(tensors.save(flat, metadata)))
    return sum(array.size for array in flat.values())


def _sorted_metadata(file: bytes) -> bytes:
    """The same safetensors file with sorted metadata: the library writes them in a random order."""
    start = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    size = -(-len(text) // 8) * 8  # the arrays begin at a multiple of 8
    return size.to_bytes(8, "little") + text.ljust(size) + file[start:]


def import_weights(
    path: str | Path,
    folder: str | Path,
    words: tuple[Path, Path] | None = None,
    trust_code: bool = False,
) -> int:
    """Make a run folder with 0 updates from a file of weights; return their number.

    The run translates. `train` continues from the weights of a safetensors file, on the text and
    with the settings that it names. `words` is only for GroundHog's files: two lists of words,
    source and target, one in each line, in the order of GroundHog's ids from 2. A file whose
    configuration names code (`module:attribute`) is refused without `trust_code`.

    Raises ValueError for an unsuitable file or folder, OSError where the folder cannot be written.

    >>> import_weights("tuned.safetensors", "runs/tuned")
    """
    folder, path = Path(folder), Path(path)
    if path.suffix not in READERS:
        raise ValueError(f"{path} should end in one of {', '.join(READERS)}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with run_folder.lock(folder):
        if (folder / CONFIG).exists():
            raise ValueError(f"{folder} holds a run already: choose another folder")
        run_folder.check_can_hold_run(folder)
        contents = READERS[path.suffix](path, words, trust_code)
        with replaced_folder(folder / VOCABULARY) as new:
            contents.write_vocabulary(new)
            _check_vocabulary(path, contents.config, new)
        _save(contents, folder)
    return model.count(contents.params)


def _check_vocabulary(path: Path, config: Config, folder: Path) -> None:
    """Raise ValueError where a folder has no vocabularies, or others than the configuration's."""
    try:
        codecs = data.load(folder, config.data)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"{path}: {str(error).replace(f'{folder}/', '')}") from error
    data.check_sizes(codecs, config.model, f"{path}: ", "its parts are of two models")


def _save(contents: Imported, folder: Path) -> None:
    """Save the state before the first update, then config.json, which marks a complete run."""
    from bahdanau_jax.training import Trainer  # not needed for an export

    config = contents.config
    params = jax.tree.map(jax.numpy.asarray, contents.params)
    checkpoints = Checkpointer(folder / CHECKPOINTS, config.training.keep_checkpoints)
    try:
        checkpoints.save(0, Trainer(config).begin(params))
    finally:
        checkpoints.close()
    config.save(folder / CONFIG)


def _check(config: Config) -> None:
    from bahdanau_jax import run

    run.check(config)


def _read_safetensors(path: Path, words: Any, trust_code: bool) -> Imported:
    if words is not None:
        raise ValueError(f"{path} holds its own vocabularies: leave out --words")
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{path} was not exported by bahdanau: it has no configuration")
            flat = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or it is damaged: {error}") from error
    except (AttributeError, TypeError) as error:  # of a type that NumPy lacks, such as float8
        raise ValueError(f"{path} holds weights of a type that NumPy lacks: {error}") from error
    try:
        config = Config.from_json(metadata["config"])
        files = {n: base64.b64decode(t) for n, t in parse_json(metadata[VOCABULARY]).items()}
    except (KeyError, ValueError, AttributeError, TypeError, binascii.Error) as error:
        raise ValueError(f"{path}: its metadata are damaged: {error}") from error

    def write(folder: Path) -> None:
        for name, content in files.items():
            if Path(name).name != name:
                raise ValueError(f"{path}: {name!r} is not the name of a vocabulary file")
            (folder / name).write_bytes(content)

    refuse_code(config, path, trust_code)
    _check(config)
    return Imported(config, _tree(path, config, flat), write)


def _tree(path: Path, config: Config, flat: Mapping[str, np.ndarray]) -> model.Params:
    """The tree of parameters with dotted names. Raises ValueError with the first that differs."""
    shapes = model.shapes(config.model)
    wanted = flatten(shapes)
    named = undotted(flat)
    signatures = [{n: signature(x) for n, x in tree.items()} for tree in (wanted, named)]
    if fault := difference(*signatures):
        raise ValueError(f"{path} does not hold the model of its own configuration: {fault}")
    for name, array in named.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} holds values that are not finite")
    return unflatten(shapes, named)


# What NumPy and zipfile raise for a file that is damaged, or in a form that they do not know.
NOT_ARRAYS = (
    *(ValueError, TypeError, EOFError, KeyError, NotImplementedError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


def _read_groundhog(path: Path, words: tuple[Path, Path] | None, trust_code: bool) -> Imported:
    """Read GroundHog's .npz. It contains only arrays, so `trust_code` does not matter."""
    if words is None:
        raise ValueError(
            f"{path} holds no vocabulary: give --words SOURCE,TARGET, two files with the words of "
            "GroundHog's ids from 2 on, one in each line"
        )
    try:
        with np.load(path) as file:
            arrays = dict(file)
        params, sizes = model.groundhog.parameters(arrays), model.groundhog.config(arrays)
    except NOT_ARRAYS as error:
        raise ValueError(f"{path} is not a file of GroundHog's weights: {error}") from error
    rows = sizes.source_vocabulary, sizes.target_vocabulary
    settings = dataclasses.replace(
        Config().data, source_vocabulary_size=rows[0], target_vocabulary_size=rows[1]
    )
    entries = [_entries(file, count) for file, count in zip(words, rows, strict=True)]

    def write(folder: Path) -> None:
        data.save_words(folder, (entries[0], entries[1]), settings)

    config = Config(model=sizes, data=settings)
    _check(config)
    return Imported(config, params, write)


def _entries(path: Path, rows: int) -> list[str]:
    """The words of the ids from 2, and a name for the id that GroundHog does not use."""
    try:
        words = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error.reason}") from error
    words = words[:-1] if words[-1] == "" else words
    if len(words) != rows - 3:
        raise ValueError(
            f"{path} has {len(words)} lines, but the weights are for {rows - 3} words: "
            f"{rows} rows without GroundHog's ids 0, 1 (UNK) and {rows - 1} (EOS)"
        )
    return [*words, "<unused>"]


Reader = Callable[[Path, tuple[Path, Path] | None, bool], Imported]
READERS: Mapping[str, Reader] = MappingProxyType(
    {".safetensors": _read_safetensors, ".npz": _read_groundhog}
)
