"""The options of `bahdanau reproduce` and its exit code; no test of this file trains a model."""

import subprocess
import sys

import pytest

from bahdanau_jax import run
from bahdanau_jax.experiments import SUITES, Request, Results, reproduce
from bahdanau_jax.experiments.suites import paper, suite

CORPUS = {"train": "builtin:en-fr/train?pairs=200&max=8", "dev": "builtin:en-fr/dev?pairs=8"}


@pytest.fixture
def failing(monkeypatch):
    """Replace the sweep of a suite by one whose runs all fail."""

    def sweep(cells, *arguments, **options):
        return Results({name: {} for name in cells}, {f"{next(iter(cells))}/seed-1": "no luck"})

    monkeypatch.setattr(suite, "sweep", sweep)


def test_failed_runs_are_printed_and_the_exit_code_is_2(failing, command_line, tmp_path):
    arguments = ["reproduce", "ablations", "--workdir", tmp_path / "s", "--quick", "True"]
    code, out, err = command_line(*arguments)
    assert code == 2 and err.splitlines()[-1] == "bahdanau: attention/seed-1 failed: no luck"
    assert out.startswith("| cell | seeds |")


def test_the_function_returns_the_failures(failing, tmp_path):
    text, failed = reproduce(SUITES["lengths"], tmp_path / "s", Request(quick=True))
    assert text.startswith("| cell | seeds |") and failed == {"RNNsearch-15/seed-1": "no luck"}


def test_longer_text_without_updates_is_refused_in_one_line():
    with pytest.raises(ValueError, match="^--longer-train [^\n]* set --longer-steps[^\n]*$"):
        paper.cells(Request(**CORPUS, longer_train="text:a,b"))


def test_an_unknown_dtype_is_refused_before_training(command_line, tmp_path):
    corpus = [f"--{name}={address}" for name, address in CORPUS.items()]
    arguments = ["reproduce", "paper", "--workdir", tmp_path / "s", *corpus]
    code, _, err = command_line(*arguments, "--compute-dtype", "bfloat61")
    assert code == 2 and "did you mean 'bfloat16'?" in err.splitlines()[-1]
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_has_the_requested_dtype(name):
    corpus = CORPUS if SUITES[name].takes_corpora else {}
    for size in [{}, {"paper_size": True}] if corpus else [{}]:
        before = suite.requested_cells(SUITES[name], Request(**corpus, **size))
        for dtype in ("float32", "bfloat16"):
            cells = suite.requested_cells(
                SUITES[name], Request(**corpus, **size, compute_dtype=dtype)
            )
            assert {config.model.compute_dtype for config in cells.values()} == {dtype}
            assert cells.keys() == before.keys()


def test_the_smaller_models_have_bfloat16_products_by_default():
    cells = paper.cells(Request(**CORPUS))
    assert {config.model.compute_dtype for config in cells.values()} == {"bfloat16"}


def test_paper_size_has_the_printed_updates_of_each_model():
    cells = paper.cells(Request(**CORPUS, paper_size=True))
    updates = {name: config.training.steps for name, config in cells.items()}
    assert updates == {
        "RNNencdec-30": 846_000,
        "RNNsearch-30": 471_000,
        "RNNencdec-50": 600_000,
        "RNNsearch-50": 288_000,
    }
    for config in cells.values():
        run.check(config)
        assert config.training.checkpoint_every == 2_000  # as in the shipped configurations
        assert config.training.evaluate_every == 10_000
    for options, steps in (({"steps": 70}, 70), ({"quick": True}, 40)):
        cells = paper.cells(Request(**CORPUS, paper_size=True, **options))
        assert {config.training.steps for config in cells.values()} == {steps}


def test_help_imports_no_jax_and_has_every_option():
    program = (
        "import sys; from bahdanau_jax.cli.main import main\n"
        "try: main(['reproduce', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "see below" not in done.stdout
    for name in ("SUITE", "--workdir PATH", "--paper-size True|False", "--compute-dtype NAME"):
        assert name in done.stdout
