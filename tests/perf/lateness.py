#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How late a step is that may take a second: for graphs whose planning, whose kernels or whose loops take longer.

    tests/perf/lateness.py build/release/bin/tenon [--deadline 1.0]

A line a graph: milliseconds from the deadline to the command's end, and what it said. What the command takes without
any graph is taken off. No assertion: machines are noisy; the goal is 100 ms.
"""

import argparse
import os
import subprocess
import tempfile
import time


def number(name, value, dtype="DT_FLOAT", field="float_val"):
    return (
        f"node {{ name: '{name}' op: 'Const' attr {{ key: 'dtype' value {{ type: {dtype} }} }} attr {{ key: 'value' value {{ tensor "
        f"{{ dtype: {dtype} tensor_shape {{ }} {field}: {value} }} }} }} }}\n"
    )


def dims(name, values):
    return (
        f"node {{ name: '{name}' op: 'Const' attr {{ key: 'dtype' value {{ type: DT_INT32 }} }} attr {{ key: 'value' value {{ tensor "
        f"{{ dtype: DT_INT32 tensor_shape {{ dim {{ size: {len(values)} }} }} "
        + " ".join(f"int_val: {v}" for v in values)
        + " } } } }\n"
    )


def node(name, op, inputs, attrs="T: DT_FLOAT"):
    words = "".join(f" input: '{i}'" for i in inputs)
    words += "".join(
        f" attr {{ key: '{key.strip()}' value {{ {'i' if value.strip().isdigit() else 'type'}: {value.strip()} }} }}"
        for key, value in (pair.split(":") for pair in attrs.split(",") if pair)
    )
    return f"node {{ name: '{name}' op: '{op}'{words} }}\n"


def products(size, count):
    text = (
        dims("dims", [size, size])
        + number("half", 0.5)
        + node("m0", "Fill", ["dims", "half"], "T: DT_FLOAT,index_type: DT_INT32")
    )
    for i in range(count):
        text += node(f"m{i + 1}", "MatMul", [f"m{i}", "m0"])
    return text, f"m{count}"


def tensor(name, sizes):
    """A tensor of halves: `name`, of a Fill."""
    return (
        dims(f"{name}/dims", sizes)
        + number(f"{name}/half", 0.5)
        + node(name, "Fill", [f"{name}/dims", f"{name}/half"], "T: DT_FLOAT,index_type: DT_INT32")
    )


def windows(name, op, inputs, **lists):
    attrs = "".join(
        f" attr {{ key: '{key}' value {{ list {{ " + " ".join(f"i: {i}" for i in values) + " } } }"
        for key, values in lists.items()
    )
    attrs += " attr { key: 'T' value { type: DT_FLOAT } } attr { key: 'padding' value { s: 'SAME' } }"
    return f"node {{ name: '{name}' op: '{op}'" + "".join(f" input: '{i}'" for i in inputs) + attrs + " }\n"


def convolution(op):
    image, taps = [1, 2048, 1024, 64], [7, 7, 64, 64]
    text = tensor("x", image) + dims("x/sizes", image)
    text += tensor("filter", taps) + dims("filter/sizes", taps)
    inputs = {
        "Conv2D": ["x", "filter"],
        "Conv2DBackpropInput": ["x/sizes", "filter", "x"],
        "Conv2DBackpropFilter": ["x", "filter/sizes", "x"],
    }[op]
    return text + windows("y", op, inputs, strides=[1, 1, 1, 1]), "y"


def pool():
    return (
        tensor("x", [1, 1024, 1024, 4])
        + windows("y", "MaxPool", ["x"], strides=[1, 1, 1, 1], ksize=[1, 1024, 1024, 1]),
        "y",
    )


def sort(size):
    text = number("k", size, "DT_INT32", "int_val")
    # Not all alike: a sort of those is quick.
    text += (
        dims("x/range", [size])
        + node("noise", "StatelessRandomUniform", ["x/range", "seed"], "dtype: DT_FLOAT,T: DT_INT32,Tseed: DT_INT32")
        + dims("seed", [1, 2])
    )
    return text + node("y", "TopKV2", ["noise", "k"]), "y"


def row(length):
    text = number("n0", 1)
    for i in range(length):
        text += node(f"n{i + 1}", "Neg", [f"n{i}"])
    return text, f"n{length}"


def conditionals(count):
    text = number("v0", 5) + number("p", "true", "DT_BOOL", "bool_val")
    for i in range(count):
        text += node(f"s{i}", "Switch", [f"v{i}", "p"]) + node(
            f"v{i + 1}", "Merge", [f"s{i}", f"s{i}:1"], "T: DT_FLOAT,N: 2"
        )
    return text, f"v{count}"


def derivatives(order):
    def function(name, body, result):
        return (
            f"function {{ signature {{ name: '{name}' input_arg {{ name: 'x' type: DT_FLOAT }} output_arg {{ name: 'y' type: DT_FLOAT }} }} "
            f"{body} ret {{ key: 'y' value: '{result}' }} }}\n"
        )
    text = number("one", 1) + "library {\n"
    text += function(
        "f0",
        "node_def { name: 'e' op: 'Exp' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } } "
        "node_def { name: 'm' op: 'Mul' input: 'e:y:0' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }",
        "m:z:0",
    )
    for i in range(1, order + 1):
        text += function(
            f"f{i}",
            "node_def { name: 'g' op: 'SymbolicGradient' input: 'x' input: 'x' attr { key: 'Tin' value { list { type: DT_FLOAT "
            f"type: DT_FLOAT }} }} }} attr {{ key: 'Tout' value {{ list {{ type: DT_FLOAT }} }} }} attr {{ key: 'f' value {{ func "
            f"{{ name: 'f{i - 1}' }} }} }} }}",
            "g:output:0",
        )
    return text + "}\n" + f"node {{ name: 'call' op: 'f{order}' input: 'one' }}\n", "call"


CASES = {
    "nothing": lambda: (number("a", 1), "a"),
    "a product of 12000 x 12000": lambda: products(12000, 1),
    "40 products of 6000 x 6000": lambda: products(6000, 40),
    "a convolution": lambda: convolution("Conv2D"),
    "its image's gradient": lambda: convolution("Conv2DBackpropInput"),
    "its filter's gradient": lambda: convolution("Conv2DBackpropFilter"),
    "windows as large as the image": pool,
    "a sort of 2^25": lambda: sort(1 << 25),
    "a row of 200,000 nodes": lambda: row(200000),
    "20,000 conditionals in a row": lambda: conditionals(20000),
    "a derivative of order 18": lambda: derivatives(18),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon")
    parser.add_argument("--deadline", type=float, default=1.0, help="seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, make in CASES.items():
            text, fetch = make()
            path = os.path.join(folder, "graph.pbtxt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            begin = time.monotonic()
            # What the command does before it prepares the step (it reads the text) is no part of it.
            subprocess.run([given.tenon, "run", path, "--fetch", "none"], capture_output=True, text=True, check=False)
            reading = time.monotonic() - begin
            begin = time.monotonic()
            ran = subprocess.run(
                [given.tenon, "run", path, "--fetch", fetch, "--deadline", f"{int(given.deadline * 1000)}ms"],
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            took = time.monotonic() - begin
            said = (ran.stderr or "it ended in time").strip().split("\n")[-1]
            late = max(0.0, took - reading - given.deadline) * 1000
            print(f"{name:32} {late:8.0f} ms late   rc {ran.returncode}   {said[:110]}", flush=True)


if __name__ == "__main__":
    main()
