# Every target works in .venv, which it makes itself; nothing but packages is downloaded.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
DEMO_DIR ?= var/demo
SCALE_DIR ?= var/demo-scale
RUN_DIR ?= var/data
PORT ?= 8000
SEED ?= 1
SECONDS ?= 60
# What docs/settings.md lists.
DECLARED := reprise.environment executor.environment
# Two at a time, each with its output in one piece.
BESIDE := $(MAKE) --no-print-directory --jobs 2 --output-sync
# The slow tests wait for processes, and four of them at a time left a third of two cores idle.
TESTFLAGS ?= --numprocesses 5 --dist loadgroup
# Tests that hold seconds run by themselves: beside others they would measure the others.
TIMED = $$(grep -rl --include='*.py' 'mark[.]timed' tests)
# Tests start hundreds of processes: where this is set, each compiles every module of ours anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo demo-scale run backup restore test lint style types imports check-generated collected schema dist bench faults mutants recipe fuzz ci clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info[:2] != (3, 11))" || { echo "Python 3.11 is needed; name it with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml client/pyproject.toml client/VERSION | $(BIN)/python
	@echo "Installing Reprise into $(VENV) ..."
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e client -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV) ..."
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/.runtime ## install into .venv what is needed to run

install-dev: $(VENV)/.dev ## install what is needed to develop and test, too

demo: install ## start everything, run a flaky session to success, leave the server up
	@$(BIN)/python manage.py demo --data-dir $(DEMO_DIR) --port $(PORT)

demo-scale: install ## send 20,000 sessions and a storm through 50 queues, watch it live (SEED=, DEMOFLAGS=)
	@$(BIN)/python manage.py demo_scale --data-dir $(SCALE_DIR) --port $(PORT) --seed $(SEED) $(DEMOFLAGS)

run: install ## start the standalone server (RUN_DIR=, PORT=)
	@$(BIN)/python manage.py standalone --data-dir $(RUN_DIR) --port $(PORT)

backup: install ## write a backup of the standalone server, which may run (RUN_DIR=, FILE=)
	@$(BIN)/python manage.py backup --data-dir $(RUN_DIR) "$(or $(FILE),reprise-$(shell date +%Y%m%d-%H%M%S).backup)"

restore: install ## bring the standalone server back from a backup (RUN_DIR=, FILE=, FORCE=1)
	@$(if $(FILE),,echo "name the backup: make restore FILE=..."; exit 1)
	@$(BIN)/python manage.py restore --data-dir $(RUN_DIR) "$(FILE)" $(if $(FORCE),--force)

test: install-dev ## run every test that this machine can run
	@$(BIN)/python -m pytest $(TESTFLAGS) -m 'not timed'; beside=$$?; \
	$(BIN)/python -m pytest -m timed $(TIMED) && exit $$beside

lint: install-dev ## style, types, import contracts, migrations, schema snapshot
	@$(BESIDE) style types imports check-generated

style: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install-dev
	$(BIN)/mypy

imports: install-dev
	$(BIN)/lint-imports

check-generated: install-dev
	DATABASE_URL=none $(BIN)/python -W error manage.py check --fail-level WARNING
	DATABASE_URL=none $(BIN)/python manage.py makemigrations --check --dry-run
	@mkdir -p var
	DATABASE_URL=none $(BIN)/python manage.py spectacular --validate --fail-on-warn --file var/openapi.yaml
	diff -u docs/openapi.yaml var/openapi.yaml || { echo "The API changed: run 'make schema' and commit docs/openapi.yaml"; exit 1; }
	DATABASE_URL=none $(BIN)/python manage.py graphql_schema --file var/schema.graphql
	diff -u docs/schema.graphql var/schema.graphql || { echo "The API changed: run 'make schema' and commit docs/schema.graphql"; exit 1; }
	DATABASE_URL=none $(BIN)/python -m base.variables $(DECLARED) > var/settings.md
	diff -u docs/settings.md var/settings.md || { echo "The settings changed: run 'make schema' and commit docs/settings.md"; exit 1; }
	$(BIN)/python tools/client_models.py > var/models.py
	diff -u client/reprise_client/models.py var/models.py || { echo "The SDK's models changed: run 'make schema' and commit client/reprise_client/models.py"; exit 1; }
	$(BIN)/python tools/write_tables.py --check

schema: install-dev ## write the OpenAPI and GraphQL schemas, the list of settings and the SDK's models again
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml
	$(BIN)/python manage.py graphql_schema --file docs/schema.graphql
	$(BIN)/python -m base.variables $(DECLARED) > docs/settings.md
	@mkdir -p var
	$(BIN)/python tools/client_models.py > var/models.py
	cp var/models.py client/reprise_client/models.py
	$(BIN)/python tools/write_tables.py

dist: install-dev ## build the wheels and source archives of server and client into dist/
	@rm -rf dist
	@$(BIN)/python tools/dist.py dist

bench: install-dev ## run the benchmarks in their quick form
	$(BIN)/python -m benchmarks.settle --quick
	$(BIN)/python -m benchmarks.settle --everything --quick
	$(BIN)/python -m benchmarks.end_to_end --quick
	$(BIN)/python -m benchmarks.budget --quick
	$(BIN)/python -m benchmarks.idle --quick
	$(BIN)/python -m benchmarks.decide --quick
	$(BIN)/python -m benchmarks.lease_round --quick
	$(BIN)/python -m benchmarks.dependants --quick
	$(BIN)/python -m benchmarks.fair_share --quick
	$(BIN)/python -m benchmarks.preemption --quick
	$(BIN)/python -m benchmarks.bad_nodes --quick
	$(BIN)/python -m benchmarks.api --quick
	$(BIN)/python -m benchmarks.failures --quick
	$(BIN)/python -m benchmarks.pages --quick
	$(BIN)/python -m benchmarks.event_stream --quick
	$(BIN)/python -m benchmarks.kubernetes --quick

faults: install-dev ## run load and faults by a seed, then check every invariant (SEED=, SECONDS=, POSTGRESQL=)
	@$(BIN)/python -m tests.faults --seed $(SEED) --seconds $(SECONDS) $(addprefix --postgresql ,$(POSTGRESQL))

mutants: SECONDS = 30
mutants: install-dev ## plant known bugs, one at a time: tests and the judge of faults have to find each (ONLY=, SEED=, SECONDS=)
	@$(BIN)/python -m tests.mutants --only '$(ONLY)' --seed $(SEED) --seconds $(SECONDS)

recipe: install-dev ## follow the first recipe of CONTRIBUTING.md in a copy of the tree
	@$(BIN)/python -m tests.recipes.field

fuzz: install-dev ## fuzz REST and GraphQL from their documents, with every check on (SEED=, SECONDS=, ONLY=)
	@FUZZ_SEED=$(SEED) FUZZ_SECONDS=$(SECONDS) FUZZ_ONLY=$(ONLY) $(BIN)/python -m pytest tests/fuzz -p no:xdist -p no:cacheprovider

# Compiles all tests beside mypy; later each worker would do so by itself.
collected: install-dev
	@mkdir -p var
	@$(BIN)/python -m pytest --collect-only -q > var/collected || { cat var/collected; exit 1; }

ci: install-dev ## all that CI runs
	@$(BESIDE) style types imports check-generated collected
	@$(MAKE) --no-print-directory test

clean: ## remove the virtual environment and all data of demo and run
	rm -rf $(VENV) var
