# dayfly: build, test, show.

PREFIX ?= /usr/local
CARGO ?= cargo
CARGO_TARGET_DIR ?= target
# What is installed: where the two programs without libc are, and where the tools.
BUILT ?= $(CARGO_TARGET_DIR)/release
BUILT_TOOLS ?= $(BUILT)
DAYFLY = $(BUILT)/dayfly
SHIM = $(BUILT)/containerd-shim-dayfly-v2
# Below $(PREFIX)/share; Debian's own packages have zsh/vendor-completions.
ZSH_COMPLETIONS ?= zsh/site-functions
# The commit, in a source archive of `make dist`.
-include .commit.mk
# What test builds are compiled with, besides (tests/README.md): fault injection, defences that can be disabled.
TEST_CFG = --cfg dayfly_faults --cfg dayfly_undefended
RUSTDOC = RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' $(CARGO) doc -q --no-deps --document-private-items
TOOLS = dayfly-bench dayfly-image dayfly-host dayfly-cgtool dayfly-profile
# As tools are released: they work on more than a page of text, and are optimized for speed; but one program at a time is not
# worth the link-time optimization of them all: it takes longer than all else.
FAST = CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=3
# What asks libseccomp for `dayfly bench lookups` is built where that library's headers are.
LIBSECCOMP = $$(! pkg-config --exists libseccomp 2>/dev/null || echo -p dayfly-libseccomp)
# As the tests' harness is built. The profile says abort, for the program alone, which has no unwinder: with both, cargo
# compiles nearly everything twice.
UNWIND = CARGO_PROFILE_DEV_PANIC=unwind

all: build

build: build-runtime build-shim build-tools

build-runtime:
	$(CARGO) build --release -p dayfly-cli

# Two programs in one call of cargo would have each other's features.
build-shim:
	$(CARGO) build --release -p dayfly-shim

build-tools:
	$(FAST) $(CARGO) build --release $(TOOLS:%=-p %) $(LIBSECCOMP)

# The runtime for tests alone, in a directory of its own: other flags of the compiler build everything anew.
# Not optimized as a whole: it takes more than half of the time, and what is released is tested as it is released.
test-build:
	CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	RUSTFLAGS="$$RUSTFLAGS $(TEST_CFG)" $(CARGO) build --release -p dayfly-cli --target-dir $(CARGO_TARGET_DIR)/faults

# Everything, in some 20 minutes on two cores: lint, unit tests, the integration
# suite in three cgroup views, engines, a selection in a virtual machine.
test:
	scripts/test

# One folder by itself: lint, unit tests, the cases of the suite that are about it. test-runtime: within 6 minutes.
test-runtime test-lib test-tools:
	scripts/test $(@:test-%=%)

# Everything, and what is heavier: containerd 2 from source, more in guests, soaks. Within four hours.
test-all:
	scripts/test --all

# The specification's own validation programs, for dayfly and its peers in every
# view: a table and the totals (tests/README.md).
validate:
	$(CARGO) build --release -p dayfly-cli
	-scripts/peers
	scripts/oci-validation --peers

# A container from an image made here, its trace, a race against crun and runc.
demo:
	scripts/demo

# The experiments of papers and articles, done on this machine, as pages in docs/report: within an hour, or with
# REPORT=--quick within ten minutes. Nothing else should run meanwhile.
report:
	scripts/report $(REPORT)

lint: lint-program lint-init lint-files
	$(CARGO) fmt --all --check
	$(UNWIND) $(CARGO) clippy --workspace --exclude dayfly-cli --exclude dayfly-shim --all-targets -- -D warnings
	$(UNWIND) $(RUSTDOC) --workspace --exclude dayfly-cli --exclude dayfly-shim

# The program apart: in one build with the others, features of std reach it, which has none. As it is for tests first: what
# follows `--` reaches the crates of the workspace alone, and what these depend on is checked once.
lint-program:
	$(CARGO) clippy -p dayfly-cli --all-targets -- -D warnings $(TEST_CFG)
	$(CARGO) clippy -p dayfly-cli --all-targets -- -D warnings
	scripts/aarch64 build dev || [ $$? = 77 ]
	! $(CARGO) tree -p dayfly-cli -e normal --prefix none | grep -F /tools/
	$(RUSTDOC) -p dayfly-cli
	$(CARGO) clippy -p dayfly-shim --all-targets -- -D warnings
	! $(CARGO) tree -p dayfly-shim -e normal --prefix none | grep -F /tools/
	$(RUSTDOC) -p dayfly-shim

# Shell scripts, the crates' licences and versions, the workflow of a public CI.
lint-files:
	scripts/lint-files

# Init apart: in one build with the others, what it calls has a heap.
lint-init:
	$(UNWIND) $(CARGO) clippy -p dayfly-init -- -D warnings

# One folder.
lint-runtime: lint-program lint-init
lint-runtime lint-lib lint-tools:
	$(UNWIND) $(CARGO) clippy $$(scripts/packages $(@:lint-%=%)) --all-targets -- -D warnings
	$(UNWIND) $(RUSTDOC) $$(scripts/packages $(@:lint-%=%))

# Man pages and shell completions, generated from the command definitions: build/docs.
man completions:
	$(FAST) $(CARGO) run --release -q -p dayfly-docgen -- build/docs

# README and docs/ as pages for a browser: target/book/html. The first time it builds mdBook, which takes minutes.
docs:
	scripts/book

install: build man install-files

# What is built, to where it belongs.
install-files:
	install -D -m 755 $(DAYFLY) $(DESTDIR)$(PREFIX)/bin/dayfly
	install -D -m 755 $(SHIM) $(DESTDIR)$(PREFIX)/bin/$(notdir $(SHIM))
	for tool in $(TOOLS); do \
	    install -D -m 755 $(BUILT_TOOLS)/$$tool $(DESTDIR)$(PREFIX)/libexec/dayfly/$$tool || exit; done
	[ ! -x $(BUILT_TOOLS)/dayfly-libseccomp ] || install -D -m 755 \
	    $(BUILT_TOOLS)/dayfly-libseccomp $(DESTDIR)$(PREFIX)/libexec/dayfly/dayfly-libseccomp
	for page in build/docs/man/*; do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man8/$${page##*/} || exit; done
	install -D -m 644 build/docs/completions/dayfly.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dayfly
	install -D -m 644 build/docs/completions/_dayfly $(DESTDIR)$(PREFIX)/share/$(ZSH_COMPLETIONS)/_dayfly
	install -D -m 644 build/docs/completions/dayfly.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/dayfly.fish

# Takes away what `make install` put there, with the same PREFIX; before that, the mount of the executable that starts have kept.
uninstall:
	[ -n "$(DESTDIR)" ] || [ ! -x $(PREFIX)/bin/dayfly ] || $(PREFIX)/bin/dayfly cache clear || true
	rm -f $(DESTDIR)$(PREFIX)/bin/dayfly $(DESTDIR)$(PREFIX)/bin/$(notdir $(SHIM))
	rm -rf $(DESTDIR)$(PREFIX)/libexec/dayfly
	cd $(DESTDIR)$(PREFIX)/share 2>/dev/null || exit 0; rm -f man/man8/dayfly.8 man/man8/dayfly-*.8 \
	    man/man8/containerd-shim-dayfly-v2.8 bash-completion/completions/dayfly $(ZSH_COMPLETIONS)/_dayfly \
	    fish/vendor_completions.d/dayfly.fish

# Packages of this commit, for amd64 and arm64, in build/dist: DIST='--arch amd64 --key KEYID' (scripts/dist).
dist:
	scripts/dist $(DIST)

clean:
	$(CARGO) clean
	rm -rf build

.PHONY: all build build-runtime build-shim build-tools test-build test test-runtime test-lib test-tools test-all validate demo report \
    lint lint-program lint-init lint-files lint-runtime lint-lib lint-tools man completions docs install install-files uninstall dist clean
