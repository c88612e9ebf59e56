"""What the server answers. The models describe the answers; tests compare answers with them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Matrix = list[list[float | None]]
ALPHA = "attention weights: a row for each target token, a column for each source token, EOS last"


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorAnswer(Answer):
    """Every error, of every status."""

    error: Annotated[str, Field(examples=["lines.0: Input should be a valid string"])]
    what_to_do: Annotated[str, Field(examples=["correct the request"])]


class HypothesisAnswer(Answer):
    """A translation with all that is known of it."""

    text: str
    original: Annotated[str | None, Field(description="the text before UNK replacement")] = None
    score: Annotated[
        float | None, Field(description="the sum of log_probabilities, normalised as the search is")
    ]
    confidence: Annotated[
        float | None, Field(description="the geometric mean of the tokens' probabilities")
    ]
    finished: Annotated[bool, Field(description="false where max_ratio cut the translation off")]
    tokens: list[str]
    log_probabilities: Annotated[
        list[float | None], Field(description="the natural logarithm of each token's probability")
    ]
    source_tokens: list[str]
    alpha: Annotated[Matrix | None, Field(description=ALPHA)] = None


class TranslateAnswer(Answer):
    """The translations of each line, best first; samples are in the order of drawing."""

    run: str
    translations: list[list[HypothesisAnswer]]
    warnings: Annotated[list[str], Field(description="settings that have no effect")]


class ScoreAnswer(Answer):
    """Each target with its probabilities; `log_probability` is the sum over its tokens."""

    class Scored(HypothesisAnswer):
        log_probability: float | None

    run: str
    scores: list[Scored]
    warnings: Annotated[list[str], Field(description="settings that have no effect")]


class AlignAnswer(Answer):
    """The links and weights of each pair."""

    class Alignment(Answer):
        source: Annotated[list[str], Field(description="the source words")]
        target: Annotated[list[str], Field(description="the target words")]
        links: Annotated[
            list[list[int]], Field(description="[source word, target word], counted from 0")
        ]
        pharaoh: Annotated[str, Field(description="the same links", examples=["0-0 1-2"])]
        log_probability: Annotated[
            float | None, Field(description="of the target; null for a pair with a blank side")
        ]
        weights: Annotated[
            Matrix,
            Field(
                description="a row for each target word, EOS last on both axes; "
                "[] for a pair with a blank side"
            ),
        ]

    run: str
    alignments: list[Alignment]


class RunAnswer(Answer):
    """A run that the server has loaded."""

    name: str
    source_language: str
    target_language: str
    source_vocabulary: int
    target_vocabulary: int
    search: Annotated[dict[str, str | int | float | bool], Field(description="its own settings")]


class RunsAnswer(Answer):
    """The runs, the default one first."""

    runs: list[RunAnswer]


class HealthAnswer(Answer):
    status: str
