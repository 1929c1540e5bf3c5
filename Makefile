# Two commands: `make demo` and `make test`. Both set up a local .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test lint types unit oracles results docs lock wheel-test clean help

help:
	@echo "make demo   install into .venv, reconstruct a real head slice, write out/demo/"
	@echo "make test   install the dev extra into .venv; lint, types and all tests"
	@echo "make results  evaluate the methods and shipped models on DATA, write docs/results.md (half an hour)"
	@echo "make docs   draw every study of the shipped models for docs/studies.md, from DATA (minutes)"
	@echo "make wheel-test  build the wheel, install it alone, list its models and reconstruct with them"
	@echo "make oracles  install BART, the ISMRMRD tools, Chromium and DICOM's tools (Debian, needs root) for more tests"

demo: $(VENV)/.core
	$(BIN)/bayesmri demo -o out/demo --force

test: $(VENV)/.dev $(if $(CI),oracles)
	@$(MAKE) --no-print-directory lint types unit

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

unit:
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $${PYTEST_WORKERS:-2}

# the paper's table with our numbers; coils, noise and masks are the same for every method. METHODS on all slices at μ, then
# every method on the middle slices, then the mean of SAMPLES samples there. The REUSE… name results of parts that were
# evaluated before. `make results METHODS=all` judges every method by all slices and takes an hour
DATA ?= ../shared/data/val
METHODS ?= zero-filled,tv,tdv
SAMPLES ?= 16
REUSE ?=
REUSE_MIDDLE ?=
REUSE_SAMPLES ?=
EVALUATE := $(BIN)/bayesmri evaluate --force --data $(DATA) --track single multi --acceleration 4 8
results: $(VENV)/.dev
	$(EVALUATE) --methods $(METHODS) $(if $(REUSE),--reuse $(REUSE)) -o out/results.json
	$(EVALUATE) --methods all --slices 1 $(if $(REUSE_MIDDLE),--reuse $(REUSE_MIDDLE)) -o out/results-middle.json
	$(EVALUATE) --methods tdv --samples $(SAMPLES) --slices 1 \
	  $(if $(REUSE_SAMPLES),--reuse $(REUSE_SAMPLES)) -o out/results-samples.json
	{ cat out/results.md; echo; sed -e '1s/.*/# Every method/' -e 's/^#/##/' out/results-middle.md; echo; \
	  sed -e '1s/.*/# The mean of samples/' -e 's/^#/##/' out/results-samples.md; } >docs/results.md

# figures, numbers and tables of docs/studies.md; STUDIES names a few of them instead of all
docs: $(VENV)/.core
	$(BIN)/python scripts/docs.py --data $(DATA) $(STUDIES)

# versions and checksums of all that the tests were run with; the file itself says how to install them
lock: $(VENV)/.made
	$(PIP) install --dry-run --ignore-installed --report - -e ".[dev]" | $(BIN)/python scripts/lock.py >requirements-dev.lock.new
	mv requirements-dev.lock.new requirements-dev.lock

wheel-test: $(VENV)/.dev
	$(BIN)/pytest -q --run-slow tests/test_wheel.py

# third-party programs that tests compare with; without them those tests are skipped and say so. A mirror that stalls is
# given up in time. Only downloads are cut short: a package half installed would be a program that fails
APT := env DEBIAN_FRONTEND=noninteractive apt-get -y -qq \
  -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=60
fetch = { timeout -k 9 90 $(APT) update && timeout -k 9 180 $(APT) install --download-only $(1) \
  && timeout -k 9 900 $(APT) install $(1); } </dev/null >/dev/null 2>&1
DICOMWEB := /usr/share/orthanc/plugins/libOrthancDicomWeb.so
oracles:
	@{ command -v bart && command -v ismrmrd_generate_cartesian_shepp_logan; } >/dev/null \
	  || $(call fetch,bart ismrmrd-tools) \
	  || echo "BART and the ISMRMRD tools could not be installed: their tests will be skipped"
	@{ command -v sbatch && { command -v munged || test -x /usr/sbin/munged; }; } >/dev/null \
	  || $(call fetch,slurm-wlm munge) \
	  || echo "Slurm could not be installed: the test of batch scripts on it will be skipped"
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
	  || $(call fetch,chromium) \
	  || echo "Chromium could not be installed: the tests of report pages in a browser will be skipped"
	@{ command -v dciodvfy && command -v dcm2niix; } >/dev/null \
	  || $(call fetch,dicom3tools dcm2niix) \
	  || echo "dicom3tools and dcm2niix could not be installed: the tests that validate DICOM will be skipped"
	@{ command -v Orthanc || test -x /usr/sbin/Orthanc; } >/dev/null && test -e $(DICOMWEB) \
	  || $(call fetch,orthanc orthanc-dicomweb) \
	  || echo "Orthanc could not be installed: the tests with a real archive will be skipped"

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bayesmri needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: pyproject.toml | $(VENV)/.made
	$(PIP) install -e .
	@touch $@

# fastMRI is a test oracle: without its dependencies, which would replace torch
$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	$(PIP) install -e ".[dev]"
	$(PIP) install --no-deps fastmri==0.3.0 || echo "fastMRI could not be installed: its tests will be skipped"
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache
