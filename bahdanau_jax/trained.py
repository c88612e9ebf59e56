"""A trained model: what a run folder holds, loaded, and all that it can do with text."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import jax
import jax.numpy as jnp

from bahdanau_jax import aligner, data, decoding, hypothesis, model, training
from bahdanau_jax.aligner import Aligned
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config
from bahdanau_jax.data import Codec
from bahdanau_jax.evaluation import scores
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.variants import check

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"


def example() -> Batch:
    """The smallest batch: parameters do not depend on its shape."""
    ids, mask = jnp.zeros((1, 1), int), jnp.ones((1, 1), bool)
    return Batch(ids, mask, ids, mask, jnp.ones(1))


def load(folder: str | Path) -> "Run":
    """The best model of a run folder.

    >>> run = load("runs/quickstart")
    >>> run.translate(["The man saw the European Economic Area ."])[0].text

    Raises FileNotFoundError or ValueError where the folder holds no run or is damaged.
    """
    folder = Path(folder)
    if not (folder / CONFIG).exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {CONFIG} in it")
    config = Config.load(folder / CONFIG)
    check(config)
    codecs = data.load(folder / "vocabulary", config.data)
    for side, codec in zip(("source", "target"), codecs, strict=True):
        rows, entries = getattr(config.model, f"{side}_vocabulary"), len(codec.vocabulary)
        if rows != entries:
            raise ValueError(
                f"{folder}/vocabulary/{side} has {entries} entries, but the model's {side} "
                f"embedding has {rows} rows: this run folder was mixed from two runs"
            )
    init = jax.eval_shape(model.Seq2Seq(config.model).init, jax.random.key(0), example())
    part = "ema" if config.optimizer.ema else "params"
    checkpoints = training.Checkpointer(folder / CHECKPOINTS)
    try:
        restored = checkpoints.restore_best({part: init["params"]})
    finally:
        checkpoints.close()
    if restored is None:
        raise FileNotFoundError(f"{folder}/{CHECKPOINTS} is empty: train the run first")
    return Run(folder, config, codecs, restored[part])


@dataclass(frozen=True)
class Run:
    """A trained model with all that it needs to translate."""

    folder: Path
    config: Config
    codecs: tuple[Codec, Codec]  # of the source and of the target
    params: model.Params

    @overload
    def translate(
        self, lines: Sequence[str], beam_size: int | None = None, n_best: None = None
    ) -> list[Hypothesis]: ...
    @overload
    def translate(
        self, lines: Sequence[str], beam_size: int | None = None, *, n_best: int
    ) -> list[list[Hypothesis]]: ...
    def translate(self, lines, beam_size=None, n_best=None):
        """The best hypothesis of each line; with `n_best`, a list of so many for each, best first.

        A blank line has the empty hypothesis alone.

        >>> run.translate(["The man sleeps ."], beam_size=12)[0].text
        """
        settings = self.config.decoding
        if beam_size is not None:
            settings = dataclasses.replace(settings, beam_size=beam_size)
        if isinstance(lines, str):
            raise TypeError(f"a list of lines is translated, not the one text {lines[:40]!r}")
        words = [line for line in lines if line.strip()]
        answers = iter(
            decoding.translate(
                self.config.model, self.params, self.codecs, settings, words, n_best or 1
            )
        )
        found = [next(answers) if line.strip() else [hypothesis.EMPTY] for line in lines]
        return found if n_best else [hypotheses[0] for hypotheses in found]

    def force(self, sources: Sequence[str], targets: Sequence[str]) -> list[Hypothesis]:
        """Forced decoding: each target with the model's probabilities and alignment."""
        settings = self.config.decoding
        return decoding.force(
            self.config.model, self.params, self.codecs, settings.batch_size, sources, targets
        )

    def align(
        self, sources: Sequence[str], targets: Sequence[str], level: str = "word"
    ) -> list[Aligned]:
        """Where the words of each target look in its source; `level` is a key of `data.LEVELS`.

        >>> run.align(["The man sleeps ."], ["L' homme dort ."])[0].links()
        """
        return aligner.align(self.force, self.codecs, sources, targets, level)

    def evaluate(
        self, sources: Sequence[str], references: Sequence[str], output: Path | None = None
    ) -> dict[str, float | int | str]:
        """Translate and score (`scores.table`); translations go into the folder `output`."""
        found = self.translate(sources)
        if output is not None:
            hypothesis.write(Path(output), found)
        return scores.table(
            [best.text for best in found], references, self.codecs[1].tokenizer.tokenize
        )
