# Every target sets up what it needs by itself; the work is in tools/.

.PHONY: build test test-fast test-long test-arm lint demo report report-full bench clean help

build: ## fetch and build what is missing, then Kvasir into build/
	@tools/build.sh release

test: ## build, lint of what changed, fast tests, fast tests with sanitizers, kernels and formats on AArch64, slow tests
	@tools/test.sh all

test-fast: ## build, then the fast tests alone
	@tools/test.sh fast

test-long: ## every test, with the thread sanitizer and the long ones too
	@tools/test.sh long

test-arm: ## the libraries for AArch64, cross-compiled, and their fast tests in QEMU
	@tools/arm.sh

lint: ## clang-format and clang-tidy on all files
	@tools/lint.sh --all

demo: build ## what Kvasir does, on the default model
	@tools/demo.sh

report: build ## the evaluation of the default model: the main table, docs/results.md and one page (within an hour)
	@tools/report.sh

report-full: build ## the same with sweeps, formats alone, RULER, the agent and a second model (many hours; goes on where it stopped)
	@tools/report.sh full

bench: build ## the micro-benchmarks, one JSON line a case
	@tools/bench.sh

clean: ## remove the build folders; what was fetched stays
	rm -rf build build-asan build-tsan build-dev build-aarch64

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile
