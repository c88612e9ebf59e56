"""The model in the browser against the loops of the oracles, in every variant."""

import numpy as np
import pytest

from bahdanau_jax.explorer import packed_weights, write_page
from tests import oracles
from tests.explorer import pages
from tests.model.worlds import CONFIGS, pairs, parameters

FORCE = """([data, bytes, source, target, first]) => {
  const params = modules.weights.parameters(Uint8Array.from(bytes), data.manifest);
  const model = new modules.model.Model(data.config, params);
  const memory = model.encode(model.embed(source));
  const change = first && ((alpha, i) => (i === 0 ? Float32Array.from(first) : null));
  let state = model.start(memory), token = -1;
  const steps = target.map((id) => {
    const result = model.step(memory, state, token, change);
    [state, token] = [result.state, id];
    return [[...modules.tensor.logSoftmax(result.logits)], [...result.alpha]];
  });
  const rows = [...modules.gradients.attribution(model, source, target)].map((row) => [...row]);
  return [steps.map(([p]) => p), steps.map(([, alpha]) => alpha), rows];
}"""


def computed(tab, config, params, source, target, first=None):
    """log p [T, V], α [T, S] and gradient times input [T, S] in the browser.

    `first` [S] takes the place of the first α.
    """
    packed = packed_weights.pack(params)
    data = {"config": dict(vars(config)), "manifest": packed.manifest}
    found = tab.run(FORCE, [data, list(packed.data), source, target, first])
    return tuple(np.array(each) for each in found)


def slopes(config, params, source, target, step=1e-6):
    """x_j · ∂log p(y_i)/∂x_j by central differences; each position has a word of its own."""
    E, b = params["source_embedding"]["E"], params["source_embedding"].get("b", 0)
    own = {**params, "source_embedding": {"E": E[source], "b": b + np.zeros(E.shape[1])}}
    ids, columns = list(range(len(source))), []
    for j in ids:
        ends = []
        for t in (step, -step):
            x = own["source_embedding"]["E"].copy()
            x[j] = (x[j] + b) * (1 + t) - b
            moved = {**own, "source_embedding": {**own["source_embedding"], "E": x}}
            log_p, _ = oracles.translate_log_probabilities(config, moved, ids, target)
            ends.append(log_p[np.arange(len(target)), target])
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.array(columns).T


def check(tab, name):
    config = CONFIGS[name]
    params = parameters(config)
    rounded = oracles.f64(packed_weights.rounded(params))
    for source, target in pairs(seed=4, count=4):
        log_p, alpha, gradients = computed(tab, config, params, source, target)
        expected = oracles.translate_log_probabilities(config, rounded, source, target)
        rounding = 2e-5 + 1e-6 * np.abs(expected[0]).max()  # logits are float32, up to 200
        np.testing.assert_allclose(log_p, expected[0], atol=rounding)
        np.testing.assert_allclose(alpha, expected[1], atol=1e-5)
        np.testing.assert_allclose(
            gradients, slopes(config, rounded, source, target), atol=2e-4, rtol=1e-4
        )


@pytest.mark.slow
def test_every_variant_in_the_browser_equals_the_oracle(browser):
    tab = pages.modules(browser)
    for name in CONFIGS:
        check(tab, name)
    tab.close()


@pytest.mark.parametrize("name", ["default", "tied", "coverage"])
def test_a_model_in_the_browser_equals_the_oracle(browser, name):
    tab = pages.modules(browser)
    check(tab, name)
    tab.close()


def test_weights_that_a_reader_changes_are_part_of_the_coverage(browser, monkeypatch):
    config, params, plain = CONFIGS["coverage"], parameters(CONFIGS["coverage"]), oracles.attend
    source, target = max(pairs(seed=4, count=4), key=lambda pair: min(map(len, pair)))
    first = [0.0] * (len(source) - 1) + [1.0]
    steps = iter(range(len(target)))

    def attend(*arguments):
        c, alpha = plain(*arguments)
        annotations = next(x for x in arguments if isinstance(x, list))
        return (annotations[-1], np.array(first)) if next(steps) == 0 else (c, alpha)

    monkeypatch.setattr(oracles, "attend", attend)
    rounded = oracles.f64(packed_weights.rounded(params))
    log_p, alpha = oracles.translate_log_probabilities(config, rounded, source, target)
    tab = pages.modules(browser)
    found = computed(tab, config, params, source, target, first)
    tab.close()
    assert len(target) > 2 and np.abs(alpha[0] - first).max() == 0
    np.testing.assert_allclose(found[0], log_p, atol=2e-5 + 1e-6 * np.abs(log_p).max())
    np.testing.assert_allclose(found[1], alpha, atol=1e-5)


@pytest.mark.slow
def test_log_probabilities_of_50_sentences_equal_those_of_python(browser, trained, tmp_path):
    """Of all words, with the rounded weights to 1e-4 and with the original ones to 1e-3."""
    import bahdanau_jax as bj

    run, tab = bj.load(trained[0]), pages.Tab(browser)
    write_page(run, tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    weights = {1e-4: packed_weights.rounded(run.params), 1e-3: run.params}
    texts = pages.lines(50, "builtin:en-fr/dev?pairs=50&max=8")
    for text, best in zip(texts, run.translate(texts), strict=True):
        source, target = run.codecs[0].encode(text), run.codecs[1].ids(best.tokens)
        target = [*target[:-1], 0] if best.finished else target
        found = tab.run(
            "([x, y]) => explorer.engines[0].force(x, y).map(({ logP }) => [...logP])",
            [source, target],
        )
        for tolerance, params in weights.items():
            expected, _ = oracles.translate_log_probabilities(
                run.config.model, oracles.f64(params), source, target
            )
            np.testing.assert_allclose(np.array(found), expected, atol=tolerance)
    tab.close()


def test_packed_weights_keep_19_bits_of_the_largest_in_each_block():
    params = parameters(CONFIGS["default"])
    rounded = packed_weights.rounded(params)
    E, new = params["source_embedding"]["E"], rounded["source_embedding"]["E"]
    blocks = np.pad(np.abs(E).reshape(-1), (0, -E.size % 32)).reshape(-1, 32).max(1)
    bound = np.repeat(blocks, 32)[: E.size].reshape(E.shape) / (2 * (2**19 - 1)) + 1e-7 * np.abs(E)
    assert (np.abs(E - new) <= bound * 1.02).all() and (new != E).any()
    np.testing.assert_array_equal(rounded["attention"]["v_a"], params["attention"]["v_a"])


def test_weights_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"output.b_w has weights that are not finite"):
        packed_weights.pack({"output": {"b_w": np.array([np.nan])}})
