"""The help: its contents, its speed, and examples that are valid command lines."""

import contextlib
import dataclasses
import shlex
import typing

import pytest

from bahdanau_jax import alignment, configurations, data, model, variants
from bahdanau_jax.cli import (
    align_command,
    choices,
    experiment,
    export_command,
    fields,
    launch_command,
    main,
    manual,
    options,
    train_command,
    translate_command,
)
from bahdanau_jax.config import SEARCHES, Config
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.evaluation import tally
from bahdanau_jax.experiments import SUITES
from bahdanau_jax.model import attention
from bahdanau_jax.training import settings

COMMANDS = {name: fields.options_of(name) for name in main.COMMANDS}
HELPS = {n: manual.text(cls, f"bahdanau {n}", manual.ALL) for n, cls in COMMANDS.items()}
TABLES = {
    **{name: set(table) for name, table in (variants.VARIANTS | settings.VARIANTS).items()},
    "model.attention": set(attention.SCORES) | {"MODULE:NAME"},
    "optimizer.name": set(settings.VARIANTS["optimizer.name"]) | {"MODULE:NAME"},
    "translate.preset": set(SEARCHES),
    "translate.weights": {"ema", "params"},
    "translate.checkpoint": {"best", "newest", "STEP"},
    "serve.weights": {"ema", "params"},
    "serve.checkpoint": {"best", "newest", "STEP"},
    "reproduce.compute_dtype": set(variants.VARIANTS["model.compute_dtype"]),
    "evaluate.length_normalization": set(variants.VARIANTS["decoding.length_normalization"]),
    "evaluate.tokenize": set(tally.TOKENIZERS),
    "export.format": set(export_command.FORMATS),
    "align.level": set(data.LEVELS),
    "align.eos": set(alignment.EOS_RULES),
    "align.symmetrize": set(alignment.SYMMETRIZATIONS),
    "align.weights": {*model.LINK_WEIGHTS, *alignment.WEIGHTS},
}


def test_the_suites_in_help_are_those_of_the_table():
    assert set(choices.SUITES) == set(SUITES)


def test_the_choices_in_help_are_those_of_the_tables():
    shown = dict(choices.CHOICES)
    del shown["sweep.metrics"]  # compared in test_sweep_command.py
    kinds = shown.pop("data.train")
    assert {address.partition(":")[0] for address in kinds} == set(addresses.SOURCES)
    for command, cls in COMMANDS.items():
        for field, kind in typing.get_type_hints(cls).items():
            if typing.get_origin(kind) is typing.Literal:
                assert set(shown.pop(f"{command}.{field}")) == set(typing.get_args(kind))
    assert {name: set(words) for name, words in shown.items()} == TABLES


@pytest.mark.parametrize("name", HELPS)
def test_help_lists_every_choice_and_fits_a_terminal(name):
    shown = HELPS[name]
    assert "a name of" not in shown and " see data/" not in shown
    for option in fields.options(COMMANDS[name], name):
        assert option.name in shown
        assert option.words, f"{option.name} has no words"
        for choice, words in option.choices.items():
            assert any(line.split()[:1] == [choice] for line in shown.splitlines())
            assert words.split()[0] in shown
    for line in shown.splitlines():
        assert len(line) <= 88 if line.startswith("  bahdanau") else len(line) <= 80, line


@pytest.mark.parametrize("name", ["", *HELPS])
def test_help_begins_with_examples_that_are_command_lines(name):
    shown = HELPS.get(name, main.usage())
    lines = shown.split("examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(lines) in (2, 3) and shown.index("examples:") < 300
    for line in lines:
        words = shlex.split(line)
        arguments = words[words.index("bahdanau") + 1 :]
        while arguments:
            command = arguments[0]
            own, rest = launch_command._split(arguments[1:])
            assert command.startswith(name) or rest
            parse(command, own)
            arguments, name = rest, ""


def parse(command, arguments):
    """Parse an example as its command does; its runs and files need not exist."""
    chosen = options.parse(COMMANDS[command], arguments, command)
    if isinstance(chosen, experiment.Experiment) and not chosen.config.endswith(".py"):
        assert chosen.config in configurations.shipped()
    checks = {"translate": translate_command._check, "align": align_command._check, "evaluate": str}
    with contextlib.suppress(FileNotFoundError):
        checks.get(command, str)(chosen)


def test_the_first_page_of_train_is_short_and_shows_the_rest_on_demand():
    first = manual.text(train_command.Train, "bahdanau train")
    assert first.count("\n") < 100
    for name, path in configurations.shipped().items():
        assert f"  {name} " in first and configurations.title(path).split()[0] in first
    assert "--decoding.top-k" not in first and "bahdanau train --help SECTION" in first
    for section in dataclasses.fields(Config):
        shown = manual.text(train_command.Train, "bahdanau train", section.name)
        assert shown.startswith(f"settings of {section.name}:\n")
        assert shown.rstrip("\n") in HELPS["train"]


def test_the_topic_stands_behind_help(call):
    assert call("train", "--help", "decoding")[1].startswith("settings of decoding:\n")
    assert "(default: 128)" in call("train", "quickstart", "--help", "model")[1]
    assert "(default: 128)" in call("train", "--help", "model", "quickstart")[1]
    assert call("train", "--help", "all")[1] == HELPS["train"]
    translate = "translate", "--run", "x", "--preset", "greedy", "--help"
    for topic in ([], ["all"]):
        assert "the beam; 1 is greedy search (default: 1)" in " ".join(
            call(*translate, *topic)[1].split()
        )


def test_comments_beside_and_above_fields_are_read():
    source = (
        "class A:\n"
        "    # what a is,\n    # at length\n    a: int = 1\n\n"
        "    b: tuple[  # what b is\n        int, ...\n    ] = ()\n"
        "    c: int = 2\n"
    )
    assert dict(fields._read(source)) == {"a": "what a is, at length", "b": "what b is", "c": ""}
