"""The sections of a report on the scores of a test set."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from bahdanau_jax import figures
from bahdanau_jax.evaluation import behaviour
from bahdanau_jax.report import confidence_sections, examples
from bahdanau_jax.report.document import Picture, Section, Table, number, span
from bahdanau_jax.report.run_scores import Evaluated
from bahdanau_jax.reported_scores import decimals

# Key in the scores -> the name of the system in the report.
SYSTEMS: Mapping[str, str] = MappingProxyType(
    {"output": "this model", "baseline": "baseline", "reference": "reference"}
)

# Scores of whole sequences, from 0 to 1 -> the value whose mean over the sentences they are. For
# all but the first, a translation is cut to the length of its reference.
SEQUENCES: Mapping[str, str] = MappingProxyType(
    {
        "exact": "1 where the translation equals the reference, else 0",
        "PSA": "position-specific accuracy: share of the reference's words at their position",
        "LCSR": "longest common subsequence with the reference, over the reference's length",
        "GeoMean": "square root of PSA times LCSR",
        "PSA-seed": "PSA, but 0 for an empty reference, even if the translation is empty too",
        "LCSR-seed": "LCSR, likewise",
        "GeoMean-seed": "GeoMean, likewise",
    }
)


def headline(scores: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(name, number, meaning) of the main scores, for the head of a report."""
    ours = scores["repetition"]["output"]["sentences"]["any"]
    theirs = scores["repetition"]["reference"]["sentences"]["any"]
    return [
        ("BLEU", number(scores["BLEU"]), "95%: " + span(scores["intervals"]["BLEU"])),
        ("chrF", number(scores["chrF"]), "95%: " + span(scores["intervals"]["chrF"])),
        ("length", number(scores["length-ratio"], ".2f"), "words for each of the references"),
        ("repetition", number(ours, ".1%"), f"of sentences; references {number(theirs, '.1%')}"),
        ("ECE", number(scores["ECE"], ".3f"), "confidence against accuracy, 0 is best"),
    ]


def sections(evaluated: Evaluated) -> list[Section]:
    """All parts of the report on a test set, in order."""
    scores = evaluated.scores
    return [
        _metrics(scores),
        _length(scores),
        _no_unk(scores),
        _output(scores),
        _attention(evaluated),
        confidence_sections.calibrated(scores["calibration"]),
        confidence_sections.correlated(scores["quality"]),
        Section(
            "Examples",
            "The first sentences, and those with the lowest sentence chrF, which compares "
            "character n-grams with the reference. Words of a translation that differ from the "
            "reference are underlined, and so are the reference's words that this model did not "
            "write.",
            examples=tuple(examples.choose(evaluated)),
        ),
        _method(scores),
    ]


def _metrics(scores: Mapping[str, Any]) -> Section:
    comparison = scores.get("comparison")
    names = list(scores["intervals"])
    text = (
        f"{scores['sentences']:,} sentences, with 95% intervals from "
        f"{scores['settings']['resamples']:,} resamples of them. BLEU and chrF run from 0 to 100. "
        "Tokenized scores compare the tokens of this model's tokeniser instead of sacreBLEU's; "
        "lowercased ones ignore case."
    )
    rows = [(name, number(scores[name]), span(scores["intervals"][name])) for name in names]
    tables = [Table(("metric", "score", "95% interval"), rows)]
    if comparison:
        text += (
            f" The baseline is {comparison['baseline']}. The difference is this model's score less "
            "the baseline's; p is the probability of a difference of this size by chance, by "
            "paired bootstrap and by approximate randomisation; wins is the share of resamples in "
            "which this model scores higher."
        )
        header = ("metric", "baseline", "difference", "95% interval", "wins", "p boot.", "p rand.")
        metrics = comparison["metrics"]
        tables.append(Table(header, [_compared(name, metrics[name]) for name in names]))
    exact = Table(
        ("whole sequences", "score", "mean over the sentences of"),
        [
            (name, number(scores[name], f".{decimals(name)}f"), meaning)
            for name, meaning in SEQUENCES.items()
        ],
    )
    return Section("Scores", text, (*tables, exact))


def _compared(name: str, metric: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        number(metric["baseline"]),
        number(metric["difference"], "+.1f"),
        span(metric["interval"], "+.1f"),
        number(metric["wins"], ".1%"),
        number(metric["p_bootstrap"], ".4f"),
        number(metric["p_randomization"], ".4f"),
    )


def _length(scores: Mapping[str, Any]) -> Section:
    part = scores["by-length"]
    systems = [name for name in ("output", "baseline") if name in part]
    header = (f"source {part['unit']}", "sentences")
    for name in systems:
        header = (*header, f"BLEU, {SYSTEMS[name]}", "95% interval")
    rows = []
    for bins in zip(*(part[name] for name in systems), strict=True):
        cells = (bins[0]["name"], f"{bins[0]['sentences']:,}")
        for each in bins:
            cells = (*cells, number(each["score"]), span(each["interval"]))
        rows.append(cells)

    def values(name: str, field: str) -> dict[float, Any]:
        return {each["words"]: each[field] for each in part[name] if each["sentences"]}

    drawing = figures.bleu_by_length(
        {SYSTEMS[name]: values(name, "score") for name in systems},
        {SYSTEMS[name]: values(name, "interval") for name in systems},
        values("output", "sentences"),
        unit=part["unit"],
    )
    caption = "BLEU by source length, at each bin's mean length; the shade is the 95% interval."
    return Section(
        "By length",
        f"BLEU of ordinary text by the number of {part['unit']} in the source, as in the paper's "
        "Figure 2.",
        (Table(header, rows),),
        (Picture("bleu_by_length", drawing, caption),),
    )


def _no_unk(scores: Mapping[str, Any]) -> Section:
    part = scores["no-UNK"]
    if part["banned"]:
        text = (
            f"{part['sentences']:,} of {scores['sentences']:,} sentences "
            f"({number(part['share'], '.1%')}) have no unknown word in source and reference. They "
            "were translated again with UNK banned from the output, as in the second column of the "
            "paper's Table 1."
        )
    else:
        text = (
            "A model of characters or subwords has few unknown units or none. These are therefore "
            f"all {part['sentences']:,} sentences, which were not translated again."
        )
    rows = [
        (
            name,
            number(part[name]),
            span(part["intervals"].get(name)),
            number(part["UNK-allowed"][name]),
            number(scores[name]),
        )
        for name in part["UNK-allowed"]
    ]
    header = ("metric", "UNK banned", "95% interval", "UNK allowed, same sentences", "all")
    return Section("Without unknown words", text, (Table(header, rows),))


def _output(scores: Mapping[str, Any]) -> Section:
    systems = [name for name in ("output", "baseline", "reference") if name in scores["lengths"]]
    repetition, lengths = scores["repetition"], scores["lengths"]

    def row(name: str, value, form: str) -> tuple[str, ...]:
        return (name, *(number(value(system), form) for system in systems))

    rows = [
        row("words", lambda s: lengths[s]["words"], ",d"),
        row("words for each word of the reference", lambda s: lengths[s]["ratio"], ".3f"),
        row("empty lines", lambda s: lengths[s]["empty"], ",d"),
        row("sentences that repeat", lambda s: repetition[s]["sentences"]["any"], ".1%"),
    ]
    for n in map(str, behaviour.ORDERS):
        label = f"… {n}-gram at once"
        rows.append(row(label, lambda s, n=n: repetition[s]["sentences"][n], ".1%"))
    for n in map(str, behaviour.ORDERS):
        rows.append(row(f"{n}-grams seen before", lambda s, n=n: repetition[s]["again"][n], ".1%"))
    text = (
        f"{number(scores['unfinished'], '.1%')} of the translations reached the length limit "
        f"before EOS; {number(scores['UNK'], '.2%')} of the output tokens are UNK. A sentence "
        f"repeats if an n-gram of {behaviour.ORDERS[0]} to {behaviour.ORDERS[-1]} words follows "
        "itself; n-grams seen before occur in the same sentence (arXiv 1908.04319, pooled)."
    )
    return Section("Output", text, (Table(("", *(SYSTEMS[s] for s in systems)), rows),))


def _attention(evaluated: Evaluated) -> Section:
    part = evaluated.scores["coverage"]
    rows = [
        (
            name,
            number(coverage["mean"], ".2f"),
            number(coverage["little"], ".1%"),
            number(coverage["much"], ".1%"),
            f"{coverage['words']:,}",
        )
        for name, coverage in (("own output", part["output"]), ("references", part["reference"]))
    ]
    text = (
        "The total attention that each source token but EOS gets from all target tokens (coverage, "
        f"arXiv 1601.04811): little is below {behaviour.LITTLE}, as for an omitted word; much is "
        f"above {behaviour.MUCH:g}, as for a word that is translated twice."
    )
    header = ("attention for the", "mean", "little", "much", "source tokens")
    pictures = ()
    if (best := examples.most_reordered(evaluated.hypotheses)) is not None:
        caption = (
            "Alignment of the sentence with the most reordering, of 8 to 20 tokens if there is "
            "one; faint cells have small weights."
        )
        pictures = (Picture("alignment", figures.alignment(best), caption),)
    return Section("Attention", text, (Table(header, rows),), pictures)


def _method(scores: Mapping[str, Any]) -> Section:
    search, settings = _values(scores["search"]), _values(scores["settings"])
    return Section(
        "How it was measured",
        "Intervals and tests resample sentences with this seed. They equal those of sacreBLEU with "
        "the same seed and numbers of resamples, except that approximate randomisation counts "
        "resamples with exactly the observed difference, too.",
        (
            Table(("score", "signature"), list(_signatures(scores))),
            Table(("search", "value"), search),
            Table(("evaluation", "value"), settings),
        ),
    )


def _values(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of the settings that are not None."""
    return [
        (name.replace("_", " "), str(value).strip("()"))
        for name, value in settings.items()
        if value is not None
    ]


def _signatures(scores: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "BLEU", scores["signature"]
    yield "BLEU-tokenized", scores["tokenized-signature"]
    yield "chrF", scores["chrF-signature"]
