"""Checks the settings of the optimiser and of training: known variants that fit each other."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from bahdanau_jax import distributed
from bahdanau_jax.config import Config, TrainingConfig
from bahdanau_jax.names import choose
from bahdanau_jax.training.optimizer import OPTIMIZERS, SCHEDULES, optimizer_named
from bahdanau_jax.training.step import LOSS_NORMALIZATIONS
from bahdanau_jax.user_code import is_code

# Values of `training.dev_metric`: dev scores -> the number that selects the best checkpoint.
# Higher is better.
DEV_METRICS: Mapping[str, Callable[[Mapping[str, float]], float]] = MappingProxyType(
    {
        "bleu": lambda dev: dev["bleu"],
        "accuracy": lambda dev: dev["accuracy"],
        "exact": lambda dev: dev["exact"],
        "loss": lambda dev: -dev["loss"],
    }
)

# Field -> the table of its variants.
VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "optimizer.name": OPTIMIZERS,
        "optimizer.schedule": SCHEDULES,
        "optimizer.loss_normalization": LOSS_NORMALIZATIONS,
        "training.dev_metric": DEV_METRICS,
        "training.parallel": distributed.BACKENDS,
        "training.shard": distributed.SHARDINGS,
    }
)


def why_not_vmapped(settings: TrainingConfig) -> str:
    """Why runs with these settings cannot train vmapped; "" where they can.

    >>> why_not_vmapped(TrainingConfig())
    ''
    """
    if settings.patience:
        return "runs that train vmapped cannot stop early: set training.patience to 0"
    for field in ("parallel", "shard"):
        if getattr(settings, field) != (usual := getattr(TrainingConfig, field)):
            return (
                f"runs that train vmapped are not split over devices: set training.{field} to "
                f"{usual}, or train them in turn"
            )
    return ""


def faults(config: Config) -> Iterator[str]:
    """The faults of the settings, one in each line. An optimiser of the user's own is imported."""
    for field, table in VARIANTS.items():
        section, name = field.split(".")
        value = getattr(getattr(config, section), name)
        try:
            if field == "optimizer.name" and is_code(value):
                optimizer_named(value)
            else:
                choose(table, value, field)
        except ValueError as error:
            yield str(error)
    if config.training.parallel == "pmap" and config.training.shard != "none":
        yield (
            "training.parallel pmap copies everything to every device: set training.shard to none, "
            "or training.parallel to jit"
        )
    if config.training.patience and not config.training.evaluate_every:
        yield (
            "training.patience stops a training by its dev scores, but training.evaluate_every is "
            "0: set the updates between evaluations, or training.patience to 0"
        )
    if config.training.patience and not config.data.dev:
        yield (
            "training.patience stops a training by its dev scores, but data.dev is empty: name dev "
            "pairs, or set training.patience to 0 and training.steps to the updates to make"
        )
