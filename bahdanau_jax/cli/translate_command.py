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
from bahdanau_jax.cli import lines, options, progress
from bahdanau_jax.cli.completeness import Completeness
from bahdanau_jax.cli.runs import check_runs, load
from bahdanau_jax.cli.unk_options import UnkReplacer
from bahdanau_jax.config import MOST_TRANSLATIONS, SEARCHES, Config, DecodingConfig, faults
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.names import choose
from bahdanau_jax.reporting import say

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translate:
    """Translate text, one sentence a line: each line in gives exactly one line out.

    An empty line gives an empty one. With --n-best, a line gives at most N translations, in the
    form 'number ||| text ||| score', where number counts the input lines from 0. They differ,
    unless they are sampled.

    The defaults of the search are the settings of the run. Several runs form an ensemble.
    """

    # the folder of a trained model, or one of its checkpoints, DIR@STEP; repeat the option for an
    # ensemble
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    input: Path | None = None  # a file, also .gz or .xz; default: stdin
    output: Path | None = None  # a file, which appears when complete; default: stdout
    n_best: int = 1  # translations of each line
    format: Literal["text", "jsonl"] = "text"  # the output format
    prefix: Path | None = None  # a file whose line i is the beginning of translation i
    preset: str = ""  # named settings of the search, instead of the run's
    checkpoint: str = "best"  # the checkpoints of a run
    average: int = 1  # number of checkpoints of each run, whose weights are averaged
    weights: str = ""  # the weights of a checkpoint
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does
    line_buffered: bool = False  # answer each line before the next is translated
    progress: bool | None = None  # show progress on stderr; default: if stderr is a terminal
    replace_unk: bool = False  # replace each UNK by the source word with the largest weight
    lexicon: Path | None = None  # translations for replaced words: lines of source, tab, target
    reference: Path | None = None  # print BLEU, and the effect of --replace-unk, on stderr
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


# (format, whether there are several translations of a line) -> function that formats a hypothesis.
FORMATS: Mapping[tuple[str, bool], Callable[[int, Hypothesis], Iterator[str]]] = MappingProxyType(
    {
        ("text", False): _text,
        ("text", True): _ranked,
        ("jsonl", False): _jsonl,
        ("jsonl", True): _jsonl,
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = _parse(arguments)
    _check(chosen)
    to_terminal = chosen.output is None and lines.to_terminal()
    shown = progress.wanted(chosen.progress, to_terminal)
    form = FORMATS[chosen.format, chosen.n_best > 1]
    overrides = _differences(chosen.settings, _configured(chosen))
    loading = chosen.progress is not False and progress.on_terminal()
    with progress.reporter(loading, keep=shown) as reporter:
        reporter.stage("loading the model")
        _warn_about_unused(arguments, chosen.settings)
        model = _load(chosen)
    replacer, watch = (
        UnkReplacer(chosen, model),
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
        for window, prefixes in _prefixed(windows, chosen.prefix):
            ranked = model.translate(
                window,
                n_best=chosen.n_best,
                prefixes=prefixes,
                first=index,
                advance=translating.advance,
                **overrides,
            )
            watch(index, ranked)
            ranked = replacer(window, ranked)
            numbered = [(i, h) for i, hypotheses in enumerate(ranked, index) for h in hypotheses]
            write(itertools.chain.from_iterable(itertools.starmap(form, numbered)))
            index += len(window)
    watch.report()
    replacer.report()


def _parse(arguments: Sequence[str]) -> Translate:
    """Parse twice: the settings of the run, or of a preset, are the defaults, also in --help."""
    plain, topic = options.help_asked(Translate, arguments)
    default = None
    try:
        first = options.parse(Translate, plain, "bahdanau translate")
        settings = SEARCHES[first.preset] if first.preset in SEARCHES else _configured(first)
        default = Translate(run=tyro.MISSING, settings=settings)
    except ValueError:
        if topic is None:
            raise
    return options.parse(Translate, arguments, "bahdanau translate", default)


def _configured(chosen: Translate) -> DecodingConfig:
    """The settings of the first run; if it has none, its loading will raise an error."""
    path = run_folder.split(chosen.run[0])[0] / run_folder.CONFIG
    return Config.load(path).decoding if path.is_file() else DecodingConfig()


def _differences(settings: DecodingConfig, base: DecodingConfig) -> dict[str, Any]:
    """The settings whose values differ from the base."""
    values, defaults = dataclasses.asdict(settings), dataclasses.asdict(base)
    return {name: value for name, value in values.items() if value != defaults[name]}


def _check(chosen: Translate) -> None:
    """Check the options before the model is loaded, which takes seconds."""
    check_runs(chosen.run, chosen.checkpoint)
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
    options.require(chosen, "lexicon", "replace_unk")
    options.check_files(chosen, ["output"], ["input", "prefix", "lexicon", "reference"])


def _warn_about_unused(arguments: Sequence[str], settings: DecodingConfig) -> None:
    """Warn about each option that has no effect without another one, or refuse it.

    The search refuses a setting of sampling too, but by the name of its field.
    """
    from bahdanau_jax.variants import SAMPLING, without_effect  # here, since it imports JAX

    written = {argument.partition("=")[0].replace("_", "-") for argument in arguments}
    option = {f"decoding.{name}": f"--{name.replace('_', '-')}" for name in vars(settings)}
    given = [setting for setting in option if option[setting] in written]
    for setting, other, value in without_effect(Config(decoding=settings), given):
        fault = f"{option[setting]} counts only with {option[other]} {value}"
        name = setting.removeprefix("decoding.")
        if name in SAMPLING and getattr(settings, name) != getattr(DecodingConfig, name):
            raise ValueError(fault)
        log.warning(fault)


def _load(chosen: Translate):
    from bahdanau_jax import trained

    how = (chosen.checkpoint, chosen.average, chosen.weights)
    members = load(chosen.run, chosen.trust_code, *how)
    return trained.ensemble(members)


def _prefixed(
    windows: Iterator[list[str]], path: Path | None
) -> Iterator[tuple[list[str], list[str] | None]]:
    """Each window with its prefixes, of which the file has one for each line.

    A line whose prefix is too long becomes blank, like a line that is too long.
    """
    if path is None:
        yield from zip(windows, itertools.repeat(None))
        return
    too_long: set[int] = set()  # numbers of lines, from 1
    numbered = enumerate(itertools.chain.from_iterable(lines.read(path, too_long=too_long.add)), 1)
    for window in windows:
        taken = [*itertools.islice(numbered, len(window))]
        if len(taken) < len(window):
            raise ValueError(f"{path} has fewer lines than the input; expected one for each line")
        prefixes = [text for _, text in taken]
        window = ["" if n in too_long else line for line, (n, _) in zip(window, taken, strict=True)]
        yield window, prefixes
    if next(numbered, None) is not None:
        raise ValueError(f"{path} has more lines than the input; expected one for each line")
