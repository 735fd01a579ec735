# The few verbs. Each works on a fresh clone with nothing but python3 (3.11 or newer) and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo export test test-slow docs lab blank bench hooks clean
help:
	@echo "make demo   train a small Transformer on the built-in corpus, score it, translate (some minutes)"
	@echo "make export write package, stubs, exercises and README.md from the notebooks, after an edit"
	@echo "make test   run every test: export in step, style, types, notebooks, pytest"
	@echo "make docs   build the site into _docs/"
	@echo "make lab    open the lessons in JupyterLab"
	@echo "make blank  write blank/, the course with stubs to fill in: your code trains and translates"
	@echo "make bench  measure speed against other libraries"

INSTALL := $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e

# Everything lives in .venv; the stamp is renewed when the dependencies change.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[dev]'
	touch $@

OUT ?= runs/demo
demo: .venv/ready
	$(BIN)/tnb-demo --out $(OUT)

export: .venv/ready
	$(BIN)/python tools/build_colab.py
	$(BIN)/nbdev-export
	$(BIN)/python tools/build_exercises.py
	$(BIN)/python tools/build_languages.py
	$(BIN)/python tools/build_stubs.py
	$(BIN)/python tools/build_readme.py

# Export in step, every notebook as nbdev-test runs it, and what crosses them: all by pytest, so that both of two workers
# are busy to the end. Every process has one thread: threads that wait for each other are slow where cores are busy.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: .venv/ready
	$(PYTEST)

test-slow: .venv/ready
	$(PYTEST) --slow

docs: .venv/ready
	$(BIN)/python tools/build_docs.py

lab: .venv/ready
	$(BIN)/jupyter lab nbs

BLANK ?= blank
blank: .venv/ready
	$(BIN)/python tools/build_blank.py $(BLANK)

bench: .venv/ready
	$(BIN)/python -c 'import transformers' 2>/dev/null || $(INSTALL) '.[bench]'
	$(BIN)/python benchmarks/train_speed.py $(ARGS)

hooks: .venv/ready
	$(BIN)/nbdev-install-hooks

clean:
	rm -rf .venv _docs _proc _site_src build dist *.egg-info
