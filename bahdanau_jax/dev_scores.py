"""Scores of a training state on the dev pairs. They select the best checkpoint."""

import dataclasses
import functools
import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Shaped
from PIL import Image

from bahdanau_jax import data, decoding, distributed
from bahdanau_jax.config import Config
from bahdanau_jax.data import Prepared
from bahdanau_jax.evaluation import scores
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.model import loss
from bahdanau_jax.training import DEV_METRICS, Evaluator, TrainState

log = logging.getLogger(__name__)

Encoded = tuple[list[int], list[int]]  # the ids of a source and a target, with EOS
MOST_TOKENS = 1_000  # of a side of a dev pair that has a loss; a longer one pads a whole batch
SHOWN = 2  # the number of first dev sentences whose alignments TensorBoard shows


def evaluator(config: Config, prepared: Prepared) -> Evaluator:
    """An evaluator: loss and accuracy per word, BLEU and exact matches of greedy translations.

    Translations and references are compared tokenised, in the case of the vocabulary. `score` is
    the metric of `training.dev_metric`, where higher is better. Pairs with a side above both
    MOST_TOKENS and `data.max_tokens` have no loss and accuracy, unless all are above.
    """
    codecs, pairs = prepared.codecs, prepared.dev
    tokenize = codecs[1].tokenize
    sources, references = [p.source for p in pairs], [tokenize(p.target) for p in pairs]
    encoded = [(codecs[0].encode(p.source), codecs[1].encode(p.target)) for p in pairs]
    scored = _short(encoded, max(MOST_TOKENS, config.data.max_tokens))
    batches = data.dev_batches(data.Pairs.of(scored), config.data)
    totals = jax.jit(functools.partial(loss.sums, config.model))
    greedy = dataclasses.replace(config.decoding, method="beam", beam_size=1)
    rank = DEV_METRICS[config.training.dev_metric]

    def evaluate(state: TrainState) -> dict[str, Any]:
        sums = [jax.device_get(totals(state.weights, batch)) for batch in batches]
        words = sum(float(s.words) for s in sums)
        n_best = decoding.translate(config.model, state.weights, codecs, greedy, sources, 1)
        best = [hypotheses[0] for hypotheses in n_best]
        texts = [tokenize(hypothesis.text) for hypothesis in best]
        dev = {
            "loss": sum(float(s.nll) for s in sums) / words,
            "accuracy": sum(float(s.correct) for s in sums) / words,
            "bleu": scores.bleu(texts, references, "none").score,
            "exact": scores.accuracy(texts, references),
        }
        shown = [hypothesis for hypothesis in best[:SHOWN] if hypothesis.tokens]
        pictures = {f"alignment/{n}": _drawn(each) for n, each in enumerate(shown, 1)}
        return {**dev, "score": rank(dev), **pictures}

    return Evaluator("dev", evaluate)


def _short(encoded: Sequence[Encoded], most: int) -> Sequence[Encoded]:
    """The pairs of at most so many tokens on each side: a longer one would pad a whole batch."""
    short = [pair for pair in encoded if max(map(len, pair)) <= most + 1]
    left_out = len(encoded) - len(short)
    if not short or not left_out:
        return encoded
    if distributed.is_main_process():
        log.warning(
            "dev_loss and dev_accuracy leave out %d of %d dev pairs, which have a side above %s "
            "tokens",
            *(left_out, len(encoded), f"{most:,}"),
        )
    return short


def _drawn(hypothesis: Hypothesis) -> Shaped[np.ndarray, "height width 3"]:
    """The alignment as a picture. Characters without a font are drawn as boxes, without warning."""
    from bahdanau_jax import figures  # importing matplotlib would delay the first update

    png = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", figures.MissingFont)
        figures.alignment(hypothesis).savefig(png, format="png", dpi=100)
    return np.asarray(Image.open(png).convert("RGB"))
