# The short way to the usual jobs. Everything real is in CMakePresets.json and tools/.
#   make SETUP=true TARGET   leaves the system's packages alone
#   make JOBS=4 TARGET       fewer parallel jobs than processors
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
SETUP ?= tools/setup.sh
CTEST_FLAGS ?=
BENCH_FLAGS ?=

.DEFAULT_GOAL := build
.PHONY: build demo demo-moe test bench test-sanitize test-cuda-build format tidy clean

build:
	@$(SETUP) build
	@cmake --preset release --log-level=NOTICE
	@cmake --build --preset release --parallel $(JOBS) --target minite_cli

demo demo-moe: build
	@tools/demo.sh $@

test:
	@$(SETUP) build
	@tools/test.sh release $(JOBS) $(CTEST_FLAGS)

test-sanitize:
	@$(SETUP) build
	@tools/test.sh sanitize $(JOBS) $(CTEST_FLAGS)

test-cuda-build:
	@$(SETUP) build
	@tools/test.sh cuda $(JOBS) -L gpu $(CTEST_FLAGS)

bench:
	@$(SETUP) bench
	@cmake --preset bench --log-level=NOTICE
	@cmake --build --preset bench --parallel $(JOBS) --target bench_kernels
	@build/bench/bench/bench_kernels $(BENCH_FLAGS)

format:
	@$(SETUP) lint
	@tools/format.sh

tidy:
	@$(SETUP) lint
	@tools/tidy.sh $(JOBS)

clean:
	rm -rf build
