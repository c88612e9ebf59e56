"""Every setting of an experiment, its default and its bounds.

Configurations are frozen and hashable, so they can be static arguments of `jax.jit`. `variants`
checks the names of variants (attention, order, optimiser, ...) against their tables.
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
from bahdanau_jax.names import did_you_mean
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.splits import OWN, own


@dataclass(frozen=True)
class ModelConfig:
    """The shape of the network. Sizes default to the paper's (arXiv 1409.0473, appendix A)."""

    source_vocabulary: int = 0  # rows of the source embedding; 0: size of the vocabulary
    target_vocabulary: int = 0  # rows of target embedding and softmax; 0: size of the vocabulary
    embedding_size: int = 620  # m, numbers of a word embedding
    hidden_size: int = 1000  # n, units of each direction and of the decoder
    alignment_size: int = 1000  # n', hidden units of the alignment model
    readout_size: int = 500  # l, units of the readout after pooling
    output_size: int = 0  # a linear layer of this size between readout and vocabulary; 0: none
    order: str = "paper"  # the order of operations in a decoder step
    attention: str = "additive"  # the score of a source word for the next target word
    cell: str = "gru"  # the recurrent unit of encoder and decoder
    encoder_directions: str = "both"  # the directions in which the encoder reads the source
    word_annotations: bool = False  # each annotation also has the embedding of its source word
    initial_state: str = "backward"  # the direction whose last state becomes the first one, or zero
    readout: str = "maxout"  # the function between the linear layer and the softmax
    readout_inputs: str = "syc"  # what the readout reads: state s, previous word y, context c
    feed_previous: bool = True  # the previous word enters the update of the decoder's state
    embedding_bias: bool = False  # a bias added to every embedded word
    tied_embeddings: bool = False  # the output matrix is the transposed target embedding
    gate_bias: bool = True  # biases of the update and reset gates
    init: str = "scaled"  # the distributions of the initial weights
    gradients: str = "deferred"  # the computation of the gradients of recurrent weights
    compute_dtype: str = "float32"  # precision of matrix products
    word_dropout: float = 0.0  # share of words whose embedding is dropped as a whole, on both sides
    embedding_dropout: float = 0.0  # share of units dropped in both embeddings
    state_dropout: float = 0.0  # share of the state's units that the recurrent products do not read
    annotation_dropout: float = 0.0  # share of units dropped in the encoder's output
    readout_dropout: float = 0.0  # share of units dropped in the readout


# Answers to questions that the paper leaves open: those of its authors' program (GroundHog), those
# of the paper's text, and the package's own (small models learn better with Glorot weights).
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
    """The corpora and their way to batches."""

    # pairs to train on: an address of one of these kinds, or several separated by ;
    train: str = "builtin:en-fr/train?pairs=20000"
    # The default of dev and test is the built-in corpus of train, and "" for other corpora.
    dev: str = OWN  # pairs that choose the best checkpoint; "" for none
    test: str = OWN  # pairs for the final scores; "" for none
    # folder of relative files; "": the first of BAHDANAU_DATA, the current folder and data/ that
    # has all files of a corpus
    root: str = ""
    source_language: str = "en"  # language code of the source, for the Moses rules
    target_language: str = "fr"  # language code of the target
    unicode: str = "none"  # Unicode normal form of all text
    unescape: bool = False  # entities such as &amp; become characters
    tokenizer: str = "moses"  # the rules that split a line into tokens
    lowercase: bool = False  # text in lower case
    vocabulary: str = "words"  # the units that the model reads and writes
    source_vocabulary_size: int = 30_000  # entries at most, with EOS and UNK
    target_vocabulary_size: int = 30_000  # entries at most, with EOS and UNK
    joint_vocabulary: bool = False  # one vocabulary for both sides, of source_vocabulary_size
    subwords: str = "bpe"  # the sentencepiece model
    byte_fallback: bool = False  # sentencepiece writes unknown characters as bytes, not as UNK
    subword_sentences: int = 200_000  # sample of each side for sentencepiece; 0: all sentences
    subword_sampling: float = 0.0  # BPE-dropout, or the unigram model's alpha, in training text
    encodings: int = 1  # stored encodings of each training pair; the epochs take turns
    max_tokens: int = 50  # limit of both sides, without EOS; longer pairs are dropped; 0: none
    max_ratio: float = 0.0  # limit of longer side / shorter side of training pairs; 0: none
    drop_duplicates: bool = False  # drop repeated training pairs
    limit_words: int = 0  # source tokens of a random sample, before pairs are dropped; 0: all
    plan: str = "pools"  # the grouping of pairs into batches
    batch_size: int = 80  # pairs in a batch
    batch_words: int = 0  # positions of a batch's longer side, instead of pairs (buckets); 0: pairs
    pool_batches: int = 20  # batches cut from one sorted pool
    shapes: int = 8  # padded (S, T) shapes at most; each one compiles a program
    processes: int = 0  # processes that tokenise and encode; 0: one for each core

    def __post_init__(self):
        for split in ("dev", "test"):
            if getattr(self, split) == OWN and isinstance(self.train, str):
                object.__setattr__(self, split, own(self.train, split))


@dataclass(frozen=True)
class OptimizerConfig:
    """The update. By default, the paper's Adadelta and clipping, and its authors' summed loss."""

    name: str = "adadelta"  # the optimiser
    learning_rate: float = 1.0  # the learning rate, or the peak of its schedule
    schedule: str = "constant"  # the learning rate after warm-up
    warmup_steps: int = 0  # updates in which the learning rate grows linearly from 0
    rho: float = 0.95  # Adadelta's decay
    epsilon: float = 1e-6  # added to squared gradients (Adam: to their root)
    beta1: float = 0.9  # Adam's decay of gradients
    beta2: float = 0.98  # Adam's decay of squared gradients
    clip_norm: float = 1.0  # maximum of the gradient's global norm; 0: no clipping
    loss_normalization: str = "sum"  # the divisor of the summed loss
    label_smoothing: float = 0.0  # share of the target's mass spread over the vocabulary
    coverage: float = 0.0  # weight of Σ (1 − attention that a source word receives)², over words
    ema: float = 0.0  # decay of an average of the weights, used for evaluation; 0: none
    max_nonfinite: int = 20  # consecutive non-finite gradients that stop the run


@dataclass(frozen=True)
class TrainingConfig:
    """The length of training, its intervals and its devices. Intervals are updates."""

    steps: int = 1_000  # updates in all
    seed: int = 1  # the seed of initial weights, order of batches and dropout
    log_every: int = 20  # updates from one line of metrics.jsonl to the next
    evaluate_every: int = 200  # updates between evaluations on dev pairs; 0: only after the last
    checkpoint_every: int = 200  # updates from one checkpoint to the next; 0: at evaluations
    keep_checkpoints: int = 2  # newest checkpoints to keep, in addition to the best one
    dev_metric: str = "bleu"  # the dev score that chooses the best checkpoint
    patience: int = 0  # evaluations without a better dev score before training stops
    parallel: str = "jit"  # the parallelisation of an update over several devices
    shard: str = "none"  # the arrays that are sharded over the devices instead of copied
    accumulate: int = 1  # gradient accumulation: parts of a device's rows, for less memory


@dataclass(frozen=True)
class DecodingConfig:
    """The search for a translation."""

    method: str = "beam"  # the search method
    beam_size: int = 12  # hypotheses in the beam; 1 is greedy search
    shrink: bool = False  # the beam shrinks by one for each hypothesis that ends (GroundHog)
    length_normalization: str = "none"  # the score that ranks hypotheses
    alpha: float = 0.6  # exponent of Wu et al.'s normalisation
    coverage: float = 0.0  # weight (beta) of Wu et al.'s coverage penalty; 0: none
    min_ratio: float = 0.0  # minimum of target words for each source token before EOS
    max_ratio: float = 3.0  # maximum of steps for each source token, with EOS
    ban_unk: bool = False  # UNK only where nothing ends without it (the paper's "No UNK")
    temperature: float = 1.0  # temperature of sampling; below 1 likely words become likelier
    top_k: int = 0  # sample only from this number of likeliest words; 0: from all
    top_p: float = 1.0  # sample only from the fewest words with this probability in sum; 1: all
    seed: int = 1  # the seed of sampling
    compute_dtype: str = "model"  # precision of matrix products in search
    max_source: int = 200  # longest source in tokens; longer lines are translated in parts
    batch_size: int = 64  # sentences decoded together


MOST_TRANSLATIONS = 1_000  # hypotheses of a line; memory grows with their number

# Published settings of the search.
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

    model: ModelConfig = field(default_factory=ModelConfig)  # the network
    data: DataConfig = field(default_factory=DataConfig)  # the text
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)  # the update
    training: TrainingConfig = field(default_factory=TrainingConfig)  # its length and devices
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # the search

    def with_vocabularies(self, source: int, target: int) -> Self:
        """The configuration of a model with vocabularies of these numbers of entries."""
        sizes = {"source_vocabulary": source, "target_vocabulary": target}
        return dataclasses.replace(self, model=dataclasses.replace(self.model, **sizes))

    def to_json(self) -> str:
        """Return the text of a run's config.json."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse `to_json`; raises ValueError for a field that is unknown or of the wrong type."""
        return _build(cls, parse_json(text), "")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; raises ValueError, with its path, for a damaged one."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is damaged or of another version: {error}") from error

    def save(self, path: Path) -> None:
        """Write a file, which appears, or is replaced, whole."""
        write_text(path, self.to_json())


def _build(cls, data: Any, path: str):
    """A dataclass from parsed JSON, whose fields must exist and have the types of the defaults."""
    if not isinstance(data, dict):
        name = path.removesuffix(".") or "the configuration"
        raise ValueError(f"{name} should be an object, not {reprlib.repr(data)}")
    known = {f.name: f for f in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(known)):
        hint = did_you_mean(unknown[0], known)
        names = ", ".join(sorted(known))
        raise ValueError(f"no field {path}{unknown[0]}; known: {names}{hint and f' ({hint})'}")
    template = cls()
    values = {}
    for name, value in data.items():
        default = getattr(template, name)
        if dataclasses.is_dataclass(default):
            values[name] = _build(type(default), value, f"{path}{name}.")
            continue
        if isinstance(default, float) and type(value) is int:
            value = float(value) if abs(value) < 1e308 else float("inf")
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
        "data.subword_sentences data.limit_words data.batch_words data.processes decoding.seed "
        "optimizer.warmup_steps training.steps training.seed decoding.top_k "
        "training.evaluate_every training.checkpoint_every training.patience",
        3: "data.source_vocabulary_size data.target_vocabulary_size",
    }
)
_SHARES = (
    "model.word_dropout model.embedding_dropout model.state_dropout model.annotation_dropout "
    "model.readout_dropout data.subword_sampling optimizer.label_smoothing optimizer.rho "
    "optimizer.beta1 optimizer.beta2 optimizer.ema"
)
_POSITIVE = "optimizer.learning_rate optimizer.epsilon"  # and in the range of float32


def faults(config: Config) -> list[str]:
    """The faults of single values, one in each line; empty where there is none."""
    lines = []

    def expect(names: str, holds, what: str) -> None:
        for name in names.split():
            section, leaf = name.split(".")
            value = getattr(getattr(config, section), leaf)
            if not holds(value):
                lines.append(f"{name} is {value}, but should be {what}")

    for bound, names in _AT_LEAST.items():
        expect(names, lambda value, bound=bound: value >= bound, f"at least {bound}")
    expect(_SHARES, lambda value: 0 <= value < 1, "at least 0 and below 1")
    expect("data.max_ratio", lambda value: value == 0 or 1 <= value < math.inf, "0 or at least 1")
    # JAX counts in int32, and uses the low 32 bits of a seed.
    counted = "data.batch_size data.pool_batches decoding.batch_size optimizer.warmup_steps"
    expect(f"{counted} training.steps decoding.seed", lambda value: value < 1 << 31, "below 2^31")
    expect("training.seed", lambda value: value < 1 << 32, "below 2^32")
    expect("decoding.alpha", lambda alpha: abs(alpha) < math.inf, "finite")
    switched = "optimizer.clip_norm optimizer.coverage decoding.coverage decoding.min_ratio"
    expect(switched, lambda value: 0 <= value <= 3e38, "at least 0 (0: off) and at most 3e38")
    most = MOST_TRANSLATIONS
    expect("decoding.beam_size", lambda value: value <= most, f"at most {most}")
    # With more steps the buffers of a search would be mostly empty.
    expect("decoding.max_ratio", lambda value: 0 < value <= 100, "above 0 and at most 100")
    # Outside these bounds, log-probabilities divided by the temperature overflow float32.
    expect("decoding.temperature", lambda value: 1e-6 <= value <= 1e6, "between 1e-06 and 1e+06")
    expect("decoding.top_p", lambda value: 0 < value <= 1, "above 0 and at most 1")
    expect(_POSITIVE, lambda value: 2e-38 <= value <= 3e38, "at least 2e-38 and at most 3e+38")
    return lines
