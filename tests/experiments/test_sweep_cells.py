"""Combinations of settings, and their errors before any work."""

import numpy as np
import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.experiments import sweep_cells


def test_every_combination_in_order():
    found = sweep_cells.product(
        Config(), {"model.order": ["paper", "luong"], "model.gate_bias": ["true", "False"]}
    )
    assert list(found) == [
        "order=paper,gate_bias=true",
        "order=paper,gate_bias=False",
        "order=luong,gate_bias=true",
        "order=luong,gate_bias=False",
    ]
    last = found["order=luong,gate_bias=False"].model
    assert last.order == "luong" and last.gate_bias is False


def test_values_have_the_type_of_the_field():
    found = sweep_cells.product(
        Config(), {"model.hidden-size": ["8"], "optimizer.learning_rate": ["1e-3"]}
    )
    (only,) = found.values()
    assert only.model.hidden_size == 8 and only.optimizer.learning_rate == 1e-3
    assert sweep_cells.product(Config(), {}) == {"all": Config()}


@pytest.mark.parametrize(
    "vary, said",
    [
        ({"model.ordr": ["paper"]}, "no field model.ordr; did you mean model.order?"),
        ({"order": ["paper"]}, "no field order; did you mean model.order?"),
        ({"model.hidden_size": ["many"]}, "model.hidden_size should be int, not 'many'"),
        ({"model.gate_bias": ["1"]}, "model.gate_bias should be bool, not '1'"),
        ({"model.hidden_size": [1.5]}, "model.hidden_size should be int, not 1.5"),
        ({"model.order": []}, "has no value"),
        ({"model.order": ["paper", "paper"]}, "has 'paper' twice"),
        ({"model.gate_bias": ["true", "True"]}, "model.gate_bias has 'True' twice"),
        (
            {"model.hidden-size": ["8"], "model.hidden_size": ["16"]},
            "the field model.hidden_size is given twice, also as model.hidden-size",
        ),
        ({"training.seed": ["1"]}, "training.seed varies in every sweep"),
        ({"model.hidden_size": "64"}, "should be a list, not the text '64'"),
        ({"data.dev": [None]}, "data.dev should be str, not None"),
    ],
)
def test_faults_in_one_line(vary, said):
    with pytest.raises(ValueError, match="^[^\n]+$") as fault:
        sweep_cells.product(Config(), vary)
    assert said in str(fault.value)


def test_values_may_be_of_any_iterable():
    for values in ((size for size in (8, 9)), np.arange(8, 10).tolist(), range(8, 10)):
        assert len(sweep_cells.product(Config(), {"model.hidden_size": values})) == 2


@pytest.mark.parametrize("count", [0, -1, 1 << 63])
def test_a_number_of_seeds_has_bounds(count):
    with pytest.raises(ValueError, match="a sweep has at least 1 and at most 10,000"):
        sweep_cells.seed_range(1, count)


def test_folders_of_cells_are_different():
    values = ["text:a/b.en,a/b.fr", "text:a_b.en,a_b.fr"]
    found = sweep_cells.product(Config(), {"data.train": values})
    assert len(found) == 2 and not any("/" in name or ":" in name for name in found)
    more = sweep_cells.product(Config(), {"data.train": ["text:x.en,x.fr", *values]})
    assert found.items() <= more.items()  # so that a sweep continues with another value in front


def test_a_long_name_is_cut_and_stays_its_own():
    one, other = (sweep_cells.name({"data.train": "ü" * 300 + end}) for end in "ab")
    assert one != other and one.startswith("train=üü")
    assert all(90 < len(each.encode()) <= 100 for each in (one, other))


def test_fields_of_one_name_keep_their_sections():
    values = {"optimizer.coverage": [0.0, 0.2], "decoding.coverage": [0.0, 0.2]}
    names = [*sweep_cells.product(Config(), values)]
    assert names[1] == "optimizer.coverage=0.0,decoding.coverage=0.2"
    assert len({*names}) == 4
