#!/usr/bin/env bash
# make demo: the digits classifier on 64 simulated tiles. Results go to out/ in the current folder.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
out=out/mlp-digits
digits=$root/examples/mlp-digits
started=$SECONDS

# In the root, where .cargo/config.toml says where MLIR is.
target=$(cd "$root" && cargo metadata --format-version 1 --no-deps --offline 2> /dev/null |
  sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
quiet=--quiet
[ -x "$target/debug/ipu-run" ] || {
  echo "building ipu-run and ipu-opt; the first time takes some minutes"
  quiet=
}
(cd "$root" && cargo build --locked $quiet -p ipu-run -p ipu-opt)
echo "build        $((SECONDS - started)) s"

mkdir -p "$out"
"$target/debug/ipu-run" "$digits/model.mlir" \
  --weights="$digits/weights.safetensors" \
  --input=@"$digits/images.npy" \
  --expected_output=@"$digits/logits.npy" \
  --labels=@"$digits/labels.npy" \
  --tiles=64 --print_statistics \
  --output=@"$out/logits.npy" --result_file="$out/result.json" \
  -o "$out/model.ipuexe" --dump_compilation_phases_to="$out/ir"

echo "logits       $out/logits.npy"
echo "figures      $out/result.json"
echo "package      $out/model.ipuexe"
echo "IR dumps     $out/ir: $(cd "$out/ir" && ls | tr '\n' ' ')"
