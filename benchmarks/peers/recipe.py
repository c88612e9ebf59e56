"""Prepares JoeyNMT for a comparison with a run of ours: same pairs, same tokens, same sizes.

JoeyNMT's words are our ids, so that both programs have the same tokens.
"""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bahdanau_jax import data
from bahdanau_jax.batch import EOS, EOS_SYMBOL, RESERVED, UNK, UNK_SYMBOL
from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.model import ORDERS
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.trained import Run
from benchmarks.peers import process

PROGRAM = str(Path(__file__).with_name("joey.py"))
SIDES = ("src", "trg")
DEV_PAIRS = 200


def joeynmt(run: Run, python: Path, folder: Path, updates: int, keep: bool = True) -> process.Peer:
    """A JoeyNMT of the run's sizes, trained on the run's pairs, unless `folder` has it already.

    `python` is that of an environment with JoeyNMT. With `keep` it reuses the memory that it frees.
    Raises ValueError where the folder holds another model, or where JoeyNMT fails.
    """
    python = process.located("JoeyNMT", python)
    name, config = f"JoeyNMT ({python})", folder / "config.json"
    wanted = json.dumps(configuration(run, folder, updates), indent=2) + "\n"
    draft = folder / "draft.json"
    if config.exists():
        if _portable(config.read_text(encoding="utf-8")) != _portable(wanted):
            raise ValueError(
                f"{folder} holds another JoeyNMT model: take another --peer-folder, or delete it"
            )
        config.write_text(wanted, encoding="utf-8")  # the folder may have moved
    else:
        if folder.exists() and any(folder.iterdir()) and not draft.exists():
            raise ValueError(f"{folder} holds other files: take another --peer-folder")
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(wanted, encoding="utf-8")
        write_text(run, folder, DEV_PAIRS)
        process.run(name, command(python, "train", draft))
        draft.replace(config)  # only a trained model has this file
    return process.Peer(name, command(python, "serve", config, keep))


def command(python: Path, task: str, config: Path, keep: bool = True) -> list[str]:
    """The command that trains or serves a configuration of JoeyNMT: `task` is train or serve."""
    return [str(python), PROGRAM, task, str(config), *(["keep"] if keep else [])]


def sizes(config: Config) -> dict[str, Any]:
    """The sizes of JoeyNMT's model. Its attention and readout are as wide as its decoder."""
    return {
        "cell": "gru",
        "embedding_size": config.model.embedding_size,
        "hidden_size": config.model.hidden_size,
        "encoder_directions": config.model.encoder_directions,
        "attention": "bahdanau",
        "alignment_size": config.model.hidden_size,
        "readout_size": config.model.hidden_size,
    }


def unequal(config: Config) -> str:
    """A line with the options that give ours JoeyNMT's sizes; "" where the sizes are equal."""
    size = config.model.hidden_size
    theirs: dict[str, Any] = {
        "alignment_size": size,
        "readout_size": size,
        "word_annotations": False,
    }
    if ORDERS[config.model.order].has_second_cell:
        theirs["order"] = "luong"
    options = " ".join(
        f"--model.{name.replace('_', '-')} {value}"
        for name, value in theirs.items()
        if getattr(config.model, name) != value
    )
    return options and f"JoeyNMT's sizes differ from ours; for equal ones: {options}\n"


def configuration(run: Run, folder: Path, updates: int, **training: Any) -> dict[str, Any]:
    """The configuration for JoeyNMT; `training` replaces fields of its training section."""
    size = sizes(run.config)

    def side(name: str) -> dict[str, Any]:
        return {"lang": name, "level": "word", "voc_file": str(folder / f"vocabulary.{name}")}

    def part(**more: Any) -> dict[str, Any]:
        embeddings = {"embedding_dim": size["embedding_size"]}
        recurrent = {"rnn_type": size["cell"], "hidden_size": size["hidden_size"]}
        return {"type": "recurrent", **recurrent, "embeddings": embeddings, "dropout": 0.2, **more}

    return {
        "name": _key(run),
        "model_dir": str(folder / "model"),
        "use_cuda": jax.default_backend() == "gpu",  # as ours does
        "random_seed": 1,
        "data": {
            **{split: str(folder / split) for split in ("train", "dev")},
            **{name: side(name) for name in SIDES},
        },
        "testing": {"beam_size": 1, "batch_size": 64, "eval_metrics": []},
        "training": {
            "optimizer": "adam",
            "learning_rate": 2e-3,
            "scheduling": "warmupinversesquareroot",  # JoeyNMT's "plateau" fails with torch 2.13
            "learning_rate_warmup": 100,
            "clip_grad_norm": 1.0,
            "normalization": "tokens",
            "label_smoothing": 0.1,
            "batch_size": 64,
            "epochs": 1000,
            "updates": updates,
            "validation_freq": updates,
            "logging_freq": updates,
            "keep_best_ckpts": 1,
            "print_valid_sents": [],
            **training,
        },
        "model": {
            "encoder": part(bidirectional=size["encoder_directions"] == "both"),
            "decoder": part(attention=size["attention"], input_feeding=True, init_hidden="bridge"),
        },
    }


def _portable(text: str) -> dict[str, Any] | None:
    """A configuration for JoeyNMT without the names of folders and of the device."""
    try:
        config = parse_json(text)
        sides = {name: {**config["data"][name], "voc_file": None} for name in SIDES}
        return {**config, "data": sides, "model_dir": None, "use_cuda": None}
    except (ValueError, KeyError, TypeError):
        return None


def _key(run: Run) -> str:
    """A digest of the vocabularies and the training pairs."""
    words = [codec.vocabulary.to_bytes() for codec in run.codecs]
    store, rows = _training(run)
    pairs = store.statistics["digest"].encode() + rows.tobytes()
    return hashlib.sha256(b"".join([*words, pairs])).hexdigest()[:16]


def _training(run: Run) -> tuple[data.Store, np.ndarray]:
    """The stored pairs of a run, and the rows of its first epoch, in the order of its corpora."""
    store = data.prepare(run.config.data, run.folder, trained=True).train
    return store, data.Plan.of(store, run.config.data, run.config.training.seed).rows()


def write_text(run: Run, folder: Path, dev_pairs: int | None = None) -> None:
    """Write the run's words and pairs to the files of `configuration`.

    The training pairs are those of the run's first epoch.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for codec, name in zip(run.codecs, SIDES, strict=True):
        words = (str(i) for i in range(len(codec.vocabulary)) if i not in (EOS, UNK))
        _write(folder / f"vocabulary.{name}", words)
    config = run.config.data
    store, rows = _training(run)
    train = ([_words(store.source(i)), _words(store.target(i))] for i in rows)
    dev = (words for _, words in kept(run, config.dev or config.train))
    for split, pairs in (("train", train), ("dev", itertools.islice(dev, dev_pairs))):
        for name, lines in zip(SIDES, zip(*pairs, strict=True), strict=True):
            _write(folder / f"{split}.{name}", lines)


def kept(run: Run, spec: str) -> Iterator[tuple[data.Pair, list[str]]]:
    """The pairs of a corpus for JoeyNMT and their words, without empty sides."""
    for pair in data.pairs(spec, run.config.data):
        both = [to_words(codec, text) for codec, text in zip(run.codecs, pair[:2], strict=True)]
        if all(both):
            yield pair, both


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def numbered(run: Run) -> Run:
    """The same model, but it reads and writes what JoeyNMT does: our ids as words."""
    config = DataConfig(tokenizer="none", vocabulary="words")

    def codec(side: Codec) -> Codec:
        entries = EOS_SYMBOL, UNK_SYMBOL, *range(RESERVED, len(side.vocabulary))
        file = "".join(f"{entry}\n" for entry in entries).encode()
        words = data.VOCABULARIES[config.vocabulary].from_bytes(file)
        return Codec(config, data.TOKENIZERS[config.tokenizer](""), words)

    return dataclasses.replace(run, codecs=tuple(map(codec, run.codecs)))


def to_words(codec: Codec, text: str) -> str:
    """Our ids of a text as JoeyNMT's words, without EOS; it writes UNK as we do.

    >>> to_words(codec, "The man sleeps .")
    '4 17 <unk> 3'
    """
    return _words(codec.encode(text))


def _words(ids: Iterable[int]) -> str:
    return " ".join(UNK_SYMBOL if i == UNK else str(i) for i in [*ids][:-1])


def to_ids(words: str) -> Sequence[int]:
    """JoeyNMT's words as our ids, without EOS."""
    return [int(word) if word.isdigit() else UNK for word in words.split()]
