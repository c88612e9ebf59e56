"""Scores of a training state on the dev pairs, which choose the best checkpoint."""

import dataclasses
import io
import warnings
from collections.abc import Callable, Sequence

import jax
import numpy as np
from PIL import Image

from bahdanau_jax import data, decoding, figures, training
from bahdanau_jax.config import Config
from bahdanau_jax.data import Prepared
from bahdanau_jax.evaluation import scores
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.variants import DEV_METRICS

SHOWN = 2  # dev sentences whose alignment TensorBoard shows, the first ones


def evaluator(config: Config, prepared: Prepared, loss_fn, monitor: training.Monitor) -> Callable:
    """Dev scores of a training state: nll and accuracy per word, BLEU and exact matches of greedy
    translations, tokenised and in the case of the vocabulary, and the one of them that counts."""
    codecs, pairs = prepared.codecs, prepared.dev
    tokenize = codecs[1].tokenize
    sources, references = [p.source for p in pairs], [tokenize(p.target) for p in pairs]
    encoded = ((codecs[0].encode(p.source), codecs[1].encode(p.target)) for p in pairs)
    batches = data.dev_batches(data.Pairs.of(encoded), config.data)
    step = training.eval_step(loss_fn)
    greedy = dataclasses.replace(config.decoding, method="beam", beam_size=1)
    rank = DEV_METRICS[config.training.dev_metric]

    def evaluate(state) -> dict[str, float]:
        sums = [jax.device_get(step(state.weights, batch)) for batch in batches]
        words = sum(float(s.words) for s in sums)
        found = decoding.translate(config.model, state.weights, codecs, greedy, sources, 1)
        texts = [tokenize(best.text) for (best,) in found]
        _show(monitor, int(state.step), [best for (best,) in found[:SHOWN] if best.tokens])
        dev = {
            "loss": sum(float(s.nll) for s in sums) / words,
            "accuracy": sum(float(s.correct) for s in sums) / words,
            "bleu": scores.bleu(texts, references, "none").score,
            "exact": scores.accuracy(texts, references),
        }
        return {**dev, "score": rank(dev)}

    return evaluate


def _show(monitor: training.Monitor, step: int, found: Sequence[Hypothesis]) -> None:
    """Alignments as pictures. A script without a font is drawn as boxes, without a word of it."""
    for number, best in enumerate(found, 1):
        drawn = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", figures.MissingFont)
            figures.alignment(best).savefig(drawn, format="png", dpi=100)
        pixels = np.asarray(Image.open(drawn).convert("RGB"))
        monitor.picture(step, f"alignment/dev-{number}", pixels)
