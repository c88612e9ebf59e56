"""The dev scores are those of the run, and pairs that are too long have no loss."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import data, dev_scores
from bahdanau_jax.evaluation import scores
from bahdanau_jax.training import DEV_METRICS
from tests import oracles, small


def laid_out(texts, monkeypatch, max_tokens=3) -> list:
    """The lengths, with EOS, of the dev pairs whose loss is computed, where 4 tokens are many."""
    settings = dataclasses.replace(small.config.data, max_tokens=max_tokens)
    codec = SimpleNamespace(encode=lambda text: [2] * len(text.split()) + [0], tokenize=str)
    found = []
    monkeypatch.setattr(dev_scores, "MOST_TOKENS", 4)
    monkeypatch.setattr(data, "dev_batches", lambda pairs, config: found.append(pairs))
    pairs = [SimpleNamespace(source=source, target=target) for source, target in texts]
    config = dataclasses.replace(small.config, data=settings)
    dev_scores.evaluator(config, SimpleNamespace(codecs=(codec, codec), dev=pairs))
    return found[0].lengths.tolist()


def test_a_dev_pair_that_would_pad_a_whole_batch_has_no_loss(monkeypatch, caplog):
    long = "a " * 5
    pairs = laid_out([("a", "a b"), (long, "a"), ("a b c d", ""), ("a", long)], monkeypatch)
    assert pairs == [[2, 3], [5, 1]]
    assert caplog.messages == [
        "dev_loss and dev_accuracy leave out 2 of 4 dev pairs, which have a side above 4 tokens"
    ]
    caplog.clear()
    assert laid_out([("a", "a")], monkeypatch) == [[2, 2]] and not caplog.messages
    # Training pairs of this length pad batches too, and the loss of no pair would be none.
    assert laid_out([(long, "a"), ("a", "a")], monkeypatch, 5) == [[6, 2], [2, 2]]
    assert laid_out([(long, "a")], monkeypatch) == [[6, 2]] and not caplog.messages


def test_dev_scores_are_those_of_the_run(trained):
    """Loss and accuracy against the oracle, BLEU and exact matches against translations."""
    run = bj.load(trained[0])
    settings = dataclasses.replace(small.config.training, dev_metric="loss")
    config = dataclasses.replace(run.config, training=settings)
    pairs = [*data.pairs(config.data.dev, config.data)]
    best = run.translate([pair.source for pair in pairs], beam_size=1)
    for i in (0, 1):  # so that some translations are right
        pairs[i] = data.Pair(pairs[i].source, best[i].text)
    evaluator = dev_scores.evaluator(config, SimpleNamespace(codecs=run.codecs, dev=pairs))
    found = evaluator.evaluate(SimpleNamespace(weights=run.params))
    source, target = run.codecs
    params, rows, ids = oracles.f64(run.params), [], []
    for pair in pairs:
        sides = source.encode(pair.source), target.encode(pair.target)
        rows.extend(oracles.translate_log_probabilities(config.model, params, *sides)[0])
        ids += sides[1]
    likely = [int(np.argmax(row)) for row in rows]
    nll = -np.mean([row[word] for row, word in zip(rows, ids, strict=True)])
    assert found["loss"] == pytest.approx(nll, rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(np.equal(likely, ids)), abs=1e-6)
    assert found["score"] == -found["loss"]
    texts = [target.tokenize(each.text) for each in best]
    references = [target.tokenize(pair.target) for pair in pairs]
    bleu, swapped = (
        scores.bleu(*sides, "none").score for sides in ((texts, references), (references, texts))
    )
    assert found["bleu"] == bleu > 0 and swapped != bleu
    assert found["exact"] == scores.accuracy(texts, references) > 0


def test_each_metric_reads_its_own_score():
    dev = {"bleu": 3.0, "accuracy": 0.5, "exact": 0.25, "loss": 2.0}
    ranked = {name: rank(dev) for name, rank in DEV_METRICS.items()}
    assert ranked == {"bleu": 3.0, "accuracy": 0.5, "exact": 0.25, "loss": -2.0}
