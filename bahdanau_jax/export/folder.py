"""Writes the exported folder: weights, programs, vocabularies, model card and translate.py."""

import errno
import hashlib
import importlib.metadata
import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flatbuffers

from bahdanau_jax import compiler_faults, exchange, model, report
from bahdanau_jax.atomic import replaced_folder
from bahdanau_jax.config import Config, DataConfig, DecodingConfig, ModelConfig
from bahdanau_jax.decoding import COMPUTE_DTYPES, LONGEST
from bahdanau_jax.export import artefacts, tokenizer_rules
from bahdanau_jax.export.measured import measured
from bahdanau_jax.export.model_card import Facts, card
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.run_folder import CONFIG, VOCABULARY, check_text
from bahdanau_jax.trained import Run
from bahdanau_jax.user_code import is_code

log = logging.getLogger(__name__)

WEIGHTS, CARD, REQUIREMENTS, RULES = (
    "model.safetensors",
    "README.md",
    "requirements.txt",
    "moses.json",
)
FORMAT = "bahdanau_jax export"  # marks an exported folder, in config.json
FORMAT_VERSION = 1
RUNTIME = Path(__file__).parent / "runtime"
PROGRAMS = ("translate.py", "search_settings.py", "beam.py", "weights.py", "text.py", "moses.py")
PROGRAMS += ("pieces.py",)
LONGEST_BYTES = 1 << 20  # of a line; `bahdanau translate` reads a longer one as an empty one too
LIBRARIES = ("bahdanau-jax", "jax", "jaxlib", "numpy", "safetensors", "sacremoses")
# JAX reads artefacts with this library and does not require it. flexbuffers.py is another format.
READER = "flatbuffers"
# The folders that Python writes when it translates.
BYTECODE = frozenset({Path("__pycache__"), Path(READER, "__pycache__")})
UNUSED = ("flexbuffers.py",)


def check(config: Config, output: Path, run: Path, overwrite: bool) -> None:
    """Raise an error of one line where a run cannot be exported to a folder; write nothing.

    Call it before the model is loaded. It raises FileExistsError where `output` holds an export and
    `overwrite` is False, PermissionError where the folder around it cannot be written, and
    ValueError for other reasons.
    """
    if is_code(config.model.attention):
        raise ValueError(
            f"model.attention is {config.model.attention!r}, code of your own: the exported folder "
            "has to run without it; translate with the run folder instead"
        )
    check_text(output)
    target, run_folder = (Path(os.path.realpath(path)) for path in (output, run))
    if target.is_relative_to(run_folder) or run_folder.is_relative_to(target):
        raise ValueError(
            f"{output} and the run folder {run} lie in each other: choose another folder"
        )
    if target.exists() and not target.is_dir():
        raise ValueError(f"{output} is a file: name a folder")
    beside = next(parent for parent in target.parents if parent.exists())
    if not beside.is_dir():
        raise ValueError(f"{beside} is a file, so {output} cannot be a folder in it")
    if not os.access(beside, os.W_OK):
        raise PermissionError(errno.EACCES, "nothing can be written here", str(beside))
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not is_exported(target):
        raise ValueError(f"{output} has other files in it: choose a new folder")
    if others := _others(target):
        raise ValueError(
            f"{output} has files besides those of the export ({others[0]}), which would be lost: "
            "move them, or choose a new folder"
        )
    if not overwrite:
        raise FileExistsError(errno.EEXIST, "holds an export", str(output))


def is_exported(folder: Path) -> bool:
    """Whether an earlier export made this folder."""
    return _exported_files(folder) is not None


def _exported_files(folder: Path) -> set[str] | None:
    """The files that an export wrote into a folder; None where no export made the folder."""
    try:
        config = parse_json((folder / CONFIG).read_text(encoding="utf-8"))
        recorded = config["export"]["sha256"] if config["format"] == FORMAT else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return {*recorded, CONFIG, CARD, REQUIREMENTS} if isinstance(recorded, Mapping) else None


def _others(folder: Path) -> list[str]:
    """The paths of files and empty folders in an export that no export writes, sorted."""
    written, others = _exported_files(folder) or set(), []
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_full = path.is_dir() and not path.is_symlink() and any(path.iterdir())
        is_bytecode = name in BYTECODE or name.parent in BYTECODE and name.suffix == ".pyc"
        if not is_full and not is_bytecode and name.as_posix() not in written:
            others.append(name.as_posix())
    return sorted(others)


def write(run: Run, output: Path, license: str = "", overwrite: bool = False) -> dict[str, int]:
    """Export a run to a folder, which appears whole; return the bytes of each file by its name.

    Nothing in the folder of the run changes. The same run and the same versions give the same
    bytes. `license` is an identifier of hubs, such as `cc-by-4.0`.

    >>> write(load("runs/quickstart"), Path("quickstart-model"))["model.safetensors"]

    Raises ValueError as `check` does and for an ensemble, and OSError where the folder cannot be
    written.
    """
    if run.others:
        raise ValueError("an ensemble has several models: export each of its runs")
    output = Path(output)
    check(run.config, output, run.folder, overwrite)
    if run.config.decoding.method != DecodingConfig.method:
        log.warning("the exported folder searches by beam, not by %s", run.config.decoding.method)
    target = Path(os.path.realpath(output))
    facts = _facts(run, target.name, license)
    programs = artefacts.export_model(_computed(run.config))
    with replaced_folder(target, is_alone=True) as new:
        exchange.write_weights(run, new / WEIGHTS)
        for name, program in programs.items():
            (new / f"{name}{artefacts.SUFFIX}").write_bytes(program)
        shutil.copytree(run.folder / VOCABULARY, new / VOCABULARY, copy_function=shutil.copyfile)
        _write_code(new)
        _write_rules(run.config.data, new)
        digests = _digests(new)
        _write_json(new / CONFIG, _description(run, digests))
        facts = facts._replace(digest=digests[WEIGHTS], sizes=_sizes(new))
        (new / CARD).write_text(card(facts), encoding="utf-8")
        return _sizes(new)


def _computed(config: Config) -> ModelConfig:
    """The model with the compute dtype of its search."""
    return COMPUTE_DTYPES[config.decoding.compute_dtype](config.model)


def _write_code(folder: Path) -> None:
    """Write the Python files, and the library that JAX needs to read artefacts."""
    for name in PROGRAMS:
        shutil.copyfile(RUNTIME / name, folder / name)
    reader = folder / READER
    reader.mkdir()
    for file in sorted(Path(flatbuffers.__file__).parent.glob("*.py")):
        if file.name not in UNUSED:
            shutil.copyfile(file, reader / file.name)
    needs = f"jax>={importlib.metadata.version('jax')}\nnumpy\n"
    (folder / REQUIREMENTS).write_text(needs, encoding="utf-8")


def _write_rules(config: DataConfig, folder: Path) -> None:
    """Write moses.json, where the text is tokenised by these rules."""
    if config.tokenizer == "moses":
        languages = {"source": config.source_language, "target": config.target_language}
        rules = {side: tokenizer_rules.rules(code) for side, code in languages.items()}
        _write_json(folder / RULES, rules, indent=None)


def _description(run: Run, digests: Mapping[str, str]) -> dict[str, Any]:
    """config.json: the configuration of the run, and what the programs and readers need to know."""
    config = json.loads(run.config.to_json())
    config["decoding"]["method"] = DecodingConfig.method
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model_type": "rnnsearch",
        **config,
        "export": {
            "checkpoint": run.chosen.to_json() if run.chosen else None,
            "sha256": digests,
            "parameters": model.count(run.params),
            "platforms": list(artefacts.PLATFORMS),
            "versions": versions(),
            "longest_line": {"tokens": LONGEST, "bytes": LONGEST_BYTES},
            "xla_flags": {
                version: f"--{fault.option}={fault.value}"
                for version, fault in compiler_faults.FAULTS.items()
            },
        },
    }


def versions() -> dict[str, str]:
    """The versions of the libraries that write a folder."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
            found[name] = "unknown"
    return found


def _facts(run: Run, name: str, license: str) -> Facts:
    """What the card says, without the digest and the sizes of files that are not yet written."""
    return Facts(
        name=name,
        config=run.config,
        license=license,
        measured=measured(run),
        parameters=model.count(run.params),
        checkpoint=", ".join(map(str, run.chosen.used)) if run.chosen else "unknown",
        made=[
            row for table in report.made(run).tables for row in table.rows if row[0] != "checkpoint"
        ],
        versions=versions(),
        digest="",
        sizes={},
    )


def _write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files that translate.py reads, by their paths in the folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name != REQUIREMENTS
    }


def _sizes(folder: Path) -> dict[str, int]:
    """The bytes of each file, and of each folder as a whole, by name."""
    sizes: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            inner = path.relative_to(folder)
            name = inner.name if len(inner.parts) == 1 else f"{inner.parts[0]}/"
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    return sizes
