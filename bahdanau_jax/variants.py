"""The tables of variants, and checks that settings name known variants and fit each other."""

import dataclasses
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data, decoding, model
from bahdanau_jax.config import Config, DataConfig, DecodingConfig, ModelConfig
from bahdanau_jax.config import faults as config_faults
from bahdanau_jax.names import choose
from bahdanau_jax.user_code import is_code

# Field -> the table of its variants.
VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{f"model.{field}": table for field, table in model.VARIANTS.items()},
        "data.unicode": data.UNICODE,
        "data.tokenizer": data.TOKENIZERS,
        "data.vocabulary": data.VOCABULARIES,
        "data.subwords": data.SAMPLERS,
        "data.plan": data.PLANS,
        "decoding.method": decoding.METHODS,
        "decoding.compute_dtype": decoding.COMPUTE_DTYPES,
        "decoding.length_normalization": decoding.NORMALIZATIONS,
    }
)


def check_types(config: Config) -> None:
    """Raise ValueError with all fields whose value has another type than its default, or no UTF-8.

    >>> check_types(Config(data=DataConfig(train=["a.en", "a.fr"])))
    Traceback (most recent call last):
    ValueError: data.train should be str, not ['a.en', 'a.fr']
    """
    lines = []
    for name, section in vars(config).items():
        for field in dataclasses.fields(section):
            value, kind = getattr(section, field.name), type(field.default)
            is_bool = isinstance(value, bool) == (kind is bool)  # for Python, True is an int
            if not (is_bool and isinstance(value, (int, float) if kind is float else kind)):
                wanted = f"{name}.{field.name} should be {kind.__name__}"
                lines.append(f"{wanted}, not {reprlib.repr(value)}")
            elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
                # the name of a file in another encoding, which config.json cannot hold
                lines.append(
                    f"{name}.{field.name} is {value!r}, which is no UTF-8: rename the file"
                )
    if lines:
        raise ValueError("\n".join(lines))


def check(config: Config) -> None:
    """Raise ValueError with all faults of the settings of a trained model, one in each line.

    The user's own score function is imported, and traced where there is no other fault. The
    settings of training are not checked: see `run.check`.
    """
    if lines := list(faults(config)):
        raise ValueError("\n".join(lines))
    model.check_score(config.model)


def faults(config: Config) -> Iterator[str]:
    """The faults of the settings of model, data and search, one in each line."""
    yield from config_faults(config)
    yield from _unknown(config)
    yield from _contradictions(config)


def _value(config: Config, field: str) -> Any:
    section, name = field.split(".")
    return getattr(getattr(config, section), name)


def _unknown(config: Config) -> Iterator[str]:
    lookups: list[Callable[[], Any]] = [
        lambda field=field, table=table: choose(table, _value(config, field), field)
        for field, table in VARIANTS.items()
    ]
    lookups.append(lambda: model.score_named(config.model.attention))
    lookups += [lambda spec=spec: data.corpora(spec) for spec in _specs(config)]
    for lookup in lookups:
        try:
            lookup()
        except ValueError as error:
            yield str(error)


def _specs(config: Config) -> list[str]:
    return [config.data.train, *filter(None, (config.data.dev, config.data.test))]


# Settings that only sampling reads, and those that only a sentencepiece vocabulary reads.
SAMPLING = ("temperature", "top_k", "top_p")
SUBWORDS = ("subwords", "byte_fallback", "subword_sentences", "subword_sampling")

# The scores that have alignment_size hidden units.
OF_ALIGNMENT_SIZE = ("additive", "additive_relu", "additive_coverage", "local_p")

# Setting -> (other setting, its values) without which the setting has no effect.
ONLY_WITH: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "model.alignment_size": ("model.attention", OF_ALIGNMENT_SIZE),
        "model.gate_bias": ("model.cell", ("gru",)),
        "data.pool_batches": ("data.plan", ("pools",)),
        "optimizer.rho": ("optimizer.name", ("adadelta",)),
        **{f"optimizer.{name}": ("optimizer.name", ("adam",)) for name in ("beta1", "beta2")},
        "decoding.alpha": ("decoding.length_normalization", ("wu",)),
        **{f"decoding.{name}": ("decoding.method", ("beam",)) for name in ("beam_size", "shrink")},
        **{f"decoding.{name}": ("decoding.method", ("sample",)) for name in (*SAMPLING, "seed")},
    }
)


def without_effect(config: Config, fields: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (field, other field, its values) for the `fields` that count only with such a value.

    The user's own code as the value of the other field may read every setting.

    >>> list(without_effect(Config(), ["decoding.alpha", "optimizer.rho"]))
    [('decoding.alpha', 'decoding.length_normalization', 'wu')]
    """
    for field in fields:
        other, needed = ONLY_WITH.get(field, ("", ()))
        if needed and not is_code(value := _value(config, other)) and value not in needed:
            yield field, other, " or ".join(needed)


def changed_without_effect(config: Config, base: Config) -> list[str]:
    """A line for each field of `config` that differs from `base`, but has no effect.

    >>> changed_without_effect(Config(optimizer=OptimizerConfig(beta1=0.8)), Config())
    ['optimizer.beta1 counts only with optimizer.name adam']
    """
    changed = [field for field in ONLY_WITH if _value(config, field) != _value(base, field)]
    found = without_effect(config, changed)
    return [f"{field} counts only with {other} {values}" for field, other, values in found]


def _contradictions(config: Config) -> Iterator[str]:
    """The faults of settings that are valid one by one, but contradict each other."""
    yield from _model_contradictions(config.model)
    if config.optimizer.coverage and config.model.attention == "none":
        yield (
            f"optimizer.coverage is {config.optimizer.coverage}, but model.attention none looks at "
            "no source word: set optimizer.coverage to 0"
        )
    settings = config.data
    if settings.batch_words and settings.plan == "pools":
        yield (
            "data.batch_words limits the positions of a batch, but data.plan pools has a fixed "
            "number of pairs: set data.plan to buckets, or data.batch_words to 0"
        )
    own = settings.target_vocabulary_size
    if settings.joint_vocabulary and own not in (
        settings.source_vocabulary_size,
        DataConfig.target_vocabulary_size,
    ):
        yield (
            f"data.target_vocabulary_size is {own}, but a joint vocabulary has "
            f"data.source_vocabulary_size, {settings.source_vocabulary_size}: leave it out"
        )
    for name in SUBWORDS:
        value = getattr(settings, name)
        if settings.vocabulary != "sentencepiece" and value != getattr(DataConfig, name):
            yield (
                f"data.{name} is {value}, but only subwords use it: set data.vocabulary to "
                "sentencepiece"
            )
    if settings.encodings > 1 and not settings.subword_sampling > 0:
        yield (
            f"data.encodings is {settings.encodings}, but all encodings would be equal: set "
            "data.subword_sampling above 0, or data.encodings to 1"
        )
    yield from search_contradictions(config)
    for name in SAMPLING:
        value = getattr(config.decoding, name)
        if config.decoding.method == "beam" and value != getattr(DecodingConfig, name):
            yield (
                f"decoding.{name} is {value}, but only sampling uses it: set decoding.method to "
                "sample"
            )


def _model_contradictions(settings: ModelConfig) -> Iterator[str]:
    inputs = model.READOUT_INPUTS.get(settings.readout_inputs, ("U_o",))
    if "U_o" not in inputs and settings.attention == "none":
        yield (
            f"model.readout_inputs is {settings.readout_inputs}, but with model.attention none the "
            "context does not depend on the state s: add s to readout_inputs"
        )
    if settings.cell == "mlp" and settings.hidden_size == 1:
        yield (
            "model.hidden_size is 1, but the layers of model.cell mlp have half as many units: set "
            "it to 2 or more"
        )
    yield from model.direction_faults(settings)
    yield from model.tie_faults(settings)


def search_contradictions(config: Config) -> Iterator[str]:
    """Yield the faults of settings with which a search has no sensible result."""
    settings = config.decoding
    if settings.min_ratio >= settings.max_ratio:
        yield (
            f"decoding.min_ratio is {settings.min_ratio}, but should be below decoding.max_ratio, "
            f"which is {settings.max_ratio}: no translation could end"
        )
    if settings.coverage and config.model.attention == "none":
        yield "decoding.coverage needs attention, but model.attention is none: set it to 0"
