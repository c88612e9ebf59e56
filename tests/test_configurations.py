"""The shipped configurations, and the functions for a user's own scores and optimisers."""

import jax
import pytest

import bahdanau_jax as bj
from bahdanau_jax.variants import refuse_code


def test_a_shipped_configuration_has_a_name_in_python():
    config = bj.configuration("quickstart")
    assert isinstance(config, bj.Config)
    bj.check(config)
    with pytest.raises(ValueError, match="quickstrat: no such .* did you mean quickstart"):
        bj.configuration("quickstrat")


def test_a_file_of_ones_own_is_a_configuration(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from bahdanau_jax import Config, DataConfig\nconfig = Config(data=DataConfig(dev=''))"
    )
    assert bj.configuration(str(path)).data.dev == ""


def test_the_configuration_of_a_run_is_one_of_ones_own_but_runs_no_code(tmp_path):
    path = tmp_path / "config.json"
    config = bj.Config(data=bj.DataConfig(dev=""))
    config.save(path)
    assert bj.configuration(str(path)) == config
    bj.Config(model=bj.ModelConfig(attention="mine:score")).save(path)
    with pytest.raises(ValueError, match=r"config\.json names code, 'mine:score': name it in a"):
        bj.configuration(str(path))
    path.write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        bj.configuration(str(path))


def test_parameters_of_a_score_are_drawn_as_those_of_the_model():
    init = bj.INITS["paper"]
    drawn = bj.draw(jax.random.key(0), {"U": (init.recurrent, (7, 7)), "W": (init.weight, (3, 5))})
    assert {name: leaf.shape for name, leaf in drawn.items()} == {"U": (7, 7), "W": (3, 5)}
    assert abs(drawn["U"].T @ drawn["U"] - jax.numpy.eye(7)).max() < 1e-5


def test_the_learning_rate_of_a_configuration_is_public():
    config = bj.OptimizerConfig(learning_rate=0.5, schedule="linear", warmup_steps=2)
    rate = bj.schedule(config, 4)
    assert [float(rate(step)) for step in range(5)] == [0.25, 0.5, 0.5, 0.25, 0.0]


@pytest.mark.parametrize("section", ["model", "optimizer"])
def test_code_that_a_received_configuration_names_is_not_imported_unasked(section, tmp_path):
    own = {"model": bj.ModelConfig(attention="m:a"), "optimizer": bj.OptimizerConfig(name="m:a")}
    config = bj.Config(**{section: own[section]})
    with pytest.raises(ValueError, match=f"names code: {section}.* is 'm:a'.*trust_code=True"):
        refuse_code(config, tmp_path / "config.json", trust_code=False)
    refuse_code(config, tmp_path / "config.json", trust_code=True)
