"""bahdanau align --run DIR --source F --target F"""

import functools
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here, lines, options, progress
from bahdanau_jax.reporting import Reporter, say

if TYPE_CHECKING:
    import numpy as np

    from bahdanau_jax.alignment import Links
    from bahdanau_jax.report import aligned_corpus


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Align:
    """Where each word of a given translation looks in its source: one line for one line in.

    Each target word is linked to the source word that it looks at most. A pair with a blank side
    has no links. --dice counts co-occurrences, a baseline, or with --dice-power a prior.

    With --gold, error rates are printed as 'AER 0.208' on stderr. With --output, they and all else
    that is known of the alignment are one JSON object on stdout.
    """

    run: Path  # the folder of a trained model
    source: Path  # one sentence a line, also .gz or .xz
    target: Path  # its translation, line by line
    output: Path | None = None  # a file, which appears when complete; stdout where none is named
    format: Literal["pharaoh", "jsonl"] = "pharaoh"  # what is written
    level: Literal["word", "token", "piece", "hansards"] = "word"  # what a link counts
    tokenized: bool = False  # the text is tokens already, with spaces between
    weights: Literal["attention", "share"] = "attention"  # what links are made from
    threshold: float | None = None  # link any words of at least this weight, not the largest alone
    eos: Literal["next", "none"] = "next"  # what a word is linked to that looks at EOS most
    reverse_run: Path | None = None  # a model of the opposite direction
    symmetrize: Literal[
        "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"
    ] = "grow-diag-final-and"  # how the links of both models are joined
    gold: Path | None = None  # links to compare with: Pharaoh with '?' for possible ones, or .wa
    gold_transposed: bool = False  # the links of --gold name the target's word first
    dice: str = ""  # a corpus, as in --data.train, whose co-occurrences are scored beside
    dice_power: float = 0.0  # weights are multiplied by Dice coefficients raised to this power
    lexicon_output: Path | None = None  # a file for the commonest link of each source word
    lexicon_least: int = 2  # times that it has to be linked
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau align --run runs/quickstart --source a.en --target a.fr",
        "bahdanau align --run runs/quickstart --source a.en --target a.fr --gold a.wa",
    )


# Options that say something of another one.
NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "gold_transposed": "gold",
        "symmetrize": "reverse_run",
        "lexicon_least": "lexicon_output",
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Align, arguments, "bahdanau align")
    for folder in filter(None, (chosen.run, chosen.reverse_run)):
        run_folder.require(folder)
    _check(chosen)
    kept = progress.wanted(None, chosen.output is None and lines.to_terminal())
    with progress.reporter(progress.on_terminal(), keep=kept) as reporter:
        table, left_out = _aligned(chosen, reporter)
    _report(chosen, table, left_out)


def _aligned(chosen: Align, reporter: Reporter) -> tuple[dict[str, Any], list[int]]:
    """What is known of the alignment that is written, and the pairs without links."""
    reporter.stage("loading the model")
    from bahdanau_jax import alignment, decoding
    from bahdanau_jax.report import aligned_corpus
    from bahdanau_jax.trained import load

    gold = _gold(chosen)
    if chosen.trust_code:
        import_from_here()
    open_run = functools.partial(load, trust_code=chosen.trust_code)
    trained = open_run(chosen.run)
    read = aligned_corpus.of_tokens if chosen.tokenized else lambda run: run
    forward = read(trained)
    backward = read(open_run(chosen.reverse_run)) if chosen.reverse_run else None
    if backward is not None:
        aligned_corpus.check_opposite(forward, backward)
    way = chosen.symmetrize if backward else "forward"
    summary, lexicon = aligned_corpus.Summary(gold), decoding.LexiconCounts()
    how = aligned_corpus.How(chosen.weights, chosen.threshold, chosen.eos)
    dice = _dice(chosen, forward, trained)
    aligning = reporter.stage(
        "aligning", lines.total(chosen.source) if reporter.live else None, "lines"
    )
    with lines.writer(chosen.output) as write:
        for sources, targets in _windows(chosen.source, chosen.target):
            written = []
            for pair in aligned_corpus.align(
                forward, backward, sources, targets, chosen.level, aligning.advance
            ):
                scores = next(dice)
                found = aligned_corpus.ways(pair, how, _prior(scores, chosen.dice_power))
                written.append(FORMATS[chosen.format](summary.sentences, pair, found[way]))
                if chosen.lexicon_output is not None:
                    lexicon.add(pair.forward.source, pair.forward.target, found[way])
                if scores is not None:
                    found = {**found, "dice": alignment.strongest(scores)}
                summary.add(pair.forward, found)
            with reporter.aside():
                write(f"{line}\n" for line in written)
        table = summary.table(way)
    if chosen.lexicon_output is not None:
        _write_lexicon(chosen.lexicon_output, lexicon.lexicon(chosen.lexicon_least))
    return table, summary.left_out


def _check(chosen: Align) -> None:
    """Before a model is loaded, which takes a while."""
    if chosen.threshold is not None and not 0 < chosen.threshold <= 1:
        raise ValueError(f"--threshold is {chosen.threshold}, but should be above 0 and at most 1")
    if chosen.lexicon_least < 1:
        raise ValueError(f"--lexicon-least is {chosen.lexicon_least}, but should be at least 1")
    for name, of in NEEDS.items():
        if getattr(chosen, name) != getattr(Align, name) and getattr(chosen, of) is None:
            raise ValueError(f"{_flag(name)} says something of {_flag(of)}, which is missing")
    if chosen.threshold is not None and chosen.eos != Align.eos:
        raise ValueError("--eos is about the largest weight alone: leave it, or --threshold, out")
    if not 0 <= chosen.dice_power < float("inf"):
        raise ValueError(f"--dice-power is {chosen.dice_power}, but should be 0 or more")
    if bool(chosen.dice) != bool(chosen.dice_power) and (chosen.dice_power or not chosen.gold):
        raise ValueError("--dice needs --dice-power to shape links, or --gold to be scored on")
    for name in ("source", "target", "gold"):
        path = getattr(chosen, name)
        if path is not None and not path.exists():
            raise FileNotFoundError(2, f"no such file (--{name})", str(path))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _gold(chosen: Align):
    from bahdanau_jax.alignment import gold

    if chosen.gold is None:
        return None
    return gold.read(lines.read_all(chosen.gold), str(chosen.gold), chosen.gold_transposed)


def _dice(chosen: Align, run, trained) -> "Iterator[np.ndarray | None]":
    """Of each sentence, where they were asked for. The text is read for them once before.

    `run` reads the text as it is given, `trained` the corpus to count in, which is ordinary."""
    from bahdanau_jax.report import aligned_corpus

    if not chosen.dice:
        return repeat(None)
    sources, targets = lines.read_all(chosen.source), lines.read_all(chosen.target)
    counted = aligned_corpus.tokens(trained, chosen.dice)
    # Of another length only where the files are unequal, which is said later.
    pairs = list(zip(sources, targets, strict=False))
    sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return iter(aligned_corpus.dice(run, *sides, chosen.level, counted))


def _prior(scores: "np.ndarray | None", power: float) -> "np.ndarray | None":
    return None if scores is None or not power else scores**power


def _windows(source: Path, target: Path) -> Iterator[tuple[list[str], list[str]]]:
    """As many lines of both files as there are of each; unequal files are an error at their end."""
    paths, streams = (source, target), (lines.read(source), lines.read(target))
    held: tuple[list[str], list[str]] = ([], [])
    count = 0
    while True:
        for kept, stream in zip(held, streams, strict=True):
            if not kept:
                kept.extend(next(stream, []))
        size = min(map(len, held))
        if not size:
            break
        yield held[0][:size], held[1][:size]
        for kept in held:
            del kept[:size]
        count += size
    for path, kept, other in zip(paths, held, paths[::-1], strict=True):
        if kept:
            raise ValueError(
                f"{path} has more lines than {other}, which has {count}; line i of one should "
                "translate line i of the other"
            )


def _pharaoh(index: int, pair: "aligned_corpus.Pair", links: "Links") -> str:
    from bahdanau_jax.alignment import format_pharaoh

    return format_pharaoh(links)


def _jsonl(index: int, pair: "aligned_corpus.Pair", links: "Links") -> str:
    return json.dumps({"index": index, **pair.to_json(links)}, ensure_ascii=False).translate(
        lines.JSON_ENDS
    )


FORMATS: Mapping[str, Callable[[int, "aligned_corpus.Pair", "Links"], str]] = MappingProxyType(
    {"pharaoh": _pharaoh, "jsonl": _jsonl}
)


def _write_lexicon(path: Path, lexicon: Mapping[str, str]) -> None:
    with lines.writer(path) as write:
        write(f"{word}\t{said}\n" for word, said in sorted(lexicon.items()))


def _report(chosen: Align, table: dict[str, Any], left_out: Sequence[int]) -> None:
    from bahdanau_jax.aligner import LONGEST
    from bahdanau_jax.report import publish

    if left_out:
        log.warning(
            f"{len(left_out)} pairs have no links, for a side has more than {LONGEST} tokens; the "
            f"first is line {left_out[0] + 1}"
        )
    if unnamed := table.get("without_gold"):
        log.warning(
            f"{chosen.gold} has no link of {unnamed} of {table['sentences']} sentences; all that "
            "are found there count as wrong"
        )
    for way, scores in table.get("ways", {}).items():
        say(f"{way:<20} AER {scores['AER']:.3f}")
    for name in ("AER", "precision", "recall"):
        if name in table:
            say(f"{name} {table[name]:.3f}")
    if chosen.output is not None:
        print(publish.as_json(table), end="")
