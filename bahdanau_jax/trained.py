"""A trained model: loads a run folder, translates, scores, aligns and encodes text."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import jax

from bahdanau_jax import aligner, data, decoding, hypothesis, model, user_code
from bahdanau_jax.aligner import Aligned
from bahdanau_jax.batch import SIDES
from bahdanau_jax.checkpoints import Checkpointer, Chosen, Records, nothing_in
from bahdanau_jax.config import Config, DecodingConfig, ModelConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.names import choose
from bahdanau_jax.pairing import check_equal_counts, check_list
from bahdanau_jax.reporting import ignore
from bahdanau_jax.run_folder import CHECKPOINTS, CONFIG, VOCABULARY, check_run
from bahdanau_jax.variants import SAMPLING, check


def load(
    folder: str | Path,
    *,
    checkpoint: str = "best",
    average: int = 1,
    weights: str = "",
    trust_code: bool = False,
) -> "Run":
    """Load the best model of a run folder, or another one of its checkpoints.

    >>> run = load("runs/quickstart")
    >>> run.translate(["The man saw the European Economic Area ."])[0].text

    Args:
        checkpoint: the order of the checkpoints, `best` dev score or `newest`, or a step, "750".
        average: the number of checkpoints whose weights are averaged.
        weights: `params`, the weights themselves; `ema`, their moving average; "": `ema` if any.
        trust_code: import the module (`module:attribute`) that the run's configuration names, if
            it does. Its author chose the code, so such a run is refused without it.

    A damaged or missing checkpoint that was to be read is reported by `logging.warning`, with the
    step used instead, and listed in `Run.chosen`. Raises FileNotFoundError or ValueError where the
    folder has no run or lacks the weights, OSError for damaged checkpoints.
    """
    folder = Path(folder)
    check_run(folder)
    config = Config.load(folder / CONFIG)
    user_code.refuse_code(config, folder / CONFIG, trust_code)
    check(config)
    codecs = data.load(folder / VOCABULARY, config.data)
    data.check_sizes(codecs, config.model, f"{folder}/", "this run folder was mixed from two runs")
    part = _part(folder, config, weights)
    records = Records.of(folder)
    with contextlib.closing(Checkpointer(folder / CHECKPOINTS, records=records)) as saved:
        restored, chosen = saved.choose({part: model.shapes(config.model)}, checkpoint, average)
    if not restored:
        raise nothing_in(folder / CHECKPOINTS)
    if len(restored) < average:
        raise ValueError(
            f"{folder} holds {len(restored)} checkpoints, not {average}: ask for fewer, or train "
            f"with training.keep_checkpoints {average}"
        )
    params = _average([state[part] for state in restored])
    return Run(folder, config, codecs, params, (), chosen, part)


def _part(folder: Path, config: Config, weights: str) -> str:
    """The part of a checkpoint that holds these weights."""
    parts = ("ema", "params") if config.optimizer.ema else ("params",)
    if weights and weights not in parts:
        raise ValueError(f"{folder} has no weights {weights!r}; it has {', '.join(parts)}")
    return weights or parts[0]


def _average(trees: list[model.Params]) -> model.Params:
    """The mean of each weight. A single tree stays as it is, without a program for each shape."""
    return jax.tree.map(lambda x, *rest: sum(rest, x) / (1 + len(rest)) if rest else x, *trees)


def ensemble(runs: "Sequence[Run]") -> "Run":
    """One run that averages the log-probabilities and attention weights of several runs.

    The settings of its search are those of the first run. An ensemble counts as its members.

    >>> ensemble([load("runs/one"), load("runs/two")]).translate(["The man sleeps ."])[0].text

    Raises ValueError for an empty sequence, or where the vocabularies differ.
    """
    if not runs:
        raise ValueError("an ensemble needs at least one run")
    first, *others = (dataclasses.replace(m, others=()) for run in runs for m in run.members)
    for other in others:
        for side, ours, theirs in zip(SIDES, first.codecs, other.codecs, strict=True):
            if ours.identity != theirs.identity:
                raise ValueError(
                    f"{first.folder} and {other.folder} have different {side} vocabularies, and "
                    "cannot translate together: train them on the same prepared data"
                )
    return dataclasses.replace(first, others=tuple(others))


@dataclass(frozen=True)
class Run:
    """A trained model with its configuration and its codecs."""

    folder: Path  # the run folder
    config: Config  # the configuration with which it was trained
    codecs: tuple[Codec, Codec]  # of the source and of the target
    params: model.Params  # the weights, a tree of arrays
    others: "tuple[Run, ...]" = ()  # the other members of an ensemble
    chosen: Chosen | None = None  # the checkpoints of `params`, and damaged ones
    part: str = ""  # of these checkpoints that `params` are: ema or params

    @property
    def members(self) -> "tuple[Run, ...]":
        """This run itself, and the other members of an ensemble."""
        return self, *self.others

    def models(self) -> tuple[tuple[ModelConfig, ...], tuple[model.Params, ...]]:
        """The configuration and the weights of each member's model."""
        return tuple(m.config.model for m in self.members), tuple(m.params for m in self.members)

    def searching(self, **settings) -> DecodingConfig:
        """The settings of the run's search, with these fields replaced.

        `method="beam"` also resets the settings of sampling. Raises ValueError for a wrong one.
        """
        fields = {field.name: field for field in dataclasses.fields(DecodingConfig)}
        for name in settings:
            choose(fields, name, "setting of the search")
        if settings.get("method") == "beam":
            settings = {name: fields[name].default for name in SAMPLING} | settings
        changed = dataclasses.replace(self.config.decoding, **settings)
        if settings:
            check(dataclasses.replace(self.config, decoding=changed))
        return changed

    @overload
    def translate(
        self,
        lines: Sequence[str],
        beam_size: int | None = None,
        n_best: None = None,
        *,
        prefixes: Sequence[str] | None = None,
        first: int | Sequence[int] = 0,
        advance: Callable[[int], object] = ignore,
        **settings: Any,
    ) -> list[Hypothesis]: ...
    @overload
    def translate(
        self,
        lines: Sequence[str],
        beam_size: int | None = None,
        *,
        n_best: int,
        prefixes: Sequence[str] | None = None,
        first: int | Sequence[int] = 0,
        advance: Callable[[int], object] = ignore,
        **settings: Any,
    ) -> list[list[Hypothesis]]: ...
    def translate(
        self,
        lines,
        beam_size=None,
        n_best=None,
        *,
        prefixes: Sequence[str] | None = None,
        first: int | Sequence[int] = 0,
        advance: Callable[[int], object] = ignore,
        **settings,
    ):
        """The best hypothesis of each line; with `n_best`, a list of the `n_best` best ones.

        A line without tokens has only the empty hypothesis. One above `decoding.LONGEST` tokens, or
        with such a prefix, has only `hypothesis.TOO_LONG`, which is empty and not finished.
        `settings` are fields of DecodingConfig, in place of the run's own.

        >>> run.translate(["The man sleeps ."], prefixes=["L'homme"], beam_size=12)[0].text
        >>> run.translate(["The man sleeps ."], n_best=5, method="sample", top_p=0.9, seed=3)

        Args:
            prefixes: the beginning of each translation; "" for none.
            first: the number of the first line, where the lines are a part of a longer text, or the
                number of each. A sample depends on the seed and on the number of its line.
            advance: is called after each batch with the number of lines that it finished.

        Raises TypeError for one text in place of a list, and ValueError for an unknown or wrong
        setting, for unequal counts of prefixes, numbers and lines, and for an `n_best` of 0 or
        above the beam size.
        """
        if beam_size is not None:
            settings["beam_size"] = beam_size
        check_list("lines", lines)
        if prefixes is not None:
            check_equal_counts("lines", lines, "prefixes", prefixes)
        full = [row for row, line in enumerate(lines) if line.strip()]
        numbers = range(first, first + len(lines)) if isinstance(first, int) else first
        check_equal_counts("lines", lines, "numbers", numbers)
        advance(len(lines) - len(full))
        answers = iter(
            decoding.translate(
                *self.models(),
                self.codecs,
                self.searching(**settings),
                [lines[row] for row in full],
                1 if n_best is None else n_best,
                None if prefixes is None else [prefixes[row] for row in full],
                [numbers[row] for row in full],
                advance,
            )
        )
        found = (next(answers) if line.strip() else [hypothesis.EMPTY] for line in lines)
        lists = [hypothesis.of_line(ranked) for ranked in found]
        return [hypotheses[0] for hypotheses in lists] if n_best is None else lists

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str | Hypothesis],
        *,
        advance: Callable[[int], object] = ignore,
        **settings: Any,
    ) -> list[Hypothesis]:
        """Score each target by teacher forcing; return it with probabilities and alignment.

        The score is that of the run's search, with `settings` replaced. A hypothesis is scored in
        its own tokens; one without tokens, of a blank or too long line, is returned as it is. A
        text is tokenised first, and its tokens may differ from those of the translation that it
        came from. `advance` is called with the number of pairs of each batch. Raises ValueError for
        other pairs with a side above `decoding.LONGEST` tokens, TypeError for one text, not a list.

        >>> run.score(["The man sleeps ."], ["L' homme dort ."], coverage=0.2)[0].score
        >>> run.score(lines, run.translate(lines))  # the same scores again; a split line has others
        """
        searching = self.searching(**settings)
        return decoding.score(*self.models(), self.codecs, searching, sources, targets, advance)

    def encode(self, lines: Sequence[str]) -> list[decoding.EncoderStates]:
        """The encoder's states of each line: annotations [S, C], s_0 [H] and the S tokens.

        S counts EOS; C is `annotation_size`, by default 2H. The states of a line do not depend on
        the others. Raises ValueError for an ensemble, which has several encoders, and TypeError for
        one text in place of a list.

        >>> run.encode(["The man sleeps ."])[0].annotations.shape
        (5, 256)
        """
        if self.others:
            raise ValueError("an ensemble has no encoder of its own: encode with each of its runs")
        settings = self.config.decoding
        return decoding.encode(self.config.model, self.params, self.codecs[0], settings, lines)

    def align(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        level: str = "word",
        advance: Callable[[int], object] = ignore,
        weights: str = "attention",
    ) -> list[Aligned]:
        """The attention of the words of each target to the words of its source.

        `level` is a key of `data.LEVELS`. `advance` is called with numbers of finished pairs.
        `weights`, which `aligner.Weights.of` reads, are those that `Aligned.links` can use.

        >>> run.align(["The man sleeps ."], ["L' homme dort ."])[0].links()
        >>> run.align(lines, targets, weights="posterior")[0].links("posterior,share")
        """
        score = functools.partial(decoding.score, *self.models(), self.codecs, self.config.decoding)
        return aligner.align(score, self.codecs, sources, targets, level, weights, advance)

    def evaluate(
        self, sources: Sequence[str], references: Sequence[str], output: Path | None = None
    ) -> dict[str, float | int | str]:
        """Translate and score (`scores.table`); write the translations to the folder `output`."""
        from bahdanau_jax.evaluation import scores  # SacreBLEU takes a tenth of a second

        check_equal_counts("sources", sources, "references", references)
        best = self.translate(sources)
        if output is not None:
            hypothesis.write(Path(output), best)
        return scores.table([h.text for h in best], references, self.codecs[1].tokenizer.tokenize)
