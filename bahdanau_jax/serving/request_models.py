"""What clients may ask: pydantic models, from which the OpenAPI description is made."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from bahdanau_jax.alignment import EOS_RULES
from bahdanau_jax.config import SEARCHES
from bahdanau_jax.data import LEVELS
from bahdanau_jax.decoding import COMPUTE_DTYPES, METHODS, NORMALIZATIONS
from bahdanau_jax.model import LINK_WEIGHTS
from bahdanau_jax.serving.serving_settings import Settings

SHORTEST_RATIO = 0.1  # with a ratio near 0, a prefix would need a source of infinite length
LONGEST_RATIO = 10.0  # the largest max_ratio of a request; the memory of a search grows with it


Model = TypeVar("Model", bound=BaseModel)


def _whole(value: Any) -> Any:
    """Return 3 for 3.0, which a JSON schema counts as an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)  # behind the bounds, which pydantic otherwise describes wrongly


class Request(BaseModel):
    """A request: unknown fields, and values of another type, are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Search(Request):
    """Settings of the search; a setting that is missing or null has the run's own value."""

    method: Annotated[
        str | None,
        Field(description="the search method: beam search, or words sampled at random"),
    ] = None
    beam_size: Annotated[int | None, Field(ge=1, description="hypotheses; 1 is greedy search")] = (
        None
    )
    shrink: Annotated[
        bool | None, Field(description="the beam shrinks by one for each hypothesis that ends")
    ] = None
    length_normalization: Annotated[
        str | None, Field(description="the score that ranks hypotheses")
    ] = None
    alpha: Annotated[
        float | None,
        Field(ge=-10, le=10, description="the exponent of the length normalisation wu"),
    ] = None
    coverage: Annotated[
        float | None, Field(ge=0, le=100, description="the weight of the coverage penalty; 0: none")
    ] = None
    min_ratio: Annotated[
        float | None,
        Field(ge=0, le=100, description="the least words for each source token before EOS"),
    ] = None
    max_ratio: Annotated[
        float | None,
        Field(
            ge=SHORTEST_RATIO,
            le=LONGEST_RATIO,
            description="the most steps for each source token, with EOS",
        ),
    ] = None
    ban_unk: Annotated[
        bool | None,
        Field(description="write the unknown word only where no translation ends without it"),
    ] = None
    temperature: Annotated[
        float | None,
        Field(ge=1e-6, le=1e6, description="below 1, likely words become likelier (sample)"),
    ] = None
    top_k: Annotated[
        int | None,
        Field(ge=0, lt=2**31, description="sample only from this many likeliest words; 0: all"),
        WHOLE,
    ] = None
    top_p: Annotated[
        float | None,
        Field(ge=1e-6, le=1, description="sample only from the fewest words of this probability"),
    ] = None
    seed: Annotated[
        int | None, Field(ge=0, lt=2**31, description="the seed of sampling"), WHOLE
    ] = None
    compute_dtype: Annotated[str | None, Field(description="the precision of matrix products")] = (
        None
    )


# The settings that a score depends on; the others only guide a search.
OF_SCORES = ("length_normalization", "alpha", "coverage", "compute_dtype")


class TranslateRequest(Request):
    """Lines to translate."""

    lines: list[str]
    prefixes: Annotated[
        list[str] | None, Field(description='the beginning of each translation; "" for none')
    ] = None
    run: str | None = None
    n_best: int = 1
    preset: Annotated[
        str | None,
        Field(description="named settings of the search, in place of the run's own"),
    ] = None
    search: Search = Search()
    attention: Annotated[bool, Field(description="also return the attention weights alpha")] = False
    replace_unk: Annotated[
        bool, Field(description="replace each unknown word by the source word it attends to most")
    ] = False


class GivenPair(Request):
    """A source line and its translation."""

    source: str
    target: str


class ScoreRequest(Request):
    """Given translations to score."""

    pairs: list[GivenPair]
    run: str | None = None
    search: Annotated[
        Search,
        Field(description="how the score is normalised; other settings have no effect"),
    ] = Search()
    attention: Annotated[bool, Field(description="also return the attention weights alpha")] = False


class AlignRequest(Request):
    """Given translations to align with their sources."""

    pairs: list[GivenPair]
    run: str | None = None
    level: Annotated[str, Field(description="the unit of links")] = "word"
    weights: Annotated[str, Field(description="the weights behind the links")] = "attention"
    share: Annotated[
        bool, Field(description="divide each weight by the sum of its source word's weights")
    ] = False
    threshold: Annotated[
        float | None,
        Field(gt=0, le=1, description="link all words of this weight, not the largest alone"),
    ] = None
    eos: Annotated[
        str,
        Field(description="the link of a word with its largest weight on EOS; without threshold"),
    ] = "next"


class Models(NamedTuple):
    """The models of the requests of one server, with its limits."""

    translate: type[TranslateRequest]
    score: type[ScoreRequest]
    align: type[AlignRequest]


PAIR = {"source": "The man sleeps.", "target": "L'homme dort."}


def models(settings: Settings, runs: Sequence[str]) -> Models:
    """Return the models for a server with these limits and these names of runs.

    Fields that name a variant take the names of its table.

    >>> models(Settings(max_lines=1), ["quickstart"]).translate(lines=["a", "b"])
    ValidationError: List should have at most 1 item after validation, not 2
    """
    text: Any = Annotated[str, Field(max_length=settings.max_characters)]
    pair = _narrowed("Pair", GivenPair, source=text, target=text)
    beam = Field(ge=1, le=settings.max_beam)
    search = _narrowed(
        "Search",
        Search,
        method=_named(METHODS) | None,
        beam_size=Annotated[int | None, beam, WHOLE],
        length_normalization=_named(NORMALIZATIONS) | None,
        compute_dtype=_named(COMPUTE_DTYPES) | None,
    )
    run = Annotated[
        _named(runs) | None, Field(description=f"the name of a run; by default {runs[0]}")
    ]
    lines = Field(min_length=1, max_length=settings.max_lines)
    pairs = Annotated[list[pair], lines, Field(examples=[[PAIR]])]
    translate = _narrowed(
        "Translate",
        TranslateRequest,
        lines=Annotated[list[text], lines, Field(examples=[["The man saw a white house."]])],
        prefixes=Annotated[list[text] | None, Field(max_length=settings.max_lines)],
        run=run,
        n_best=Annotated[int, beam, Field(description="the most translations of a line"), WHOLE],
        preset=_named(SEARCHES) | None,
        search=search,
    )
    score = _narrowed("Score", ScoreRequest, pairs=pairs, run=run, search=search)
    align = _narrowed(
        "Align",
        AlignRequest,
        pairs=pairs,
        run=run,
        level=_named(LEVELS),
        weights=_named(LINK_WEIGHTS),
        eos=_named(EOS_RULES),
    )
    return Models(translate, score, align)


def _named(known: Iterable[str]) -> Any:
    """The type of a name that is one of these."""
    return Literal[tuple(known)]  # pyright: ignore


def _narrowed(name: str, base: type[Model], **types: Any) -> type[Model]:
    """Return a model with narrower types of some fields, and with the defaults of its base."""
    fields: dict[str, Any] = {}
    for field, narrower in types.items():
        of_base = base.model_fields[field]
        words = Field(description=of_base.description) if of_base.description else Field()
        default = ... if of_base.is_required() else of_base.default
        fields[field] = (Annotated[narrower, words], default)
    return create_model(name, __base__=base, __doc__=base.__doc__, **fields)
