# SPDX-License-Identifier: Apache-2.0
"""Writes language/: small language models of KerasHub as TensorFlow exports them, and language.json, what TensorFlow
computes with each.

Run where TensorFlow 2.21 and KerasHub 0.32 are installed: python3 make_language.py [--only NAME...]

A model has random weights and these signatures: serving_default, all logits at once; decode, one token more, with the
cache of keys and values; generate, the whole loop, which takes the likeliest token and ends with a stop token; and, of
floats, sample, the same with tokens drawn among the five likeliest from a seed that the model keeps. The graphs are
packed (saved_model.pb.gz), since names are most of them. Cases of a model are asked in their order, of one model that
is loaded once: what is drawn depends on what was drawn before.
"""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

os.environ.update(
    TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES=""
)
import keras  # noqa: E402
import keras_hub  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "language"
WORDS, LAYERS, LENGTH = 64, 2, 12
STOPS = [8, 48]
NAMES = [f"{kind}_{weights}" for kind in ("gpt2", "llama") for weights in ("float", "int8", "int4")]


def causal_lm(kind):
    if kind == "gpt2":
        backbone = keras_hub.models.GPT2Backbone(
            WORDS, LAYERS, num_heads=2, hidden_dim=16, intermediate_dim=32, max_sequence_length=LENGTH
        )
        return keras_hub.models.GPT2CausalLM(backbone, preprocessor=None), (2, 8)
    backbone = keras_hub.models.LlamaBackbone(
        WORDS, LAYERS, num_query_heads=4, hidden_dim=16, intermediate_dim=32, num_key_value_heads=2
    )
    return keras_hub.models.LlamaCausalLM(backbone, preprocessor=None), (2, 4)


def spread(model):
    """Weights far enough apart that the likeliest token is so by more than rounding."""
    for weight in model.weights:
        if "embedding" in weight.path:
            weight.assign(weight * 12)
        elif "kernel" in weight.path:
            weight.assign(weight * 3)


class Exported(tf.Module):
    def __init__(self, model, sampler):
        super().__init__()
        self.kept = [variable.value for variable in [*model.variables, *sampler.variables]]


def export(name, folder):
    kind, weights = name.split("_")
    model, heads = causal_lm(kind)
    spread(model)
    if weights != "float":
        model.quantize(weights)
    sampler = keras_hub.samplers.TopKSampler(k=5, seed=3)
    tokens = tf.TensorSpec([None, None], tf.int32, "token_ids")
    mask = tf.TensorSpec([None, None], tf.int32, "padding_mask")
    cache = tf.TensorSpec([None, LAYERS, 2, None, *heads], tf.float32, "cache")
    index = tf.TensorSpec([], tf.int32, "cache_update_index")

    def forward(token_ids, padding_mask):
        return {"logits": model({"token_ids": token_ids, "padding_mask": padding_mask})}

    def decode(token_ids, cache, cache_update_index):
        return dict(
            zip(("logits", "hidden_states", "cache"), model.call_with_cache(token_ids, cache, cache_update_index))
        )

    def generate(how):
        def loop(token_ids, padding_mask):
            model.sampler = how  # read while the graph is made
            return model.generate_step({"token_ids": token_ids, "padding_mask": padding_mask}, stop_token_ids=STOPS)
        return loop

    functions = {
        "serving_default": (forward, [tokens, mask]),
        "decode": (decode, [tokens, cache, index]),
        "generate": (generate(keras_hub.samplers.GreedySampler()), [tokens, mask]),
    }
    if weights == "float":
        functions["sample"] = (generate(sampler), [tokens, mask])
    signatures = {key: tf.function(function, input_signature=specs) for key, (function, specs) in functions.items()}
    tf.saved_model.save(Exported(model, sampler), str(folder), signatures=signatures)
    return heads


def written(tensor):
    value = np.asarray(tensor)
    values = (
        [float(f"{one:.9g}") for one in value.ravel().tolist()] if value.dtype.kind == "f" else value.ravel().tolist()
    )
    return {"dtype": str(value.dtype), "shape": list(value.shape), "values": values}


def ask(folder, heads):
    rng = np.random.default_rng(4)
    signatures = tf.saved_model.load(str(folder)).signatures
    tokens = rng.integers(3, 13, (2, LENGTH)).astype(np.int32)
    lengths = np.array([[4], [6]])
    prompt = (np.arange(LENGTH) < lengths).astype(np.int32)
    asked = [
        ("serving_default", {"token_ids": tokens[:, :6], "padding_mask": (np.arange(6) < [[6], [4]]).astype(np.int32)}),
        (
            "decode",
            {
                "token_ids": tokens[:1, :1],
                "cache": rng.normal(size=(1, LAYERS, 2, 6, *heads)).astype(np.float32),
                "cache_update_index": np.int32(3),
            },
        ),
        ("generate", {"token_ids": tokens * prompt, "padding_mask": prompt}),
    ]
    asked += [("sample", asked[2][1])] * 3 if "sample" in signatures else []
    cases = []
    for signature, inputs in asked:
        outputs = signatures[signature](**{key: tf.constant(value) for key, value in inputs.items()})
        cases.append({"signature": signature, "inputs": {key: written(value) for key, value in inputs.items()},
                      "outputs": {key: written(value) for key, value in sorted(outputs.items())}})
    return cases


def write(name):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    keras.utils.set_random_seed(7)
    heads = export(name, folder)
    cases = ask(folder, heads)
    (folder / "fingerprint.pb").unlink(missing_ok=True)
    (folder / "assets").rmdir()
    graph = folder / "saved_model.pb"
    (folder / "saved_model.pb.gz").write_bytes(gzip.compress(graph.read_bytes(), 9, mtime=0))
    graph.unlink()
    return cases


def main():
    if len(sys.argv) == 2:  # one model, in a process of its own, so that names do not depend on the others
        print(json.dumps(write(sys.argv[1])))
        return
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "language.json"
    goldens = json.loads(file.read_text()) if file.exists() else {}
    for name in sys.argv[2:] if sys.argv[1:2] == ["--only"] else NAMES:
        done = subprocess.run([sys.executable, __file__, name], check=True, stdout=subprocess.PIPE, text=True)
        goldens[name] = json.loads(done.stdout.splitlines()[-1])
    lines = ",\n".join(
        json.dumps(name) + ": [\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]"
        for name, cases in goldens.items()
    )
    file.write_text("{\n" + lines + "}\n")


if __name__ == "__main__":
    main()
