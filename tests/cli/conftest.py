"""A stand-in for a trained run: it translates into capitals and records its arguments."""

import sys
import types

import numpy as np
import pytest

import bahdanau_jax
from bahdanau_jax import run_folder
from bahdanau_jax.hypothesis import EMPTY, Hypothesis


def hypothesis(text: str, score: float = -0.5) -> Hypothesis:
    tokens = (*text.split(), "</s>")
    return Hypothesis(
        text=text,
        tokens=tokens,
        log_probabilities=(score / len(tokens),) * len(tokens),
        score=score,
        finished=True,
        source_tokens=("x", "</s>"),
        alpha=np.full((len(tokens), 2), 0.5, np.float32),
    )


class Run:
    def __init__(self):
        self.windows, self.asked, self.options = [], [], []

    def translate(self, lines, beam_size=None, n_best=None, **options):
        options.pop("advance")(len(lines))
        self.options.append(options)
        self.windows.append(list(lines))
        self.asked.append((beam_size, n_best))
        ranked = [
            [hypothesis(line.upper(), -0.5 - i) for i in range(n_best or 1)]
            if line.strip()
            else [EMPTY]
            for line in lines
        ]
        return ranked if n_best else [row[0] for row in ranked]


@pytest.fixture
def run(monkeypatch):
    """Stands in for bahdanau_jax.run, trained and report; `run.model` is its Run."""
    stub = types.ModuleType("bahdanau_jax.run")
    stub.model, stub.calls, stub.loaded = Run(), [], []
    stub.load = lambda folder, **how: stub.loaded.append((folder, how)) or stub.model
    stub.ensemble = lambda models: stub.model
    stub.check = lambda config: stub.calls.append(("check", config))
    stub.train = lambda config, workdir, profile, began, reporter: stub.calls.append(
        ("train", config, workdir)
    )
    stub.prepare = lambda config, workdir, stage: {
        "read": 12,
        "lengths": {},
        "workdir": str(workdir),
    }
    report = types.ModuleType("bahdanau_jax.report")
    report.report = types.ModuleType("bahdanau_jax.report.report")
    report.report.write = lambda trained, reporter: (
        f"BLEU 93.1\n{stub.calls[-1][2]}/report/alignment.png"
    )
    report.corpus_report = types.ModuleType("bahdanau_jax.report.corpus_report")
    report.corpus_report.write = lambda statistics, workdir: f"pairs read {statistics['read']}"
    monkeypatch.setitem(sys.modules, "bahdanau_jax.trained", stub)
    monkeypatch.setattr(bahdanau_jax, "trained", stub, raising=False)
    monkeypatch.setattr(run_folder, "check_run", lambda folder: None)
    for module in (stub, report, report.report, report.corpus_report):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bahdanau_jax, "run", stub, raising=False)
    monkeypatch.setattr(bahdanau_jax, "report", report, raising=False)
    return stub


@pytest.fixture
def call(capfd):
    """Runs a command line in this process: (exit code, stdout, stderr)."""
    from bahdanau_jax.cli.main import main

    def run_main(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run_main
