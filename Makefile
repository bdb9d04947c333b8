# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Three sets of packages: for the demo, for the quick tests, for everything else.
READY := $(VENV)/.ready
READY_TEST := $(VENV)/.ready-test
READY_ALL := $(VENV)/.ready-all
# Some machines disable bytecode; then each process compiles torch and transformers for 13 seconds.
unexport PYTHONDONTWRITEBYTECODE
# One thread per worker: two workers with two threads each would compete for two cores. A worker that
# has finished takes tests from the other one, which saves a sixth of the time.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# The tests that `make test` leaves to `make test-all`.
LONG := thorough or slow or fault or browser or gpu

.PHONY: demo test quick gate test-all test-lowest test-engines docs bench bench-faults mutants mutants-all lint clean

demo: $(READY)
	$(BIN)/leakbound demo --out demo-run

# mypy runs on one core while the tests begin on the other.
test: $(READY_TEST)
	$(MAKE) --jobs 2 lint quick

quick: $(READY_TEST)
	$(PYTEST) -m "not ($(LONG))"

lint: $(READY_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Before a merge: `make test`, and the fifth of the other tests that the number of commits selects.
TURN = $(shell git rev-list --count HEAD)
gate: test $(READY_ALL)
	$(PYTEST) -rs --durations 20 -m "$(LONG)" --turn $(TURN)
	$(BIN)/python tests/mutants.py --turn $(TURN)

# Before a release.
test-all: test $(READY_ALL)
	$(PYTEST) -rs --durations 20 -m "$(LONG)"
	$(MAKE) mutants

# The lowest versions that pyproject.toml allows, in a separate environment.
test-lowest:
	PYTHON=$(PYTHON) sh tests/lowest.sh

# Each engine with its library, in a separate environment.
test-engines:
	PYTHON=$(PYTHON) sh tests/engines.sh

# A sample of the mutants of code that computes numbers; all mutants take hours, and resume.
mutants: $(READY_ALL)
	$(BIN)/python tests/mutants.py

mutants-all: $(READY_ALL)
	$(BIN)/python tests/mutants.py --all

# The site, in build/site. It loads nothing from the network and opens as local files.
docs: $(READY_ALL) build/story.ipynb
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build/story.ipynb: docs/story.ipynb docs/execute.py $(READY_ALL)
	$(BIN)/python docs/execute.py docs/story.ipynb $@

# All measurements except those of the GPU and of faults.
COVERAGE := bounds shipped verdicts until independence servers
SPEED := rouge bounds runs rare training engines
bench: $(READY_TEST)
	@for kind in $(COVERAGE); do $(BIN)/python bench/coverage.py $$kind || exit 1; done
	@for kind in $(SPEED); do $(BIN)/python bench/speed.py $$kind || exit 1; done

# Takes hours, and resumes; then it writes its tables into the page.
bench-faults: $(READY_TEST)
	-$(BIN)/python bench/faults.py
	$(BIN)/python bench/faults.py --write docs/reproduce/reliability.md

# Pinned versions: a torch build that runs anywhere, and the tested versions of the rest. Python compiles
# a module when it is first imported; compiling all of them here takes half of the installation.
PIP = $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[models,figures]'
	@touch $(READY)

$(READY_TEST): $(READY)
	$(PIP) --editable '.[dev]'
	@touch $(READY_TEST)

$(READY_ALL): $(READY_TEST)
	$(PIP) --editable '.[docs,mutants,tools]'
	@touch $(READY_ALL)

clean:
	rm -rf $(VENV) .lowest .engines mutants demo-run build dist src/*.egg-info
