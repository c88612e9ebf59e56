"""UNK replacement as `bahdanau translate` offers it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bahdanau_jax.cli import lines
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.reporting import say


class Asked(Protocol):
    """What the command line says of it."""

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


class Known:
    """Hypotheses without UNK, window by window, and what that does to BLEU.

    Where it was not asked for, hypotheses pass as they are, and have one BLEU.
    """

    def __init__(self, asked: Asked, run):
        from bahdanau_jax import decoding

        self._asked, self._run = asked, run
        self._lexicon = {}
        if asked.lexicon is not None:
            text = lines.read_all(asked.lexicon)
            self._lexicon = decoding.read_lexicon(text, str(asked.lexicon))
        self._best: list[Hypothesis] = []  # of each line, kept only beside a reference
        sides = [path for path in (asked.reference, asked.input) if path and path.is_file()]
        if len(sides) == 2:  # both can be read again
            self._compare(*map(lines.count, sides))

    def _compare(self, references: int, sources: int) -> None:
        if references != sources:
            raise ValueError(
                f"{self._asked.reference} has {references} lines, but the input {sources}; line i "
                "of one should translate line i of the other"
            )

    def __call__(
        self, sources: Sequence[str], ranked: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        found = self._replaced(sources, ranked) if self._asked.replace_unk else ranked
        if self._asked.reference is not None:
            self._best += [each[0] for each in found]
        return found

    def _replaced(
        self, sources: Sequence[str], ranked: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        from bahdanau_jax import decoding

        found = [
            [decoding.replace_unknown(h, self._run.codecs, line, self._lexicon) for h in each]
            for line, each in zip(sources, ranked, strict=True)
        ]
        if decoding.METHODS[self._asked.settings.method].stochastic:
            return found
        return [decoding.distinct(each) for each in found]

    def report(self) -> None:
        """On stderr: BLEU on ordinary text and on tokens in lower case, with and without UNK."""
        from bahdanau_jax import evaluation

        if self._asked.reference is None:
            return
        references = lines.read_all(self._asked.reference)
        self._compare(len(references), len(self._best))
        effect = evaluation.unknown_effect(
            self._best, references, self._run.codecs[1].tokenizer.tokenize
        )
        if not self._asked.replace_unk:
            for name in ("BLEU", "BLEU-tokenized-lowercased"):
                effect[name] = effect.pop(f"{name}-with-UNK")
        for name, value in effect.items():
            shown = f"{value:.1f}" if isinstance(value, float) else value
            say(f"{name} {shown}")
