"""The network as pure functions of (parameters, arrays)."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

from bahdanau_jax import compiler_faults
from bahdanau_jax.model import attention, attribution, groundhog, interventions, loss
from bahdanau_jax.model.attention import score_named
from bahdanau_jax.model.cells import CELLS
from bahdanau_jax.model.compute_dtype import AUTO, COMPUTE_DTYPES
from bahdanau_jax.model.compute_dtype import named as with_named_dtype
from bahdanau_jax.model.decoder import (
    fold,
    predictor,
    start,
    step_weights,
    teacher_forced_states,
)
from bahdanau_jax.model.encoder import DIRECTIONS, INITIAL_STATES, direction_faults, encode
from bahdanau_jax.model.initialization import VARIANTS, count, init, shapes
from bahdanau_jax.model.link_weights import LINK_WEIGHTS, check_link_weights
from bahdanau_jax.model.memory import Memory, before_eos, intervene
from bahdanau_jax.model.orders import ORDERS, State
from bahdanau_jax.model.parameters import INITS, Params, draw
from bahdanau_jax.model.readout import READOUT_INPUTS, READOUTS, tie_faults
from bahdanau_jax.model.recurrence import GRADIENTS
from bahdanau_jax.model.score_contract import check_score
from bahdanau_jax.model.teacher_forcing import (
    TeacherForced,
    teacher_forced,
    teacher_forced_ensemble,
)

if TYPE_CHECKING:
    from bahdanau_jax.model.seq2seq import Seq2Seq as Seq2Seq


def __getattr__(name: str) -> Any:
    """Import the Flax module at its first use: translation needs no Flax, whose import is slow."""
    if name == "Seq2Seq":
        return importlib.import_module(f"{__name__}.seq2seq").Seq2Seq
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# The command line sets the option that avoids the fault. Users of the library decide themselves.
if fault := compiler_faults.present():
    logging.getLogger(__name__).warning(compiler_faults.advice(fault))

__all__ = [
    "AUTO",
    "CELLS",
    "COMPUTE_DTYPES",
    "DIRECTIONS",
    "GRADIENTS",
    "INITIAL_STATES",
    "INITS",
    "LINK_WEIGHTS",
    "ORDERS",
    "READOUTS",
    "READOUT_INPUTS",
    "VARIANTS",
    "Memory",
    "Params",
    "Seq2Seq",
    "State",
    "TeacherForced",
    "attention",
    "attribution",
    "before_eos",
    "check_link_weights",
    "check_score",
    "count",
    "direction_faults",
    "draw",
    "encode",
    "fold",
    "teacher_forced_states",
    "groundhog",
    "init",
    "intervene",
    "interventions",
    "loss",
    "predictor",
    "score_named",
    "shapes",
    "start",
    "step_weights",
    "teacher_forced",
    "teacher_forced_ensemble",
    "tie_faults",
    "with_named_dtype",
]
