# `make` lists the targets. Every target does the set-up it needs; `make demo` and `make test` work in a fresh clone.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
PYTHON_IN := $(VENV)/bin/python
PYTEST := $(PYTHON_IN) -m pytest
READY := $(VENV)/.ready

# The oldest PySpark supported, laid over the environment.
OLDEST := 4.1
OLDEST_VENV := .venv-spark41
OLDEST_READY := $(OLDEST_VENV)/.ready

# Another Python of those supported: make test-python PYTHON=3.12
PYTHON ?= 3.12

# How much is run: quick (in minutes), ci (what each run of CI runs), slow (what runs of CI take in turn), or all.
TIER ?= quick
# Only tests with these marks: MARK=connector
MARK ?=

# A part of the tests, I/N: the I-th of N parts, counted from 0.
PART ?= 0/1

# Processes that share the tests, always divided in the same way (tests/harness/shards.py); unit tests take one more, as
# some of theirs wait for others.
JOBS ?= 2
PROCESSES = $(JOBS)

# Every run of the tests is the same: order, examples of properties (conftest.py), order of sets. The nightly one is not.
export PYTHONHASHSEED ?= 0
export HYPOTHESIS_PROFILE ?= $(if $(filter quick,$(TIER)),quick,default)

# The servers that `make test-stores` gets: s3 and gcs are built from their sources, which takes minutes.
STORES ?= hdfs azure s3 gcs
# The peers that `make test-interop` gets.
PEERS ?= $(if $(filter quick ci,$(TIER)),catalogs,connector dbt catalogs)

# Finds releases for every Python and platform, and writes their hashes.
LOCK = $(PYTHON_IN) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-header --no-emit-index-url --no-emit-find-links

# More arguments for pytest: make test-spark ARGS="-k branches -x"
ARGS ?=
# What all tests are run with. Results are also written to build/junit.
FLAGS = --tier $(TIER) --part $(PART) $(if $(MARK),-m "$(MARK)") -n $(PROCESSES) --max-worker-restart 0 --junitxml build/junit/$@.xml $(ARGS)

SOURCES := $(wildcard paimon_spark pyspark_paimon.py pyspark_paimon_py.py tests tools examples conftest.py)

.PHONY: help setup fmt lint type layers check test test-all test-unit test-spark test-oldest test-python test-nightly \
  test-stores test-interop test-chaos test-docs test-wheel test-share shares peers lock record-seconds find bench examples demo docs wheel clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##[[:space:]]*/\t/' | \
	  while IFS=$$'\t' read -r name what; do printf '  %-20s %s\n' "$$name" "$$what"; done

$(READY): pyproject.toml tools/setup.sh
	@tools/setup.sh $(VENV) dev
	@touch $@

$(OLDEST_READY): pyproject.toml tools/setup.sh | $(READY)
	@tools/setup.sh --over $(VENV) $(OLDEST_VENV) 'pyspark==$(OLDEST).*'
	@touch $@

.venv-python%/.ready: pyproject.toml tools/setup.sh
	@PYTHON="python$* $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$*.*/bin/python" tools/setup.sh $(@D) test
	@touch $@

setup: $(READY)  ## make .venv with everything that development needs (and see that there is a Java)

fmt: setup  ## format the code and mend what ruff can mend
	@$(PYTHON_IN) -m ruff format .
	@$(PYTHON_IN) -m ruff check --fix .

lint: setup  ## formatting and lint rules
	@$(PYTHON_IN) -m ruff format --check .
	@$(PYTHON_IN) -m ruff check .

type: setup  ## mypy, strict
	@$(PYTHON_IN) -m mypy $(SOURCES)

layers: setup  ## the layering of the packages
	@$(VENV)/bin/lint-imports --no-logo

check: lint type layers  ## lint, type and layers

test: setup  ## quick tests: Spark on the newest PySpark, then units and golden tables, also where the first half fails
	@failed=0; for half in test-spark test-unit; do $(MAKE) --no-print-directory $$half || failed=1; done; exit $$failed

test-all: export TIER = all
test-all:  ## all tests (hours)
	@$(MAKE) --no-print-directory -k test-spark test-unit test-oldest test-docs test-wheel test-stores test-interop test-chaos

test-unit: PROCESSES = $(shell expr $(JOBS) + 1)
test-unit: setup  ## unit tests, golden tables and hostile input, without Spark
	@$(PYTEST) tests/unit tests/format tests/hostile $(FLAGS)

test-spark: setup  ## Spark tests on the newest PySpark
	@$(PYTEST) tests/spark $(FLAGS)

test-oldest: MARK := $(or $(MARK),not newest)
test-oldest: $(OLDEST_READY)  ## Spark tests on the oldest PySpark supported
	@$(OLDEST_VENV)/bin/python -m pytest tests/spark $(FLAGS)

test-python: .venv-python$(PYTHON)/.ready  ## unit tests and Spark tests on another Python: PYTHON=3.12
	@.venv-python$(PYTHON)/bin/python -m pytest tests/unit tests/format tests/hostile tests/spark $(FLAGS)

test-nightly: export PYTHONHASHSEED = random
test-nightly: export HYPOTHESIS_PROFILE = nightly
test-nightly:  ## all tests in random order, with at least 30 times as many examples of each property
	@$(MAKE) --no-print-directory -k test-unit test-spark test-oldest test-interop test-stores test-chaos \
	  TIER=all ARGS="-p randomly -o timeout=7200"

test-stores: setup  ## HDFS, S3, Google Cloud Storage and Azure on servers that the tests start (gets them by itself)
	@tests/interop/setup.sh $(STORES)
	@$(PYTEST) tests/stores $(FLAGS)

peers: setup  ## get the peers and servers that each run of CI talks to
	@tests/interop/setup.sh catalogs hdfs azure

test-interop: setup  ## Java Paimon, its Spark connector, pypaimon and dbt on tables written afresh (gets them by itself)
	@tests/interop/setup.sh $(PEERS)
	@$(PYTEST) tests/interop $(FLAGS)

test-chaos: setup  ## writers that race, are killed, and stores that fail (PAIMON_SPARK_CHAOS=full for the long run, PAIMON_SPARK_SHARE=i/n for a part of the fault points)
	@$(PYTEST) tests/chaos $(FLAGS)

test-docs: setup  ## run the code in README.md and docs, and build the site
	@$(PYTEST) tests/docs -m 'not wheel' --junitxml build/junit/$@.xml $(ARGS)

test-wheel: setup  ## build the wheel, and use it in a fresh virtual environment as a new user would
	@$(PYTEST) tests/docs -m wheel --junitxml build/junit/$@.xml $(ARGS)

test-share: setup  ## one of the shares of tests that runs of CI take in turn: SHARE=3; `make shares` lists them
	@$(PYTHON_IN) -m tools.shares run $(SHARE)

shares: setup  ## list the shares, and the tests that neither CI nor a share runs
	@$(PYTHON_IN) -m tools.shares list

lock: setup  ## write anew which releases CI installs, with their hashes (requirements/)
	@$(PYTHON_IN) -m pip install --quiet uv
	@$(LOCK) pyproject.toml requirements/build.in --extra dev --output-file requirements/ci.txt
	@echo 'pyspark==$(OLDEST).*' | $(LOCK) - --output-file requirements/oldest.txt

record-seconds: setup  ## measure how long tests take, by which they are divided: ARGS="tests/unit"
	@$(PYTEST) --record-seconds -n $(JOBS) $(ARGS)

find:  ## modules and tests that hold a behaviour: WHAT="rename branch"
	@$(or $(wildcard $(PYTHON_IN)),python3) -m tools.tests_index find $(WHAT)

bench: setup  ## measure (slow; needs a quiet machine)
	@found=0; \
	$(PYTHON_IN) -m tools.bench.run --runs $(or $(RUNS),5) --scale $(or $(SCALE),1) $(CASES) || found=1; \
	test -n "$(CASES)" || $(PYTHON_IN) -m tools.bench.attached --runs $(or $(RUNS),5) --scale $(or $(SCALE),1) || found=1; \
	test -n "$(CASES)" || $(PYTHON_IN) -m tools.bench.growth --runs $(or $(RUNS),5) || found=1; \
	test -n "$(CASES)" || $(PYTHON_IN) -m tools.bench.figures || found=1; \
	exit $$found

examples: setup  ## run every example, but for that of dbt, which needs it installed
	@set -e; for script in examples/*.py examples/declarative_pipeline/run.py; do echo "== $$script"; $(PYTHON_IN) "$$script"; done

demo: setup  ## the whole story: a fault found, its impact, a branch, a replay, comparing, publishing, undoing
	@$(PYTHON_IN) examples/story.py

docs: setup  ## write docs/reference and tests/README.md from the code, and build the site into build/site
	@$(PYTHON_IN) -m tools.docs
	@$(PYTHON_IN) -m tools.tests_index write
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN) -m mkdocs build --strict --quiet

wheel: setup  ## build dist/*.whl
	@rm -rf dist
	@$(PYTHON_IN) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

clean:  ## remove everything that make made
	@rm -rf .venv* .interop .bench build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache \
	  .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
