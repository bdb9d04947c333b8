# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What the site, packages and tables of others are tested with: more than `make demo` should wait for.
READY_ALL := $(VENV)/.ready-all
# One thread a worker: two workers with two threads each would fight over two cores. Who has done its
# share takes of the other's, which saves a sixth of the time.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# What `make test` leaves to `make test-all`.
LONG := thorough or slow or fault or browser or gpu

.PHONY: demo test quick gate test-all test-lowest test-engines docs bench bench-faults mutants mutants-all lint clean

demo: $(READY)
	$(BIN)/leakbound demo --out demo-run

# Types are read on one core while the tests begin on the other.
test: $(READY)
	$(MAKE) --jobs 2 lint quick

quick: $(READY)
	$(PYTEST) -m "not ($(LONG))"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Before a change lands: `make test`, and of the rest what has its turn, by the number of commits.
TURN = $(shell git rev-list --count HEAD)
gate: test $(READY_ALL)
	$(PYTEST) -rs --durations 20 -m "$(LONG)" --turn $(TURN)
	$(BIN)/python tests/mutants.py --turn $(TURN)

# Before a release.
test-all: test $(READY_ALL)
	$(PYTEST) -rs --durations 20 -m "$(LONG)"
	$(MAKE) mutants

# The lowest versions that pyproject.toml states, in an environment of their own.
test-lowest:
	PYTHON=$(PYTHON) sh tests/lowest.sh

# Engines over what they are made for, each in an environment of its own.
test-engines:
	PYTHON=$(PYTHON) sh tests/engines.sh

# A sample of the mutants of what guards numbers; all of them take hours, and go on where stopped.
mutants: $(READY)
	$(BIN)/python tests/mutants.py

mutants-all: $(READY)
	$(BIN)/python tests/mutants.py --all

# The site, in build/site: nothing in it is fetched from elsewhere, and it opens from the folder.
docs: $(READY_ALL) build/story.ipynb
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build/story.ipynb: docs/story.ipynb docs/execute.py $(READY_ALL)
	$(BIN)/python docs/execute.py docs/story.ipynb $@

bench: $(READY)
	@for script in $(filter-out bench/faults.py,$(wildcard bench/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Hours, and goes on where it was stopped; then it writes its tables into the page.
bench-faults: $(READY)
	-$(BIN)/python bench/faults.py
	$(BIN)/python bench/faults.py --write docs/reliability.md

# Pinned versions: torch in a build that runs anywhere, everything else as it was tested.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[models,dev,mutants]'
	@touch $(READY)

$(READY_ALL): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs,tools]'
	@touch $(READY_ALL)

clean:
	rm -rf $(VENV) .lowest .engines mutants demo-run build dist src/*.egg-info
