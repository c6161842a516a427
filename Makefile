# Every target works from a fresh clone: it makes .venv first, once, from requirements.lock.
PYTHON ?= python3
RUN := .venv/bin/python
INSTALLED := .venv/.installed

.PHONY: help setup check test slow demo ablations bench figures clean
help: ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

setup: $(INSTALLED) ## make .venv and install the tested set of packages and maxk into it

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --requirement requirements.lock
	$(RUN) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(INSTALLED)

check: setup ## lint, format, types and layers
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pyright
	.venv/bin/lint-imports

test: check ## check, then the whole test suite but the slow ones
	$(RUN) -m pytest -m "not slow"

slow: setup ## the tests that take minutes
	$(RUN) -m pytest -m slow

demo: setup ## train bandits with every method and draw max@k before and after
	$(RUN) examples/bandit.py

ablations: setup ## take the methods apart on the bandit (minutes)
	$(RUN) examples/bandit_ablations.py

bench: setup ## time and memory of the estimators beside the matrix form
	$(RUN) benchmarks/estimators.py

figures: setup ## redraw the figures of the documentation
	$(RUN) examples/drift.py

clean: ## remove everything that was made
	rm -rf .venv out .pytest_cache .ruff_cache .hypothesis .import_linter_cache
