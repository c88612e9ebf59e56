"""bahdanau align --run DIR --source F --target F"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bahdanau_jax.cli import lines, options, progress
from bahdanau_jax.cli.choices import CHOICES
from bahdanau_jax.cli.runs import check_runs, load
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import json_text
from bahdanau_jax.reporting import Reporter, say

if TYPE_CHECKING:
    import numpy as np

    from bahdanau_jax.alignment import Links
    from bahdanau_jax.report import aligned_corpus


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Align:
    """Align given translations with their sources, a line of links for each pair of lines.

    Each target word is linked to the source word with the largest attention weight. A pair with a
    blank side has no links. --dice counts co-occurrences, as a baseline or, with --dice-power, as a
    prior.

    With --gold, error rates are printed as 'AER 0.208' on stderr. With --output, stdout gets one
    JSON object with these and all other numbers.
    """

    run: Path  # the folder of a trained model, or one of its checkpoints, DIR@STEP
    source: Path  # one sentence a line, also .gz or .xz
    target: Path  # its translation, line by line
    output: Path | None = None  # a file, which appears when complete; default: stdout
    format: Literal["pharaoh", "jsonl"] = "pharaoh"  # the output format
    level: str = "word"  # the unit of links
    tokenized: bool = False  # the text consists of tokens, with spaces between them
    weights: str = "attention"  # the weights behind the links; a comma joins share to another name
    threshold: float | None = None  # link all words of at least this weight, not the largest alone
    eos: str = "next"  # the link of a word with its largest weight on EOS
    reverse_run: Path | None = None  # a model of the opposite direction
    symmetrize: str = "grow-diag-final-and"  # the combination of the links of both models
    gold: Path | None = None  # gold links: Pharaoh with '?' for possible ones, or .wa
    gold_transposed: bool = False  # the links of --gold name the target's word first
    dice: str = ""  # a corpus, as in --data.train, for a baseline from co-occurrences
    dice_power: float = 0.0  # weights are multiplied by Dice coefficients raised to this power
    lexicon_output: Path | None = None  # a file for the most frequent link of each source word
    lexicon_least: int = 2  # minimum frequency of a link in the lexicon
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau align --run runs/quickstart --source a.en --target a.fr",
        "bahdanau align --run runs/quickstart --source a.en --target a.fr --gold a.wa",
    )


# Option -> the option that it needs.
NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "gold_transposed": "gold",
        "symmetrize": "reverse_run",
        "lexicon_least": "lexicon_output",
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Align, arguments, "bahdanau align")
    check_runs(_runs(chosen))
    _check(chosen)
    keep = progress.wanted(None, chosen.output is None and lines.to_terminal())
    with progress.reporter(progress.on_terminal(), keep=keep) as reporter:
        table, left_out = _aligned(chosen, reporter)
    _report(chosen, table, left_out)


def _runs(chosen: Align) -> list[Path]:
    """The run, and that of the opposite direction if there is one."""
    return [*filter(None, (chosen.run, chosen.reverse_run))]


def _aligned(chosen: Align, reporter: Reporter) -> tuple[dict[str, Any], list[int]]:
    """Align and write all pairs; return a table of results and the pairs without links."""
    reporter.stage("loading the model")
    from bahdanau_jax import alignment, decoding
    from bahdanau_jax.report import aligned_corpus

    gold = _gold(chosen)
    trained, *reverse = load(_runs(chosen), chosen.trust_code)
    read = aligned_corpus.of_tokens if chosen.tokenized else lambda run: run
    forward = read(trained)
    backward = read(reverse[0]) if reverse else None
    if backward is not None:
        aligned_corpus.check_opposite(forward, backward)
    way = chosen.symmetrize if backward else "forward"
    summary, lexicon = aligned_corpus.Summary(gold), decoding.LexiconCounts()
    settings = aligned_corpus.LinkSettings(chosen.weights, chosen.threshold, chosen.eos)
    dice = _dice(chosen, forward, trained)
    aligning = reporter.stage(
        "aligning", lines.total(chosen.source) if reporter.live else None, "lines"
    )
    with lines.writer(chosen.output) as write, _lexicon_writer(chosen) as write_lexicon:
        for sources, targets in _windows(chosen.source, chosen.target):
            output = []
            for pair in aligned_corpus.align(
                forward,
                backward,
                sources,
                targets,
                chosen.level,
                aligning.advance,
                chosen.weights,
            ):
                scores = next(dice)
                links = aligned_corpus.ways(pair, settings, _prior(scores, chosen.dice_power))
                output.append(FORMATS[chosen.format](summary.sentences, pair, links[way]))
                if chosen.lexicon_output is not None:
                    lexicon.add(pair.forward.source, pair.forward.target, links[way])
                if scores is not None:
                    found = alignment.strongest(scores) if pair.scored else frozenset()
                    links = {**links, "dice": found}
                summary.add(pair, links)
            with reporter.aside():
                write(f"{line}\n" for line in output)
        table = summary.table(way)
        counted = sorted(lexicon.lexicon(chosen.lexicon_least).items())
        write_lexicon(f"{word}\t{link}\n" for word, link in counted)
    return table, summary.left_out


def _check(chosen: Align) -> None:
    """Check the options before a model is loaded, which takes seconds."""
    for option in ("level", "eos", "symmetrize"):
        choose(CHOICES[f"align.{option}"], getattr(chosen, option), f"--{option}")
    from bahdanau_jax.aligner import Weights

    Weights.of(chosen.weights)
    if chosen.threshold is not None and not 0 < chosen.threshold <= 1:
        raise ValueError(f"--threshold is {chosen.threshold}, but should be above 0 and at most 1")
    if chosen.lexicon_least < 1:
        raise ValueError(f"--lexicon-least is {chosen.lexicon_least}, but should be at least 1")
    for option, needed in NEEDS.items():
        options.require(chosen, option, needed)
    if chosen.lexicon_output is not None and chosen.level == "piece":
        raise ValueError("--lexicon-output needs words as they are written: choose --level token")
    if chosen.tokenized and chosen.level == "hansards":
        raise ValueError(
            '--level hansards reads "de le an" as the text "de l\'an", so its files are no tokens: '
            "leave out --tokenized"
        )
    if chosen.threshold is not None and chosen.eos != Align.eos:
        raise ValueError("--eos applies only without --threshold: leave one of them out")
    _check_dice(chosen)
    _check_files(chosen)


def _check_files(chosen: Align) -> None:
    options.check_files(chosen, ["output", "lexicon_output"], ["source", "target", "gold"])
    for name in ("source", "target"):
        path = getattr(chosen, name)
        if chosen.dice and not path.is_file():
            raise ValueError(
                f"{path} is no regular file, but with --dice, --{name} is read twice: write the "
                "text to a file"
            )


def _check_dice(chosen: Align) -> None:
    if not 0 <= chosen.dice_power < float("inf"):
        raise ValueError(f"--dice-power is {chosen.dice_power}, but should be 0 or more")
    options.require(chosen, "dice_power", "dice")
    if chosen.dice and not chosen.dice_power and not chosen.gold:
        raise ValueError("--dice needs --dice-power to change links, or --gold to be scored")


def _gold(chosen: Align):
    """The gold links. Those of another number of lines are refused at once for a regular file."""
    from bahdanau_jax.alignment import gold

    if chosen.gold is None:
        return None
    links = gold.read(lines.read_all(chosen.gold), str(chosen.gold), chosen.gold_transposed)
    if (sentences := lines.total(chosen.source)) is not None:
        links.check(sentences)
    return links


def _dice(chosen: Align, run, trained) -> "Iterator[np.ndarray | None]":
    """The Dice coefficients of each sentence; None for each without --dice.

    `run` reads the given text, which is read twice. `trained` reads the corpus --dice, which is
    ordinary text.
    """
    from bahdanau_jax.report import aligned_corpus

    if not chosen.dice:
        return repeat(None)
    sources, targets = lines.read_all(chosen.source), lines.read_all(chosen.target)
    counted = aligned_corpus.tokens(trained, chosen.dice)
    # `_windows` reports files of unequal lengths.
    pairs = list(zip(sources, targets, strict=False))
    sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return iter(aligned_corpus.dice(run, *sides, chosen.level, counted))


def _prior(scores: "np.ndarray | None", power: float) -> "np.ndarray | None":
    return None if scores is None or not power else scores**power


def _windows(source: Path, target: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Windows of equally many lines of both files; ValueError at the end of the shorter one."""
    paths, streams = (source, target), (lines.read(source), lines.read(target))
    held: tuple[list[str], list[str]] = ([], [])
    count = 0
    while True:
        for waiting, stream in zip(held, streams, strict=True):
            if not waiting:
                waiting.extend(next(stream, []))
        size = min(map(len, held))
        if not size:
            break
        yield held[0][:size], held[1][:size]
        for waiting in held:
            del waiting[:size]
        count += size
    for path, waiting, other in zip(paths, held, paths[::-1], strict=True):
        if waiting:
            raise ValueError(
                f"{path} has more lines than {other}, which has {count}; line i of one should "
                "translate line i of the other"
            )


def _pharaoh(index: int, pair: "aligned_corpus.Pair", links: "Links") -> str:
    from bahdanau_jax.alignment import format_pharaoh

    return format_pharaoh(links)


def _jsonl(index: int, pair: "aligned_corpus.Pair", links: "Links") -> str:
    return json_text({"index": index, **pair.to_json(links)}).translate(lines.JSON_ENDS)


FORMATS: Mapping[str, Callable[[int, "aligned_corpus.Pair", "Links"], str]] = MappingProxyType(
    {"pharaoh": _pharaoh, "jsonl": _jsonl}
)


def _lexicon_writer(
    chosen: Align,
) -> contextlib.AbstractContextManager[Callable[[Iterable[str]], object]]:
    """A writer of the lexicon's file, which writes nothing where there is none."""
    path = chosen.lexicon_output
    return contextlib.nullcontext(lambda lines: None) if path is None else lines.writer(path)


def _report(chosen: Align, table: dict[str, Any], left_out: Sequence[int]) -> None:
    from bahdanau_jax.aligner import LONGEST
    from bahdanau_jax.report import publish

    if left_out:
        log.warning(
            f"{len(left_out)} pairs have no links because a side has no token, or more than "
            f"{LONGEST}; the first is line {left_out[0] + 1}"
        )
    if unnamed := table.get("without_gold"):
        log.warning(
            f"{chosen.gold} has no links for {unnamed} of {table['sentences']} sentences; all "
            "links of these sentences count as wrong"
        )
    for way, scores in table.get("ways", {}).items():
        say(f"{way:<20} AER {scores['AER']:.3f}")
    for name in ("AER", "precision", "recall"):
        if name in table:
            say(f"{name} {table[name]:.3f}")
    if chosen.output is not None:
        print(publish.as_json(table), end="")
