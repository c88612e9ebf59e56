"""bahdanau translate --run DIR"""

import dataclasses
import itertools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import tyro

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here, lines, options, progress
from bahdanau_jax.cli.completeness import Completeness
from bahdanau_jax.cli.unk_options import Known
from bahdanau_jax.config import MOST_TRANSLATIONS, SEARCHES, Config, DecodingConfig, faults
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.names import choose
from bahdanau_jax.reporting import say

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translate:
    """Translate text, one sentence a line: each line in gives exactly one line out.

    An empty line gives an empty one. With --n-best, a line gives at most as many as asked for, no
    text twice, in the form 'number ||| text ||| score', where number counts the lines read from 0.

    Settings of the search default to those of the run; several runs translate together.
    """

    # the folder of a trained model; given again for each further one
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    input: Path | None = None  # a file, also .gz or .xz; stdin where none is named
    output: Path | None = None  # a file, which appears when complete; stdout where none is named
    n_best: int = 1  # translations of each line
    format: Literal["text", "jsonl"] = "text"  # what is written
    prefix: Path | None = None  # a file: line i is what the translation of line i begins with
    preset: str = ""  # settings of the search by name, instead of the run's
    checkpoint: str = "best"  # which checkpoints of a run
    average: int = 1  # how many checkpoints of each run; their weights are averaged
    weights: str = ""  # which weights of a checkpoint
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does
    line_buffered: bool = False  # answer each line before the next is translated
    progress: bool | None = None  # on stderr; by default where that is a terminal
    replace_unk: bool = False  # write for each UNK the source word that it looked at
    lexicon: Path | None = None  # what to write instead: lines of source word, tab, target word
    reference: Path | None = None  # say on stderr what BLEU is, and what --replace-unk does to it
    settings: Annotated[DecodingConfig, tyro.conf.arg(name="")] = field(
        default_factory=DecodingConfig
    )

    EXAMPLES: ClassVar[Sequence[str]] = (
        "echo 'The man saw a house .' | bahdanau translate --run runs/quickstart",
        "bahdanau translate --run runs/quickstart --input new.en --output new.fr",
        "bahdanau translate --run runs/quickstart --input new.en --n-best 5 --format jsonl",
    )


def _text(index: int, hypothesis: Hypothesis) -> Iterator[str]:
    yield lines.flat(hypothesis.text) + "\n"


def _ranked(index: int, hypothesis: Hypothesis) -> Iterator[str]:
    yield f"{index} ||| {lines.flat(hypothesis.text)} ||| {hypothesis.score:.6g}\n"


def _jsonl(index: int, hypothesis: Hypothesis) -> Iterator[str]:
    for piece in hypothesis.json_pieces(index=index):
        yield piece.translate(lines.JSON_ENDS)
    yield "\n"


# By format and by whether several translations of a line were asked for: the pieces of a line.
FORMATS: Mapping[tuple[str, bool], Callable[[int, Hypothesis], Iterator[str]]] = MappingProxyType(
    {
        ("text", False): _text,
        ("text", True): _ranked,
        ("jsonl", False): _jsonl,
        ("jsonl", True): _jsonl,
    }
)


# Settings that count only where another has this value.
ONLY_WITH: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "alpha": ("length_normalization", "wu"),
        **dict.fromkeys(("beam_size", "shrink"), ("method", "beam")),
        **dict.fromkeys(("temperature", "top_k", "top_p", "seed"), ("method", "sample")),
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = _parse(arguments)
    _check(chosen)
    _say_what_does_nothing(arguments, chosen.settings)
    to_terminal = chosen.output is None and lines.to_terminal()
    shown = progress.wanted(chosen.progress, to_terminal)
    form = FORMATS[chosen.format, chosen.n_best > 1]
    given = _differences(chosen.settings, _configured(chosen))
    loading = chosen.progress is not False and progress.on_terminal()
    with progress.reporter(loading, keep=shown) as reporter:
        reporter.stage("loading the model")
        model = _load(chosen)
    known, watch = (
        Known(chosen, model),
        Completeness(chosen.settings.max_ratio, prefixed=chosen.prefix is not None),
    )
    if chosen.input is None and sys.stdin is not None and sys.stdin.isatty():
        say("bahdanau: reading lines from the terminal; end with Ctrl-D")
    index = 0
    with lines.writer(chosen.output) as write, progress.reporter(shown, counts=True) as reporter:
        translating = reporter.stage(
            "translating", lines.total(chosen.input) if reporter.live else None, "lines"
        )
        windows = lines.read(chosen.input, 1 if chosen.line_buffered else lines.WINDOW)
        for window, begun in _prefixed(windows, chosen.prefix):
            ranked = model.translate(
                window,
                n_best=chosen.n_best,
                prefixes=begun,
                first=index,
                advance=translating.advance,
                **given,
            )
            watch(index, ranked)
            ranked = known(window, ranked)
            numbered = [(row, h) for row, each in enumerate(ranked, start=index) for h in each]
            write(itertools.chain.from_iterable(itertools.starmap(form, numbered)))
            index += len(window)
    watch.report()
    known.report()


def _parse(arguments: Sequence[str]) -> Translate:
    """Read twice: the settings of the run, or of a preset, are the defaults, also in --help."""
    plain = [argument for argument in arguments if argument not in ("-h", "--help")]
    default = None
    try:
        first = options.parse(Translate, plain, "bahdanau translate")
        if not first.run:
            raise ValueError("missing: --run (bahdanau translate --help)")
        settings = SEARCHES[first.preset] if first.preset in SEARCHES else _configured(first)
        default = Translate(run=tyro.MISSING, settings=settings)
    except ValueError:
        if len(plain) == len(arguments):
            raise
    return options.parse(Translate, arguments, "bahdanau translate", default)


def _configured(chosen: Translate) -> DecodingConfig:
    """The settings of the first run; where it has none, loading it will say so."""
    path = chosen.run[0] / run_folder.CONFIG
    return Config.load(path).decoding if path.is_file() else DecodingConfig()


def _differences(settings: DecodingConfig, base: DecodingConfig) -> dict[str, Any]:
    """What of the settings is not as in the base."""
    wanted, there = dataclasses.asdict(settings), dataclasses.asdict(base)
    return {name: value for name, value in wanted.items() if value != there[name]}


def _check(chosen: Translate) -> None:
    """Before the model is loaded, which takes a while."""
    for folder in chosen.run:
        run_folder.require(folder)
    if not 1 <= chosen.n_best <= MOST_TRANSLATIONS:
        raise ValueError(
            f"--n-best is {chosen.n_best}, but should be between 1 and {MOST_TRANSLATIONS}"
        )
    if chosen.preset and chosen.preset not in SEARCHES:
        choose(SEARCHES, chosen.preset, "--preset")
    if wrong := faults(Config(decoding=chosen.settings)):
        raise ValueError("\n".join(wrong))
    if chosen.settings.method == "beam" and chosen.settings.beam_size < chosen.n_best:
        raise ValueError(
            f"--beam-size is {chosen.settings.beam_size}, but should be at least {chosen.n_best}"
            " (the number of translations wanted)"
        )
    if chosen.lexicon and not chosen.replace_unk:
        raise ValueError("--lexicon is about --replace-unk True, which is missing")
    for option in ("input", "prefix", "lexicon", "reference"):
        path = getattr(chosen, option)
        if path is not None and not path.exists():
            raise FileNotFoundError(2, f"no such file (--{option})", str(path))


def _say_what_does_nothing(arguments: Sequence[str], settings: DecodingConfig) -> None:
    """On stderr, for each option given that counts only beside another."""
    given = {argument.partition("=")[0].replace("_", "-") for argument in arguments}
    for name, (other, value) in ONLY_WITH.items():
        option, needed = (f"--{each.replace('_', '-')}" for each in (name, other))
        if option in given and getattr(settings, other) != value:
            log.warning("%s counts only with %s %s", option, needed, value)


def _load(chosen: Translate):
    from bahdanau_jax import trained

    names = ("checkpoint", "average", "weights", "trust_code")
    if chosen.trust_code:
        import_from_here()
    how = {n: getattr(chosen, n) for n in names if getattr(chosen, n) != getattr(Translate, n)}
    models = [trained.load(folder, **how) for folder in chosen.run]
    return models[0] if len(models) == 1 else trained.ensemble(models)


def _prefixed(
    windows: Iterator[list[str]], path: Path | None
) -> Iterator[tuple[list[str], list[str] | None]]:
    """Each window with its lines of the file of prefixes, which has as many in all.

    A line whose prefix is too long to be read becomes a blank one, as if it were too long itself.
    """
    if path is None:
        yield from zip(windows, itertools.repeat(None))
        return
    unread: set[int] = set()  # numbers of lines, from 1
    prefixes = enumerate(itertools.chain.from_iterable(lines.read(path, too_long=unread.add)), 1)
    for window in windows:
        taken = [*itertools.islice(prefixes, len(window))]
        if len(taken) < len(window):
            raise ValueError(f"{path} has fewer lines than the input: one each, please")
        begun = [text for _, text in taken]
        window = ["" if n in unread else line for line, (n, _) in zip(window, taken, strict=True)]
        yield window, begun
    if next(prefixes, None) is not None:
        raise ValueError(f"{path} has more lines than the input: one each, please")
