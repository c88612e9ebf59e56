"""The cells of a sweep: configurations that differ in named settings."""

import dataclasses
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.names import did_you_mean
from bahdanau_jax.run_folder import REPORT, SWEEP

# The cells of a sweep: the configuration of each by the name of its folder.
Cells = Mapping[str, Config]
# The folder of prepared data, and the results. They, REPORT and SWEEP are beside the cells.
DATA, RESULTS = "data", "results.json"
LONGEST_FOLDER = 255  # bytes of a folder's name; file systems refuse longer ones
LONGEST_NAME = 100  # bytes of a name that `name` makes
MOST_SEEDS = 10_000  # of a cell
_SECTIONS = Counter(  # name of a field -> the number of sections that have it
    field.name
    for section in dataclasses.fields(Config)
    for field in dataclasses.fields(getattr(Config(), section.name))
)


def product(config: Config, vary: Mapping[str, Iterable[Any]]) -> dict[str, Config]:
    """Every combination of the values of the fields in `vary`, the last field varying fastest.

    A field is a dotted name such as "model.order". Its values are of the field's type, or text of
    one; the name may have - in place of _. Without fields, there is one cell. Raises ValueError for
    an unknown field, for a value of another type, for a field or a value that is given twice, and
    for one text in place of a list of values.

    >>> list(product(config, {"model.order": ["paper", "luong"], "model.hidden_size": ["64"]}))
    ['order=paper,hidden_size=64', 'order=luong,hidden_size=64']
    """
    fields: dict[str, Sequence[Any]] = {}
    for written, values in vary.items():
        field = written.replace("-", "_")
        if field in fields:
            raise ValueError(f"the field {field} is given twice, also as {_other(field, vary)}")
        if isinstance(values, str):
            raise ValueError(f"the values of {field} should be a list, not the text {values!r}")
        fields[field] = list(values)
        _check_values(config, field, fields[field])
    cells = {}
    for values in itertools.product(*fields.values()):
        settings = dict(zip(fields, values, strict=True))
        cell = config
        for field, value in settings.items():
            cell = with_field(cell, field, value)
        folder = name(settings)
        if folder in cells:  # values that differ only in characters that no folder's name has
            folder = f"{folder}~{_digest(_written(settings))}"
        cells[folder] = cell
    return cells


def _other(field: str, vary: Iterable[str]) -> str:
    """Another spelling of a field among those of `vary`."""
    return next(each for each in vary if each != field and each.replace("-", "_") == field)


def _short(field: str) -> str:
    """The field without its section, where no other section has a field of that name."""
    last = field.rpartition(".")[2]
    return field if _SECTIONS[last] > 1 else last


def _check_values(config: Config, field: str, values: Sequence[Any]) -> None:
    """Raise ValueError as `product` does for the values of one field."""
    if field == "training.seed":
        raise ValueError("training.seed varies in every sweep: set --seeds and --training.seed")
    if not values:
        raise ValueError(f"--vary {field} has no value: write --vary {field}=VALUE,VALUE")
    configs: list[Config] = []
    for value in values:
        changed = with_field(config, field, value)
        if changed in configs:
            raise ValueError(f"--vary {field} has {value!r} twice")
        configs.append(changed)


def name(settings: Mapping[str, Any]) -> str:
    """The name of a cell, which can be that of a folder. A long name ends in a digest of the rest.

    >>> name({"model.order": "paper", "data.train": "text:a/b.en"})
    'order=paper,train=text_a_b.en'

    A field keeps its section where another section has a field of the same name:

    >>> name({"decoding.coverage": 0.2})
    'decoding.coverage=0.2'
    """
    whole = re.sub(r"[^\w=.,+-]", "_", _written(settings)) or "all"
    encoded = whole.encode()
    if len(encoded) <= LONGEST_NAME:
        return whole
    return f"{encoded[: LONGEST_NAME - 9].decode(errors='ignore')}-{_digest(whole)}"


def _written(settings: Mapping[str, Any]) -> str:
    return ",".join(f"{_short(field)}={value}" for field, value in settings.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def check_name(name: str) -> None:
    """Raise ValueError for a name of a cell that cannot be that of its folder.

    >>> check_name("order=paper")
    """
    if not re.fullmatch(r"[\w=.,+~-]+", name) or name.startswith("."):
        raise ValueError(
            f"the cell name {name!r} cannot name a folder: write letters, digits and = . , + ~ - _"
        )
    if name in (DATA, REPORT, SWEEP, RESULTS):
        raise ValueError(f"the cell name {name!r} is that of a file or folder of the sweep")
    if len(name.encode()) > LONGEST_FOLDER:
        raise ValueError(f"the cell name {name[:20]!r}... has more than {LONGEST_FOLDER} bytes")


def seed_range(first: int, count: int) -> range:
    """The seeds of a sweep, as many as `count`. Raises ValueError for too many or none.

    >>> seed_range(1, 3)
    range(1, 4)
    """
    if not 1 <= count <= MOST_SEEDS:
        raise ValueError(f"{count} seeds: a sweep has at least 1 and at most {MOST_SEEDS:,}")
    return range(first, first + count)


def checked_seeds(seeds: Sequence[int]) -> list[int]:
    """The seeds as integers of Python. Raises ValueError for too many, wrong or equal ones.

    >>> checked_seeds(np.arange(1, 3))
    [1, 2]
    """
    if len(seeds) > MOST_SEEDS:
        raise ValueError(f"{len(seeds):,} seeds: a sweep has at most {MOST_SEEDS:,}")
    checked = [int(seed) if isinstance(seed, np.integer) else seed for seed in seeds]
    for seed in checked:
        if type(seed) is not int or not 0 <= seed < 1 << 32:
            raise ValueError(f"the seed {seed!r} should be an integer of at least 0, below 2^32")
    if len(set(checked)) < len(checked):
        raise ValueError("the seeds of a sweep should all be different")
    return checked


def seed_folder(workdir: Path, cell: str, seed: int) -> Path:
    """The folder of a run in that of its sweep."""
    return workdir / cell / f"seed-{seed}"


def with_field(config: Config, field: str, value: Any) -> Config:
    """The configuration with another value of a field. Raises ValueError as `product` does."""
    fields = {
        f"{section.name}.{leaf.name}"
        for section in dataclasses.fields(config)
        for leaf in dataclasses.fields(getattr(config, section.name))
    }
    field = field.replace("-", "_")
    if field not in fields:
        hint = did_you_mean(field, sorted(fields), "see bahdanau train --help")
        raise ValueError(f"no field {field}; {hint}")
    section, leaf = field.split(".")
    settings = getattr(config, section)
    typed = _typed(field, value, getattr(settings, leaf))
    return dataclasses.replace(config, **{section: dataclasses.replace(settings, **{leaf: typed})})


def _typed(field: str, value: Any, default: Any) -> Any:
    kind = type(default)
    if type(value) is kind:
        return value
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if kind is int and isinstance(value, float):
            raise ValueError
        if value is None:
            raise TypeError
        return kind(value)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{field} should be {kind.__name__}, not {value!r}") from None
