"""The network as pure functions of (parameters, arrays)."""

import logging

from bahdanau_jax import compiler_faults
from bahdanau_jax.model import attention, decoder, groundhog, loss, recurrence
from bahdanau_jax.model.attention import (
    SCORES,
    Memory,
    Score,
    annotation_size,
    score_named,
)
from bahdanau_jax.model.contract import check_score
from bahdanau_jax.model.decoder import (
    ORDERS,
    READOUTS,
    State,
    fold,
    predictor,
    start,
    stepper,
    teacher_force,
)
from bahdanau_jax.model.encoder import DIRECTIONS, INITIAL_STATES, encode
from bahdanau_jax.model.forcing import Forced, forced
from bahdanau_jax.model.gru import CELLS
from bahdanau_jax.model.loss import Sums, sums
from bahdanau_jax.model.parameters import INITS, Params, draw
from bahdanau_jax.model.products import PRODUCTS
from bahdanau_jax.model.recurrence import GRADIENTS
from bahdanau_jax.model.seq2seq import Seq2Seq, count, shapes

# The command line has avoided the fault already; whoever uses the library decides by himself.
if fault := compiler_faults.present():
    logging.getLogger(__name__).warning(compiler_faults.advice(fault))

__all__ = [
    "CELLS",
    "DIRECTIONS",
    "Forced",
    "GRADIENTS",
    "INITIAL_STATES",
    "INITS",
    "Memory",
    "ORDERS",
    "PRODUCTS",
    "Params",
    "READOUTS",
    "SCORES",
    "Score",
    "Seq2Seq",
    "State",
    "Sums",
    "annotation_size",
    "attention",
    "check_score",
    "count",
    "decoder",
    "draw",
    "encode",
    "fold",
    "forced",
    "groundhog",
    "loss",
    "predictor",
    "recurrence",
    "score_named",
    "shapes",
    "start",
    "stepper",
    "sums",
    "teacher_force",
]
