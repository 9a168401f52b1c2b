# Everything a newcomer needs. Cargo alone works too once `make setup` has run.
.PHONY: setup demo test docs clean

# Installs what is missing: MLIR 22 and a C++ compiler, from Debian's own packages.
setup:
	@tools/setup.sh

# Compiles the digits classifier for 64 tiles and runs it on the simulated chip.
demo: setup
	@tools/demo.sh

# Format, lints, unit, property and lit tests, and every command of the documentation.
test: setup
	@tools/test.sh

# Rewrites docs/reference and the output shown in the documentation.
docs: setup
	@cargo build --locked --quiet --workspace --bins
	@tools/docs.py reference --write
	@tools/docs.py run --write

clean:
	cargo clean
	rm -rf out
