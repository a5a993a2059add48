# Entry points for people. Everything behind them is Rust (`cargo xtask help`) or demo/run.sh.
# Needs Rust, Python 3.11 and a C compiler; what else is missing, a target installs: below target/ where that can be.

PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO ?= cargo

.DEFAULT_GOAL := help
.PHONY: help demo test soak bench bench-clients install check-rust

help:
	@echo "make demo               fetch real data, store, verify, kill, reopen, plot (about 3 minutes after the build)"
	@echo "make test               all tests, with the bounded share of crash, kill and bit-rot rounds; installs what they run (cargo xtask tools)"
	@echo "make soak               every mutant, 10,000 kill rounds, fresh seeds, fuzz targets, AddressSanitizer, ThreadSanitizer (hours)"
	@echo "make bench              dolmen bench engine and dfs, printed as tables (minutes each)"
	@echo "make bench-clients CLIENTS_PREFIX=/p IOR=/ior MDTEST=/mdtest [FIO=/fio] [IO500=/io500 FIND=/find]"
	@echo "                        clients built against an installed Dolmen, and dolmen bench object"
	@echo "make install PREFIX=/p  the program dolmen into /p/bin, the C libraries into /p/lib64 (default $(PREFIX))"
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

install: check-rust
	$(CARGO) build --release --package dolmen-cli
	install -D -m 755 $(TARGET)/release/dolmen $(DESTDIR)$(PREFIX)/bin/dolmen
	$(CARGO) xtask capi --prefix $(DESTDIR)$(PREFIX)
