"""TensorFlow Datasets: `tfds:NAME[/CONFIG][?split=SPLIT&data_dir=FOLDER]` or `tfds:FOLDER`.

    tfds:wmt14_translate/de-en                        any translation dataset of TFDS
    tfds:wmt14_translate/de-en?split=train[:1%]       a split in TFDS's notation; default: train
    tfds:wmt14_paper/fr-en?split=validation           the paper's sets: see wmt.py
    tfds:/data/letters/1.0.0                          a prepared folder, for example of `write_tfds`

The languages are `data.source_language` and `data.target_language`. A named dataset is looked up in
TFDS's data folder (`data_dir`, TFDS_DATA_DIR or ~/tensorflow_datasets); if it is not there, it is
downloaded and prepared. A relative folder is looked up like the files of `text:`; one that starts
with a dot is relative to the current folder.

Examples have the order in which they are stored. TFDS shuffles a corpus that it prepares;
`write_tfds` keeps the order. Reading needs no TensorFlow.
"""

import contextlib
import functools
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import tfds_split
from bahdanau_jax.data.sources.locations import roots
from bahdanau_jax.names import choose, did_you_mean, nearest

CHUNK = 10_000  # examples read at a time; more are not faster
INFO = "dataset_info.json"  # TFDS writes it last: a folder with it is complete
OPTIONS = MappingProxyType({"split": "train", "data_dir": ""})
NAME = re.compile(r"(?P<name>[a-zA-Z]\w*)(/(?P<config>[\w+.-]+))?(:\d+\.\d+\.\d+)?")


class Dataset(NamedTuple):
    """A prepared dataset that has all files of `split`."""

    address: str  # the text between `tfds:` and the options
    builder: Any  # tfds.core.DatasetBuilder
    split: str  # in TFDS's notation
    languages: tuple[str, str]  # the features of the source and of the target

    @property
    def files(self) -> list[Path]:
        """The files that shape the examples: the description and the records of the split."""
        records = {os.fspath(path) for path in self.builder.info.splits[self.split].filepaths}
        return [Path(self.builder.data_dir) / INFO, *map(Path, sorted(records))]


def texts(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """The pairs of a dataset. Raises ValueError for invalid UTF-8 and for a damaged file."""
    if not dataset.builder.info.splits[dataset.split].num_examples:
        return
    for number, sides in enumerate(_stored(dataset), start=1):
        try:
            source, target = (side.decode("utf-8") for side in sides)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"tfds:{dataset.address}, split {dataset.split}, example {number}: not valid "
                f"UTF-8 (byte {error.start + 1} of a side)"
            ) from error
        yield source, target


def _stored(dataset: Dataset) -> Iterator[list[bytes]]:
    """Both sides of each example as bytes; TFDS's own decoding takes four times as long."""
    import tensorflow_datasets
    from tensorflow_datasets.proto import tf_example_pb2

    parse = getattr(tf_example_pb2, "Example").FromString  # noqa: B009, made while importing
    as_stored = tensorflow_datasets.decode.DeserializeMethod.RAW_BYTES
    records = dataset.builder.as_data_source(dataset.split, deserialize_method=as_stored)
    for start in range(0, len(records), CHUNK):
        keys = range(start, min(start + CHUNK, len(records)))
        try:
            examples = [
                parse(record).features.feature for record in records.__getitems__(list(keys))
            ]
        except Exception as error:  # ArrayRecord and the protocol buffer raise several classes
            raise ValueError(
                f"the dataset {dataset.builder.data_dir} is damaged at example {start + 1} of "
                f"{dataset.split} or soon after: {_one_line(error)}"
            ) from error
        for example in examples:
            yield [b"".join(example[side].bytes_list.value) for side in dataset.languages]


def open_dataset(rest: str, config: DataConfig) -> Dataset:
    """Find the dataset of `tfds:REST`; download and prepare it if that was not done.

    Raises ValueError for a wrong address or language, and for a folder that is incomplete or not in
    ArrayRecord; OSError where the dataset has to be downloaded and no server answers.
    """
    address, split, builder = _found(rest, config)
    dataset = Dataset(address, builder, split, _languages(address, builder, config))
    folder = Path(builder.data_dir)
    if not (folder / INFO).is_file():
        if folder.exists():
            raise ValueError(_incomplete(folder, INFO))
        from bahdanau_jax.data.sources import tfds_download

        tfds_download.prepare(builder, f"tfds:{address}")
    _check_format(dataset)
    tfds_split.check(dataset.split, dataset.builder.info.splits, dataset.address)
    for path in dataset.files:
        if not path.is_file():
            raise ValueError(_incomplete(folder, path.name))
    return dataset


def is_here(rest: str, config: DataConfig) -> bool:
    """Whether `open_dataset` would download nothing. Raises ValueError as it does for a name."""
    return Path(_found(rest, config)[2].data_dir).exists()


def _found(rest: str, config: DataConfig) -> tuple[str, str, Any]:
    """The address without its options, the split, and the builder of the dataset."""
    address, options = _parse(rest)
    builder = _in_folder(address, config)
    if builder and options["data_dir"]:
        raise ValueError(f"tfds:{rest} names a folder: leave out data_dir")
    return address, options["split"], builder or _by_name(address, options["data_dir"])


def _incomplete(folder: Path, missing: str) -> str:
    return (
        f"the dataset {folder} is incomplete, it has no {missing}: copy it again, or delete it so "
        "that it is prepared again"
    )


def _parse(rest: str) -> tuple[str, dict[str, str]]:
    address, _, query = rest.partition("?")
    options = dict(OPTIONS)
    for item in filter(None, query.split("&")):
        key, _, value = item.partition("=")
        choose(OPTIONS, key, "option of tfds: corpora,")
        if not value:
            raise ValueError(f"tfds:{rest}: {key} should have a value, as in {key}=...")
        options[key] = value
    return address, options


def _in_folder(address: str, config: DataConfig) -> Any:
    """The builder of a dataset in a folder; None where the address is a name."""
    spelt_as_path = address.startswith(("/", "./", "../", "~"))
    folders = [root / address for root in roots(config)]
    if spelt_as_path:
        folders = [Path(os.path.expanduser(address))]
    folder = next((path for path in folders if (path / INFO).is_file()), None)
    if folder is None:
        if not spelt_as_path:
            return None
        (folder,) = folders
        inside = sorted(str(path.parent) for path in folder.glob("**/" + INFO))
        hint = f"; there is one in {', '.join(inside[:3])}" if inside else ""
        raise ValueError(f"no dataset in {folder}, it has no {INFO}{hint}")
    import tensorflow_datasets

    try:
        with _own_features_only():
            return tensorflow_datasets.builder_from_directory(folder)
    except Exception as error:  # JSON, the protocol buffer and the features raise several classes
        raise ValueError(f"the dataset {folder} is damaged: {_one_line(error)}") from error


@contextlib.contextmanager
def _own_features_only() -> Iterator[None]:
    """Refuse a dataset whose features.json names a class of another package.

    TFDS would import that package, even if the file comes from a stranger.
    """
    import tensorflow_datasets

    kind = tensorflow_datasets.features.FeatureConnector
    before = kind.__dict__["cls_from_name"]

    def own(cls, name: str):
        if not name.startswith("tensorflow_datasets."):
            raise ValueError(f"its feature {name} is code of another package; it is not imported")
        return before.__func__(cls, name)

    kind.cls_from_name = classmethod(own)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        kind.cls_from_name = before


@contextlib.contextmanager
def without_bucket() -> Iterator[None]:
    """Keep TFDS from looking for the description of a dataset in its bucket in the cloud.

    It would leave an empty folder in the folder of temporary files each time.
    """
    import tensorflow_datasets

    kind = tensorflow_datasets.core.DatasetInfo
    before = kind.initialize_from_bucket
    kind.initialize_from_bucket = lambda self: None
    try:
        yield
    finally:
        kind.initialize_from_bucket = before


def _by_name(address: str, data_dir: str) -> Any:
    """The builder of NAME[/CONFIG][:VERSION], whose dataset may still have to be prepared."""
    import tensorflow_datasets
    import tensorflow_datasets.translate  # registers the translation datasets

    from bahdanau_jax.data.sources import wmt  # noqa: F401, registers the paper's datasets

    form = NAME.fullmatch(address)
    if not form:
        raise ValueError(f"tfds:{address} should be tfds:NAME[/CONFIG][:VERSION] or tfds:FOLDER")
    data_folder = os.path.expanduser(data_dir) if data_dir else None
    # TFDS prints messages about packages that are not needed here.
    with contextlib.redirect_stdout(io.StringIO()), without_bucket():
        _check_config(address, form["name"], form["config"])
        try:
            with _own_features_only():
                return tensorflow_datasets.builder(address, data_dir=data_folder)
        except tensorflow_datasets.core.DatasetNotFoundError as error:
            raise ValueError(_unknown(form["name"])) from error
        except (AssertionError, ImportError, RuntimeError, ValueError) as error:
            raise ValueError(f"tfds:{address}: {_one_line(error)}") from error


def _check_config(address: str, name: str, config: str | None) -> None:
    import tensorflow_datasets

    try:
        known = tensorflow_datasets.builder_cls(name).builder_configs
    except tensorflow_datasets.core.DatasetNotFoundError:
        return  # a dataset of unknown code may still be prepared
    if config and not known:
        raise ValueError(f"tfds:{name} has no configurations: leave out /{config}")
    if config:
        choose(known, config, f"configuration of tfds:{name}")
    elif len(known) > 1:
        raise ValueError(f"tfds:{address} should name one of {', '.join(sorted(known))}")


def _unknown(name: str) -> str:
    import tensorflow_datasets

    known = tensorflow_datasets.list_builders(with_community_datasets=False)
    question = did_you_mean(name, known, find=functools.partial(nearest, most=3), quote=True)
    hint = f" ({question})" if question else ""
    return f"TFDS knows no dataset {name!r}{hint}, and none of that name was prepared here"


def _check_format(dataset: Dataset) -> None:
    formats = sorted(form.value for form in dataset.builder.info.available_file_formats())
    if "array_record" not in formats:
        raise ValueError(
            f"the dataset {dataset.builder.data_dir} is stored as {', '.join(formats)}, but "
            "array_record is needed: name another folder with ?data_dir=..., delete this one so "
            "that it is prepared again, or convert it by TFDS's command `tfds convert_format`"
        )


def _languages(address: str, builder: Any, config: DataConfig) -> tuple[str, str]:
    """The features of both sides, checked before anything is downloaded."""
    from tensorflow_datasets.core.features import Text

    features = builder.info.features
    known = [name for name, feature in features.items() if isinstance(feature, Text)]
    for field in ("source_language", "target_language"):
        if getattr(config, field) not in known:
            raise ValueError(
                f"tfds:{address} has no text feature {getattr(config, field)!r}, data.{field}; "
                f"its text features: {', '.join(known) or 'none'} (all: {', '.join(features)})"
            )
    return config.source_language, config.target_language


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
