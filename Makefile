# Everything sets up what it needs: Python 3.11 or newer and make are enough.
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
PARITY := .venv-parity/.ready
BENCH  := .venv-bench/.ready
NEEDED := -r requirements.txt -r requirements-beyond.txt
AXE    := node_modules/axe-core/axe.min.js
NBVAL  := --nbval --nbval-current-env --nbval-sanitize-with=tests/sanitize.cfg --nbval-cell-timeout=900
PROSE  := *.md *.toml _config.yml Makefile book npt_lib tests tools benchmarks examples _ext _static
NB     ?=
ARGS   ?=

.DEFAULT_GOAL := help

## To read and run
help:           ## this list
	@awk '/^## /{printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.*## /{split($$0, p, ":.*## "); printf "  make %-13s %s\n", p[1], p[2]}' Makefile
book: $(READY)  ## build the pages: _build/html/index.html
	@rm -rf _build/html
	$(BIN)/jupyter-book build . --all -W --keep-going -n -q
	@echo "open _build/html/index.html"
pdf: book       ## the whole book as one PDF, linked from its landing page; needs Chromium
	$(BIN)/python tools/pdf.py
serve: book     ## build the pages and serve them at http://localhost:8000
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory _build/html
lab: $(READY)   ## open the notebooks in JupyterLab, at the contents page
	$(BIN)/python tools/lab.py

## To check
test: lint $(READY)  ## everything that a change may break: lint, types, unit tests, every notebook
	$(BIN)/python -m pytest -n 2 --dist=loadfile $(NBVAL) $(ARGS) tests $(wildcard book/*.ipynb book/*/*.ipynb)
lint: $(READY)  ## notebooks in normal form, ruff, mypy, spelling
	$(BIN)/python tools/nb.py check
	$(BIN)/ruff check -q .
	$(BIN)/codespell $(PROSE)
	$(BIN)/mypy
test-long: $(READY)  ## the tests that take long: 20,000 odd inputs, tasks learned
	$(BIN)/python -m pytest -n 2 -m long tests
test-pages: $(READY) _build/html/index.html $(AXE)  ## the built pages in a real browser, with no network
	$(BIN)/python -m pytest -m pages -n 2 tests/pages
test-lab: $(READY)  ## the notebooks in JupyterLab, in a real browser: links, folds, the contents page
	$(BIN)/python -m pytest -m lab tests/lab
test-parity: $(PARITY)  ## beside PyTorch, in an environment of its own
	.venv-parity/bin/python -m pytest tests/parity

## To measure
bench: $(BENCH)  ## npt_lib beside PyTorch and JAX on this machine: _build/bench (15 to 30 minutes)
	.venv-bench/bin/python -m benchmarks --kernel Haswell $(ARGS)

## To change
execute: $(READY)  ## run the notebooks and store their outputs (NB=book/02_attention.ipynb for one)
	$(BIN)/python tools/nb.py run $(NB)
	@if [ -z "$(NB)" ]; then $(MAKE) --no-print-directory drawn; fi
drawn: $(READY)  ## pictures, titles, questions and reference, made anew from what is there
	@for tool in pictures titles questions reference; do $(BIN)/python tools/$$tool.py || exit 1; done
clean:          ## remove what was built, environments included
	rm -rf _build node_modules .venv .venv-parity .venv-bench

_build/html/index.html:
	$(MAKE) book
$(READY): requirements.txt requirements-beyond.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required")'
	@# uv, where it is installed, takes a sixth of the time; whatever it cannot do, pip does
	@(uv --version && uv venv --seed --allow-existing -p $(PYTHON) .venv && \
	  uv pip install -p $(BIN)/python $(NEEDED)) >/dev/null 2>&1 || \
	($(PYTHON) -m venv .venv && $(BIN)/python -m pip install -q --disable-pip-version-check $(NEEDED))
	@touch $@
$(PARITY): requirements-parity.txt
	$(PYTHON) -m venv .venv-parity
	.venv-parity/bin/python -m pip install -q --disable-pip-version-check -r requirements-parity.txt
	@touch $@
$(BENCH): requirements-bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -q --disable-pip-version-check -r requirements-bench.txt
	@touch $@
$(AXE): package.json
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund || npm install --silent --no-audit --no-fund; \
	else echo "npm is not there: the accessibility check is skipped"; fi

.PHONY: help book pdf serve lab test lint test-long test-pages test-lab test-parity bench execute drawn clean
