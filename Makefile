# dayfly: build, test, show.

PREFIX ?= /usr/local
CARGO ?= cargo
CARGO_TARGET_DIR ?= target
# The directories for the two programs without libc, and for the tools.
BUILT ?= $(CARGO_TARGET_DIR)/release
BUILT_TOOLS ?= $(BUILT)
DAYFLY = $(BUILT)/dayfly
SHIM = $(BUILT)/containerd-shim-dayfly-v2
# Below $(PREFIX)/share; Debian's own packages use zsh/vendor-completions.
ZSH_COMPLETIONS ?= zsh/site-functions
# The commit that --version prints: in a source archive of `make dist`, the archive's; otherwise, that of the checkout, with
# -dirty if the programs' files differ from it, or if there are files among them that Git does not know nor ignore. An empty value in the environment leaves it out: then a new commit alone
# compiles nothing.
-include .commit.mk
ifeq ($(origin DAYFLY_COMMIT),undefined)
build-runtime build-shim: export DAYFLY_COMMIT = $(shell [ ! -e .git ] || { commit=$$(git rev-parse -q --verify HEAD) && \
    { changed=$$(git status --porcelain --untracked-files=normal -- runtime lib tools lab Cargo.toml Cargo.lock) && [ -z "$$changed" ] || \
      commit=$$commit-dirty; } && echo $$commit; } 2>/dev/null)
endif
# Additional features of test builds (tests/README.md): fault injection, defences that can be disabled.
TEST_CFG = --cfg dayfly_faults --cfg dayfly_undefended
RUSTDOC = RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' $(CARGO) doc -q --no-deps --document-private-items
# dayfly-profile is a second program of the crate dayfly-host.
TOOLS = dayfly-bench dayfly-image dayfly-host dayfly-profile
# The release profile of the tools: they process more than a page of text and are optimized for speed, but link-time
# optimization of all of them would take longer than everything else.
FAST = CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=3
# The program that calls libseccomp for `dayfly bench lookups` is built only if the library's headers are installed.
LIBSECCOMP = $$(! pkg-config --exists libseccomp 2>/dev/null || echo --features dayfly-bench/libseccomp)
# The same as for the tests' harness. The profile says abort only for the program without an unwinder: with both
# settings, cargo compiles nearly everything twice.
UNWIND = CARGO_PROFILE_DEV_PANIC=unwind

all: build

build: build-runtime build-shim build-tools

build-runtime:
	$(CARGO) build --release -p dayfly-cli
	scripts/settle $(DAYFLY)

# Two programs in one call of cargo would share their features.
build-shim:
	$(CARGO) build --release -p dayfly-shim
	scripts/settle $(SHIM)

# With DOCGEN, also what generates pages and completions: built by itself, it would compile most of the tools once more.
build-tools:
	$(FAST) $(CARGO) build --release $(patsubst %,-p %,$(filter-out dayfly-profile,$(TOOLS))) $(if $(DOCGEN),-p dayfly-docgen) $(LIBSECCOMP)

# The runtime for tests, in its own directory: other compiler flags rebuild everything.
# Without link-time optimization, which takes more than half of the time; the released build is tested separately.
test-build:
	CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	RUSTFLAGS="$$RUSTFLAGS $(TEST_CFG)" $(CARGO) build --release -p dayfly-cli --target-dir $(CARGO_TARGET_DIR)/faults

# Everything: lint, unit tests, the integration suite in three cgroup views, engines, a part of the suite in a virtual
# machine. test-product and test-lab are its two parts.
test:
	scripts/test

# A part of it. Of the product: one folder with lint, unit tests, and its cases of the suite, test-runtime in up to 6
# minutes; and test-beds, what the folders share: the suite in three views, engines, guests, fuzz targets.
test-product test-lab test-runtime test-lib test-tools test-beds:
	scripts/test $(@:test-%=%)

# Everything, and longer tests: containerd 2 from source, more in guests, soaks. Takes up to four hours.
test-all:
	scripts/test --all

# The specification's own validation programs, for dayfly and its peers in every
# view: a table and the totals (tests/README.md).
validate:
	$(CARGO) build --release -p dayfly-cli
	-scripts/peers
	scripts/bed oci-validation peers

# A container from an image made here, its trace, a race against crun and runc.
demo:
	scripts/demo

# The experiments of papers and articles, run on this host, as pages in docs/report: within an hour, or with
# REPORT=--quick within ten minutes. Nothing else should run meanwhile.
report:
	scripts/report $(REPORT)

# rustfmt gets every file by name, because cargo fmt does not find the modules of the suite, which a macro declares.
lint lint-product: lint-program lint-init lint-files
	find lib runtime tools $(LINT_LAB) tests fuzz -name '*.rs' -not -path '*/target/*' -exec rustfmt --edition 2024 --check {} +
	$(UNWIND) $(CARGO) clippy --workspace --exclude dayfly-cli --exclude dayfly-shim $(WITHOUT_LAB) $(LINT_FEATURES) --all-targets -- -D warnings
	$(UNWIND) $(RUSTDOC) --workspace --exclude dayfly-cli --exclude dayfly-shim $(WITHOUT_LAB)
lint: LINT_LAB = lab
lint: LINT_FEATURES = $(LIBSECCOMP)
lint-product: WITHOUT_LAB = $$(scripts/packages lab | sed 's/-p /--exclude /g')

# dayfly-cli is checked separately: in one build with the others it would get features that need std. It is checked as
# for tests first: arguments after `--` reach only the workspace's crates, and their dependencies are checked once.
lint-program:
	$(CARGO) clippy -p dayfly-cli --all-targets -- -D warnings $(TEST_CFG)
	$(CARGO) clippy -p dayfly-cli --all-targets -- -D warnings
	scripts/aarch64 build dev || [ $$? = 77 ]
	! $(CARGO) tree -p dayfly-cli -e normal --prefix none | grep -F -e '($(CURDIR)/tools/' -e '($(CURDIR)/lab/'
	$(RUSTDOC) -p dayfly-cli
	$(CARGO) clippy -p dayfly-shim --all-targets -- -D warnings
	! $(CARGO) tree -p dayfly-shim -e normal --prefix none | grep -F -e '($(CURDIR)/tools/' -e '($(CURDIR)/lab/'
	$(RUSTDOC) -p dayfly-shim

# Checks the shell scripts, sizes of files, order and parts of the crates, licences and versions, the workflow of CI.
lint-files:
	scripts/lint-files

# init is linted separately: in one build with the others, its dependencies have a heap.
lint-init:
	$(UNWIND) $(CARGO) clippy -p dayfly-init -- -D warnings

# One folder.
lint-runtime: lint-program lint-init
lint-runtime lint-lib lint-tools lint-lab:
	find $(@:lint-%=%) -name '*.rs' -exec rustfmt --edition 2024 --check {} +
	$(UNWIND) $(CARGO) clippy $$(scripts/packages $(@:lint-%=%)) --all-targets -- -D warnings
	$(UNWIND) $(RUSTDOC) $$(scripts/packages $(@:lint-%=%))

# Man pages and shell completions, generated from the command definitions: build/docs.
man completions: build-tools
	$(BUILT_TOOLS)/dayfly-docgen build/docs
install man completions: DOCGEN = yes

# README and docs/ as pages for a browser: target/book/html. The first call builds mdBook, which takes minutes.
docs:
	scripts/book

install: build man install-files

# Installs the programs.
install-files:
	install -D -m 755 $(DAYFLY) $(DESTDIR)$(PREFIX)/bin/dayfly
	install -D -m 755 $(SHIM) $(DESTDIR)$(PREFIX)/bin/$(notdir $(SHIM))
	for tool in $(TOOLS); do \
	    install -D -m 755 $(BUILT_TOOLS)/$$tool $(DESTDIR)$(PREFIX)/libexec/dayfly/$$tool || exit; done
	[ ! -x $(BUILT_TOOLS)/dayfly-libseccomp ] || install -D -m 755 \
	    $(BUILT_TOOLS)/dayfly-libseccomp $(DESTDIR)$(PREFIX)/libexec/dayfly/dayfly-libseccomp
	for language in py rb; do \
	    install -D -m 644 lib/template/dayfly_template.$$language \
	    $(DESTDIR)$(PREFIX)/share/dayfly/dayfly_template.$$language || exit; done
	for page in build/docs/man/*; do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man8/$${page##*/} || exit; done
	install -D -m 644 build/docs/completions/dayfly.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dayfly
	install -D -m 644 build/docs/completions/_dayfly $(DESTDIR)$(PREFIX)/share/$(ZSH_COMPLETIONS)/_dayfly
	install -D -m 644 build/docs/completions/dayfly.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/dayfly.fish

# Unmounts the executable that starts have kept, and removes what `make install` installed with the same PREFIX.
# With PREFIX=~/.local, share/dayfly is also the user's image store.
uninstall:
	[ -n "$(DESTDIR)" ] || [ ! -x $(PREFIX)/bin/dayfly ] || $(PREFIX)/bin/dayfly cache clear || true
	rm -f $(DESTDIR)$(PREFIX)/bin/dayfly $(DESTDIR)$(PREFIX)/bin/$(notdir $(SHIM))
	rm -rf $(DESTDIR)$(PREFIX)/libexec/dayfly
	cd $(DESTDIR)$(PREFIX)/share 2>/dev/null || exit 0; rm -f man/man8/dayfly.8 man/man8/dayfly-*.8 \
	    man/man8/containerd-shim-dayfly-v2.8 bash-completion/completions/dayfly $(ZSH_COMPLETIONS)/_dayfly \
	    fish/vendor_completions.d/dayfly.fish dayfly/dayfly_template.py dayfly/dayfly_template.rb; rmdir dayfly 2>/dev/null || true

# Packages of this commit, for amd64 and arm64, in build/dist: DIST='--arch amd64 --key KEYID' (scripts/dist).
dist:
	scripts/dist $(DIST)

clean:
	$(CARGO) clean
	rm -rf build

.PHONY: all build build-runtime build-shim build-tools test-build test test-product test-runtime test-lib test-tools test-lab test-beds test-all validate demo report \
    lint lint-product lint-program lint-init lint-files lint-runtime lint-lib lint-tools lint-lab man completions docs install install-files uninstall dist clean
