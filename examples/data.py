#!/usr/bin/env python3
"""Data of the large examples, which are too large to keep in the repository.

Writes weights.safetensors, input.npy (both f16) and expected.npy (f32, computed in float64 from
the f16 data) into a folder. Needs NumPy alone; shares no code with the compiler it checks.
"""

import argparse
import json
import math
import pathlib

import numpy as np

HEADS = 16


def attention(rng, options):
    """Inputs of standard deviation 1/4, weights of 1/16, those of queries and keys scaled."""
    tokens, width = options.tokens, 1152
    if options.constant:
        x = np.ones((1, tokens, width))
        weights = {name: np.full((width, width), 1 / width) for name in ("wq", "wk", "wv")}
    else:
        x = rng.standard_normal((1, tokens, width)) / 4
        deviation = {"wq": options.scale / 16, "wk": options.scale / 16, "wv": 1 / 16}
        weights = {n: rng.standard_normal((width, width)) * d for n, d in deviation.items()}
    x, weights = half(x), {n: half(w) for n, w in weights.items()}
    q, k, v = (
        np.moveaxis((exact(x[0]) @ exact(w)).reshape(tokens, HEADS, -1), 1, 0)
        for w in weights.values()
    )
    result = np.empty_like(v)
    for head in range(HEADS):
        scores = q[head] @ k[head].T / math.sqrt(q.shape[2])
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        result[head] = shares @ v[head] / shares.sum(axis=1, keepdims=True)
    return x, weights, result


def mlp(rng, options):
    """Inputs of standard deviation 1, weights of 1 / the square root of their inputs."""
    tokens, width, hidden = options.tokens, 1152, 4304
    x = half(rng.standard_normal((tokens, width)))
    weights = {
        "up.weight": half(rng.standard_normal((width, hidden)) / math.sqrt(width)),
        "up.bias": half(rng.standard_normal(hidden) / 10),
        "down.weight": half(rng.standard_normal((hidden, width)) / math.sqrt(hidden)),
        "down.bias": half(rng.standard_normal(width) / 10),
    }
    y = exact(x) @ exact(weights["up.weight"]) + exact(weights["up.bias"])
    y = y / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    return x, weights, y @ exact(weights["down.weight"]) + exact(weights["down.bias"])


def gemm(rng, options):
    """Inputs of standard deviation 1, weights of 1/64."""
    n = options.size
    x = half(rng.standard_normal((n, n)))
    weight = half(rng.standard_normal((n, n)) / 64)
    return x, {"weight": weight}, exact(x) @ exact(weight)


MODELS = {"siglip-attention": attention, "siglip-mlp": mlp, "gemm-4096": gemm}


def half(values):
    return values.astype(np.float16)


def exact(values):
    return values.astype(np.float64)


def write_safetensors(path, tensors):
    """The format is a length, a JSON header of that length, and the bytes of the tensors."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": "F16", "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1, help="of the weights of queries and keys")
    parser.add_argument("--constant", action="store_true", help="equal data: all results are equal")
    parser.add_argument("--tokens", type=int, default=729)
    parser.add_argument("--size", type=int, default=4096, help="of the matrices of gemm-4096")
    options = parser.parse_args()
    x, weights, result = MODELS[options.model](np.random.default_rng(options.seed), options)
    options.folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(options.folder / "weights.safetensors", weights)
    np.save(options.folder / "input.npy", x)
    np.save(options.folder / "expected.npy", result.astype(np.float32))


if __name__ == "__main__":
    main()
