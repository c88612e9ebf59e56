"""Rank correlations against SciPy, and the study of masking with a briefly trained run."""

import numpy as np
import pytest
from scipy import stats

import bahdanau_jax as bj
from bahdanau_jax.batch import UNK
from bahdanau_jax.experiments import masking
from tests import oracles
from tests.model.worlds import CONFIGS, batch, compiled, on_device, pairs, parameters


def test_rank_correlations_are_those_of_scipy():
    rng = np.random.default_rng(4)
    for size in (2, 5, 13):
        a, b = rng.integers(0, 6, (2, size)).astype(float)
        if len(set(a)) > 1 and len(set(b)) > 1:
            assert masking.rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b)[0])
    assert masking.rank_correlation(np.ones(4), np.arange(4.0)) == 0


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


def test_the_study_counts_every_target_word(trained):
    run = bj.load(trained[0])
    with pytest.raises(ValueError, match="translations of 1 lines have no word to measure"):
        masking.masking_study(run, ["No."])
    lines = ["We sleep in a house.", "No.", "The man saw a house."]
    targets = ["Nous dormons.", "Non.", "L'homme a vu une maison."]
    found = masking.masking_study(run, lines, targets, resamples=20)
    assert found.sentences == 2 and found.target_words == 3 + 7
    for correlations in found.correlations.values():
        assert set(correlations) == set(masking.MEASURES)
        assert correlations["uniform"].mean == 0
        for value in correlations.values():
            assert -1 <= value.low <= value.mean <= value.high <= 1 and 0 <= value.top <= 1
