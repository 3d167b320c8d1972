# `make` lists the targets. Every target does the set-up it needs; `make demo` and `make test` work in a fresh clone.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
PYTHON_IN := $(VENV)/bin/python
PYTEST := $(PYTHON_IN) -m pytest
READY := $(VENV)/.ready

# The oldest PySpark supported, in an environment of its own.
OLDEST := 4.1
OLDEST_VENV := .venv-spark41
OLDEST_READY := $(OLDEST_VENV)/.ready

# Processes that share the tests; unit tests take one more, as some of theirs wait for others.
JOBS ?= 2

# Every run of the tests is the same: order, examples of properties (conftest.py), order of sets. The nightly one is not.
export PYTHONHASHSEED ?= 0

# The servers that `make test-stores` gets: s3 and gcs are built from their sources, which takes minutes.
STORES ?= hdfs azure s3 gcs

# More arguments for pytest: make test-spark ARGS="-k branches -x"
ARGS ?=

SOURCES := $(wildcard paimon_spark pyspark_paimon.py pyspark_paimon_py.py tests/harness tests/docs tools examples conftest.py)

.PHONY: help setup fmt lint type layers check test test-all test-unit test-slow test-slow-unit test-slow-spark test-nightly test-spark test-oldest test-s3 test-stores \
  test-interop test-interop-quick test-chaos test-docs test-wheel bench examples demo docs wheel clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##[[:space:]]*/\t/' | \
	  while IFS=$$'\t' read -r name what; do printf '  %-20s %s\n' "$$name" "$$what"; done

$(READY): pyproject.toml tools/setup.sh
	@tools/setup.sh $(VENV) dev
	@touch $@

$(OLDEST_READY): pyproject.toml tools/setup.sh | $(READY)
	@PYTHON=$(abspath $(PYTHON_IN)) tools/setup.sh $(OLDEST_VENV) test 'pyspark==$(OLDEST).*'
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

test: test-unit test-spark  ## quick tests: units and golden tables, then Spark tests on the newest PySpark (10 minutes)

test-all: test test-slow test-oldest test-docs test-wheel test-stores test-interop test-chaos  ## all tests (over an hour)

test-unit: setup  ## quick unit tests and golden tables, without Spark
	@$(PYTEST) tests/unit tests/format -m 'not slow' -n $$(( $(JOBS) + 1 )) --dist worksteal $(ARGS)

test-slow: test-slow-unit test-slow-spark  ## slow unit tests, then slow Spark tests on the newest PySpark

test-slow-unit: setup  ## slow unit tests
	@$(PYTEST) tests/unit tests/format -m slow -n $$(( $(JOBS) + 1 )) --dist worksteal $(ARGS)

test-slow-spark: setup  ## slow Spark tests on the newest PySpark
	@$(PYTEST) tests/spark -m slow -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-nightly: setup  ## search at random: unit tests in random order, at least 30 times as many examples of each property
	@PYTHONHASHSEED=random HYPOTHESIS_PROFILE=nightly $(PYTEST) tests/unit tests/format -p randomly -o timeout=7200 \
	  -n $(JOBS) --dist worksteal $(ARGS)

test-spark: setup  ## quick Spark tests on the newest PySpark
	@$(PYTEST) tests/spark -m 'not slow' -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-oldest: $(OLDEST_READY)  ## Spark tests on the oldest PySpark supported
	@$(OLDEST_VENV)/bin/python -m pytest tests/spark -m 'not newest' -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-s3: setup  ## tests against an S3 server that they start themselves
	@$(PYTEST) tests -m s3 $(ARGS)

test-stores: setup  ## HDFS, S3, Google Cloud Storage and Azure on servers that the tests start (gets them by itself)
	@tests/interop/setup.sh $(STORES)
	@$(PYTEST) tests/stores -n $(JOBS) --dist loadfile $(ARGS)

test-interop: setup  ## Java Paimon, its Spark connector, pypaimon and dbt on tables written afresh (gets them by itself)
	@tests/interop/setup.sh connector dbt catalogs
	@$(PYTEST) tests/interop -m interop -n $(JOBS) --dist loadfile $(ARGS)

test-interop-quick: setup  ## the same without the Spark connector, dbt and the random tables
	@tests/interop/setup.sh catalogs
	@$(PYTEST) tests/interop -m interop -n $(JOBS) --dist loadfile -k 'not random and not connector and not dbt and not sql_shows and not javas_spark' $(ARGS)

test-chaos: setup  ## writers that race, are killed, and stores that fail (PAIMON_SPARK_CHAOS=full for the long run)
	@$(PYTEST) tests/chaos -m chaos -n $(JOBS) --dist worksteal $(ARGS)

test-docs: setup  ## run the code in README.md and docs, and build the site
	@$(PYTEST) tests/docs -m 'not wheel' $(ARGS)

test-wheel: setup  ## build the wheel, and use it in a fresh virtual environment as a new user would
	@$(PYTEST) tests/docs -m wheel $(ARGS)

bench: setup  ## measure (slow; needs a quiet machine)
	@found=0; \
	$(PYTHON_IN) -m tests.bench.run --runs $(or $(RUNS),5) --scale $(or $(SCALE),1) $(CASES) || found=1; \
	test -n "$(CASES)" || $(PYTHON_IN) -m tests.bench.attached --runs $(or $(RUNS),5) --scale $(or $(SCALE),1) || found=1; \
	test -n "$(CASES)" || $(PYTHON_IN) -m tests.bench.growth --runs $(or $(RUNS),5) || found=1; \
	test -n "$(CASES)" || $(PYTHON_IN) -m tests.bench.figures || found=1; \
	exit $$found

examples: setup  ## run every example, but for that of dbt, which needs it installed
	@set -e; for script in examples/*.py examples/declarative_pipeline/run.py; do echo "== $$script"; $(PYTHON_IN) "$$script"; done

demo: setup  ## the whole story: a fault found, its impact, a branch, a replay, comparing, publishing, undoing
	@$(PYTHON_IN) examples/story.py

docs: setup  ## write docs/reference from the code, and build the site into build/site
	@$(PYTHON_IN) -m tools.docs
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN) -m mkdocs build --strict --quiet

wheel: setup  ## build dist/*.whl
	@rm -rf dist
	@$(PYTHON_IN) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

clean:  ## remove everything that make made
	@rm -rf $(VENV) $(OLDEST_VENV) .interop .bench build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache \
	  .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
