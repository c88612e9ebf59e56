"""A translation with all that is known of it: text, probabilities and where the model looked."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence: T output and S source tokens, closing EOS counted.

    >>> Hypothesis.from_json(hypothesis.to_json()) == hypothesis
    True
    """

    text: str  # ordinary text, detokenised
    tokens: tuple[str, ...]  # T output tokens; the last is the EOS symbol where `finished`
    log_probabilities: tuple[float, ...]  # T natural logarithms of p(token | tokens before, source)
    score: float  # what search ranked by: the sum of log_probabilities, normalised if so configured
    finished: bool  # False where the length limit came before EOS
    source_tokens: tuple[str, ...]  # S source tokens, EOS last
    alpha: Float[np.ndarray, "T S"] = field(compare=False)  # float32; row i is where token i looked
    original: str | None = None  # the text before UNK were replaced, where any were

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; alpha as rows; `original` where there is one."""
        return {**self._without_alpha(), "alpha": [*self._rows()]}

    def json_pieces(self, **more: Any) -> Iterator[str]:
        """The text of `more` and `to_json` as one JSON object, in pieces: alpha row by row.

        Of 10,000 tokens a side, alpha as lists takes 3 GB.
        """
        head = json.dumps({**more, **self._without_alpha()}, ensure_ascii=False)
        yield f'{head[:-1]}, "alpha": ['
        for i, row in enumerate(self._rows()):
            yield f"{', ' if i else ''}{json.dumps(row)}"
        yield "]}"

    def _without_alpha(self) -> dict[str, Any]:
        original = {} if self.original is None else {"original": self.original}
        return {
            "text": self.text,
            **original,
            "score": self.score,
            "finished": self.finished,
            "tokens": list(self.tokens),
            "log_probabilities": list(self.log_probabilities),
            "source_tokens": list(self.source_tokens),
        }

    def _rows(self) -> Iterator[list[float]]:
        return (np.asarray(row, np.float64).round(6).tolist() for row in self.alpha)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`; alpha comes back to six digits."""
        tokens, source = tuple(data["tokens"]), tuple(data["source_tokens"])
        return cls(
            text=data["text"],
            tokens=tokens,
            log_probabilities=tuple(data["log_probabilities"]),
            score=data["score"],
            finished=data["finished"],
            source_tokens=source,
            alpha=np.asarray(data["alpha"], np.float32).reshape(len(tokens), len(source)),
            original=data.get("original"),
        )


# The translation of a blank line: nothing was read, and nothing written.
EMPTY = Hypothesis("", (), (), 0.0, True, (), np.zeros((0, 0), np.float32))

# The translation of a line above decoding.LONGEST tokens: it was not read, so it did not end.
TOO_LONG = Hypothesis("", (), (), 0.0, False, (), np.zeros((0, 0), np.float32))


def write_lines(path: Path, hypotheses: Sequence[Hypothesis]) -> None:
    """One JSON object a line."""
    with path.open("w", encoding="utf-8") as file:
        for each in hypotheses:
            file.writelines(each.json_pieces())
            file.write("\n")


def write(folder: Path, hypotheses: Sequence[Hypothesis]) -> None:
    """translations.txt and translations.jsonl in a folder, one line a hypothesis."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(" ".join(h.text.split()) + "\n" for h in hypotheses)
    (folder / "translations.txt").write_text(text, encoding="utf-8")
    write_lines(folder / "translations.jsonl", hypotheses)
