"""Which dev and test pairs belong to a training corpus."""

import dataclasses
import json

import pytest

from bahdanau_jax import splits
from bahdanau_jax.config import Config, DataConfig

OWN_TEXT = "text:my.en,my.fr"


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        ("builtin:en-fr/train?pairs=20000", "builtin:en-fr/dev?pairs=500"),
        ("builtin:reverse/train?seed=3&limit=9", "builtin:reverse/dev?pairs=500&limit=9"),
        ("0.5*builtin:copy/train; builtin:copy/train?seed=1", "builtin:copy/dev?pairs=500"),
        (
            "builtin:copy/train;builtin:reverse/train",
            "builtin:copy/dev?pairs=500; builtin:reverse/dev?pairs=500",
        ),
        (OWN_TEXT, ""),
        ("tfds:wmt14_paper/fr-en", ""),
        (f"builtin:en-fr/train; {OWN_TEXT}", ""),
        ("", ""),
    ],
)
def test_only_built_in_training_corpora_have_dev_and_test_pairs_of_their_own(train, dev):
    config = DataConfig(train=train)
    assert (config.dev, config.test) == (dev, dev.replace("/dev", "/test"))


def test_what_is_named_stays_as_it_is_named():
    named = DataConfig(train=OWN_TEXT, dev="builtin:en-fr/dev", test="text:t.en,t.fr")
    assert (named.dev, named.test) == ("builtin:en-fr/dev", "text:t.en,t.fr")
    assert dataclasses.replace(named, lowercase=True).dev == "builtin:en-fr/dev"


def test_a_configuration_stays_a_value_and_its_json_says_what_is_meant():
    config = Config(data=DataConfig(train=OWN_TEXT))
    assert hash(config) == hash(Config(data=DataConfig(train=OWN_TEXT, dev="", test="")))
    assert json.loads(config.to_json())["data"]["dev"] == ""
    assert Config.from_json(config.to_json()) == config
    # A run of before, whose config.json names another corpus, is read as it was made.
    before = json.loads(config.to_json())
    before["data"]["dev"] = "builtin:en-fr/dev?pairs=500"
    assert Config.from_json(json.dumps(before)).data.dev == "builtin:en-fr/dev?pairs=500"


@pytest.mark.parametrize(
    ("train", "before", "named", "kept"),
    [
        (OWN_TEXT, "builtin:en-fr/train?pairs=60000", "builtin:en-fr/dev?pairs=200", ""),
        (OWN_TEXT, "text:m/a.en,m/a.fr", "text:m/dev.en,m/dev.fr", ""),
        ("builtin:en-fr/train?pairs=9", "builtin:en-fr/train", "builtin:en-fr/dev", True),
        (f"0.1*text:a.en,a.fr; {OWN_TEXT}", "text:a.en,a.fr", "text:b.en,b.fr", True),
        ("tfds:x/fr-en?split=train[:1%]", "tfds:x/fr-en", "tfds:x/fr-en?split=test", True),
        ("builtin:copy/train", "builtin:en-fr/train", "builtin:en-fr/dev", None),
        (OWN_TEXT, OWN_TEXT, "", ""),
    ],
)
def test_another_training_corpus_keeps_the_split_where_both_share_a_corpus(
    train, before, named, kept
):
    expected = {True: named, None: "builtin:copy/dev?pairs=500"}.get(kept, kept)
    assert splits.after(train, before, named, "dev") == expected
