# Entry points for people. Everything behind them is Rust (`cargo xtask help`) or demo/run.sh.
# Needs Rust, Python 3.11 and a C compiler; what else is missing, a target installs: below target/ where that can be.

PREFIX ?= /usr/local
# systemd finds units of these two by itself.
LINK_UNIT := $(if $(filter /usr /usr/local,$(PREFIX)),,systemctl link $(PREFIX)/lib/systemd/system/dolmen@.service && )
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO ?= cargo

.DEFAULT_GOAL := help
.PHONY: help demo test soak bench bench-clients bench-mounts bench-ntuple install uninstall check-rust

help:
	@echo "make demo               fetch real data, store, verify, kill, reopen, plot (about 3 minutes after the build)"
	@echo "make test               all tests, with the bounded share of crash, kill and bit-rot rounds; installs what they run (cargo xtask tools)"
	@echo "make soak               every mutant, 10,000 kill rounds, fresh seeds, fuzz targets, AddressSanitizer, ThreadSanitizer (hours)"
	@echo "make bench              dolmen bench engine and dfs, printed as tables (minutes each)"
	@echo "make bench-clients CLIENTS_PREFIX=/p IOR=/ior MDTEST=/mdtest [FIO=/fio] [IO500=/io500 FIND=/find]"
	@echo "                        clients built against an installed Dolmen, and dolmen bench object"
	@echo "make bench-mounts [JUICEFS=/juicefs] [PASSTHROUGH=/bindfs]"
	@echo "                        files of mounts and with the preload library, beside tmpfs, a passthrough FUSE, the C library and others"
	@echo "make bench-ntuple       event data beside ROOT, uproot and Parquet, on one core (minutes after the build)"
	@echo "make install PREFIX=/p  dolmen, daos and dmg into /p/bin, the C and preload libraries into /p/lib64, man pages, completions and the systemd unit"
	@echo "                        (default $(PREFIX); DESTDIR=/d puts all of it below /d)"
	@echo "make uninstall PREFIX=/p  takes away what install has put there (and DESTDIR=/d), and nothing else; data stays where it is"
	@echo "bash .ci/run            what must pass before a change is merged"

check-rust:
	@command -v $(CARGO) >/dev/null || { echo "no cargo: install Rust (rustup) first"; exit 1; }
	@command -v cc >/dev/null || { echo "no C compiler: install gcc or clang first"; exit 1; }

demo: check-rust
	$(CARGO) build --release --package dolmen-cli
	DOLMEN=$(abspath $(TARGET))/release/dolmen bash demo/run.sh

test: check-rust
	$(CARGO) xtask tools
	$(CARGO) xtask test

soak: check-rust
	$(CARGO) xtask mutants
	$(CARGO) xtask soak

bench: check-rust
	$(CARGO) build --release --package dolmen-cli
	$(TARGET)/release/dolmen bench engine
	$(TARGET)/release/dolmen bench dfs

bench-clients: check-rust
	$(CARGO) xtask clients --prefix $(CLIENTS_PREFIX) --ior $(IOR) --mdtest $(MDTEST) $(if $(FIO),--fio $(FIO)) $(if $(IO500),--io500 $(IO500) --find $(FIND))

bench-mounts: check-rust
	$(CARGO) build --release $(INSTALLED)
	$(CARGO) xtask mounts --dolmen $(TARGET)/release/dolmen --preload $(TARGET)/release/libdolmen_preload.so $(if $(JUICEFS),--juicefs $(JUICEFS)) $(if $(PASSTHROUGH),--passthrough $(PASSTHROUGH)) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-ntuple: check-rust
	$(CARGO) xtask tools
	$(CARGO) build --release --package dolmen-python
	mkdir -p $(TARGET)/release/python
	rm -rf $(TARGET)/release/python/dolmen
	cp -r python/dolmen $(TARGET)/release/python/
	cp $(TARGET)/release/lib_dolmen.so $(TARGET)/release/python/dolmen/_dolmen.abi3.so
	PYTHONPATH=$(TARGET)/release/python PYTHONDONTWRITEBYTECODE=1 $(TARGET)/python-tests/bin/python python/benchmarks/ntuple.py $(BENCH)

# What is put below DESTDIR is to be moved to PREFIX later.
ROOT = $(DESTDIR)$(PREFIX)
# All at once, as `cargo xtask capi` builds them: a package that is built alone has dependencies with other features, which are
# compiled for it anew.
INSTALLED = --package dolmen-cli --package dolmen-capi --package dolmen-preload
# The program and its links.
NAMES = dolmen daos dmg
LIBRARIES = libdaos.so libdaos.so.2 libdaos.so.2.8.0 libdaos_common.so libgurt.so libgurt.so.4 libcart.so libcart.so.4 libdfs.so \
  libduns.so libdolmen_preload.so pkgconfig/daos.pc

install: check-rust
	$(CARGO) build --release $(INSTALLED)
	install -D -m 755 $(TARGET)/release/dolmen $(ROOT)/bin/dolmen
	ln -sf dolmen $(ROOT)/bin/daos
	ln -sf dolmen $(ROOT)/bin/dmg
	mkdir -p $(ROOT)/share/man/man1 $(ROOT)/share/bash-completion/completions $(ROOT)/share/zsh/site-functions
	mkdir -p $(ROOT)/share/fish/vendor_completions.d $(ROOT)/lib/systemd/system
	$(ROOT)/bin/dolmen man $(ROOT)/share/man/man1
	for name in $(NAMES); do \
	  $(ROOT)/bin/dolmen completions bash --name $$name > $(ROOT)/share/bash-completion/completions/$$name && \
	  $(ROOT)/bin/dolmen completions zsh --name $$name > $(ROOT)/share/zsh/site-functions/_$$name && \
	  $(ROOT)/bin/dolmen completions fish --name $$name > $(ROOT)/share/fish/vendor_completions.d/$$name.fish || exit 1; \
	done
	sed 's|/usr/local/bin|$(PREFIX)/bin|' dist/dolmen@.service > $(ROOT)/lib/systemd/system/dolmen@.service
	$(CARGO) xtask capi --prefix $(PREFIX) --destdir "$(DESTDIR)"
	install -D -m 755 $(TARGET)/release/libdolmen_preload.so $(ROOT)/lib64/libdolmen_preload.so
	@echo "The C libraries are in $(PREFIX)/lib64. Programs that are linked with -Wl,-rpath,$(PREFIX)/lib64 find them; for all others"
	@echo "put that directory into a file of /etc/ld.so.conf.d and run ldconfig as root, or set LD_LIBRARY_PATH=$(PREFIX)/lib64."
	@echo "C programs are built with PKG_CONFIG_PATH=$(PREFIX)/lib64/pkgconfig pkg-config --cflags --libs daos."
	@echo "The unit dolmen@.service is in $(PREFIX)/lib/systemd/system: $(LINK_UNIT)systemctl enable --now dolmen@NAME."

uninstall:
	rm -f $(NAMES:%=$(ROOT)/bin/%) $(LIBRARIES:%=$(ROOT)/lib64/%) $(ROOT)/lib/systemd/system/dolmen@.service
	rm -f $(NAMES:%=$(ROOT)/share/man/man1/%.1) $(NAMES:%=$(ROOT)/share/man/man1/%-*.1)
	rm -f $(NAMES:%=$(ROOT)/share/bash-completion/completions/%) $(NAMES:%=$(ROOT)/share/zsh/site-functions/_%)
	rm -f $(NAMES:%=$(ROOT)/share/fish/vendor_completions.d/%.fish)
	cd crates/capi/include && find . -type f | while read -r header; do rm -f "$(ROOT)/include/$$header"; done
	rmdir --ignore-fail-on-non-empty "$(ROOT)/include/gurt" 2>/dev/null || true
	@echo "Pools stay where they are, and so does what users have: ~/.local/share/dolmen, ~/.config/dolmen, /var/lib/dolmen."
