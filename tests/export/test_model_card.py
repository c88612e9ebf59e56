"""The front matter and the scores of a model card."""

import dataclasses
import json
import shutil
from types import SimpleNamespace
from typing import Any

import pytest

import bahdanau_jax as bj
from bahdanau_jax.config import Config, DataConfig, ModelConfig
from bahdanau_jax.export import front_matter, model_card
from bahdanau_jax.export.measured import NOTHING_MEASURED, measured
from bahdanau_jax.export.model_card import megabytes


@pytest.mark.parametrize(
    ("address", "codes"),
    [
        ("builtin:en-fr/train?pairs=60000", ["en", "fr"]),
        ("text:multi30k/train.en.gz,multi30k/train.fr.gz", ["en", "fr"]),
        ("tfds:wmt14_paper/fr-en", ["en", "fr"]),
        ("builtin:reverse/train?pairs=64000", []),
        ("text:a.txt,b.txt", []),
        ("text:a.en,b.txt", []),
        ("text:/home/fr/my-en-data/a.de,b.es", []),
        ("0.5*text:fr/a.txt+b.en,c.txt+d.fr; tsv:x", ["en", "fr"]),
        ("jsonl:text/all.jsonl?source=en&target=fr", ["en", "fr"]),
    ],
)
def test_languages_are_named_where_the_address_names_both(address, codes):
    assert front_matter.languages(DataConfig(train=address, dev="", test="")) == codes


def test_the_licence_of_generated_text_is_known_and_others_are_not():
    def license(train, chosen=""):
        return front_matter.license_of(DataConfig(train=train, dev="", test=""), chosen)

    assert license("builtin:en-fr/train?pairs=9") == "apache-2.0"
    assert license("2*builtin:en-fr/train?pairs=9; builtin:reverse/train") == "apache-2.0"
    assert license("builtin:en-fr/train?pairs=9;text:a.en,a.fr") == "unknown"
    assert license("text:a.en,a.fr", "cc-by-4.0") == "cc-by-4.0"


def test_an_address_with_a_bar_is_one_cell():
    config = SimpleNamespace(data=DataConfig(train="text:a|b.en,a|b.fr", dev="", test=""))
    facts: Any = SimpleNamespace(config=config)
    assert "| train | `text:a\\|b.en,a\\|b.fr` |" in list(model_card._data(facts))


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_model_without_attention_is_not_said_to_attend(attention):
    config = Config(ModelConfig(attention=attention), DataConfig(train="text:a.en,a.fr"))
    tags = front_matter.fields("m", config, "", "dev", {})["tags"]
    facts: Any = SimpleNamespace(config=config, parameters=1)
    [text] = model_card._model(facts)
    assert ("networks and attention" in text) == (attention != "none")
    assert {*front_matter.ATTENTION_TAGS}.issubset(tags) == (attention != "none")


def test_yaml_of_hostile_texts():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    value = {
        "a": 'x: "y" # z\n- é\\',
        "b": ["no", 1.5, True],
        "c": {"d": [{"e": "1", "f": {"g": "{h}"}}, {"e": "2"}]},
    }
    assert yaml.safe_load("\n".join(front_matter.yaml(value))) == value


def test_megabytes():
    assert [*map(megabytes, (8_250_000, 19_512, 0))] == ["8.2 MB", "0.020 MB", "0.000 MB"]


def test_scores_of_another_checkpoint_text_or_search_do_not_count(trained, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run")
    run = bj.load(folder)
    path = folder / "report" / "scores.json"
    scores = json.loads(path.read_text(encoding="utf-8"))
    assert measured(run).split == "test"
    assert measured(run).scores["BLEU"] == scores["BLEU"]
    others = (
        {"checkpoint": {"steps": [999]}},
        {"pairs": "text:other.en,other.fr"},
        {"search": scores["search"] | {"beam_size": 1}},
    )
    for other in others:
        path.write_text(json.dumps(scores | other))
        assert measured(run).split == "dev"
    of_dev = measured(run)
    assert of_dev.split == "dev" and of_dev.scores["dev_bleu"] == run.chosen.used[0].score
    path.write_text("damaged")
    assert measured(run) == of_dev
    averaged = dataclasses.replace(run.config.optimizer, ema=0.9)
    averaged = dataclasses.replace(run.config, optimizer=averaged)
    for part, found in {"ema": of_dev, "params": NOTHING_MEASURED}.items():  # all scores are of ema
        assert measured(dataclasses.replace(run, config=averaged, part=part)) == found
    empty = SimpleNamespace(folder=tmp_path, chosen=run.chosen, config=run.config)
    assert measured(empty) == NOTHING_MEASURED
