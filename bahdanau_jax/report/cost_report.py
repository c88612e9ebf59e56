"""The predicted cost of a training as tables of text."""

import json
from collections.abc import Iterator

from bahdanau_jax.cost import REPEATS, Cost, ShapeCost
from bahdanau_jax.report import publish
from bahdanau_jax.report.document import Table
from bahdanau_jax.reporting import duration


def lines(cost: Cost) -> Iterator[str]:
    """Yield the parameters of each part, the shapes of an epoch, the totals and the configuration.

    >>> print("\\n".join(lines(estimate(config, workdir))))
    """
    total = sum(cost.parameters.values())
    parts = [(part.replace("_", " "), f"{count:,}") for part, count in cost.parameters.items()]
    yield from publish.rows(Table(("part", "parameters"), [*parts, ("all", f"{total:,}")]))
    yield ""
    header = ("padded shape", "rows", "updates of an epoch", "s of an update", "GiB planned")
    yield from publish.rows(Table(header, [_row(each) for each in cost.shapes]))
    yield f"(≈: by the number of positions; the others are medians of {REPEATS} updates)"
    yield ""
    yield from publish.rows(Table(("cost", "prediction"), [*_totals(cost)]))
    yield ""
    yield "Configuration:"
    yield json.dumps(json.loads(cost.config.to_json()), indent=2, ensure_ascii=False)


def _row(each: ShapeCost) -> tuple[str, ...]:
    source, target = each.shape
    return (
        f"{source} x {target}",
        f"{each.rows:,}",
        f"{each.updates:,}",
        f"{'' if each.measured else '≈'}{each.seconds:.3f}",
        f"{each.memory / 2**30:.2f}",
    )


def _totals(cost: Cost) -> Iterator[tuple[str, str]]:
    updates = cost.epoch_updates
    yield "memory of an update", f"{cost.memory / 2**30:.2f} GiB"
    if cost.peak is not None:
        yield "peak memory of this process", f"{cost.peak / 2**30:.2f} GiB"
    yield "padding", f"{cost.padding:.1%} of all positions"
    yield "an epoch", f"{updates:,} updates, {duration(cost.epoch_seconds)}"
    yield "speed", f"{cost.tokens / cost.epoch_seconds:,.0f} words of both sides a second"
    most = "at most " if cost.config.training.patience else ""  # it may end earlier
    time = f"{most}{cost.left:,} updates, {duration(cost.training_seconds)}, without evaluation"
    yield "training", f"{time}; {cost.made:,} updates are made" if cost.made else time
    yield "compilation", f"{cost.compile_seconds:.0f} s, once"
