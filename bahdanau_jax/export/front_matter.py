"""The front matter of a model card: YAML that hubs of models read."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.reported_scores import SCORES
from bahdanau_jax.splits import weighted

TAGS = ("translation", "jax", "recurrent-neural-network")
ATTENTION_TAGS = ("rnnsearch", "attention")  # of models that attend
BUILT_IN = "builtin:"
DEFAULT_LICENSE = "unknown"  # a name that hubs know
LICENSE_OF_BUILT_IN = "apache-2.0"  # this program generates the text, and has this licence

# Field of scores.json -> (type of the metric on hubs, its name there).
TEST_METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "BLEU": ("bleu", "BLEU"),
        "chrF": ("chrf", "chrF"),
        "exact": ("exact_match", SCORES["exact"].meaning),
        "perplexity": ("perplexity", SCORES["perplexity"].meaning),
        "AER": ("aer", "alignment error rate"),
    }
)
# Field of metrics.jsonl -> the same, for the dev pairs.
DEV_METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "dev_bleu": ("bleu", "BLEU of greedy translations"),
        "dev_exact": ("exact_match", "share of greedy translations that equal the reference"),
        "dev_accuracy": ("accuracy", "share of correctly predicted words"),
        "dev_loss": ("loss", "negative log-probability of a word"),
    }
)
METRICS: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"test": TEST_METRICS, "dev": DEV_METRICS}
)


def languages(config: DataConfig) -> list[str]:
    """Return the codes of source and target, if the address of the training text names both.

    Names of folders do not count.

    >>> languages(DataConfig(train="text:train.en,train.fr"))
    ['en', 'fr']
    """
    codes = [config.source_language, config.target_language]
    words: set[str] = set()
    for address, _ in weighted(config.train):
        if not address.startswith((BUILT_IN, "tfds:")):
            address = re.sub(r"[^:,+]*/", "", address)  # folders may have any names
        words.update(re.findall(r"[A-Za-z]+", address))
    return codes if words.issuperset(codes) else []


def license_of(config: DataConfig, chosen: str) -> str:
    """Return the chosen licence, or the default for this training text."""
    built_in = all(address.startswith(BUILT_IN) for address, _ in weighted(config.train))
    return chosen or (LICENSE_OF_BUILT_IN if built_in else DEFAULT_LICENSE)


def fields(
    name: str, config: Config, license: str, split: str, scores: Mapping[str, float]
) -> dict[str, Any]:
    """Return the front matter as nested values; `scores` are those of the pairs `split`."""
    codes = languages(config.data)
    tags = [*TAGS, *(ATTENTION_TAGS if config.model.attention != "none" else ())]
    matter: dict[str, Any] = {"license": license_of(config.data, license)}
    matter |= {"language": codes} if codes else {}
    matter |= {"library_name": "bahdanau_jax", "pipeline_tag": "translation", "tags": tags}
    if not scores:
        return matter
    metrics = [
        {"type": kind, "value": round(scores[field], 4), "name": label}
        for field, (kind, label) in METRICS[split].items()
        if field in scores
    ]
    address = getattr(config.data, split)
    dataset = {"type": address.partition("?")[0], "name": address, "split": split}
    task = {"type": "translation", "name": " ".join(["Translation", "-".join(codes)]).strip()}
    results = [{"task": task, "dataset": dataset, "metrics": metrics}]
    return matter | {"model-index": [{"name": name, "results": results}]}


def yaml(value: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """Yield the lines of a mapping of texts, numbers, lists and mappings as YAML.

    Texts are quoted as in JSON, which is YAML too.

    >>> list(yaml({"tags": ["a"], "n": 1}))
    ['tags:', '- "a"', 'n: 1']
    """
    margin = " " * indent
    for key, entry in value.items():
        if isinstance(entry, Mapping):
            yield f"{margin}{key}:"
            yield from yaml(entry, indent + 2)
        elif isinstance(entry, Sequence) and not isinstance(entry, str):
            yield f"{margin}{key}:"
            for item in entry:
                first, *rest = _item(item, indent + 2)
                yield f"{margin}- {first.strip()}"
                yield from rest
        else:
            yield f"{margin}{key}: {_scalar(entry)}"


def _item(item: Any, indent: int) -> list[str]:
    return [*yaml(item, indent)] if isinstance(item, Mapping) else [_scalar(item)]


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
