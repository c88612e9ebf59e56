"""The network as pure functions of (parameters, arrays)."""

import logging

from bahdanau_jax import compiler_faults
from bahdanau_jax.model import attention, decoder, groundhog, loss, recurrence
from bahdanau_jax.model.attention import score_named
from bahdanau_jax.model.cells import CELLS
from bahdanau_jax.model.decoder import ORDERS, READOUTS, fold, predictor, start
from bahdanau_jax.model.encoder import DIRECTIONS, INITIAL_STATES, encode
from bahdanau_jax.model.matrix_products import PRODUCTS
from bahdanau_jax.model.parameters import INITS, Params, draw
from bahdanau_jax.model.recurrence import GRADIENTS
from bahdanau_jax.model.score_contract import check_score
from bahdanau_jax.model.seq2seq import Seq2Seq, count, shapes
from bahdanau_jax.model.teacher_forcing import Forced, forced

# The command line has avoided the fault already; whoever uses the library decides by himself.
if fault := compiler_faults.present():
    logging.getLogger(__name__).warning(compiler_faults.advice(fault))

__all__ = [
    "CELLS",
    "DIRECTIONS",
    "GRADIENTS",
    "INITIAL_STATES",
    "INITS",
    "ORDERS",
    "PRODUCTS",
    "READOUTS",
    "Forced",
    "Params",
    "Seq2Seq",
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
]
