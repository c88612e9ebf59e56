"""Text to hypotheses by a model whose attention weights an intervention changes."""

from collections.abc import Sequence
from typing import Any

from bahdanau_jax import decoding, hypothesis
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.model import interventions
from bahdanau_jax.pairing import check_list
from bahdanau_jax.trained import Run


def translate(
    run: Run, lines: Sequence[str], intervention: interventions.Intervention, **settings: Any
) -> list[Hypothesis]:
    """Return the best hypothesis of each line, as `Run.translate` does; α is that after the change.

    The arrays of the intervention have a row for each line. All hypotheses of a beam share the
    row. Any field of DecodingConfig can be given by its name. A line above 20,000 tokens gives
    `hypothesis.TOO_LONG`, which has no text. Raises ValueError for other lines above
    `decoding.max_source` tokens, for an ensemble, and where the rows do not fit.

    >>> translate(run, ["The man sleeps ."], harden(), beam_size=1)[0].text
    """
    check_list("lines", lines)
    interventions.check(intervention, len(lines))
    _refuse_ensemble(run)
    full = [row for row, line in enumerate(lines) if line.strip()]
    answers = decoding.translate(
        run.config.model,
        run.params,
        run.codecs,
        run.searching(**settings),
        [lines[row] for row in full],
        1,
        numbers=full,
        intervention=interventions.select(intervention, full, len(full)),
    )
    best = {row: hypothesis.of_line(ranked)[0] for row, ranked in zip(full, answers, strict=True)}
    return [best.get(row, hypothesis.EMPTY) for row in range(len(lines))]


def score(
    run: Run,
    sources: Sequence[str],
    targets: Sequence[str | Hypothesis],
    intervention: interventions.Intervention,
    **settings: Any,
) -> list[Hypothesis]:
    """Score each target under teacher forcing, as `Run.score` does; α is that after the change.

    >>> score(run, lines, run.translate(lines), harden())[0].log_probabilities
    """
    _refuse_ensemble(run)
    return decoding.score(
        run.config.model,
        run.params,
        run.codecs,
        run.searching(**settings),
        sources,
        targets,
        intervention=intervention,
    )


def _refuse_ensemble(run: Run) -> None:
    if run.others:
        raise ValueError("an ensemble has several attentions: intervene in each of its runs")
