# dayfly: build, test, show.

PREFIX ?= /usr/local
CARGO ?= cargo
CARGO_TARGET_DIR ?= target
DAYFLY = $(CARGO_TARGET_DIR)/release/dayfly
TOOLS = dayfly-bench dayfly-image dayfly-host

all: build

build:
	$(CARGO) build --release -p dayfly-cli
	$(CARGO) build --release $(TOOLS:%=-p %)

# Everything within 45 minutes on two cores: lint, unit tests, the integration
# suite in three cgroup views, engines, a selection in a virtual machine.
test:
	scripts/test

# The same and what is heavier: containerd 2 from source, more in the guest, soaks.
test-all:
	scripts/test --all

# The specification's own validation programs, for dayfly and its peers in every
# view: a table and the totals (README.md).
validate:
	$(CARGO) build --release -p dayfly-cli
	-scripts/peers
	scripts/oci-validation --peers

# A container from an image made here, its trace, a race against crun and runc.
demo:
	scripts/demo

# The program apart: in one build with the others, features of std reach it, which has none.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy -p dayfly-cli --all-targets -- -D warnings
	$(CARGO) clippy -p dayfly-cli --features otlp --all-targets -- -D warnings
	$(CARGO) clippy -p dayfly-cli --features faults,undefended --all-targets -- -D warnings
	$(CARGO) clippy --workspace --exclude dayfly-cli --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' $(CARGO) doc -q --no-deps --document-private-items --workspace --exclude dayfly-cli
	RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' $(CARGO) doc -q --no-deps --document-private-items -p dayfly-cli

# Man pages and shell completions, generated from the command definitions.
man completions docs:
	$(CARGO) run --release -q -p dayfly-docgen -- build/docs

install: build docs
	install -D -m 755 $(DAYFLY) $(DESTDIR)$(PREFIX)/bin/dayfly
	for tool in $(TOOLS); do \
	    install -D -m 755 $(CARGO_TARGET_DIR)/release/$$tool $(DESTDIR)$(PREFIX)/libexec/dayfly/$$tool; done
	[ ! -d build/docs/man ] || for page in build/docs/man/*; do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man8/$${page##*/}; done

clean:
	$(CARGO) clean
	rm -rf build

.PHONY: all build test test-all validate demo lint man completions docs install clean
