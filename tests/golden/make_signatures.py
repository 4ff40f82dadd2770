# SPDX-License-Identifier: Apache-2.0
"""Makes signatures.jsonl: the signatures of the ops in ops/, as TensorFlow 2.21 itself registers them.

    python3 make_signatures.py > signatures.jsonl

One line an op: name, inputs, outputs, attrs, flags. A type is a number of DataType. An argument is
[name, type or attribute, number attribute, is_ref]; an attribute [name, type, minimum, default, allowed values],
with null where there is none.
"""
import json
import re
import sys
from pathlib import Path

from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.tensor_util import MakeNdarray as make_ndarray

OPS = Path(__file__).resolve().parents[2] / "ops"
NAME = re.compile(r'\.name\s*=\s*"(\w+)"')


def names():
    for path in sorted(OPS.rglob("*.cc")):
        if not path.name.endswith("_test.cc"):
            yield from NAME.findall(path.read_text(encoding="utf-8"))


def value(attr):
    """A default as JSON."""
    kind = attr.WhichOneof("value")
    if kind == "list":
        for field, values in attr.list.ListFields():
            return [v.decode() if isinstance(v, bytes) else v for v in values]
        return []
    if kind == "shape":
        return "unknown" if attr.shape.unknown_rank else [dim.size for dim in attr.shape.dim]
    if kind == "tensor":
        return make_ndarray(attr.tensor).tolist()
    found = getattr(attr, kind)
    return found.decode() if isinstance(found, bytes) else found


def allowed(attr):
    if not attr.HasField("allowed_values"):
        return None
    listed = attr.allowed_values.list
    return sorted(set(listed.type)) if listed.type else [v.decode() for v in listed.s]


def argument(arg):
    return [arg.name, arg.type or arg.type_attr or arg.type_list_attr, arg.number_attr or None, arg.is_ref]


def attribute(attr):
    return [attr.name, attr.type, attr.minimum if attr.has_minimum else None,
            value(attr.default_value) if attr.HasField("default_value") else None, allowed(attr)]


def main():
    for name in sorted(names()):
        op = op_def_registry.get(name)
        if op is None:
            sys.exit(f"TensorFlow has no op {name}")
        flags = [flag for flag in ("is_stateful", "is_commutative", "is_aggregate", "allows_uninitialized_input")
                 if getattr(op, flag)]
        print(json.dumps({"name": name, "inputs": [argument(a) for a in op.input_arg],
                          "outputs": [argument(a) for a in op.output_arg],
                          "attrs": [attribute(a) for a in op.attr], "flags": flags}, separators=(",", ":")))


main()
