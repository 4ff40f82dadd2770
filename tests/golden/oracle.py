# SPDX-License-Identifier: Apache-2.0
"""Asks TensorFlow: a drawn case becomes a line of a case file."""
import base64
import dataclasses
import math
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2
from tensorflow.python.framework import tensor_util

from generators import draw, registry


class NoAnswer(Exception):
    """TensorFlow has no kernel for the case: nothing to compare with."""


CONFIG = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
CONFIG.graph_options.optimizer_options.opt_level = -1
CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True


# Writing.
def tensor(array, dtype=None):
    """dtype: of TensorFlow, where the array's own does not say it: quantized results come as plain integers."""
    array = (
        np.array(array, object) if isinstance(array, bytes) else np.asarray(array)
    )  # numpy's own strings end before their last zeros
    if array.dtype == object or array.dtype.kind in "SU":
        strings = [one if isinstance(one, bytes) else str(one).encode() for one in array.reshape(-1).tolist()]
        return ["string", list(array.shape), [base64.b64encode(one).decode() for one in strings]]
    data = np.ascontiguousarray(array).tobytes()
    size = array.dtype.itemsize
    if array.size > 1 and data == data[:size] * array.size:
        data = data[:size]
    return [registry.type_name(dtype or tf.as_dtype(array.dtype)), list(array.shape), base64.b64encode(data).decode()]


def _number(value):
    return value if math.isfinite(value) else str(value)


def _shape(shape):
    return None if shape.unknown_rank else [dim.size for dim in shape.dim]


def _text(value):
    try:
        return "text", value.decode("ascii")
    except UnicodeDecodeError:
        return "string", base64.b64encode(value).decode()


def attribute(value, kind):
    """{kind: value} of an AttrValue; kind is the op definition's word."""
    which = value.WhichOneof("value")
    if which == "list":
        listed = value.list
        lists = {
            "int": ("ints", list(listed.i)),
            "float": ("floats", [_number(f) for f in listed.f]),
            "bool": ("bools", list(listed.b)),
            "type": ("types", [registry.type_name(t) for t in listed.type]),
            "shape": ("shapes", [_shape(s) for s in listed.shape]),
            "string": ("texts", [s.decode() for s in listed.s]),
        }
        return dict([lists[kind.removeprefix("list(").removesuffix(")")]])
    simple = {"i": lambda: ("int", value.i), "f": lambda: ("float", _number(value.f)), "b": lambda: ("bool", value.b),
              "type": lambda: ("type", registry.type_name(value.type)), "shape": lambda: ("shape", _shape(value.shape)),
              "s": lambda: _text(value.s), "tensor": lambda: ("tensor", tensor(tensor_util.MakeNdarray(value.tensor)))}
    return dict([simple[which]()])


# Building.
def _lower(value, kind):
    """An AttrValue of a Python value."""
    out = attr_value_pb2.AttrValue()
    if kind.startswith("list("):
        field = {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape"}[kind[5:-1]]
        out.list.SetInParent()
        for one in value:
            lowered = getattr(_lower(one, kind[5:-1]), field)
            getattr(out.list, field).append(lowered)
    elif kind == "type":
        out.type = tf.as_dtype(value).as_datatype_enum
    elif kind == "shape":
        out.shape.CopyFrom(tf.TensorShape(value).as_proto())
    elif kind == "tensor":
        out.tensor.CopyFrom(tf.make_tensor_proto(value))
    elif kind == "string":
        out.s = value if isinstance(value, bytes) else value.encode()
    else:
        setattr(out, {"int": "i", "float": "f", "bool": "b"}[kind], value)
    return out


def _value(given):
    return given.value if isinstance(given, (draw.Const, draw.Variable)) else given


def _types_of_inputs(definition, inputs):
    """The attributes that inputs determine."""
    found = {}
    for argument, given in zip(definition.input_arg, inputs, strict=True):
        listed = given if isinstance(given, list) else [given]
        kinds = [tf.as_dtype(_value(one).dtype) if _value(one).dtype != object else tf.string for one in listed]
        if argument.number_attr:
            found[argument.number_attr] = len(listed)
        if argument.type_attr and kinds:
            found[argument.type_attr] = kinds[0]
        if argument.type_list_attr:
            found[argument.type_list_attr] = kinds
    return found


def _variables(definition, case):
    """Flat place -> "ref" or "resource"."""
    kinds, place = {}, 0
    for argument, given in zip(definition.input_arg, case.inputs, strict=True):
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, draw.Variable):
                kinds[place] = "ref" if argument.is_ref else "resource"
            place += 1
    return kinds


def _const_node(graph, name, value):
    node = graph.node.add(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, shape=value.shape))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype


def _variable_nodes(graph, i, kind, value):
    dtype = tf.as_dtype(value.dtype) if value.dtype != object else tf.string
    resource = kind == "resource"
    name = f"variable{i}"
    node = graph.node.add(name=name, op="VarHandleOp" if resource else "VariableV2")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(value.shape).as_proto())
    node.attr["shared_name"].s = name.encode()
    _const_node(graph, f"initial{i}", value)
    assign = graph.node.add(
        name=f"assign{i}", op="AssignVariableOp" if resource else "Assign", input=[name, f"initial{i}"]
    )
    assign.attr["dtype" if resource else "T"].type = dtype.as_datatype_enum
    read = graph.node.add(name=f"read{i}", op="ReadVariableOp" if resource else "Identity", input=[name])
    read.attr["dtype" if resource else "T"].type = dtype.as_datatype_enum
    return name


def _graph_of(case, definition, attrs):
    graph = graph_pb2.GraphDef()
    graph.versions.producer = (
        tf.compat.v1.GRAPH_DEF_VERSION if hasattr(tf.compat.v1, "GRAPH_DEF_VERSION") else tf.version.GRAPH_DEF_VERSION
    )
    variables = _variables(definition, case)
    names = []
    for i, given in enumerate(case.flat()):
        value = _value(given)
        names.append(f"input{i}")
        if i in variables:
            names[-1] = _variable_nodes(graph, i, variables[i], value)
        elif isinstance(given, draw.Const):
            _const_node(graph, names[-1], value)
        else:
            node = graph.node.add(name=names[-1], op="Placeholder")
            node.attr["dtype"].type = (
                tf.string if value.dtype == object else tf.as_dtype(value.dtype)
            ).as_datatype_enum
            shape = tf.TensorShape(None if case.blind else value.shape)
            node.attr["shape"].shape.CopyFrom(shape.as_proto())
    node = graph.node.add(name="node", op=case.op, input=names)
    for name, value in attrs.items():
        node.attr[name].CopyFrom(value)
    return graph


def _attrs(case, definition):
    given = {**_types_of_inputs(definition, case.inputs), **case.attrs}
    kinds = {attr.name: attr.type for attr in definition.attr}
    for name in given:
        if name not in kinds:
            raise KeyError(f"{case.op} has no attribute {name}")
    return {name: _lower(given[name], kinds[name]) for name in kinds if name in given}


# Asking.
# What comes before the text of an error.
_FRAMES = ("Graph execution error", "Detected at node", "Node: ", "<stack traces", "  File", "    ")


# What waits longer than this waits for ever.
PATIENCE = tf.compat.v1.RunOptions(timeout_in_ms=10000)


def _refusal(error):
    text = getattr(error, "message", None) or str(error)
    without = ("No OpKernel", "No registered", "Unsupported dtype", "Could not find")
    if isinstance(error, (tf.errors.UnimplementedError, tf.errors.DeadlineExceededError)) or any(
        words in text for words in without
    ):
        raise NoAnswer(text) from error
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_FRAMES)]
    return lines[0][:160] if lines else type(error).__name__


REFUSALS = (ValueError, TypeError, tf.errors.OpError)


def ask(case):
    """The case with TensorFlow's answer as a JSON object. NoAnswer where there is nothing to compare with."""
    if isinstance(case, draw.Program):
        return _ask_program(case)
    definition = registry.definition(case.op)
    attrs = _attrs(case, definition)
    kinds = {attr.name: attr for attr in definition.attr}
    line = {"op": case.op,
            "attrs": {name: attribute(value, kinds[name].type) for name, value in attrs.items()
                      if not kinds[name].HasField("default_value") or kinds[name].default_value != value},
            "in": [tensor(_value(one)) for one in case.flat()]}
    variables = _variables(definition, case)
    constants = [i for i, one in enumerate(case.flat()) if isinstance(one, draw.Const)]
    unset = [i for i, one in enumerate(case.flat()) if isinstance(one, draw.Variable) and one.unset]
    line.update({key: value for key, value in (("const", constants), ("unset", unset), ("blind", case.blind),
                                               ("vars", {str(i): kind for i, kind in variables.items()})) if value})
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(_graph_of(case, definition, attrs), name="")
    except REFUSALS as error:
        return {**line, "error": _refusal(error)}
    with tf.compat.v1.Session(graph=graph, config=CONFIG) as session:
        try:
            outputs, after = _run(session, graph, case, variables, unset)
        except REFUSALS as error:
            return {**line, "error": _refusal(error)}
        if not case.says(case.answered):
            raise NoAnswer("TensorFlow gives memory that it never wrote")
        if case.blind and not _fits(case, definition, attrs):
            raise NoAnswer("TensorFlow refuses it where it knows the shapes before the step")
        line["out"] = [
            tensor(one, output.dtype.base_dtype)
            for one, output in zip(outputs, graph.get_operation_by_name("node").outputs)
        ]
        if after is not None:
            line["after"] = [tensor(one) for one in after]
        elif case.says(case.gradients) and not variables:
            line.update(_gradients(session, graph, case, outputs))
    return line


def _fits(case, definition, attrs):
    """Whether the shape function takes the shapes that were fed unknown."""
    known = dataclasses.replace(case, blind=False)
    try:
        with tf.Graph().as_default():
            tf.graph_util.import_graph_def(_graph_of(known, definition, attrs), name="")
    except REFUSALS:
        return False
    return True


def _feeds(case):
    return {f"input{i}:0": one for i, one in enumerate(case.flat()) if not isinstance(one, (draw.Const, draw.Variable))}


def _run(session, graph, case, variables, unset):
    node = graph.get_operation_by_name("node")
    assigned = [f"assign{i}" for i in variables if i not in unset]
    if assigned:
        session.run([graph.get_operation_by_name(name) for name in assigned])
    outputs = session.run(list(node.outputs) or [node], _feeds(case), options=PATIENCE)
    return (outputs if node.outputs else []), _after(session, variables)


def _after(session, variables):
    """The variables' values; None where one has none."""
    try:
        return session.run([f"read{i}:0" for i in sorted(variables)]) if variables else None
    except tf.errors.FailedPreconditionError:
        return None


def _gradients(session, graph, case, outputs):
    """The gradients of all floating outputs in random directions, in all floating feeds; {} where there are none."""
    random = np.random.default_rng(case.seed)
    node = graph.get_operation_by_name("node")
    floating = [
        (one.dtype.is_floating or one.dtype.is_complex) and (case.differentiated is None or i in case.differentiated)
        for i, one in enumerate(node.outputs)
    ]
    asked = [i for i, one in enumerate(case.flat()) if isinstance(one, np.ndarray) and one.dtype != object
             and (tf.as_dtype(one.dtype).is_floating or tf.as_dtype(one.dtype).is_complex)]
    if not asked or not any(floating):
        return {}
    directions = [_direction(random, value) if yes else None for yes, value in zip(floating, outputs)]
    try:
        with graph.as_default():
            found = tf.gradients([y for y, yes in zip(node.outputs, floating) if yes],
                                 [graph.get_tensor_by_name(f"input{i}:0") for i in asked],
                                 [tf.constant(one) for one in directions if one is not None])
            dense = [_dense(one) for one in found]
        values = session.run([one for one in dense if one is not None], _feeds(case))
    except (*REFUSALS, LookupError, AttributeError, IndexError, AssertionError):
        return {}
    shapes = [case.flat()[i].shape for i, one in zip(asked, dense) if one is not None]
    if [value.shape for value in values] != shapes:
        return {}  # TensorFlow forgot to add up what it had broadcast
    values = iter(values)
    return {"asked": asked, "dy": [None if one is None else tensor(one) for one in directions],
            "dx": [None if one is None else tensor(next(values)) for one in dense]}


def _direction(random, value):
    kind = value.dtype
    parts = random.uniform(0.5, 1.5, np.shape(value)) * random.choice([-1, 1], np.shape(value))
    if kind.kind == "c":
        parts = parts + 1j * random.uniform(-1, 1, np.shape(value))
    return np.asarray(parts).astype(kind)


def _dense(gradient):
    return gradient if gradient is None or isinstance(gradient, tf.Tensor) else tf.convert_to_tensor(gradient)


def _ask_program(program):
    graph_def = program.graph.as_graph_def()
    line = {
        "op": program.op,
        "ops": sorted(
            {node.op for node in graph_def.node} | {node.op for f in graph_def.library.function for node in f.node_def}
        ),
        "about": program.about,
        "graph": base64.b64encode(graph_def.SerializeToString(deterministic=True)).decode(),
        "runs": [],
    }
    graph, dense = program.graph, []
    if program.gradients:
        with graph.as_default():
            at = [[graph.get_tensor_by_name(name + ":0") for name in names] for names in program.gradients]
            found = {x: _dense(one) for x, one in zip(program.gradients[1], tf.gradients(*at)) if one is not None}
        if found:  # of what the ys depend on
            line["gradients"], dense = {"ys": program.gradients[0], "xs": list(found)}, list(found.values())
    with tempfile.TemporaryDirectory() as folder, tf.compat.v1.Session(graph=graph, config=CONFIG) as session:
        for feeds, fetches, targets in program.runs:
            run = {
                "feeds": {name: "folder" if value is draw.FOLDER else tensor(value) for name, value in feeds.items()},
                "fetch": fetches,
                "targets": targets,
            }
            feeds = {name: folder if value is draw.FOLDER else value for name, value in feeds.items()}
            line["runs"].append(run)
            differentiates = dense if fetches else []
            try:
                names = [graph.get_tensor_by_name(name) for name in fetches] + differentiates
                values = session.run(
                    [names, [graph.get_operation_by_name(name) for name in targets]], feeds, options=PATIENCE
                )[0]
            except REFUSALS as error:
                run["error"] = _refusal(error)
                continue
            run["out"] = [tensor(one) for one in values[: len(fetches)]]
            if differentiates:
                run["dx"] = [tensor(one) for one in values[len(fetches):]]
    return line
