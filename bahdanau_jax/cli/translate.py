"""bahdanau translate --run DIR"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from bahdanau_jax.cli import lines, options
from bahdanau_jax.cli.unknown import Known
from bahdanau_jax.hypothesis import Hypothesis


@dataclass(frozen=True)
class Translate:
    """Translate text, one sentence a line: each line in gives exactly one line out.

    An empty line gives an empty one. With --n-best, a line gives as many as asked for, in the form
    'number ||| text ||| score', where number counts the lines read from 0. jsonl is one object a
    hypothesis: text, score, tokens with their probabilities, and where the model looked.
    """

    run: Path  # the folder of a trained model
    input: Path | None = None  # a file, also .gz or .xz; stdin where none is named
    output: Path | None = None  # a file, which appears when complete; stdout where none is named
    beam_size: int | None = None  # hypotheses kept in search; as the run is configured
    n_best: int = 1  # translations of each line
    format: Literal["text", "jsonl"] = "text"
    replace_unk: bool = False  # write for each UNK the source word that it looked at
    lexicon: Path | None = None  # what to write instead: lines of source word, tab, target word
    reference: Path | None = None  # with --replace-unk: say on stderr what it does to BLEU


def _text(index: int, hypothesis: Hypothesis) -> str:
    return lines.flat(hypothesis.text)


def _ranked(index: int, hypothesis: Hypothesis) -> str:
    return f"{index} ||| {lines.flat(hypothesis.text)} ||| {hypothesis.score:.6g}"


def _jsonl(index: int, hypothesis: Hypothesis) -> str:
    line = json.dumps({"index": index, **hypothesis.to_json()}, ensure_ascii=False)
    return line.translate(lines.JSON_ENDS)


# By format and by whether several translations of a line were asked for.
FORMATS: Mapping[tuple[str, bool], Callable[[int, Hypothesis], str]] = MappingProxyType(
    {
        ("text", False): _text,
        ("text", True): _ranked,
        ("jsonl", False): _jsonl,
        ("jsonl", True): _jsonl,
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Translate, arguments, "translate")
    _check(chosen)
    from bahdanau_jax import run

    model = run.load(chosen.run)
    form = FORMATS[chosen.format, chosen.n_best > 1]
    known = Known(chosen, model)
    index = 0
    with lines.writer(chosen.output) as write:
        for window in lines.read(chosen.input):
            ranked = model.translate(window, beam_size=chosen.beam_size, n_best=chosen.n_best)
            ranked = known(window, ranked)
            write([form(index + row, h) for row, each in enumerate(ranked) for h in each])
            index += len(window)
    known.report()


def _check(chosen: Translate) -> None:
    """Before the model is loaded, which takes a while."""
    if chosen.n_best < 1:
        raise ValueError(f"--n-best is {chosen.n_best}, but should be at least 1")
    if chosen.beam_size is not None and chosen.beam_size < 1:
        raise ValueError(f"--beam-size is {chosen.beam_size}, but should be at least 1")
    if chosen.beam_size is not None and chosen.beam_size < chosen.n_best:
        raise ValueError(
            f"--beam-size is {chosen.beam_size}, but should be at least {chosen.n_best}"
            " (the number of translations wanted)"
        )
    if not chosen.replace_unk and (chosen.lexicon or chosen.reference):
        raise ValueError("--lexicon and --reference are about --replace-unk True, which is missing")
    for option in ("input", "lexicon", "reference"):
        path = getattr(chosen, option)
        if path is not None and not path.exists():
            raise FileNotFoundError(2, f"no such file (--{option})", str(path))
