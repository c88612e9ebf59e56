"""`bahdanau train`: what it says of its settings before it trains."""

import pytest

SAID = {
    (): "",
    ("--optimizer.rho", 0.9): "optimizer.rho counts only with optimizer.name adadelta",
    ("--optimizer.rho", 0.95): "",
    ("--model.attention", "dot"): "",  # the alignment_size is that of the shipped configuration
    (
        "--data.plan",
        "buckets",
        "--data.pool-batches",
        7,
        "--decoding.shrink",
        "--model.cell",
        "mlp",
        "--model.gate-bias",
        "False",
    ): (
        "model.gate_bias counts only with model.cell gru; "
        "data.pool_batches counts only with data.plan pools"
    ),
}


@pytest.mark.parametrize("options", SAID)
def test_settings_without_effect_are_said_in_one_line(call, run, tmp_path, options):
    code, _, err = call("train", "quickstart", "--workdir", tmp_path / "run", *options)
    said = [line for line in err.splitlines() if "without effect" in line]
    words = SAID[options]
    assert code == 0
    assert said == ([f"bahdanau: warning: settings without effect: {words}"] if words else [])


def test_a_configuration_of_ones_own_is_compared_with_the_defaults(call, run, tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "from bahdanau_jax.config import Config, OptimizerConfig\n"
        "config = Config(optimizer=OptimizerConfig(name='adam', rho=0.9))\n"
    )
    _, _, err = call("train", own, "--workdir", tmp_path / "run")
    assert "settings without effect: optimizer.rho counts only" in err
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert "without effect" not in call("train", own, "--workdir", tmp_path / "run")[2]
