"""The model card of an exported folder: the model, its scores, its data and its limits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bahdanau_jax.config import Config
from bahdanau_jax.export import front_matter
from bahdanau_jax.export.measured import Measured

OF_THE_MACHINE = ("command", "platform")  # fields that hold paths and names of a machine
MONTHS, WEEKS = 6, 3  # the guarantee of jax.export: newer and older versions that can read it
SOURCES = {
    "builtin:": "The program's own generator made the text: see docs/grammar.md of the program.",
    "tfds:": "A dataset of TensorFlow Datasets, whose page has its licence.",
}


class Facts(NamedTuple):
    """What a card says of a model beside its configuration."""

    name: str
    config: Config
    license: str  # an identifier of hubs, or "" for the default of the data
    measured: Measured
    parameters: int  # their number
    checkpoint: str  # in words
    made: Sequence[tuple[str, ...]]  # (field, value) of the training
    versions: Mapping[str, str]  # of the libraries that wrote the folder
    digest: str  # SHA-256 of model.safetensors
    sizes: Mapping[str, int]  # bytes of each file


def card(facts: Facts) -> str:
    """Return README.md of the folder.

    >>> card(facts).splitlines()[:2]
    ['---', 'license: "apache-2.0"']
    """
    measured = facts.measured
    matter = front_matter.fields(
        facts.name, facts.config, facts.license, measured.split, measured.scores
    )
    parts = (_model, _use, _scores, _data, _training, _limits, _files, _compatibility)
    lines = ["---", *front_matter.yaml(matter), "---", "", f"# {facts.name}", ""]
    for part in parts:
        lines += [*part(facts), ""]
    return "\n".join(lines[:-1]) + "\n"


def megabytes(size: int) -> str:
    """Return a number of bytes in MB, with one decimal or, below a tenth, with three.

    >>> megabytes(8_250_000), megabytes(19_512), megabytes(18)
    ('8.2 MB', '0.020 MB', '0.000 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e6:.3f} MB"


def _direction(config: Config) -> str:
    codes = front_matter.languages(config.data)
    return f" from {codes[0]} to {codes[1]}" if codes else ""


def _model(facts: Facts) -> Iterator[str]:
    model = facts.config.model
    attending = "" if model.attention == "none" else " and attention"
    yield (
        f"This model translates{_direction(facts.config)}. It is an encoder-decoder with recurrent "
        f"networks{attending}, as in Bahdanau, Cho and Bengio "
        f"([arXiv 1409.0473](https://arxiv.org/abs/1409.0473)), trained with bahdanau_jax. It has "
        f"{facts.parameters:,} parameters: embeddings of {model.embedding_size}, {model.cell} "
        f"units of {model.hidden_size}, attention `{model.attention}`, order `{model.order}`, "
        f"vocabularies of {model.source_vocabulary:,} and {model.target_vocabulary:,} entries "
        f"({facts.config.data.vocabulary})."
    )


def _use(facts: Facts) -> Iterator[str]:
    yield from ("## Use", "")
    yield "The folder needs Python 3.11 or newer, jax and numpy, and no other package."
    yield from ("", "    pip install -r requirements.txt")
    yield "    python translate.py < source.txt > translation.txt"
    yield "    python translate.py --beam-size 1 < source.txt > greedy.txt"
    yield from ("", "Each line in gives one line out. In Python, in this folder:", "")
    yield "    from translate import Translator"
    yield '    Translator().translate(["..."])'
    yield from ("", "bahdanau_jax continues the training of these weights:", "")
    yield "    bahdanau checkpoints --run runs/new --import model.safetensors"


def _scores(facts: Facts) -> Iterator[str]:
    yield from ("## Scores", "")
    measured = facts.measured
    if not measured.scores:
        yield "The run folder has no scores of this checkpoint."
        return
    table = front_matter.METRICS[measured.split]
    yield f"On the {measured.split} pairs, from {measured.source} of the run."
    yield from ("", "| score | value |", "|---|---:|")
    for name, value in measured.scores.items():
        yield f"| {table[name][1]} | {value:.4g} |"


def _data(facts: Facts) -> Iterator[str]:
    data = facts.config.data
    yield from ("## Data", "", "| pairs | address |", "|---|---|")
    for split in ("train", "dev", "test"):
        if address := getattr(data, split):
            yield f"| {split} | `{_cell(address)}` |"
    for prefix, words in SOURCES.items():
        if prefix in data.train:
            yield from ("", words)
    case = "lower case" if data.lowercase else "its own case"
    yield from ("", f"Text is tokenised by the rules `{data.tokenizer}`, in {case}.")


def _training(facts: Facts) -> Iterator[str]:
    yield from ("## Training", "", "| field | value |", "|---|---|")
    for field, value in (("exported checkpoint", facts.checkpoint), *facts.made):
        if field in OF_THE_MACHINE:
            continue
        yield f"| {field} | {_cell(value)} |"


def _limits(facts: Facts) -> Iterator[str]:
    config = facts.config
    data, search = config.data, config.decoding
    yield from ("## Limits", "")
    yield f"- It knows only text like its training text{_direction(config)}."
    if data.max_tokens:
        yield f"- Training sentences had at most {data.max_tokens} tokens; longer ones are harder."
    yield f"- A line of more than {search.max_source} tokens is translated in parts."
    if data.vocabulary == "words":
        yield "- It reads and writes each word outside its vocabularies as `<unk>`."
    if data.vocabulary == "characters":
        yield "- It reads and writes each character outside its vocabularies as `<unk>`."
    yield "- It translates each line by itself, and may leave out words or repeat them."


def _files(facts: Facts) -> Iterator[str]:
    yield from ("## Files", "", "| file | size |", "|---|---:|")
    for name, size in facts.sizes.items():
        yield f"| {name} | {megabytes(size)} |"
    yield from ("", f"SHA-256 of model.safetensors: `{facts.digest}`")
    yield from (
        "",
        "`prepare`, `encode` and `step` are `jax.export` artefacts for CPU, CUDA and TPU, for any "
        "number of sentences, hypotheses and source words. `moses.json` and `moses.py` follow the "
        "rules of sacremoses (MIT licence), and `flatbuffers` is a copy of that library (Apache "
        "License 2.0), which JAX needs to read artefacts. The other code has the Apache License "
        "2.0 of bahdanau_jax.",
    )


def _compatibility(facts: Facts) -> Iterator[str]:
    yield from ("## Versions", "")
    written = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    yield (
        f"Written with {written}. By the guarantee of `jax.export`, versions of jax from up to "
        f"{MONTHS} months after {facts.versions['jax']} can read the artefacts, and so can those "
        f"from up to {WEEKS} weeks before it. Later versions often can. To write them again, "
        "import model.safetensors with bahdanau_jax and export it."
    )


def _cell(text: Any) -> str:
    """Text inside a cell of a Markdown table."""
    return " ".join(str(text).replace("|", "\\|").split())
