# The few verbs. Each works on a fresh clone with nothing but python3 (3.11 or newer) and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo export check test test-slow docs lab blank bench hooks lock clean
help:
	@echo "make demo   train a small Transformer on the built-in corpus, score it, translate (some minutes)"
	@echo "make export write package, exercises and README.md from the notebooks, after an edit"
	@echo "make check NB=01_attention  after an edit of that notebook, in half a minute: export, run it, style, export in step"
	@echo "make test   run every test: export in step, style, types, notebooks, pytest"
	@echo "make docs   build the site into _docs/"
	@echo "make lab    open the lessons in JupyterLab"
	@echo "make blank  write blank/, the course with stubs to fill in: your code trains and translates"
	@echo "make bench  measure speed against other libraries"

# constraints.txt pins what is installed, and what builds it: older versions of pip read the first name for both.
LOCK := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
# Nothing is compiled ahead: Python does it for what is imported, once. Where the environment forbids it to keep that,
# each of the hundreds of processes that tests start would compile torch anew, for two seconds.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(LOCK) $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile

# Everything lives in .venv, in two stages: what the library needs, and with it all that notebooks, tests and the site
# need. Each has a stamp, which is renewed when the dependencies change.
.venv/library: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/ready: .venv/library
	$(PIP) 'pip>=25.1'  # older ones, such as Python 3.11 brings, know no --group
	$(PIP) -e '.[interop]' --group dev
	touch $@

OUT ?= runs/demo
demo: .venv/library
	$(BIN)/tnb-demo --out $(OUT)

export: .venv/ready
	$(BIN)/nbdev-export
	$(BIN)/python tools/build_exercises.py
	$(BIN)/python tools/build_glossary.py
	$(BIN)/python tools/build_readme.py

# One notebook, after an edit: NB=01_attention, NB=data/03_shards
check: export
	OMP_NUM_THREADS=1 $(BIN)/nbdev-test nbs/$(NB).ipynb --n-workers 0
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/test_export.py tests/test_style.py

# Export in step, every notebook as nbdev-test runs it, and what crosses them: all by pytest, so that both of two workers
# are busy to the end. Every process has one thread: threads that wait for each other are slow where cores are busy.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: .venv/ready
	$(PYTEST)

test-slow: .venv/ready
	$(PYTEST) --slow

docs: .venv/ready
	$(BIN)/python tools/build_languages.py
	$(BIN)/python tools/build_docs.py

lab: .venv/ready
	$(BIN)/python tools/build_languages.py
	$(BIN)/jupyter lab nbs

BLANK ?= blank
blank: .venv/ready
	$(BIN)/python tools/build_blank.py $(BLANK)

bench: .venv/library
	$(BIN)/python -c 'import transformers, ctranslate2' 2>/dev/null || \
	  { $(PIP) 'pip>=25.1' && $(PIP) -e . --group bench; }
	$(BIN)/python benchmarks/train_speed.py $(ARGS)

hooks: .venv/ready
	$(BIN)/nbdev-install-hooks

# Pins of every distribution, for all extras, groups, systems and versions of Python; uv is no part of .venv: pip install uv.
# ARGS=--upgrade renews them all, ARGS='-P ruff' one; without it what is pinned stays. What torch brings for GPUs is
# left out: torch pins it itself, and another build of torch brings another.
lock:
	uv pip compile -q --universal --python-version 3.11 --all-extras --group dev --group bench --group ci --no-annotate \
	  --custom-compile-command 'make lock' $(ARGS) pyproject.toml -o constraints.txt
	grep -Ev '^(cuda|nvidia|triton)' constraints.txt > constraints.tmp && mv constraints.tmp constraints.txt

clean:
	rm -rf .venv _docs _proc _site_src build dist *.egg-info
