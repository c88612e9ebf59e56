"""Text in, hypotheses and states out; losses and gradients of each example."""

import jax
import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import experiments
from bahdanau_jax.batch import START, UNK
from bahdanau_jax.hypothesis import EMPTY
from bahdanau_jax.model import interventions, loss
from tests import oracles
from tests.model.worlds import CONFIGS, batch, compiled, on_device, pairs, parameters, relative

LINES = ["We sleep.", "", "The man saw a house.", "He sleeps."]


@pytest.fixture(scope="module")
def run(trained):
    return bj.load(trained[0])


@pytest.fixture(scope="module")
def plain(run):
    return run.translate(LINES)


@pytest.mark.slow
def test_alpha_of_the_search_in_place_of_itself_changes_nothing(run, plain):
    alphas = [best.alpha if best.tokens else np.zeros((1, 1)) for best in plain]
    same = interventions.replace(interventions.padded(alphas))
    # Hypotheses of the beam have other weights than the best one; a beam of one has its own.
    greedy = run.translate(LINES, beam_size=1)
    alphas = [best.alpha if best.tokens else np.zeros((1, 1)) for best in greedy]
    same_greedy = interventions.replace(interventions.padded(alphas))
    again = experiments.translate(run, LINES, same_greedy, beam_size=1)
    assert [best.text for best in again] == [best.text for best in greedy]
    for ours, theirs in zip(again, greedy, strict=True):
        np.testing.assert_allclose(ours.alpha, theirs.alpha, atol=1e-6)
    full = [row for row, line in enumerate(LINES) if line]
    scored = experiments.score(run, LINES, plain, same)
    for row in full:
        np.testing.assert_allclose(
            scored[row].log_probabilities, plain[row].log_probabilities, atol=1e-4
        )


def test_each_line_has_its_own_intervention(run):
    """Lines are sorted and batched; the rows of the intervention follow them."""
    words = np.zeros((len(LINES), 8), bool)
    words[2, 1], words[3, 0] = True, True
    masked = experiments.translate(run, LINES, interventions.mask(words), beam_size=2)
    assert masked[1].text == "" and (masked[0].alpha[:, :2] > 0).any()
    assert not masked[2].alpha[:, 1].any() and not masked[3].alpha[:, 0].any()
    np.testing.assert_allclose(masked[2].alpha.sum(axis=1), 1, atol=1e-5)


def test_a_line_without_a_token_is_empty(run):
    found = experiments.translate(run, ["\x01", "We sleep ."], interventions.harden())
    assert found[0] is EMPTY and found[1].source_tokens


def test_what_does_not_fit_is_refused(run):
    with pytest.raises(ValueError, match=r"shape \[2, 3\], but there are 4 sentences"):
        experiments.translate(run, LINES, interventions.mask(np.zeros((2, 3), bool)))
    with pytest.raises(ValueError, match="lines of at most 2 tokens"):
        experiments.translate(run, LINES, interventions.harden(), max_source=2)
    both = bj.ensemble([run, run])
    with pytest.raises(ValueError, match="an ensemble has several attentions"):
        experiments.translate(both, LINES, interventions.harden())
    with pytest.raises(ValueError, match="an ensemble has several attentions"):
        experiments.masking_study(both, LINES)
    with pytest.raises(ValueError, match="1 sources but 2 targets"):
        experiments.as_batch(run, ["a"], ["b", "c"])


def test_a_batch_has_the_tokens_of_the_hypotheses(run, plain):
    b = experiments.as_batch(run, LINES[2:], plain[2:])
    best = plain[2]
    ids = np.asarray(b.target[0])[np.asarray(b.target_mask[0])]
    assert run.codecs[1].tokens(ids.tolist()) == best.tokens
    masked = experiments.without(b, np.arange(b.source.shape[1])[None] == 1)
    assert (np.asarray(masked.source)[:, 1] == UNK).all()
    np.testing.assert_array_equal(np.asarray(masked.source)[:, 2:], b.source[:, 2:])


CONFIG, PARAMS = CONFIGS["default"], parameters(CONFIGS["default"])
PAIRS = pairs(seed=11, count=4)
BATCH = on_device(batch(PAIRS))


@pytest.mark.slow
def test_losses_and_gradients_of_examples_sum_to_those_of_the_batch():
    losses = compiled(experiments.example_losses, static_argnums=0)(CONFIG, PARAMS, BATCH)
    for found, pair in zip(losses, PAIRS, strict=True):
        assert float(found) == pytest.approx(oracles.loss(CONFIG, oracles.f64(PARAMS), [pair]))
    each = compiled(experiments.example_gradients, static_argnums=0)(CONFIG, PARAMS, BATCH)
    whole = compiled(jax.grad(loss.loss, argnums=1), static_argnums=0)(CONFIG, PARAMS, BATCH)
    for ours, theirs in zip(jax.tree.leaves(each), jax.tree.leaves(whole), strict=True):
        assert ours.shape == (len(PAIRS), *theirs.shape)
        assert relative(ours.sum(axis=0), theirs) < 1e-5


def test_hidden_states_are_those_of_the_loop():
    found = compiled(experiments.hidden_states, static_argnums=0)(CONFIG, PARAMS, BATCH)
    params = oracles.f64(PARAMS)
    for row, (source, target) in enumerate(PAIRS):
        annotations, initial = oracles.encode(CONFIG, params, source)
        log_p, alpha = oracles.decode(CONFIG, params, annotations, initial, target)
        contexts = alpha @ np.array(annotations)
        np.testing.assert_allclose(found.annotations[row, : len(source)], annotations, atol=1e-5)
        np.testing.assert_allclose(found.initial[row], initial, atol=1e-5)
        np.testing.assert_allclose(found.contexts[row, : len(target)], contexts, atol=1e-5)
        # The states are those from which the loop's readout predicts its words.
        for i, before in enumerate([START, *target[:-1]]):
            y, s = oracles.embed(params["target_embedding"], before), found.states[row, i]
            words = oracles.word_log_probabilities(CONFIG, params, s, y, contexts[i])
            np.testing.assert_allclose(words, log_p[i], atol=1e-4)
