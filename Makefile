# Every target makes the environment when it is missing, or older than what it is made from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.weft-ready
EXTRAS := java,sketches,plots,demo,dev

.DEFAULT_GOAL := help
.PHONY: help env demo test check kills bench lock

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(READY) ## Make .venv with Weft in it, once

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Weft needs Python 3.11 or newer as '$(PYTHON)'; choose another with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "'$(PYTHON)' cannot make environments: it lacks venv or ensurepip. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[$(EXTRAS)]'
	@touch $@

demo: env ## A hundred sliding-window queries over a year of flights, on Spark
	$(BIN)/weft demo

# A file's tests stay together, so that those of Spark share a session. On two cores this halves the time: most of it is
# numba compiling, one kernel at a time.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: env ## Run the tests, doctests among them
	$(PYTEST)

check: env ## Everything a change must pass: ruff, mypy, the import rule, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

kills: env ## Kill a job on Spark 22 times and compare its answers; takes about twenty minutes
	WEFT_MANY_KILLS=1 WEFT_INSIST_ON_KAFKA=1 $(BIN)/pytest tests/kafka/test_exactly_once.py

bench: env ## Measure Weft beside plain Spark, as JSON lines
	$(BIN)/weft bench spark --json

# `pip list` knows versions only, where `pip freeze` would write down where a package came from.
lock: env ## Rewrite requirements.lock from what is installed
	$(BIN)/python -m pip list --disable-pip-version-check --format=freeze --exclude-editable \
	  --exclude pip --exclude setuptools | LC_ALL=C sort -f > requirements.lock.new
	mv requirements.lock.new requirements.lock
	@touch $(READY)
