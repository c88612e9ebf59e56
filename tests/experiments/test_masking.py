"""Rank correlations against SciPy, and the study of masking with a briefly trained run."""

import itertools
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

import bahdanau_jax as bj
from bahdanau_jax.batch import UNK
from bahdanau_jax.config import Config
from bahdanau_jax.experiments import attribution, masking
from tests import oracles
from tests.model.worlds import CONFIGS, batch, compiled, on_device, pairs, parameters


def test_rank_correlations_are_those_of_scipy():
    rng = np.random.default_rng(4)
    for size in (2, 5, 13):
        a, b = rng.integers(0, 6, (2, size)).astype(float)
        if len(set(a)) > 1 and len(set(b)) > 1:
            assert masking.rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b)[0])
    assert masking.rank_correlation(np.ones(4), np.arange(4.0)) == 0


def test_equal_weights_have_the_top_of_chance():
    """The place of the largest drop is no advantage: ties count as a draw of lots would."""
    rng = np.random.default_rng(4)
    for size in (2, 5, 13):
        drop = rng.permutation(size).astype(float)
        assert masking.same_top(np.ones(size), drop) == pytest.approx(1 / size)
        assert masking.same_top(drop, drop) == 1 and masking.same_top(drop, -drop) == 0
        a, b = rng.integers(0, 3, (2, size))
        places = itertools.product(np.flatnonzero(a == a.max()), np.flatnonzero(b == b.max()))
        assert masking.same_top(a, b) == pytest.approx(np.mean([i == j for i, j in places]))


def test_a_drop_is_log_p_before_less_log_p_after():
    config, own = CONFIGS["default"], pairs(seed=3, count=3)
    params, b = parameters(config), on_device(batch(own))
    drops, _ = compiled(masking._measured, static_argnums=0)(config, params, b)
    weights = oracles.f64(params)

    def log_p(source, target):
        found = oracles.translate_log_probabilities(config, weights, source, target)[0]
        return found[np.arange(len(target)), target]

    for row, (source, target) in enumerate(own):
        for j in range(len(source)):
            masked = [*source[:j], UNK, *source[j + 1 :]]
            expected = log_p(source, target) - log_p(masked, target)
            found = drops["UNK in the input"][row, : len(target), j]
            np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.slow
def test_the_measures_are_those_of_their_names():
    config, own = CONFIGS["default"], pairs(seed=3, count=3)
    params, b = on_device(parameters(config)), on_device(batch(own))
    _, weights = compiled(masking._measured, static_argnums=0)(config, params, b)
    gradient = attribution.gradient_times_input(config, params, b)[1]
    np.testing.assert_allclose(weights["gradient times input"], gradient, atol=1e-5)
    np.testing.assert_allclose(weights["|gradient times input|"], np.abs(gradient), atol=1e-5)
    integrated = attribution.integrated_gradients(config, params, b, masking.POINTS)[1]
    np.testing.assert_allclose(weights["integrated gradients"], integrated, atol=1e-5)
    assert np.abs(integrated - gradient).max() > 1e-2
    for row, (source, target) in enumerate(own):
        for i, j in itertools.product(range(len(target)), range(len(source))):
            distance = abs((i + 0.5) / len(target) - (j + 0.5) / len(source))
            assert weights["diagonal"][row, i, j] == pytest.approx(-distance, abs=1e-6)


def test_a_correlation_is_the_mean_over_target_words_without_eos():
    """Against a loop with SciPy, also the share of words whose largest weight is right."""
    rng = np.random.default_rng(5)
    own = pairs(seed=3, count=4)
    b = batch(own)
    shape = len(own), b.target.shape[1], b.source.shape[1]
    drop, weight = rng.normal(size=shape), rng.normal(size=shape)
    words = [
        (drop[row, i, : len(source) - 1], weight[row, i, : len(source) - 1])
        for row, (source, target) in enumerate(own)
        for i in range(len(target) - 1)
        if len(source) > 2
    ]
    rows = [row for row, (source, _) in enumerate(own) if len(source) > 2]
    chosen = jax.tree.map(lambda leaf: leaf[rows], b)
    samples = [
        each[2] for each in masking._sentences(chosen, {"m": drop[rows]}, {"w": weight[rows]})
    ]
    found = masking._summary(samples, np.zeros((3, len(samples)), int))
    assert found.mean == pytest.approx(np.mean([stats.spearmanr(a, w)[0] for a, w in words]))
    assert found.top == np.mean([a.argmax() == w.argmax() for a, w in words])
    assert found.low == found.high == pytest.approx(samples[0][:, 0].mean())  # the first alone


@pytest.mark.parametrize(
    "targets, resamples, said",
    [
        (["Nous dormons."], 20, "2 lines but 1 targets: there should be as many of each"),
        (["Nous dormons."] * 3, 20, "2 lines but 3 targets: there should be as many of each"),
        (["Nous dormons."] * 2, 0, "0 resamples: there should be at least one"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_once(targets, resamples, said):
    run = bj.Run(Path("none"), Config(), (), {})  # pyright: ignore
    with pytest.raises(ValueError, match=said):
        masking.masking_study(run, ["We sleep.", "A dog sees a man."], targets, resamples)


@pytest.mark.slow
def test_the_study_counts_every_target_word(trained, monkeypatch):
    run = bj.load(trained[0])
    with pytest.raises(ValueError, match="translations of 1 lines have no word to measure"):
        masking.masking_study(run, ["No."])
    lines = ["We sleep in a house.", "No.", "The man saw a house.", "The dog sees a woman."]
    targets = ["Nous dormons.", "Non.", "L'homme a vu une maison.", ""]
    found = masking.masking_study(run, lines, targets, resamples=20)
    assert found.sentences == 2 and found.target_words == 3 + 7
    for correlations in found.correlations.values():
        assert set(correlations) == set(masking.MEASURES)
        assert correlations["uniform"].mean == 0
        for value in correlations.values():
            assert -1 <= value.low <= value.mean <= value.high <= 1 and 0 <= value.top <= 1
    monkeypatch.setattr(masking, "ROWS", 1)  # without padding, sums are rounded in another order
    alone = masking.masking_study(run, lines, targets, resamples=20)
    assert (alone.sentences, alone.target_words) == (found.sentences, found.target_words)
    for name, drop in alone.mean_drop.items():
        assert drop == pytest.approx(found.mean_drop[name], rel=1e-4)
