"""UNK replacement in `bahdanau translate`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from bahdanau_jax.cli import lines
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.hypothesis import EMPTY, Hypothesis
from bahdanau_jax.reporting import say


class Options(Protocol):
    """The options of UNK replacement."""

    @property
    def input(self) -> Path | None: ...
    @property
    def replace_unk(self) -> bool: ...
    @property
    def lexicon(self) -> Path | None: ...
    @property
    def reference(self) -> Path | None: ...
    @property
    def settings(self) -> DecodingConfig: ...


class UnkReplacer:
    """Replace UNK in the hypotheses of each window, and measure the effect on BLEU.

    Without --replace-unk, hypotheses are not changed, and only their BLEU is measured.
    """

    def __init__(self, options: Options, run):
        from bahdanau_jax import decoding

        self._options, self._run = options, run
        self._lexicon = {}
        if options.lexicon is not None:
            text = lines.read_all(options.lexicon)
            self._lexicon = decoding.read_lexicon(text, str(options.lexicon))
        self._best: list[Hypothesis] = []  # the best of each line, if there is a reference
        sides = [path for path in (options.reference, options.input) if path and path.is_file()]
        if len(sides) == 2:  # regular files can be read twice
            self._compare(*map(lines.count, sides))

    def _compare(self, references: int, sources: int) -> None:
        if references != sources:
            raise ValueError(
                f"{self._options.reference} has {references} lines, but the input {sources}; line "
                "i of one should translate line i of the other"
            )

    def __call__(
        self, sources: Sequence[str], ranked: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        if self._options.replace_unk:
            ranked = self._replaced(sources, ranked)
        if self._options.reference is not None:
            # Without the arrays, which would be those of the whole text at the end.
            self._best += [replace(ranking[0], alpha=EMPTY.alpha) for ranking in ranked]
        return ranked

    def _replaced(
        self, sources: Sequence[str], ranked: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        from bahdanau_jax import decoding

        settings = self._options.settings
        return [
            decoding.replace_in_all(hypotheses, self._run.codecs, line, settings, self._lexicon)
            for line, hypotheses in zip(sources, ranked, strict=True)
        ]

    def report(self) -> None:
        """Print BLEU of ordinary text and of tokens in lower case, with and without UNK."""
        if self._options.reference is None:
            return
        from bahdanau_jax import evaluation

        references = lines.read_all(self._options.reference)
        self._compare(len(references), len(self._best))
        effect = evaluation.unknown_effect(
            self._best, references, self._run.codecs[1].tokenizer.tokenize
        )
        if not self._options.replace_unk:
            for name in ("BLEU", "BLEU-tokenized-lowercased"):
                effect[name] = effect.pop(f"{name}-with-UNK")
        for name, value in effect.items():
            shown = f"{value:.1f}" if isinstance(value, float) else value
            say(f"{name} {shown}")
