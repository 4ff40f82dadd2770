# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's registries say of an op: its definition, and the dtypes of its CPU kernels."""
import functools
import itertools

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels, op_def_registry

# The types that are drawn in turn. Quantized ones are named by the generators of their ops; others (eight-bit floats,
# four-bit integers) have no arithmetic here.
PLAIN = (tf.float32, tf.float64, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.complex64, tf.complex128, tf.bool,
         tf.int8, tf.uint8, tf.int16, tf.uint16, tf.uint32, tf.uint64, tf.string)
FLOATS = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
INTEGERS = (tf.int32, tf.int64, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.uint32, tf.uint64)
COMPLEX = (tf.complex64, tf.complex128)


def definition(op):
    found = op_def_registry.get(op)
    if found is None:
        raise KeyError(f"TensorFlow has no op {op}")
    return found


def type_name(dtype):
    """As the case files write it: float, bfloat16, int64."""
    return types_pb2.DataType.Name(tf.as_dtype(dtype).as_datatype_enum)[3:].lower()


def _allowed(attr):
    listed = [tf.as_dtype(t) for t in attr.allowed_values.list.type] if attr.HasField("allowed_values") else PLAIN
    return [t for t in PLAIN if t in listed]


@functools.cache
def combinations(op):
    """One dict of type attributes for each set of types that some CPU kernel of `op` takes, in an order of its own."""
    attrs = {attr.name: _allowed(attr) for attr in definition(op).attr if attr.type == "type"}
    found = []
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type != "CPU" or kernel.label:
            continue
        constrained = {c.name: [tf.as_dtype(t) for t in c.allowed_values.list.type] for c in kernel.constraint}
        choices = [[t for t in allowed if t in constrained.get(name, allowed)] for name, allowed in attrs.items()]
        for types in itertools.product(*choices) if len(choices) < 4 else zip(*map(itertools.cycle, choices)):
            found.append(dict(zip(attrs, types)))
            if len(found) > 4000:
                break
    return found


@functools.cache
def dtypes(op, attr="T"):
    """The types that CPU kernels take for one attribute."""
    kinds = {combination[attr] for combination in combinations(op)}
    return tuple(t for t in PLAIN if t in kinds)
