# Everything runs in .venv, which the first target makes: only make and Python 3.11+ are needed.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
VENV := .venv
EXTRAS := dev,docs
comma := ,
INSTALLED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

# The Python of `make accelerator`. With one of your own, nothing is installed.
ACCELERATOR_PYTHON ?= $(VENV)/bin/python

# Two processes run the test files. Tests mostly compile, and one compilation keeps less than two
# cores busy. In the order of their names, the last files are short, so neither process waits long.
PYTEST := $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The program under test buffers its output as that of users does, and finds its compiled modules.
unexport PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE

.PHONY: help install demo docs notebooks test test-slow test-optimised test-all accelerator faults release-check lint format clean

help:
	@echo "make install make .venv with pinned versions, except CUDA's; EXTRAS=dev,docs,cuda: for a GPU too"
	@echo "make demo    train on the built-in corpus, translate, score and draw"
	@echo "make docs    build the documentation site in build/site; NOTEBOOKS=no does not run the notebooks"
	@echo "make notebooks  run docs/notebooks, and write their pages and .ipynb files to build/notebooks"
	@echo "make test    run the tests, without the slow ones"
	@echo "make test-slow  run the slow ones: benchmarks, killed runs, more variants of the model"
	@echo "make test-optimised  run those of the numbers with programs that are optimised as those of users"
	@echo "make test-all  run all tests, also those that take minutes: several processes"
	@echo "make accelerator  compare the GPU or TPU of this machine with its CPU; ACCELERATOR_PYTHON=PATH: by that Python"
	@echo "make faults  kill training runs, damage their files, fill their disks, and compare the final results"
	@echo "make release-check  build the wheel, install it with the newest and oldest versions, and try it"
	@echo "make lint    run ruff and pyright"
	@echo "make format  let ruff rewrite the code"
	@echo "make clean   remove the virtual environment"

install: $(INSTALLED)

demo: $(INSTALLED)
	$(VENV)/bin/bahdanau train configs/quickstart.py --workdir runs/quickstart

# The site. A broken link, an undocumented public name or a fault in a notebook is an error.
NOTEBOOKS := yes
docs: $(INSTALLED)
	@if [ "$(NOTEBOOKS)" != no ]; then $(VENV)/bin/python -m tools.notebooks; fi
	NOTEBOOKS=$(NOTEBOOKS) NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict
	$(VENV)/bin/python -m tools.site.built_pages build/site
	@echo "build/site/index.html is the first page"

test: $(INSTALLED)
	$(PYTEST)

test-slow: $(INSTALLED)
	$(PYTEST) -m "slow and not exhaustive"

test-optimised: $(INSTALLED)
	BAHDANAU_TESTS_OPTIMISED=1 $(PYTEST) tests/model tests/decoding tests/training tests/test_end_to_end.py

test-all: $(INSTALLED)
	$(PYTEST) -m ""

accelerator: $(if $(filter $(VENV)/bin/python,$(ACCELERATOR_PYTHON)),$(INSTALLED))
	@JAX_PLATFORMS= $(ACCELERATOR_PYTHON) -c 'import jax, sys; sys.exit(jax.default_backend() == "cpu" and \
		"JAX finds no GPU or TPU: make install EXTRAS=dev,docs,cuda (or tpu)")'
	JAX_PLATFORMS= XLA_FLAGS=--xla_gpu_deterministic_ops=true XLA_PYTHON_CLIENT_PREALLOCATE=false \
		$(ACCELERATOR_PYTHON) -m pytest -rs tests/test_accelerator.py

faults: $(INSTALLED)
	$(VENV)/bin/python -m tests.faults.campaign

release-check: $(INSTALLED)
	$(VENV)/bin/python -m tools.release_check

notebooks: $(INSTALLED)
	$(VENV)/bin/python -m tools.notebooks

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

format: $(INSTALLED)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV)

$(INSTALLED): pyproject.toml setup.py constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' --constraint constraints.txt
	@touch $@
