"""The check of a user's own Score before any work, with errors of one line."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.model import check_score
from bahdanau_jax.model.attention import SCORES
from bahdanau_jax.variants import check
from tests.model.worlds import CONFIGS

DOT = SCORES["dot"]
MODEL = CONFIGS["default"]  # H 5, C 10; so B is 3 and S is 4


def failing(params, query, keys):
    return jnp.einsum("bh,bsh->bs", query, keys[0])


SCORE, KEYS = r"score\(params, query, keys\)", r"keys\(config, params, annotations, mask\)"
OWN = {
    "one_energy": (
        DOT._replace(score=lambda params, query, keys: jnp.einsum("bh,bsh->b", query, keys)),
        SCORE + r" returns float32\[3\]; expected floats \[B, S\], here \[3, 4\]",
    ),
    "turned": (
        DOT._replace(score=lambda params, query, keys: jnp.einsum("bh,bsh->sb", query, keys)),
        SCORE + r" returns float32\[4, 3\]; expected floats \[B, S\]",
    ),
    "whole_numbers": (
        DOT._replace(score=lambda *given: DOT.score(*given).astype(int)),
        SCORE + r" returns int32\[3, 4\]; expected floats",
    ),
    "nothing": (DOT._replace(score=lambda *given: None), SCORE + " returns None; expected floats"),
    "broken": (
        DOT._replace(score=failing),
        SCORE + r" fails with ValueError: .*test_score_contract.py:\d+",
    ),
    "ends_the_program": (
        DOT._replace(score=lambda *given: sys.exit(3)),
        SCORE + r" fails with SystemExit: 3 \(.*test_score_contract.py:\d+",
    ),
    "keys_of_sentences": (
        DOT._replace(keys=lambda config, params, annotations, mask: annotations.sum(1)),
        KEYS + r" returns float32\[3, 10\]; expected floats \[B, S, A\], here \[3, 4, any A\]",
    ),
    "query_of_other_size": (
        DOT._replace(query=lambda params: jnp.ones((7, 7))),
        r"query\(params\) returns float32\[7, 7\]; expected floats \[H, A\] with H=5, or None",
    ),
    "parameters_in_a_list": (
        DOT._replace(init=lambda key, config: [jnp.ones(3)]),
        r"init\(key, config\) returns a list; expected a dict of floating-point arrays by name",
    ),
    "parameters_of_parameters": (
        DOT._replace(init=lambda key, config: {"a": {"b": jnp.ones(3)}}),
        r"init\(key, config\) returns {'a': {'b': float32\[3\]}}; expected a dict",
    ),
    "whole_parameters": (
        DOT._replace(init=lambda key, config: {"a": jnp.ones(3, int)}),
        r"init\(key, config\) returns {'a': int32\[3\]}; expected a dict",
    ),
    "weights_of_sentences": (
        DOT._replace(weights=lambda params, e, mask, query, i: e.max(1)),
        r"weights\(params, e, mask, query, i\) returns float32\[3\]; expected floats \[B, S\]",
    ),
    "coverage_of_sentences": (
        DOT._replace(covered=lambda params, keys, coverage: keys[:, 0] + coverage.sum(1)[:, None]),
        r"covered\(params, keys, coverage\) returns float32\[3, 5\]; expected floats \[B, S, A\], "
        r"here \[3, 4, any A\]",
    ),
    "no_function": (
        DOT._replace(init=None),
        r"init\(key, config\) fails with TypeError: 'NoneType'",
    ),
}


def __getattr__(name):
    """The scores above as attributes of this module, which is how a configuration names them."""
    if name in OWN:
        return OWN[name][0]
    raise AttributeError(name)


@pytest.mark.parametrize("name", OWN)
def test_a_score_that_breaks_the_contract_is_refused_in_one_line(name):
    own = dataclasses.replace(MODEL, attention=f"{__name__}:{name}")
    with pytest.raises(ValueError, match=OWN[name][1]) as refused:
        check(Config(model=own))
    message = str(refused.value)
    assert message.startswith(f"model.attention is '{own.attention}', whose ")
    assert "\n" not in message and len(message) < 300


@pytest.mark.parametrize("directions", ["both", "forward"])
@pytest.mark.parametrize("name", [name for name in SCORES if name != "none"])
def test_built_in_scores_fulfil_the_contract(name, directions, monkeypatch):
    monkeypatch.setitem(OWN, "built_in", (SCORES[name], ""))
    one = dataclasses.replace(MODEL, encoder_directions=directions)
    check_score(dataclasses.replace(one, attention=f"{__name__}:built_in"))


def test_coverage_may_change_the_width_of_keys(monkeypatch):
    wider = DOT._replace(
        covered=lambda params, keys, coverage: jnp.concatenate([keys, coverage[..., None]], -1),
        score=lambda params, query, keys: (
            jnp.einsum("bh,bsh->bs", query, keys[..., :-1]) - keys[..., -1]
        ),
    )
    monkeypatch.setitem(OWN, "wider", (wider, ""))
    check_score(dataclasses.replace(MODEL, attention=f"{__name__}:wider"))


def test_built_in_scores_are_not_traced(monkeypatch):
    monkeypatch.setattr("jax.eval_shape", None)
    check_score(MODEL)


def test_checking_a_score_starts_no_device_and_measures_nothing(tmp_path):
    """Devices that were started cannot be connected to those of other processes any more."""
    (tmp_path / "own.py").write_text(
        "import jax.numpy as jnp\nfrom bahdanau_jax import attention\n"
        "sine = attention.additive(jnp.sin)\n"
    )
    program = (
        "from bahdanau_jax.config import ModelConfig\n"
        "from bahdanau_jax.model import check_score\n"
        "for dtype in ('auto', 'bfloat16'):\n"
        "    check_score(ModelConfig(attention='own:sine', compute_dtype=dtype))\n"
        "from jax._src import xla_bridge\n"
        "print(xla_bridge.backends_are_initialized())\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
    )
    assert done.stdout == "False\n", done.stderr
