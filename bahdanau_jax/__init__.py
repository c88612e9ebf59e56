"""Attention translation with recurrent networks (RNNsearch, arXiv 1409.0473) in JAX.

    >>> import bahdanau_jax as bj
    >>> run = bj.load("runs/quickstart")
    >>> best = run.translate(["The man saw the European Economic Area ."], beam_size=12)[0]
    >>> bj.figures.alignment(best).savefig("alignment.svg")

Axes, in every signature:

    B  sentences of a batch             H  hidden units of a direction, and of the decoder
    S  source positions, EOS counted    C  annotation, by default 2H
    T  target positions, EOS counted    A  units of the alignment model
    E  embedding                        L  units of the readout
    K  hypotheses of the beam           V  vocabulary
"""

import importlib
from typing import TYPE_CHECKING, Any

# Name -> module, imported at first use: JAX takes a second, and the help does not need it.
_PUBLIC = {
    "Batch": "batch",
    "Hypothesis": "hypothesis",
    "PRESETS": "config",
    "SEARCHES": "config",
    "Config": "config",
    "ModelConfig": "config",
    "DataConfig": "config",
    "OptimizerConfig": "config",
    "TrainingConfig": "config",
    "DecodingConfig": "config",
    "configuration": "configurations",
    "Seq2Seq": "model",
    "encode": "model",
    "loss": "model.loss",
    "INITS": "model",
    "draw": "model",
    "init": "model",
    "Evaluator": "training",
    "check": "run",
    "prepare": "run",
    "schedule": "training",
    "train": "run",
    "load": "trained",
    "ensemble": "trained",
    "Run": "trained",
    "import_weights": "exchange",
    "write_weights": "exchange",
}
_MODULES = {
    "attention": "model.attention",
    "experiments": "experiments",
    "figures": "figures",
}

__all__ = [*_PUBLIC, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from bahdanau_jax import experiments as experiments
    from bahdanau_jax import figures as figures
    from bahdanau_jax.batch import Batch as Batch
    from bahdanau_jax.config import PRESETS as PRESETS
    from bahdanau_jax.config import SEARCHES as SEARCHES
    from bahdanau_jax.config import Config as Config
    from bahdanau_jax.config import DataConfig as DataConfig
    from bahdanau_jax.config import DecodingConfig as DecodingConfig
    from bahdanau_jax.config import ModelConfig as ModelConfig
    from bahdanau_jax.config import OptimizerConfig as OptimizerConfig
    from bahdanau_jax.config import TrainingConfig as TrainingConfig
    from bahdanau_jax.configurations import configuration as configuration
    from bahdanau_jax.exchange import import_weights as import_weights
    from bahdanau_jax.exchange import write_weights as write_weights
    from bahdanau_jax.hypothesis import Hypothesis as Hypothesis
    from bahdanau_jax.model import INITS as INITS
    from bahdanau_jax.model import Seq2Seq as Seq2Seq
    from bahdanau_jax.model import attention as attention
    from bahdanau_jax.model import draw as draw
    from bahdanau_jax.model import encode as encode
    from bahdanau_jax.model import init as init
    from bahdanau_jax.model.loss import loss as loss
    from bahdanau_jax.run import check as check
    from bahdanau_jax.run import prepare as prepare
    from bahdanau_jax.run import train as train
    from bahdanau_jax.trained import Run as Run
    from bahdanau_jax.trained import ensemble as ensemble
    from bahdanau_jax.trained import load as load
    from bahdanau_jax.training import Evaluator as Evaluator
    from bahdanau_jax.training import schedule as schedule


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
