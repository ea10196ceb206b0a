# Everything from a bare clone: python3 with venv, g++ and make; nvcc for the CUDA kernels.
#
#   make bench      set up, build, run the benchmark
#   make test       set up, build, lint, pytest, ctest
#   make test-fast  build, then what most changes can break, on the CPU: two minutes on two cores
#   make build      set up and build the library in place (ops/tiled_mm), incrementally
#   make bench-cpp  a short benchmark through C++ alone
#   make tables     the pages' tables and plots anew, from bench/results
#   make lint       the formatters, ruff, the include directions, the rule of one definition and
#                   the retired words, without changing a file
#   make format     let the formatters change files
#   make newest     the newest torch in an environment of its own (.venv-newest, build-newest):
#                   build, then the CPU tests
#   make wheels     wheels for the pinned and the newest torch, for CPUs and for CUDA, and their
#                   index, in dist; WHEELS="cpu newest-cpu" for some of them
#   make clean      remove what was built; .venv stays
#
# cmake/cuda_rule.cmake says when CUDA kernels are built, and what FORCE_CUDA and
# TORCH_CUDA_ARCH_LIST do. BENCH= and PYTEST= hand arguments on to the two programs.

PYTHON ?= python3
# In quotes for the shell, since the path of the clone may have spaces.
VENV := .venv
BIN := "$(CURDIR)/$(VENV)/bin"
NEWEST := .venv-newest
NEWEST_BIN := "$(CURDIR)/$(NEWEST)/bin"
PACKAGE := ops/tiled_mm
BUILT := $(addprefix $(PACKAGE)/,lib include share _build_info.py)

PYTHON_FILES := setup.py wheel_index.py ops bench examples python_tests
CXX_FILES = $(shell find ops bench cpp_tests examples -path ops/tiled_mm -prune -o \
  -name '*.h' -print -o -name '*.cuh' -print -o -name '*.inc' -print -o -name '*.cpp' -print -o \
  -name '*.cu' -print)
# Files of tests run side by side, as many as there are cores; on a GPU, which they would share, in turn.
BESIDE := -n auto --dist loadfile
# Each may be cpu or cuda, for the pinned torch, or with newest- before it.
WHEELS := cpu cuda newest-cpu newest-cuda
# Configures build folder $(1) for the Python in $(2), with further options $(3).
configure = $(2)/cmake -S . -B $(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(2)/ninja \
  -DPython3_EXECUTABLE=$(2)/python $(3)

.PHONY: help bench bench-cpp tables test test-fast build lint format newest wheels clean
help:
	@sed -n '3,20s/^# \{0,1\}//p' Makefile

bench: build
	$(BIN)/python -m bench $(BENCH)

bench-cpp: $(VENV)/.requirements
	$(call configure,build,$(BIN),-DTILED_MM_BENCH=ON)
	$(BIN)/cmake --build build --target bench_cpp
	build/bench/cpp/bench_cpp $(BENCH)

tables: $(VENV)/.requirements
	$(BIN)/python -m bench report
	$(BIN)/python -m bench plot

test: lint build
	$(BIN)/python -m pytest $(BESIDE) $(PYTEST)
	$(call configure,build,$(BIN),-DTILED_MM_TESTS=ON)
	$(BIN)/cmake --build build
	$(BIN)/ctest --test-dir build --output-on-failure

# The gates, the contract, refusals, plans, the pages, and the schema of results.
FAST := gates bits strides errors out plain explain generations definitions includes docs words \
  $(patsubst python_tests/test_%.py,%,$(wildcard python_tests/test_plan_*.py))
test-fast: build
	$(BIN)/python -m pytest $(BESIDE) -m "not cuda" $(FAST:%=python_tests/test_%.py) \
	  python_tests/test_bench.py::test_the_pages_are_current \
	  python_tests/test_bench.py::test_committed_results_are_valid $(PYTEST)

build: $(VENV)/.requirements
	$(call configure,build,$(BIN))
	$(BIN)/cmake --build build --target tiled_mm
	$(BIN)/cmake --install build --prefix $(PACKAGE)
	$(BIN)/cmake --install build --prefix $(PACKAGE) --component python
	$(MAKE) --no-print-directory $(VENV)/.installed

# The packages. Touched last, so that an interrupted installation is begun again.
$(VENV)/.requirements: requirements.txt requirements-tools.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade -r requirements.txt
	touch $@

# The editable installation: once, since it only points to ops/tiled_mm.
$(VENV)/.installed: setup.py pyproject.toml $(VENV)/.requirements
	$(BIN)/python -m pip install --no-build-isolation --no-deps -e .
	touch $@

lint: $(VENV)/.requirements
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/python python_tests/includes.py
	$(BIN)/python python_tests/definitions.py
	$(BIN)/python python_tests/words.py
	@echo clang-format --dry-run ...
	@$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

format: $(VENV)/.requirements
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/clang-format -i $(CXX_FILES)

# The environment of the newest torch.
define set_up_newest
	test -x $(NEWEST_BIN)/python || $(PYTHON) -m venv $(NEWEST)
	$(NEWEST_BIN)/python -m pip install --upgrade torch -r requirements-tools.txt
endef

newest: export TILED_MM_BUILD_DIR := $(CURDIR)/build-newest
newest: export CUDA_VISIBLE_DEVICES :=
newest:
	$(set_up_newest)
	$(call configure,build-newest,$(NEWEST_BIN),-DTILED_MM_TESTS=ON)
	$(NEWEST_BIN)/cmake --build build-newest
	$(NEWEST_BIN)/python -m pip install --no-build-isolation --no-deps --force-reinstall .
	$(NEWEST_BIN)/python -m pytest $(BESIDE) $(PYTEST)
	$(NEWEST_BIN)/ctest --test-dir build-newest --output-on-failure

# One after the other, since pip copies the package to one folder for all of them.
wheels: export TILED_MM_LOCAL_VERSION := 1
wheels: $(VENV)/.requirements
	$(if $(filter newest-%,$(WHEELS)),$(set_up_newest))
	set -e; for wheel in $(WHEELS); do \
	  case $$wheel in newest-*) bin=$(NEWEST_BIN) ;; *) bin=$(BIN) ;; esac; \
	  case $$wheel in cpu|newest-cpu) cuda=0 ;; cuda|newest-cuda) cuda=1 ;; \
	    *) echo "WHEELS has no $$wheel: cpu, cuda, newest-cpu or newest-cuda" >&2; exit 2 ;; esac; \
	  FORCE_CUDA=$$cuda TILED_MM_BUILD_DIR="$(CURDIR)/build-wheel-$$wheel" "$$bin/python" -m pip \
	    wheel --no-build-isolation --no-deps --wheel-dir dist/tiled-mm .; \
	done
	$(BIN)/python wheel_index.py dist

clean:
	rm -rf build build-newest build-bench build-wheel-* dist *.egg-info $(BUILT) $(VENV)/.installed
