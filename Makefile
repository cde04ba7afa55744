# On a fresh machine: `make demo` and `make test`. Every target sets up .venv by itself, with pip.
# PYTHON=python3.12 takes another interpreter, CORPORA=folder other corpora for the benchmarks.

PYTHON ?= python3
CORPORA ?= ../shared/corpora
BIN := .venv/bin
TEXT ?= ../shared/text
BUNDLED := src/hardner/assets/model
READY := .venv/.ready
TESTED_SET := requirements/tested.txt
TESTED := .venv/.ready-to-test

.PHONY: setup demo test lint docs model bench fuzz crash lock sbom
.DEFAULT_GOAL := setup

setup: $(READY)
	@:

$(READY): pyproject.toml $(TESTED_SET)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "hardner needs Python 3.11 or newer; name one: make PYTHON=python3.11"; exit 1; }
	@echo "Setting up .venv (the first time takes some minutes) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint $(TESTED_SET) --editable .
	@touch $@

$(TESTED): $(READY)
	@echo "Setting up what the tests need ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint $(TESTED_SET) --editable '.[dev]'
	@touch $@

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

lint: $(TESTED)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

test: lint
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest --quiet --numprocesses 2 -rs

# Damaged inputs of every kind; what is neither read nor refused by one line stays in build/fuzz.
# INPUTS=1000000 SEED=2 takes more of them, and others.
INPUTS ?= 100000
SEED ?= 1
fuzz: $(TESTED)
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --inputs $(INPUTS) --seed $(SEED) --record

# Commands that write, each killed KILLS times and stopped in other ways; a full disk and a
# read-only folder are tried where file systems can be mounted.
KILLS ?= 100
crash: $(TESTED)
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m crash --kills $(KILLS) --seed $(SEED) --record

docs: $(TESTED)
	@$(BIN)/mkdocs build --strict

# The newest versions that pyproject.toml allows become the tested set, with their licences.
lock:
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@build/lock/bin/python requirements/lock.py

# What the wheel installs, as CycloneDX: build/hardner.cdx.json.
sbom:
	@$(PYTHON) -m venv --clear build/sbom
	@build/sbom/bin/python -m pip install -qq --disable-pip-version-check --constraint $(TESTED_SET) .
	@$(PYTHON) -m venv --clear build/cyclonedx
	@build/cyclonedx/bin/python -m pip install -qq --disable-pip-version-check cyclonedx-bom
	@build/cyclonedx/bin/cyclonedx-py environment build/sbom/bin/python --pyproject pyproject.toml \
		--output-reproducible --of JSON --output-file build/hardner.cdx.json
	@rm -rf build/lib build/bdist.* # setuptools would pack what lies there into a later wheel
	@echo build/hardner.cdx.json

# The bundled model, from text and corpora; it wants a GPU.
model: $(READY)
	$(BIN)/hardner pretrain encoder $(TEXT)/*.txt.xz --out runs/pretrain --steps 14000 --without $(CORPORA)
	$(BIN)/hardner train bundled --data.root $(CORPORA) --encoder.folder runs/pretrain/model
	$(BIN)/hardner train start --data.root $(CORPORA) --encoder.folder runs/pretrain/model
	$(BIN)/python experiments/pack.py runs/bundled runs/start $(CORPORA)

bench: $(TESTED)
	$(BIN)/python benchmarks/crf.py
	$(BIN)/python benchmarks/metatrain.py
	$(BIN)/python benchmarks/reading.py $(CORPORA)
	$(BIN)/python benchmarks/splitting.py $(CORPORA)
	$(BIN)/python benchmarks/tasks.py
	$(BIN)/python benchmarks/devel_loss.py
	$(BIN)/python benchmarks/adapt.py
	$(BIN)/python benchmarks/thresholds.py $(CORPORA)
	$(BIN)/python benchmarks/spacy_train.py $(CORPORA)
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/api.py
	$(BIN)/python benchmarks/review.py
	$(BIN)/python benchmarks/workbench_adapt.py
	$(BIN)/python benchmarks/tagging.py $(CORPORA) --model $(BUNDLED)
