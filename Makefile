# `make demo` and `make test` do everything on a fresh machine that has git, make and Rust.
CARGO ?= cargo
TRAPLESS = target/release/trapless
PREFIX ?= /usr/local
# Our machine against itself with other engines.
ENGINES = --subject trapless:$(TRAPLESS) --against interp:$(TRAPLESS),both:$(TRAPLESS)
# Programs of Debian's next release that do not run on this one, unpacked in the cache.
TOOLS = $(CARGO) run --release --locked -q -p trapless-images --example tools --

.PHONY: help demo check test test-long bench setup test-setup package-setup build lint fuzz spec book \
    python install package rtl-setup rtl-test rtl-prove rtl-report

help:
	@echo 'make demo   build, fetch Debian packages, make images, compare interrupts on sbi, sstc, aia and trapless'
	@echo 'make test   unit tests, differential ISA tests, system tests on real kernels'
	@echo 'make check  what a change is tried with first: a few of the static checks, unit tests, ten system tests'
	@echo 'make lint   the static checks alone; GATES="prose clippy" for some (scripts/lint --list)'
	@echo 'make test-long  the same and what takes hours: a million interrupts of each class, thousands of programs'
	@echo 'make bench  speed and memory beside QEMU and the machine itself (BENCH="--runs 5 --only boot"), and of the bare engines'
	@echo 'make install  the program, manual pages, completions and data under PREFIX=$(PREFIX)'
	@echo 'make package  what users without Rust get, as a release has it: out/package'
	@echo 'make python  the Python package as a wheel in out/wheels (docs/python.md)'
	@echo 'make spec   the specifications as HTML: out/spec/xtrapless.html, haiov.html'
	@echo 'make book   all pages and the specification as one book: out/book/index.html'
	@echo 'make rtl-test  the circuits of rtl/ in lock-step with the models'
	@echo 'make rtl-prove  properties of the circuit, by induction'
	@echo 'make rtl-report  what the circuits cost: out/rtl-report/index.html'
	@echo 'make fuzz   each fuzz target for SECONDS=60'

setup:
	@scripts/space 4
	@scripts/install

test-setup:
	@scripts/space 14
	@scripts/install packages packages-test packages-package

build: setup
	$(CARGO) build --release --locked -p trapless-cli

demo: setup
	@scripts/demo
	$(TRAPLESS) compare --machines sbi,sstc,aia,trapless --workload mixed

# System tests that start no run of all workloads.
check: test-setup build
	scripts/lint format prose spelling clippy
	$(CARGO) test --release --locked --lib --bins
	$(CARGO) test --release --locked -p trapless-cli --test system -- own:: uer:: dedicated:: aia:: gdb::functions

lint: test-setup
	@scripts/install packages-aarch64
	scripts/lint $(GATES)

# What `make test` runs side by side, as many parts as there are processors, and all of them even if
# one fails. The first is the longest. Images that most of them need are made before.
PARTS = test-rust test-sweep test-wheel test-package test-vmm test-qemu test-spike test-engines \
    test-litmus
.PHONY: $(PARTS)

# Parts run make and cargo themselves, which must not look for our jobs.
ifneq ($(filter $(PARTS),$(MAKECMDGOALS)),)
unexport MAKEFLAGS MFLAGS
endif

test: test-setup build
	$(CARGO) build --release --locked
	$(CARGO) test --release --locked --no-run
	$(TOOLS) image kernel opensbi host
	@$(MAKE) --no-print-directory --keep-going -j$$(nproc) $(PARTS)

# Tests that wait for runs which others make leave a processor free: twice as many at a time.
test-rust:
	RUST_TEST_THREADS=$$((2 * $$(nproc))) $(CARGO) test --release --locked --no-fail-fast

test-sweep:
	@scripts/part sweep sh -c '$$(scripts/tools sweep)/python -m pytest -q -p no:cacheprovider \
	    python/tests/test_sweep_*.py'

test-wheel:
	@scripts/part wheel scripts/wheel test

test-package:
	@scripts/part package sh -ec 'scripts/package deb; tests/package quick'

test-vmm:
	@scripts/part vmm sh -ec 'cd vmm; $(CARGO) test --locked'

test-qemu:
	@scripts/part qemu sh -ec 'qemu=$$($(TOOLS) qemu); target/release/trapless-difftest run \
	    --seeds 0..400 --subject trapless:$(TRAPLESS) --against qemu:$$qemu'

test-spike:
	@scripts/part spike sh -ec 'spike=$$(scripts/tools spike); target/release/trapless-difftest run \
	    --seeds 0..400 --subject trapless:$(TRAPLESS) --against spike:$$spike/spike'

test-engines:
	@scripts/part engines target/release/trapless-difftest run --seeds 0..200 $(ENGINES)

test-litmus:
	@scripts/part litmus target/release/trapless-spec litmus scripts/herd7

# What takes too long for every change: the peers' side of comparisons (tests marked `ignored`),
# thousands of mutated inputs and of programs, a million numbered interrupts of each class and three
# million numbered requests to user contexts, fuzz targets with the address sanitizer, KVM with
# lockdep and with PREEMPT, what the series touches on other architectures, each kernel patch by
# itself, and an hour of random programs on both engines.
test-long: test
	@scripts/install packages-long packages-aarch64
	$(CARGO) test --release --locked -- --ignored
	TRAPLESS_MUTATIONS=10000 $(CARGO) test --release --locked -p trapless-cli --test mutated
	TRAPLESS_MUTATIONS=10000 $$(scripts/tools sweep)/python -m pytest -q -p no:cacheprovider \
	    python/tests/test_sweep_results.py -k mutated
	tests/results sequence contexts
	scripts/fuzz 10
	tests/lockdep
	tests/lockdep --preempt
	tests/compile
	$$(scripts/tools sweep)/python tests/sweep
	tests/series --boot
	tests/series @testing --boot
	tests/lost-interrupt
	tests/conformance mutations
	scripts/package
	tests/package
	tests/package arm64
	tests/package reproducible
	tests/disk-system
	qemu=$$($(TOOLS) qemu) && target/release/trapless-difftest run --seeds 400..5000 \
	    --subject trapless:$(TRAPLESS) --against qemu:$$qemu
	spike=$$(scripts/tools spike) && target/release/trapless-difftest run --seeds 400..5000 \
	    --subject trapless:$(TRAPLESS) --against spike:$$spike/spike
	target/release/trapless-difftest run --seeds 200..3000 $(ENGINES)
	$(CARGO) run --release --locked -p trapless-hart --example fuzz_blocks -- 3600

fuzz: test-setup
	scripts/fuzz $${SECONDS:-60}

rtl-setup: setup
	@scripts/install packages-rtl

# The circuits: not part of `make test`, because it needs Verilator.
rtl-test: rtl-setup
	tests/rtl
	tests/conformance rtl

rtl-prove: rtl-setup
	scripts/rtl-prove
	scripts/rtl-prove broken

rtl-report: rtl-setup
	scripts/rtl-report

bench: build
	$(CARGO) build --release --locked -p trapless-bench
	$(CARGO) run --release --locked -q -p trapless-hart --example speed
	$(CARGO) run --release --locked -q -p trapless-hart --example speed jit
	$(CARGO) run --release --locked -q -p trapless-machine --example restore
	target/release/trapless-bench $(BENCH)

python: setup
	@scripts/install packages-python
	scripts/wheel build

# Its tables are generated and committed; a test compares them with spec/registers.toml.
spec:
	@scripts/install packages-spec
	$(CARGO) run --release --locked -q -p trapless-spec -- --check
	asciidoctor -w --failure-level=INFO -D out/spec spec/xtrapless.adoc spec/haiov.adoc
	@echo out/spec/xtrapless.html out/spec/haiov.html

book: spec
	scripts/book

# The program as built, what it documents itself with, and what images are made from. `DESTDIR` is
# for packages. Nothing is built here: run `make build` first, as yourself.
DATA = images experiments python vmm crates linux spec Cargo.toml Cargo.lock LICENSES
install:
	@test -x $(TRAPLESS) || { echo 'There is no $(TRAPLESS) yet: run "make build" first.' >&2; exit 2; }
	install -D -m 755 $(TRAPLESS) $(DESTDIR)$(PREFIX)/bin/trapless
	$(TRAPLESS) man $(DESTDIR)$(PREFIX)/share/man/man1
	mkdir -p $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(TRAPLESS) completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/trapless
	$(TRAPLESS) completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_trapless
	$(TRAPLESS) completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/trapless.fish
	rm -rf $(DESTDIR)$(PREFIX)/share/trapless
	mkdir -p $(DESTDIR)$(PREFIX)/share/trapless
	tar -c --exclude=target --exclude=__pycache__ $(DATA) | tar -x --no-same-owner -C $(DESTDIR)$(PREFIX)/share/trapless
	install -D -m 644 crates/gdb/gdb/trapless.py $(DESTDIR)$(PREFIX)/share/trapless/gdb/trapless.py

# For users who have neither this source tree nor Rust nor root (docs/install.md).
package-setup:
	@scripts/space 6
	@scripts/install packages packages-aarch64 packages-package packages-python

package: package-setup
	scripts/package
