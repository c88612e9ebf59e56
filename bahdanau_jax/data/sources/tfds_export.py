"""The corpora of a configuration as a TFDS dataset, for other programs and for `tfds:`."""

import contextlib
import io
import os
import re
import tempfile
from functools import partial
from pathlib import Path

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.sources.tfds import without_bucket

FORMS = {"name": r"[a-z][a-z0-9_]*", "version": r"\d+\.\d+\.\d+"}


def write_tfds(config: DataConfig, data_dir: Path, name: str, version: str = "1.0.0") -> Path:
    """Write train, dev and test as the splits train, validation and test of DATA_DIR/NAME/VERSION.

    The features are the two language codes. Pairs keep their order. Returns the folder, which
    appears whole or not at all; `tfds:FOLDER` and tfds.builder_from_directory read it.

    Raises ValueError for a name or version that TFDS does not accept and for faults of the corpora,
    FileExistsError for an existing folder.

    >>> write_tfds(config, Path("tfds"), "letters")
    PosixPath('tfds/letters/1.0.0')
    """
    for field, value in (("name", name), ("version", version)):
        if not re.fullmatch(FORMS[field], value):
            raise ValueError(f"the {field} {value!r} of a dataset should be like {FORMS[field]}")
    languages = config.source_language, config.target_language
    if languages[0] == languages[1]:
        raise ValueError(
            f"data.source_language and data.target_language are both {languages[0]!r}, but they "
            "name the two texts of an example: let them differ"
        )
    datasets = Path(os.path.expanduser(data_dir))
    folder = datasets / name / version
    if folder.exists():
        raise FileExistsError(f"{folder} exists already: choose another version, or delete it")
    specs = {"train": config.train, "validation": config.dev, "test": config.test}
    from bahdanau_jax.data.sources.tfds_writer import ParallelText

    make = partial(
        ParallelText,
        data_dir=datasets,
        name=name,
        version=version,
        description="Sentence pairs: "
        + "; ".join(f"{split} from {spec}" for split, spec in specs.items() if spec),
        languages=languages,
        splits={
            split: partial(addresses.pairs, spec, config) for split, spec in specs.items() if spec
        },
    )
    # TFDS needs a folder for downloads and prints a message about downloads.
    with (
        tempfile.TemporaryDirectory() as downloads,
        contextlib.redirect_stdout(io.StringIO()),
        without_bucket(),
    ):
        make().download_and_prepare(download_dir=downloads)
    return folder
