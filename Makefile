# Each target works from a bare checkout: it makes .venv itself. Needs Python 3.11 or later, pip and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# BLAS and torch with several threads on a busy machine are far slower than with one.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test fuzz lint docs bench clean

demo: $(VENV)/.installed
	$(BIN)/sparselens demo --out demo

test: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest $(PYTEST_ARGS)

# For a night: 10,000 inputs for each of the twelve tests of readers and loaders.
fuzz: $(VENV)/.dev
	HYPOTHESIS_PROFILE=fuzz $(ONE_THREAD) $(BIN)/python -m pytest tests/test_fuzz.py $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python -m sparselens.cli.reference docs/cli.md
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/decode.py

clean:
	rm -rf $(VENV) dist build demo docs/_build docs/api docs/gallery docs/pictures .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone: its pinned build is the one for a CPU wherever that exists.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet "$$(grep '^torch==' constraints.txt)"
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	$(PIP) install --quiet --editable . --constraint constraints.txt
	touch $@

$(VENV)/.dev $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: $(VENV)/.installed
	$(PIP) install --quiet --editable ".[$*]" --constraint constraints.txt
	touch $@
