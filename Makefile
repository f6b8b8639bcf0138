# `make` alone lists the targets. Each target sets up what it needs from a bare clone, once.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(shell tools/find_python.sh)
BIN := .venv/bin
STAMPS := .venv/.stamps
# xdist would begin with the files of many tests; tests/tiers.py begins with those that take long.
PARALLEL := --no-loadscope-reorder --durations 20

# By default Spark's workers run "python3" from PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Spark starts Python processes by the hundred. Without byte code each of them would compile the packages.
unexport PYTHONDONTWRITEBYTECODE

# The core's build; crates are fetched into cargo's own cache.
export CARGO_TARGET_DIR := $(CURDIR)/.cache/core
WITHOUT_CARGO := echo "tubeclient_core is left out, as there is no cargo (Rust 1.88 or newer): the plain code does its work"

SEEDS ?= 1000
START ?= 0

.PHONY: help setup setup-all demo bench chaos simulate test test-all test-fast lint format types check docs site proto dist wheel sbom tagged lock audit clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/packages $(STAMPS)/core $(STAMPS)/spark-home $(STAMPS)/apache $(STAMPS)/protoc ## Make .venv and fetch what `make test` needs

setup-all: setup $(STAMPS)/spark40 $(STAMPS)/spark43 $(STAMPS)/yarn $(STAMPS)/iceberg $(STAMPS)/prometheus $(STAMPS)/chromium ## The same for `make test-all`: Spark 4.0 and 4.3, YARN, Iceberg's REST server, Prometheus, Chromium

demo: $(STAMPS)/packages $(STAMPS)/delta ## Run the demonstration: embedded TubeMQ, Spark, Delta, on this machine
	@$(BIN)/python jobs/demo.py

bench: $(STAMPS)/packages $(STAMPS)/core $(STAMPS)/delta $(STAMPS)/apache $(STAMPS)/kafka ## Measure the source and its peers, see docs/performance.md; BENCH_ARGS="--scale 0.05"
	$(BIN)/python -m bench $(BENCH_ARGS)

chaos: $(STAMPS)/packages $(STAMPS)/delta $(STAMPS)/apache ## Kill everything around the ingest job for ten minutes; check that each message came once
	$(BIN)/python -m tests.exactly_once $(CHAOS_ARGS)

simulate: $(STAMPS)/packages ## Run source, offsets table and ingest in virtual time; SEEDS=100000 START=0
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --start $(START)

# Each tier has the tests of the one before. Many of the first wait for a socket: two cores take six processes.
test-fast: $(STAMPS)/packages $(STAMPS)/core $(STAMPS)/protoc ## Three minutes on two cores: the tests that need neither Spark nor Apache's servers
	$(BIN)/python -m pytest $(PARALLEL) -n 6 --dist loadfile --hypothesis-profile fast -m "not nightly and not spark and not apache" $(PYTEST_ARGS)

# One process has the Spark session, one Apache's servers, and all have the rest.
test: setup ## A quarter of an hour: each guarantee once; before a change is merged. PYTEST_ARGS="-n 0 -k word" runs some
	$(BIN)/python -m pytest $(PARALLEL) -n 3 --dist loadgroup --hypothesis-profile fast -m "not nightly" $(PYTEST_ARGS)
	@echo "All passed. Before a change is done: make check, and the list in CONTRIBUTING.md"

test-all: setup-all ## An hour: all tests, storms and seeds too
	$(BIN)/python -m pytest $(PARALLEL) -n 2 --dist loadfile $(PYTEST_ARGS)
	@if command -v cargo >/dev/null; then cd tubeclient_core && cargo test --quiet --locked; fi

lint: $(BIN)/ruff ## Check for likely mistakes and security holes, and for the common style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if command -v actionlint >/dev/null; then actionlint; fi
	@if ! command -v cargo >/dev/null; then $(WITHOUT_CARGO); else cd tubeclient_core && cargo fmt --check && cargo clippy --quiet --release --locked --all-targets -- -D warnings; fi

format: $(BIN)/ruff ## Bring the code into the common style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@if command -v cargo >/dev/null; then cd tubeclient_core && cargo fmt; fi

types: $(STAMPS)/packages ## Check the types (mypy --strict)
	$(BIN)/mypy

check: lint types test ## lint, types and test

docs: $(STAMPS)/packages ## Generate the pages of docs/ that come from the code
	$(BIN)/python -m tools.generate_docs

site: $(STAMPS)/packages ## Build the documentation site into site/; a broken link fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

proto: $(STAMPS)/protoc ## Generate the wire messages from their .proto files
	$(BIN)/python tools/generate_proto.py

# TUBECLIENT_RELEASE lets the extras name the core (setup.py).
dist: $(STAMPS)/packages ## Build the source archive and, from it, the wheel into dist/; check what is uploaded
	rm -f dist/pyspark_tubeclient-*
	TUBECLIENT_RELEASE=1 $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/pyspark_tubeclient-*

# Of one interface for Python 3.11 and later; zig links it against a glibc old enough for any Linux of today. Needs no
# package of .venv, and no Java.
wheel: ## Build the compiled core's wheel for this processor into dist/; needs cargo
	@command -v cargo >/dev/null || { echo "there is no cargo; the core needs Rust 1.88 or newer" >&2; exit 1; }
	rm -f dist/tubeclient_core-*
	$(PYTHON) -m venv .venv/maturin
	.venv/maturin/bin/python -m pip install --quiet 'maturin>=1.9,<2' ziglang 'twine>=6,<8'
	.venv/maturin/bin/python -m tools.crates
	cd tubeclient_core && PATH="$(CURDIR)/.venv/maturin/bin:$$PATH" maturin build --quiet --release --zig --compatibility manylinux2014 --out ../dist
	.venv/maturin/bin/python -m twine check --strict dist/tubeclient_core-*

# Of an environment of its own: .venv has the tools of developers too. Without a time and a random number in it.
sbom: dist wheel ## Install both wheels as a user does; list what they depend on with the extras, as CycloneDX, in dist/sbom/
	rm -rf .venv/sbom && $(BIN)/python -m venv --without-pip .venv/sbom
	$(BIN)/python -m pip --python .venv/sbom/bin/python install --quiet --find-links dist "$$(ls dist/pyspark_tubeclient-*.whl)[quickstart,speed]"
	cd .venv/sbom && bin/tubeclient --version && bin/python -c 'from tubeclient.core import CORE; print("core", CORE.__version__)'
	rm .venv/sbom/lib/python3*/site-packages/pyspark_tubeclient-*.dist-info/direct_url.json  # a path of this machine
	mkdir -p dist/sbom
	$(BIN)/cyclonedx-py environment --output-reproducible --output-format JSON \
		--output-file "dist/sbom/$$(basename dist/*.tar.gz .tar.gz).cdx.json" .venv/sbom/bin/python

tagged: ## Check that this commit has the tag of its version, and that core and changelog have that version
	$(PYTHON) tools/tagged.py

lock: $(STAMPS)/packages ## Lock the packages of .venv, newest versions that setup.py allows, and the core's crates; needs cargo
	$(BIN)/python -m tools.dependencies
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock
	cd tubeclient_core && cargo update --quiet
	$(BIN)/python -m tools.licences_page

# Not in .ci/run: a mirror of the registry does not have the service that knows the holes. --strict fails where it is missing.
audit: $(STAMPS)/packages ## Look for known holes in the locked packages; needs the vulnerability service of PyPI
	$(BIN)/pip-audit --strict --require-hashes --disable-pip --requirement requirements-dev.lock

clean: ## Remove what was built, .venv and .cache (downloads) included
	rm -rf .venv .cache build dist site demo-output metastore_db spark-warehouse derby.log
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# LOCKED=1 takes the very packages of requirements-dev.lock, checked by their hashes, and not the newest in setup.py's ranges.
$(STAMPS)/packages: setup.py pyproject.toml tubeclient/_version.py
	@tools/check_machine.sh "$(PYTHON)"
	@echo "To fetch, once: 770 MB of packages into .venv, then 90 MB of Delta's jars; for make test 60 MB more. What pip and Ivy keep from before is taken."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock)
	@set -o pipefail; $(BIN)/python -m pip install --no-color $(if $(LOCKED),--no-build-isolation --no-deps) -e '.[all]' | sed -un -e 's/^ *Downloading \([^ ]*\) \((.* MB)\).*/  \1 \2/p' -e 's/^Building wheels.*: /  building /p' -e 's/^Installing .*/  installing all: a minute or two/p'
	@mkdir -p $(STAMPS) && touch $@

# Alone, where the packages are not there yet.
$(BIN)/ruff:
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$$(grep -o '^ruff==[^ ]*' requirements-dev.lock)"

# `pip install .` never needs a compiler: the core is a package of its own.
$(STAMPS)/core: $(STAMPS)/packages $(wildcard tubeclient_core/*.toml tubeclient_core/src/*.rs)
	@if ! command -v cargo >/dev/null; then $(WITHOUT_CARGO); else \
		$(BIN)/python -m pip install --quiet --force-reinstall --no-deps ./tubeclient_core; fi
	@touch $@

# Other Sparks, installed as by a user: the oldest, and the newest, which no delta-spark takes. The wheel is built here
# and not kept: packing it takes time for nothing.
$(STAMPS)/spark40: WITH := spark,delta
$(STAMPS)/spark43: WITH := spark,managed
$(STAMPS)/spark4%: $(STAMPS)/packages
	test -x .venv/spark-4.$*/bin/python || $(BIN)/python -m venv .venv/spark-4.$*
	.venv/spark-4.$*/bin/python -m pip install --quiet --config-settings=--build-option=--compression=stored 'pyspark[connect]==4.$*.*'
	.venv/spark-4.$*/bin/python -m pip install --quiet -e '.[$(WITH)]' 'pyspark[connect]==4.$*.*'
	@touch $@

$(STAMPS)/delta: $(STAMPS)/packages tools/fetch_jars.py
	@$(BIN)/python tools/fetch_jars.py
	@touch $@

# Tests start Spark from it with less work; without it they only take longer.
$(STAMPS)/spark-home: $(STAMPS)/delta tests/spark_home.py
	$(BIN)/python -m tests.spark_home
	@touch $@

$(STAMPS)/apache: $(STAMPS)/packages tests/apache/jars.py tools/maven_jars.py
	$(BIN)/python -m tests.apache.jars
	@touch $@

$(STAMPS)/yarn: $(STAMPS)/packages tests/yarn_cluster.py tools/maven_jars.py
	$(BIN)/python -m tests.yarn_cluster
	@touch $@

$(STAMPS)/iceberg: $(STAMPS)/packages tests/iceberg_rest.py tools/maven_jars.py
	$(BIN)/python -m tests.iceberg_rest
	@touch $@

$(STAMPS)/kafka: $(STAMPS)/packages bench/kafka_jars.py tools/maven_jars.py
	$(BIN)/python -m bench.kafka_jars
	@touch $@

# It is published for Python up to 3.12; its tests are left out on later ones.
$(STAMPS)/protoc: $(STAMPS)/packages tools/generate_proto.py
	$(BIN)/python -c 'import sys; from tools.generate_proto import ensure_compiler; sys.version_info < (3, 13) and ensure_compiler()'
	@touch $@

$(STAMPS)/prometheus: tools/fetch_prometheus.sh
	tools/fetch_prometheus.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/chromium: tools/find_chromium.sh
	tools/find_chromium.sh
	@mkdir -p $(STAMPS) && touch $@
