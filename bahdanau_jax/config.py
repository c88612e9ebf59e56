"""Every setting of an experiment, its default, and what values it may take.

Frozen and hashable, so a configuration can be a static argument of `jax.jit`. The names of variants
(attention, order, optimiser, ...) are checked against their tables by `variants.check`.
"""

import dataclasses
import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from bahdanau_jax.atomic import write_text
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.splits import OWN, own


@dataclass(frozen=True)
class ModelConfig:
    """The shape of the network. Sizes default to the paper's (arXiv 1409.0473, appendix A)."""

    source_vocabulary: int = 0  # rows of the source embedding; 0: as many as the vocabulary has
    target_vocabulary: int = 0  # rows of the target embedding and of the softmax; 0: likewise
    embedding_size: int = 620  # m, numbers that stand for a word
    hidden_size: int = 1000  # n, units of each direction and of the decoder
    alignment_size: int = 1000  # n', hidden units of the alignment model
    readout_size: int = 500  # l, units of the readout after pooling
    output_size: int = 0  # a linear layer of this size between readout and vocabulary; 0: none
    order: str = "paper"  # what a step of the decoder does first
    attention: str = "additive"  # the score of a source word for the next target word
    cell: str = "gru"  # the recurrent unit of encoder and decoder
    encoder_directions: str = "both"  # how the source is read
    initial_state: str = "backward"  # what the decoder's first state is made from
    readout: str = "maxout"  # what follows the linear layer before the softmax
    embedding_bias: bool = False  # a bias added to every embedded word
    gate_bias: bool = True  # biases of the update and reset gates
    init: str = "scaled"  # what weights are drawn from at first
    gradients: str = "deferred"  # how gradients of recurrent weights are computed
    compute_dtype: str = "float32"  # precision of matrix products
    embedding_dropout: float = 0.0  # share of units dropped, on both embeddings
    annotation_dropout: float = 0.0  # the same of the encoder's output
    readout_dropout: float = 0.0  # the same of the readout


# What the paper leaves open, settled as its authors' program (GroundHog) settles it, as the paper's
# text reads, or as learns best at small sizes.
PRESETS: Mapping[str, ModelConfig] = MappingProxyType(
    {
        "groundhog": ModelConfig(
            order="groundhog", output_size=620, embedding_bias=True, gate_bias=False, init="paper"
        ),
        "paper": ModelConfig(gate_bias=False, init="paper"),
        "default": ModelConfig(),
    }
)


@dataclass(frozen=True)
class DataConfig:
    """Where the text comes from and how it becomes batches."""

    # pairs to train on: an address of one of these kinds, or several with ; between
    train: str = "builtin:en-fr/train?pairs=20000"
    # Without a value, dev and test are of the same built-in corpus as train, or else empty.
    dev: str = OWN  # pairs that choose the best checkpoint; "" for none
    test: str = OWN  # pairs for the final scores; "" for none
    # folder of relative files; "": the first of BAHDANAU_DATA, the current folder and data/ that
    # has all files of a corpus
    root: str = ""
    source_language: str = "en"  # for the Moses rules
    target_language: str = "fr"  # likewise
    unicode: str = "none"  # normal form that all text is brought to
    unescape: bool = False  # entities such as &amp; become characters
    tokenizer: str = "moses"  # what cuts a line into tokens
    lowercase: bool = False  # text in small letters
    vocabulary: str = "words"  # the units that the model reads and writes
    source_vocabulary_size: int = 30_000  # entries at most, EOS and UNK among them
    target_vocabulary_size: int = 30_000  # likewise
    joint_vocabulary: bool = False  # one vocabulary for both sides, of source_vocabulary_size
    subwords: str = "bpe"  # how sentencepiece cuts words
    byte_fallback: bool = False  # sentencepiece writes unknown characters as bytes, not as UNK
    subword_sentences: int = 200_000  # drawn to learn sentencepiece from, a side; 0: all
    subword_sampling: float = 0.0  # BPE-dropout, or the unigram model's alpha, in training text
    encodings: int = 1  # of each training pair, all stored; the epochs take turns in them
    max_tokens: int = 50  # training pairs longer on a side, before EOS, are dropped; 0: none
    max_ratio: float = 0.0  # pairs whose longer side has more times the tokens, too; 0: none
    drop_duplicates: bool = False  # pairs that were there before
    limit_words: int = 0  # source tokens of a random sample of the pairs to train on; 0: all pairs
    plan: str = "pools"  # how pairs become batches
    batch_size: int = 80  # pairs in a batch
    batch_words: int = 0  # positions of the longer side in a batch instead (buckets); 0: pairs
    pool_batches: int = 20  # batches cut from one sorted pool
    shapes: int = 8  # padded (S, T) shapes at most, chosen from the lengths: each is a program
    processes: int = 0  # that tokenise and encode; 0: as many as there are cores

    def __post_init__(self):
        for split in ("dev", "test"):
            if getattr(self, split) == OWN:
                object.__setattr__(self, split, own(self.train, split))


@dataclass(frozen=True)
class OptimizerConfig:
    """The update. The defaults are the paper's: its loss is summed, clipped and not divided."""

    name: str = "adadelta"  # the rule of the update
    learning_rate: float = 1.0  # the peak, where there is a schedule
    schedule: str = "constant"  # how the learning rate changes after warm-up
    warmup_steps: int = 0  # of linear growth from 0
    rho: float = 0.95  # Adadelta's decay
    epsilon: float = 1e-6  # added to squared gradients (Adam: to their root)
    beta1: float = 0.9  # Adam's decay of gradients
    beta2: float = 0.98  # that of squared gradients
    clip_norm: float = 1.0  # global norm of the gradient; 0: no clipping
    loss_normalization: str = "sum"  # what the summed loss is divided by
    label_smoothing: float = 0.0  # share of the target's mass spread over the vocabulary
    ema: float = 0.0  # decay of an average of the weights, used for evaluation; 0: none
    max_nonfinite: int = 20  # non-finite gradients in a row that stop the run


@dataclass(frozen=True)
class TrainingConfig:
    """How long to train, and what happens on the way. Intervals count updates; 0 is never."""

    steps: int = 1_000  # updates in all
    seed: int = 1  # of initial weights, order of batches and dropout
    log_every: int = 20  # updates from one line of metrics.jsonl to the next
    evaluate_every: int = 200  # updates from one evaluation on the dev pairs to the next
    checkpoint_every: int = 200  # updates from one checkpoint to the next
    keep_checkpoints: int = 2  # the newest so many; the best is kept beside them
    dev_metric: str = "bleu"  # what chooses the best checkpoint
    patience: int = 0  # evaluations without a better dev score before training stops
    parallel: str = "jit"  # how an update runs on several devices
    shard: str = "none"  # what the devices share instead of copying
    accumulate: int = 1  # parts in which a device goes through its rows, for less memory


@dataclass(frozen=True)
class DecodingConfig:
    """The search for a translation."""

    method: str = "beam"  # how translations are found
    beam_size: int = 12  # hypotheses kept; 1 is greedy search
    shrink: bool = False  # the beam loses a place to each hypothesis that ends (GroundHog)
    length_normalization: str = "none"  # what hypotheses are ranked by
    alpha: float = 0.6  # exponent of Wu et al.'s normalisation
    coverage: float = 0.0  # weight (beta) of Wu et al.'s coverage penalty; 0: none
    min_ratio: float = 0.0  # words to be written, for each source token, before EOS may come
    max_ratio: float = 3.0  # steps allowed for each source token, EOS counted
    ban_unk: bool = False  # never write UNK (the paper's "No UNK")
    temperature: float = 1.0  # of sampling: below 1 likely words become likelier
    top_k: int = 0  # samples are of so many likeliest words alone; 0: of all
    top_p: float = 1.0  # and of the fewest that have this share of the probability; 1: all
    seed: int = 1  # of sampling
    compute_dtype: str = "model"  # precision of matrix products in search
    max_source: int = 200  # a longer line is split, its pieces translated and joined
    batch_size: int = 64  # sentences decoded together


MOST_TRANSLATIONS = 1_000  # of a line, also while it is searched: each takes as much memory

# Searches that others are known to have used.
SEARCHES: Mapping[str, DecodingConfig] = MappingProxyType(
    {
        "default": DecodingConfig(),
        "greedy": DecodingConfig(beam_size=1),
        # The paper's own program: no EOS before half of the source's length.
        "groundhog": DecodingConfig(beam_size=12, shrink=True, min_ratio=0.5),
    }
)


@dataclass(frozen=True)
class Config:
    """One experiment. `Config.from_json(c.to_json()) == c`."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError naming a field that is unknown or of the wrong type."""
        return _build(cls, parse_json(text), "")

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is damaged or of another version: {error}") from error

    def save(self, path: Path) -> None:
        """The file appears, or is replaced, whole."""
        write_text(path, self.to_json())


def _build(cls, data: Any, path: str):
    """A dataclass from parsed JSON; every field given must exist and have its default's type."""
    if not isinstance(data, dict):
        name = path.removesuffix(".") or "the configuration"
        raise ValueError(f"{name} should be an object, not {reprlib.repr(data)}")
    known = {f.name: f for f in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(known)):
        raise ValueError(f"no field {path}{unknown[0]}; known: {', '.join(sorted(known))}")
    template = cls()
    values = {}
    for name, value in data.items():
        default = getattr(template, name)
        if dataclasses.is_dataclass(default):
            values[name] = _build(type(default), value, f"{path}{name}.")
            continue
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            raise ValueError(
                f"{path}{name} should be {type(default).__name__}, not {reprlib.repr(value)}"
            )
        values[name] = value
    return cls(**values)


_AT_LEAST = MappingProxyType(
    {
        1: "model.embedding_size model.hidden_size model.alignment_size model.readout_size "
        "data.batch_size data.pool_batches data.shapes data.encodings training.keep_checkpoints "
        "optimizer.max_nonfinite training.accumulate decoding.beam_size decoding.max_source "
        "decoding.batch_size training.log_every",
        0: "model.source_vocabulary model.target_vocabulary model.output_size data.max_tokens "
        "data.subword_sentences data.limit_words data.batch_words data.processes "
        "optimizer.warmup_steps optimizer.clip_norm training.steps training.seed "
        "training.evaluate_every training.checkpoint_every training.patience "
        "decoding.top_k decoding.seed",
        3: "data.source_vocabulary_size data.target_vocabulary_size",
    }
)
_SHARES = (
    "model.embedding_dropout model.annotation_dropout model.readout_dropout "
    "data.subword_sampling "
    "optimizer.label_smoothing optimizer.rho optimizer.beta1 optimizer.beta2 optimizer.ema"
)
_POSITIVE = "optimizer.learning_rate optimizer.epsilon"


def faults(config: Config) -> list[str]:
    """All that is wrong with the values alone, one line a fault; empty where nothing is."""
    found = []

    def expect(names: str, holds, what: str) -> None:
        for name in names.split():
            section, leaf = name.split(".")
            value = getattr(getattr(config, section), leaf)
            if not holds(value):
                found.append(f"{name} is {value}, but should be {what}")

    for bound, names in _AT_LEAST.items():
        expect(names, lambda value, bound=bound: value >= bound, f"at least {bound}")
    expect(_SHARES, lambda value: 0 <= value < 1, "at least 0 and below 1")
    expect(
        "data.max_ratio", lambda value: value == 0 or 1 <= value < float("inf"), "0 or at least 1"
    )
    expect("training.seed", lambda value: value < 1 << 63, "below 2^63")
    expect("decoding.seed", lambda value: value < 1 << 31, "below 2^31")
    expect("decoding.alpha", math.isfinite, "finite")
    expect(
        "decoding.coverage decoding.min_ratio",
        lambda value: 0 <= value < float("inf"),
        "at least 0 and finite",
    )
    expect(
        "decoding.beam_size",
        lambda value: value <= MOST_TRANSLATIONS,
        f"at most {MOST_TRANSLATIONS}",
    )
    # Of so many steps the buffers of a search would be mostly empty.
    expect("decoding.max_ratio", lambda value: 0 < value <= 100, "above 0 and at most 100")
    # Outside, log-probabilities over it leave float32, and every word is as good as any.
    expect(
        "decoding.temperature",
        lambda value: 1e-6 <= value <= 1e6,
        "between 1e-06 and 1e+06",
    )
    expect("decoding.top_p", lambda value: 0 < value <= 1, "above 0 and at most 1")
    expect(_POSITIVE, lambda value: 0 < value < float("inf"), "positive and finite")
    return found
