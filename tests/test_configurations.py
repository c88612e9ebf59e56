"""The shipped configurations, and the functions for a user's own scores and optimisers."""

import dataclasses

import jax
import pytest

import bahdanau_jax as bj
from bahdanau_jax.user_code import refuse_code


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
    learned = config.with_vocabularies(40, 50)  # other text has other vocabularies
    learned.save(path)
    assert bj.configuration(str(path)) == config and learned.model.source_vocabulary == 40
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


def test_the_recipe_of_the_paper():
    """arXiv 1409.0473, appendices A and B, and the settings of the authors' program."""
    updates = {
        "rnnencdec30": 846_000,
        "rnnencdec50": 600_000,
        "rnnsearch30": 471_000,
        "rnnsearch50": 667_000,
    }
    for name, steps in updates.items():
        config = bj.configuration(name)
        found = {
            "data": config.data,
            "optimizer": config.optimizer,
            "decoding": config.decoding,
            "training": config.training,
        }
        recipe = {
            "data.source_vocabulary_size": 30_001,  # rows, with EOS and UNK
            "data.target_vocabulary_size": 30_001,
            "data.vocabulary": "words",
            "data.lowercase": False,
            "data.max_tokens": int(name[-2:]),
            "data.batch_size": 80,
            "data.pool_batches": 20,
            "data.plan": "pools",
            "optimizer.name": "adadelta",
            "optimizer.rho": 0.95,
            "optimizer.epsilon": 1e-6,
            "optimizer.learning_rate": 1.0,
            "optimizer.schedule": "constant",
            "optimizer.warmup_steps": 0,
            "optimizer.clip_norm": 1.0,
            "optimizer.loss_normalization": "sum",
            "optimizer.label_smoothing": 0.0,
            "optimizer.coverage": 0.0,
            "optimizer.ema": 0.0,
            "decoding.beam_size": 12,
            "decoding.length_normalization": "none",
            "decoding.max_ratio": 3.0,
            "decoding.min_ratio": 0.5,
            "decoding.shrink": True,
            "training.steps": steps,
        }
        for field, value in recipe.items():
            section, _, own = field.partition(".")
            assert getattr(found[section], own) == value, (name, field)
        without = name.startswith("rnnencdec")
        model = {
            "embedding_size": 620,
            "hidden_size": 1000,
            "alignment_size": 1000,
            "readout_size": 500,
            "output_size": 620,
            "order": "groundhog",
            "cell": "gru",
            "readout": "maxout",
            "init": "paper",
            "embedding_bias": True,
            "gate_bias": False,
            "attention": "none" if without else "additive",
            "encoder_directions": "forward" if without else "both",
            "initial_state": "forward" if without else "backward",
        }
        network = dataclasses.asdict(config.model)
        assert {field: network[field] for field in model} == model, name
        dropout = [value for field, value in network.items() if field.endswith("_dropout")]
        assert len(dropout) == 5 and not any(dropout)


def test_the_presets_of_the_model():
    paper, groundhog = (dataclasses.asdict(bj.PRESETS[name]) for name in ("paper", "groundhog"))
    default = dataclasses.asdict(bj.ModelConfig())
    assert bj.PRESETS["default"] == bj.ModelConfig()
    changes = {"gate_bias": False, "init": "paper"}
    assert paper == default | changes
    assert groundhog == default | changes | {
        "order": "groundhog",
        "output_size": 620,
        "embedding_bias": True,
    }
    assert (default["order"], default["init"], default["attention"]) == (
        "paper",
        "scaled",
        "additive",
    )
    assert {bj.SEARCHES[name].beam_size for name in ("default", "greedy")} == {
        bj.DecodingConfig().beam_size,
        1,
    }
