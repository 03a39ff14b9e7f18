# Every target makes the environment when it is missing, or older than what it is made from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_TO_SHOW := $(VENV)/.ready-to-show
EXTRAS := spark,java,sketches,plots,demo,serve,docs,dev
EXTRAS_TO_SHOW := demo,serve

# Tests start hundreds of processes. Without bytecode files each compiles all of Panewise's modules, in 0.6 s.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env demo serve test check kills fuzz served bench dist docs lock

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(READY) ## Make .venv with Panewise in it, once

# With the extras of the first argument, into $(VENV).
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Panewise needs Python 3.11 or newer as '$(PYTHON)'; choose another with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "'$(PYTHON)' cannot make environments: it lacks venv or ensurepip. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[$(1)]'
endef

$(READY): pyproject.toml requirements.lock
	$(call install,$(EXTRAS))
	@touch $(READY_TO_SHOW) $@

# Who wants to see it does not wait for the tools of those who change it.
$(READY_TO_SHOW): pyproject.toml requirements.lock
	$(call install,$(EXTRAS_TO_SHOW))
	@touch $@

demo: $(READY_TO_SHOW) ## A hundred sliding-window queries over a year of flights, on Spark
	$(BIN)/panewise demo

serve: $(READY_TO_SHOW) ## The flights of the demo, replayed live, at http://127.0.0.1:8787
	$(BIN)/panewise serve --demo

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

docs: env ## Build the documentation site into build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

kills: env ## Kill a job on Spark 22 times and compare its answers; takes about twenty minutes
	PANEWISE_MANY_KILLS=1 PANEWISE_INSIST_ON_KAFKA=1 $(BIN)/pytest tests/kafka/test_exactly_once.py

fuzz: env ## Run the random tests that need no Spark with 25 times the examples of `make test`; takes hours
	PANEWISE_EXAMPLES=10 $(PYTEST) -m "not spark"

served: env ## Replay 10,000 logged lookups of a job that is killed 8 times; takes about ten minutes
	PANEWISE_MANY_LOOKUPS=1 $(BIN)/pytest tests/training/test_served.py

# Each version in an environment of its own under .venvs/. MATRIX chooses, for example: make spark-matrix MATRIX=4.0
spark-matrix: ## Run the tests that start Spark against each minor version of it; takes an hour or more
	$(MATRIX_ENV) $(PYTHON) tools/matrix.py spark $(MATRIX) --write docs/versions.md

python-matrix: ## Run the tests without Spark with each version of Python
	$(PYTHON) tools/matrix.py python $(MATRIX) --write docs/versions.md

oldest: ## Run the engine's tests with the oldest libraries that pyproject.toml allows
	$(PYTHON) tools/matrix.py oldest --write docs/versions.md

delta: ## Kill a stream from a Delta table into a Delta table, and compare its answers
	$(MATRIX_ENV) $(PYTHON) tools/matrix.py spark 4.0 4.1 4.2 --tests Delta

# What a matrix is for must not be skipped.
MATRIX_ENV := PANEWISE_INSIST_ON_KAFKA=1 PANEWISE_INSIST_ON_DELTA=1

bench: env ## Measure Panewise beside plain Spark, as JSON lines
	$(BIN)/panewise bench spark --json

dist: env ## Build the source distribution and the wheel into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

# `pip list` knows versions only, where `pip freeze` would write down where a package came from.
lock: env ## Rewrite requirements.lock from what is installed
	$(BIN)/python -m pip list --disable-pip-version-check --format=freeze --exclude-editable \
	  --exclude pip --exclude setuptools | LC_ALL=C sort -f > requirements.lock.new
	mv requirements.lock.new requirements.lock
	@touch $(READY)
