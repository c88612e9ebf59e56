"""A translation with its probabilities and its attention weights; JSON in and out."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from bahdanau_jax.atomic import replaced_file, write_text
from bahdanau_jax.parsing import json_text


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence: T output and S source tokens, closing EOS counted.

    >>> Hypothesis.from_json(hypothesis.to_json()) == hypothesis
    True
    """

    text: str  # ordinary text, detokenised
    tokens: tuple[str, ...]  # T output tokens; the last is the EOS symbol where `finished`
    log_probabilities: tuple[float, ...]  # T natural logarithms of p(token | tokens before, source)
    score: float  # of the search: Σ log_probabilities, normalised, with the coverage term
    finished: bool  # False where the search reached its length limit before EOS
    source_tokens: tuple[str, ...]  # S source tokens, EOS last
    alpha: Float[np.ndarray, "T S"] = field(compare=False)  # float32; attention weights of token i
    original: str | None = None  # the text before UNK replacement, if that changed it
    # The first token of each further part of a line that was cut; JSON has no field for it.
    seams: tuple[int, ...] = field(default=(), compare=False)

    @property
    def confidence(self) -> float:
        """The geometric mean of the tokens' probabilities, from 0 to 1."""
        if not self.tokens:
            return float(self.finished)
        return math.exp(sum(self.log_probabilities) / len(self.tokens))

    def to_json(self) -> dict[str, Any]:
        """Return lists, numbers and strings; alpha as rows, `original` only where it is set."""
        return {**self._without_alpha(), "alpha": [*self._rows()]}

    def json_pieces(self, **more: Any) -> Iterator[str]:
        """Yield the text of one JSON object with `more` and `to_json`, alpha row by row.

        NaN and infinity, which JSON does not have, are null. With 10,000 tokens on each side, all
        of alpha as lists would take 3 GB.
        """
        head = json_text({**more, **self._without_alpha()})
        yield f'{head[:-1]}, "alpha": ['
        for i, row in enumerate(self._rows()):
            yield f"{', ' if i else ''}{json_text(row)}"
        yield "]}"

    def _without_alpha(self) -> dict[str, Any]:
        original = {} if self.original is None else {"original": self.original}
        return {
            "text": self.text,
            **original,
            "score": self.score,
            "confidence": self.confidence,
            "finished": self.finished,
            "tokens": list(self.tokens),
            "log_probabilities": list(self.log_probabilities),
            "source_tokens": list(self.source_tokens),
        }

    def _rows(self) -> Iterator[list[float]]:
        return (np.asarray(row, np.float64).round(6).tolist() for row in self.alpha)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the inverse of `to_json`; alpha has six digits, and null is NaN."""
        tokens, source = tuple(data["tokens"]), tuple(data["source_tokens"])
        return cls(
            text=data["text"],
            tokens=tokens,
            log_probabilities=tuple(map(_number, data["log_probabilities"])),
            score=_number(data["score"]),
            finished=data["finished"],
            source_tokens=source,
            alpha=np.asarray(data["alpha"], np.float32).reshape(len(tokens), len(source)),
            original=data.get("original"),
        )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


# The translation of a blank line.
EMPTY = Hypothesis("", (), (), 0.0, True, (), np.zeros((0, 0), np.float32))

# The translation of a line above decoding.LONGEST tokens, which is not decoded.
TOO_LONG = Hypothesis("", (), (), 0.0, False, (), np.zeros((0, 0), np.float32))


def of_line(ranked: list[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses of a line: EMPTY alone where the line has no token but EOS."""
    is_translated = ranked == [TOO_LONG] or len(ranked[0].source_tokens) > 1
    return ranked if is_translated else [EMPTY]


def write_lines(path: Path, hypotheses: Sequence[Hypothesis]) -> None:
    """Write one JSON object on each line of a file, which appears whole."""
    with replaced_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        for hypothesis in hypotheses:
            file.writelines(hypothesis.json_pieces())
            file.write("\n")


def write(folder: Path, hypotheses: Sequence[Hypothesis]) -> None:
    """Write translations.txt and translations.jsonl in a folder, one line for each hypothesis."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(" ".join(h.text.split()) + "\n" for h in hypotheses)
    write_text(folder / "translations.txt", text)
    write_lines(folder / "translations.jsonl", hypotheses)
