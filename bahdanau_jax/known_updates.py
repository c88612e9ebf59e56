"""Two updates of a small model whose results are known, for `bahdanau doctor`."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import numpy as np

from bahdanau_jax import model, training
from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.config import Config, DataConfig, ModelConfig, OptimizerConfig


class Numbers(NamedTuple):
    """The results of two updates of the model of the self-test."""

    loss: float  # nats for each word, before the first update
    gradient_norm: float
    next_loss: float  # before the second update

    def text(self) -> str:
        """The numbers with their names, in one line."""
        return ", ".join(
            f"{name.replace('_', ' ')} {value:.6f}" for name, value in self._asdict().items()
        )


# Its configuration; a model of every part that the paper has.
SELF_TEST = Config(
    model=ModelConfig(
        source_vocabulary=11,
        target_vocabulary=13,
        embedding_size=5,
        hidden_size=7,
        alignment_size=3,
        readout_size=4,
    ),
    data=DataConfig(train="", dev="", test=""),
    optimizer=OptimizerConfig(name="adadelta"),
)
PAIRS = (((3, 7, 2, 10, 0), (5, 1, 12, 0)), ((4, 0), (9, 3, 3, 11, 2, 0)))  # EOS is 0
# Its results by the loops of tests/oracles.py in float64, and how far others may be off.
EXPECTED = Numbers(loss=2.6669324, gradient_norm=8.428659, next_loss=2.6066606)
TOLERANCE: Mapping[str, float] = MappingProxyType({"float32": 1e-4, "bfloat16": 3e-2})


def updates(compute_dtype: str = "float32") -> Numbers:
    """Make the two updates, without the rounding of factors that is an accelerator's default.

    >>> updates().loss
    """
    settings = dataclasses.replace(SELF_TEST.model, compute_dtype=compute_dtype)
    trainer = training.Trainer(dataclasses.replace(SELF_TEST, model=settings))
    state, sums = trainer.begin(weights()), []
    with jax.default_matmul_precision("highest"):
        for _ in range(2):
            state, each = trainer.update(state, trainer.backend.feed(batch(trainer.row_multiple)))
            sums.append(each)
    losses = [float(each.loss / each.words) for each in sums]
    return Numbers(losses[0], float(sums[0].gradient_norm), losses[1])


def weights() -> model.Params:
    """Its weights, which NumPy draws: the same on every machine."""
    draw = np.random.default_rng(0).normal
    return jax.tree.map(
        lambda leaf: draw(scale=0.4, size=leaf.shape).astype(np.float32),
        model.shapes(SELF_TEST.model),
    )


def batch(multiple: int = 1) -> Batch:
    """Its pairs, with rows of weight 0 up to a multiple of `multiple`."""
    rows = -(-len(PAIRS) // multiple) * multiple
    source, target = zip(*PAIRS, strict=True)
    weight = (np.arange(rows) < len(PAIRS)).astype(np.float32)
    return Batch(*pad(source, 6, rows), *pad(target, 7, rows), weight)
