"""Which dev pairs have a loss."""

import dataclasses
from types import SimpleNamespace

from bahdanau_jax import data, dev_scores
from tests import small


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
