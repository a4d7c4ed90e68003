# The front door. `make` alone says what there is.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format types bench soak docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One stamp: the environment is made anew only when the project's metadata changes.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group test --group lint --editable '.[all]'
	@touch $@

setup: $(VENV)/.ready ## Make the virtual environment with everything in it

demo: setup ## Run a gateway on :30000 in front of two simulated engines
	$(BIN)/smg serve --backend sim --data-parallel-size 2 --model demo --port 30000

test: setup ## Lint, types, layers and every test
	$(MAKE) --no-print-directory lint types
	$(BIN)/python -m pytest -n auto

lint: setup ## Style and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup ## mypy, strict
	$(BIN)/mypy

format: setup ## Rewrite the code in the house style
	$(BIN)/ruff check --fix-only --quiet . ; $(BIN)/ruff format .

bench: setup ## Race the published gateway and write docs/benchmarks.md
	$(BIN)/python -m bench --write

soak: setup ## Let everything fail around a gateway for three minutes
	$(BIN)/python -m bench.soak

docs: setup ## Write the reference pages from the tables
	$(BIN)/python docs/generate.py

clean: ## Remove what can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
