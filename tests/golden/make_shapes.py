# SPDX-License-Identifier: Apache-2.0
"""Makes shapes.jsonl: what TensorFlow 2.21 infers of outputs' shapes, for the shape functions' hard cases.

    python3 make_shapes.py > shapes.jsonl

One line a case: op, attrs, inputs by name (each a list of [type, shape, value]; a shape is null where the rank is
unknown and -1 where a dim is; value is null or the elements), and outputs (shapes) or null for an error. "fails" says
that TensorFlow infers a shape and then has an error whenever it runs: there an error may come early.
"""
import inspect
import itertools
import json
import os
import re

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops  # which raw_ops has not
from tensorflow.python.framework import op_def_library, op_def_registry

F, I, L, B, U = tf.float32, tf.int32, tf.int64, tf.bool, tf.uint8
UNKNOWN = "unknown"
PLAIN = {tf.quint8: tf.uint8, tf.qint8: tf.int8, tf.qint32: tf.int32}  # what quantized types are made of


def x(*dims, t=F):
    """An input of which only the shape is known; x(UNKNOWN) has no rank, x(None) one unknown dim."""
    return (t, None if dims == (UNKNOWN,) else [-1 if d is None else d for d in dims], None)


def v(value, t=I):
    """An input of known value."""
    array = numpy.array(value, dtype=t.as_numpy_dtype)
    return (t, list(array.shape), array.reshape(-1).tolist())


def tensor(spec):
    kind, shape, value = spec
    if value is not None:
        return tf.constant(numpy.array(value, dtype=kind.as_numpy_dtype).reshape(shape), kind)
    return tf.compat.v1.placeholder(kind, None if shape is None else [None if d < 0 else d for d in shape])


def defaults(op):
    """The attributes that no input determines and that a case may leave out."""
    definition = op_def_registry.get(op)
    by_input = {name for arg in definition.input_arg for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    out = {}
    for attr in definition.attr:
        if attr.HasField("default_value") and attr.name not in by_input:
            kind = attr.default_value.WhichOneof("value")
            out[attr.name] = list(attr.default_value.list.i) if kind == "list" else getattr(attr.default_value, kind)
    return out


def infer(op, inputs, attrs):
    with tf.Graph().as_default():
        arguments = {name: [tensor(s) for s in spec] if isinstance(spec, list) else tensor(spec)
                     for name, spec in inputs.items()}
        try:
            attrs = {**defaults(op), **attrs}
            types = {name: given(name, value) for name, value in attrs.items()}
            if "shape" in attrs:
                types["shape"] = [None if d < 0 else d for d in attrs["shape"]]
            outputs = op_def_library._apply_op_helper(op, **arguments, **types)[2].outputs
        except ValueError:
            return None
        return [None if o.shape.rank is None else [-1 if d is None else d for d in o.shape.as_list()] for o in outputs]


def fails(op, inputs, attrs):
    """Whether the op has an error when it runs, whatever the unknown dims are."""
    if any(not isinstance(spec, list) and spec[0] == tf.string for spec in inputs.values()):
        return False  # what would it read?
    if op.startswith(("MatrixDiag", "MatrixSetDiag")) and any(
        spec[1] is None or -1 in spec[1] or spec[2] is None and spec[0] == I or (name == "input" and len(spec[1]) < 2)
        for name, spec in inputs.items()
    ):
        return False  # of numbers that do not fit TensorFlow's kernels die
    if op.startswith("FakeQuantWithMinMaxVarsPerChannel") and inputs["inputs"][1] is None or op == "QuantizedConv2D":
        return False  # of scalars and of images that are too small they die too
    if op.startswith(("BlockLSTM", "LSTMBlock", "GRUBlock", "CTC")) and any(
        spec[1] is None or -1 in spec[1] for spec in inputs.values()
    ):
        return False  # the same
    if op == "XlaDynamicSlice" and inputs["start_indices"][1] is None:
        return False  # of a scalar there it dies
    types = {name: given(name, value) for name, value in attrs.items()}
    # Python names some arguments in another way, in the same order.
    function = getattr(tf.raw_ops, op, None) or getattr(gen_xla_ops, re.sub("(?<!^)(?=[A-Z])", "_", op).lower())
    names = dict(zip((arg.name for arg in op_def_registry.get(op).input_arg), inspect.signature(function).parameters))
    names["squeeze_dims"] = "axis"
    named = {names.get(name, name): value for name, value in {**inputs, **types}.items()}

    def concrete(spec, filler):
        if isinstance(spec, list):
            return [concrete(one, filler) for one in spec]
        if not isinstance(spec, tuple):
            return spec
        kind, shape, value = spec
        if value is not None:
            return tensor(spec)
        dims = filler[1] if shape is None else [filler[0] if d < 0 else d for d in shape]
        if kind in PLAIN:
            return tf.bitcast(tf.ones(dims, PLAIN[kind]), kind)
        return tf.fill(dims, "1") if kind == tf.string else tf.ones(dims, kind)

    for filler in itertools.product((1, 2, 3, 4), ([], [1], [2], [1, 1], [2, 3], [5, 3], [2, 2, 2])):
        try:
            function(**{name: concrete(spec, filler) for name, spec in named.items()})
            return False
        except (tf.errors.OpError, ValueError):
            pass
    return True


TYPES = {
    "T",
    "type",
    "out_type",
    "DstT",
    "dtype",
    "output_type",
    "Tout",
    "index_type",
    "Treal",
    "Tcomplex",
    "output_dtype",
}
TYPE_LISTS = {
    "sparse_types",
    "ragged_value_types",
    "ragged_split_types",
    "context_sparse_types",
    "context_ragged_value_types",
    "context_ragged_split_types",
    "feature_list_sparse_types",
    "feature_list_dense_types",
    "feature_list_ragged_value_types",
    "feature_list_ragged_split_types",
}
SHAPE_LISTS = {"dense_shapes", "context_dense_shapes", "feature_list_dense_shapes"}
CASES = []


def given(name, value):
    """An attribute as Python takes it; shapes are lists, -1 a dim that is not known and None a rank."""
    if name in TYPES:
        return tf.as_dtype(value)
    if name in SHAPE_LISTS:
        return [None if shape is None else [None if d < 0 else d for d in shape] for shape in value]
    return value


def written(name, value):
    """The same as it is written down."""
    if name in TYPES:
        return tf.as_dtype(value).as_datatype_enum
    return [one.as_datatype_enum for one in value] if name in TYPE_LISTS else value


def case(op, inputs, **attrs):
    CASES.append((op, inputs, attrs))


def array():
    for shape in (x(2, 3), x(None, 3), x(UNKNOWN), x(0, 6), x(2, 0), x()):
        for target in ([6], [3, -1], [-1], [0, -1], [-1, 0], [], [1], [-1, 3], [-1, -1], [2, 4], [-2, 3]):
            case("Reshape", {"tensor": shape, "shape": v(target)})
        case("Reshape", {"tensor": shape, "shape": x(2, t=I)})
        case("Reshape", {"tensor": shape, "shape": x(None, t=I)})
        for axis in (-3, -2, -1, 0, 1, 2, 3):
            case("ExpandDims", {"input": shape, "dim": v(axis)})
        case("ExpandDims", {"input": shape, "dim": x(t=I)})
        case("Shape", {"input": shape})
        case("Size", {"input": shape})
        case("Rank", {"input": shape})
        case("Where", {"input": shape})
        case("ZerosLike", {"x": shape})
    for shape, axes in itertools.product(
        (x(1, 2, 1), x(1, None, 3), x(None, None), x(UNKNOWN)), ([], [0], [-1], [0, 2], [1], [3])
    ):
        case("Squeeze", {"input": shape}, squeeze_dims=axes)
    for dims in ([2, 3], [], [-1], [0, 4]):
        case("Fill", {"dims": v(dims), "value": x()})
    case("Fill", {"dims": x(3, t=I), "value": x()})
    case("Fill", {"dims": x(None, t=I), "value": x()})
    case("Fill", {"dims": v([2]), "value": x(1)})
    for a, b, axis in itertools.product(
        (x(2, 3), x(None, 3), x(UNKNOWN)), (x(2, 3), x(5, 3), x(2, None), x(2), x(UNKNOWN)), (0, 1, -1, 2)
    ):
        case("ConcatV2", {"values": [a, b], "axis": v(axis)})
    case("ConcatV2", {"values": [x(2, 3), x(2, 4)], "axis": x(t=I)})
    case("ConcatV2", {"values": [x(), x()], "axis": v(0)})
    for shape, axis, n in itertools.product((x(4, 6), x(None, 6), x(UNKNOWN)), (0, 1, -1, 2), (2, 3)):
        case("Split", {"split_dim": v(axis), "value": shape}, num_split=n)
    for sizes in ([2, 4], [-1, 4], [2, 3], [-1, -1], [7, -1], [6]):
        case("SplitV", {"value": x(4, 6), "size_splits": v(sizes, L), "split_dim": v(1)}, num_split=2)
        case("SplitV", {"value": x(4, None), "size_splits": v(sizes, L), "split_dim": v(-1)}, num_split=2)
    for axis in (-4, -3, -1, 0, 1, 2, 3):
        case("Pack", {"values": [x(2, None), x(None, 3)]}, axis=axis)
        case("Unpack", {"value": x(2, 3, 2)}, num=2, axis=axis)
    case("Pack", {"values": [x(2), x(3)]})
    for begin, size in itertools.product(
        ([0, 0], [1, 2], [2, 3], [3, 0], [-1, 0]), ([1, 1], [-1, -1], [1, 2], [0, 0], [3, 1], [-2, 1])
    ):
        case("Slice", {"input": x(2, 3), "begin": v(begin), "size": v(size)})
        case("Slice", {"input": x(None, 3), "begin": v(begin), "size": v(size)})
    case("Slice", {"input": x(2, 3), "begin": x(2, t=I), "size": v([1, -1])})
    case("Slice", {"input": x(2, 3), "begin": v([0, 1]), "size": x(2, t=I)})
    case("Slice", {"input": x(UNKNOWN), "begin": x(2, t=I), "size": x(2, t=I)})
    for size in ([1, 2], [0, 0], [3, 1], [-1, 1], [1, 1, 1]):
        for shape in (x(2, 3), x(None, 3), x(UNKNOWN)):
            case("XlaDynamicSlice", {"input": shape, "start_indices": x(2, t=I), "size_indices": v(size)})
    for rank in (x(2, t=I), x(None, t=I), x(3, t=I), x(t=I), x(UNKNOWN, t=I)):
        case("XlaDynamicSlice", {"input": x(2, 3), "start_indices": x(2, t=I), "size_indices": rank})
        if rank != x(t=I):  # of which TensorFlow dies
            case("XlaDynamicSlice", {"input": x(2, 3), "start_indices": rank, "size_indices": v([1, 1])})
        case("XlaDynamicUpdateSlice", {"input": x(2, 3), "update": x(1, 1), "indices": rank})
    for update in (x(1, 2), x(2, 3), x(None, 1), x(0, 4), x(1), x(UNKNOWN)):
        for shape in (x(2, 3), x(None, 3), x(UNKNOWN)):
            case("XlaDynamicUpdateSlice", {"input": shape, "update": update, "indices": x(2, t=I)})
    for pads in ([[1, 2], [0, 3]], [[0, 0], [0, 0]], [[-1, 0], [0, 0]]):
        case("Pad", {"input": x(2, None), "paddings": v(pads)})
    case("Pad", {"input": x(UNKNOWN), "paddings": x(3, 2, t=I)})
    case("Pad", {"input": x(2, 3), "paddings": x(3, 2, t=I)})
    for multiples in ([2, 3], [0, 1], [-1, 1], [2]):
        case("Tile", {"input": x(2, None), "multiples": v(multiples)})
    case("Tile", {"input": x(2, 3), "multiples": x(2, t=I)})
    for perm in ([1, 0], [0, 1], [0, 0], [2, 0], [-1, 0], [0]):
        case("Transpose", {"x": x(2, 3), "perm": v(perm)})
    case("Transpose", {"x": x(UNKNOWN), "perm": x(3, t=I)})
    case("Transpose", {"x": x(2, 3), "perm": x(2, t=I)})
    for axes in ([0], [-1, 0], [0, 0], [2], []):
        case("ReverseV2", {"tensor": x(2, None), "axis": v(axes)})
    for shape, target in itertools.product((x(3), x(1, 3), x(None), x(UNKNOWN), x(4)), ([2, 3], [3], [0, 3], [2, -1])):
        case("BroadcastTo", {"input": shape, "shape": v(target)})
    for start, limit, delta in ((0, 5, 1), (0, 5, 2), (5, 0, -2), (0, 5, -1), (0, 5, 0), (3, 3, 1)):
        case("Range", {"start": v(start), "limit": v(limit), "delta": v(delta)})
        case("Range", {"start": v(start, F), "limit": v(limit, F), "delta": v(delta, F)})
    case("Range", {"start": v(0), "limit": x(t=I), "delta": v(1)})
    for axis in (-2, -1, 0, 1, 2, 3):
        case("OneHot", {"indices": x(2, None, t=I), "depth": v(5), "on_value": x(), "off_value": x()}, axis=axis)
    case("OneHot", {"indices": x(2, t=I), "depth": v(-1), "on_value": x(), "off_value": x()})
    case("OneHot", {"indices": x(2, t=I), "depth": x(t=I), "on_value": x(), "off_value": x()})
    for shape, indices, axis, batch in itertools.product(
        (x(4, 5, 6), x(4, None, 6)), (x(t=I), x(4, t=I), x(4, 2, t=I)), (0, 1, -1, 3), (0, 1)
    ):
        case("GatherV2", {"params": shape, "indices": indices, "axis": v(axis)}, batch_dims=batch)
    case("GatherV2", {"params": x(4, 5), "indices": x(3, t=I), "axis": x(t=I)})
    case("Gather", {"params": x(4, 5), "indices": x(2, 3, t=I)})
    case("Gather", {"params": x(), "indices": x(2, 3, t=I)})
    for c, t, e in itertools.product(
        (x(t=B), x(2, t=B), x(2, 3, t=B), x(UNKNOWN, t=B), x(3, t=B)), (x(2, 3), x(None, 3)), (x(2, 3), x(2, 4), x(3))
    ):
        case("Select", {"condition": c, "t": t, "e": e})
        case("SelectV2", {"condition": c, "t": t, "e": e})
    case("Unique", {"x": x(5)})
    case("Unique", {"x": x(5, 2)})
    case("UniqueWithCounts", {"x": x(5)})
    case("UniqueWithCounts", {"x": x(5, 2)})
    case("DynamicStitch", {"indices": [v([0, 2]), v([1, 5])], "data": [x(2, 3), x(None, 3)]})
    case("DynamicStitch", {"indices": [x(2, t=I)], "data": [x(2, 3)]})
    case("DynamicStitch", {"indices": [x(2, t=I)], "data": [x(4, 3)]})
    case("DynamicPartition", {"data": x(4, 3), "partitions": x(4, t=I)}, num_partitions=2)
    case("DynamicPartition", {"data": x(4, 3), "partitions": x(5, t=I)}, num_partitions=2)
    case("InvertPermutation", {"x": x(4, t=I)})
    case("BroadcastGradientArgs", {"s0": x(4, t=I), "s1": x(2, t=I)})


def strided():
    def one(shape, begin, end, strides, **masks):
        case("StridedSlice", {"input": shape, "begin": v(begin), "end": v(end), "strides": v(strides)}, **masks)
    for shape in (x(5, 6, 7), x(None, 6, 7), x(5, None, 7)):
        one(shape, [1], [3], [1])
        one(shape, [1, 2], [4, 6], [2, 3])
        one(shape, [0], [0], [1], shrink_axis_mask=1)
        one(shape, [-1], [0], [1], shrink_axis_mask=1)
        one(shape, [9], [0], [1], shrink_axis_mask=1)
        one(shape, [0], [1], [-1], shrink_axis_mask=1)
        one(shape, [0, 0], [0, 0], [1, 1], begin_mask=3, end_mask=3)
        one(shape, [4, 0], [1, 0], [-1, -2], begin_mask=2, end_mask=2)
        one(shape, [0, 1], [0, 3], [1, 1], ellipsis_mask=1)
        one(shape, [1, 0, 2], [2, 0, 3], [1, 1, 1], ellipsis_mask=2)
        one(shape, [0, 0, 1], [0, 0, 3], [1, 1, 1], ellipsis_mask=2, new_axis_mask=1)
        one(shape, [0, 0, 1], [0, 0, 3], [1, 1, 1], ellipsis_mask=1, new_axis_mask=2, shrink_axis_mask=4)
        one(shape, [0, 0], [0, 0], [1, 1], new_axis_mask=3)
        one(shape, [0, 0], [0, 0], [1, 1], new_axis_mask=1, shrink_axis_mask=3)
        one(shape, [0, 0], [1, 1], [1, 1], ellipsis_mask=3)
        one(shape, [0], [1], [0])
        one(shape, [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1])
        one(shape, [-100], [100], [1])
        one(shape, [100], [-100], [-3])
        one(shape, [3], [3], [1])
        one(shape, [1], [3], [1], begin_mask=1, shrink_axis_mask=1)
        case("StridedSlice", {"input": shape, "begin": x(1, t=I), "end": x(1, t=I), "strides": v([1])})
        case(
            "StridedSlice",
            {"input": shape, "begin": x(1, t=I), "end": x(1, t=I), "strides": v([1])},
            shrink_axis_mask=1,
        )
        case(
            "StridedSlice",
            {"input": shape, "begin": x(1, t=I), "end": x(1, t=I), "strides": v([2])},
            begin_mask=1,
            end_mask=1,
        )
        case("StridedSlice", {"input": shape, "begin": x(None, t=I), "end": x(None, t=I), "strides": x(None, t=I)})
    one(x(UNKNOWN), [1], [3], [1])
    case("StridedSliceGrad", {"shape": v([5, 6]), "begin": v([1]), "end": v([3]), "strides": v([1]), "dy": x(2, 6)})
    case("StridedSliceGrad", {"shape": x(2, t=I), "begin": v([1]), "end": v([3]), "strides": v([1]), "dy": x(2, 6)})


def math():
    shapes = (x(2, 3), x(3), x(1, 3), x(2, 1), x(None, 3), x(2, None), x(4), x(), x(UNKNOWN), x(5, 1, 3), x(0, 3))
    for a, b in itertools.product(shapes, shapes):
        case("AddV2", {"x": a, "y": b})
    for a, b in itertools.product(shapes[:6], shapes[:7]):
        case("Equal", {"x": a, "y": b})
        # TensorFlow takes [?] and [?] for equal here, which they need not be: only known shapes are compared.
        if all(None not in s[1] and -1 not in s[1] for s in (a, b)):
            case("Equal", {"x": a, "y": b}, incompatible_shape_error=False)
    for shape, keep in itertools.product((x(2, 3, 4), x(None, 3, 4), x(UNKNOWN)), (False, True)):
        for axes in ([], [0], [1, 2], [-1], [0, 1, 2], [3], [0, 0], 1, [0, -3]):
            case("Sum", {"input": shape, "reduction_indices": v(axes)}, keep_dims=keep)
        case("Mean", {"input": shape, "reduction_indices": x(1, t=I)}, keep_dims=keep)
        case("Mean", {"input": shape, "reduction_indices": x(None, t=I)}, keep_dims=keep)
    for axis in (-3, -1, 0, 1, 2, 3):
        case("ArgMax", {"input": x(2, None, 4), "dimension": v(axis)})
    case("ArgMax", {"input": x(), "dimension": v(0)})
    case("ArgMax", {"input": x(2, 3), "dimension": x(t=I)})
    for ta, tb in itertools.product((False, True), (False, True)):
        for a, b in itertools.product(
            (x(2, 3), x(None, 3), x(UNKNOWN), x(3)), (x(3, 4), x(2, 4), x(4, 3), x(None, None))
        ):
            case("MatMul", {"a": a, "b": b}, transpose_a=ta, transpose_b=tb)
        for a, b in itertools.product(
            (x(5, 2, 3), x(1, 2, 3), x(2, 3), x(None, 2, 3)), (x(5, 3, 4), x(7, 1, 4, 3), x(3, 2))
        ):
            case("BatchMatMulV2", {"x": a, "y": b}, adj_x=ta, adj_y=tb)
    case("AddN", {"inputs": [x(2, None), x(None, 3), x(UNKNOWN)]})
    case("AddN", {"inputs": [x(2, 3), x(3)]})
    case("UnsortedSegmentSum", {"data": x(4, 5, 6), "segment_ids": x(4, 5, t=I), "num_segments": v(3)})
    case("UnsortedSegmentSum", {"data": x(4, 5, 6), "segment_ids": x(4, t=I), "num_segments": x(t=I)})
    case("UnsortedSegmentSum", {"data": x(4, 5, 6), "segment_ids": x(5, t=I), "num_segments": v(3)})
    case("UnsortedSegmentSum", {"data": x(4), "segment_ids": x(4, t=I), "num_segments": v(-1)})
    case("SegmentSum", {"data": x(4, 5), "segment_ids": x(4, t=I)})
    case("SegmentSum", {"data": x(4, 5), "segment_ids": x(3, t=I)})


def special():
    """Segments, Fourier transforms, and what else of the math package has a shape function of its own."""
    for op in ("UnsortedSegmentMax", "UnsortedSegmentProd"):
        case(op, {"data": x(4, 5, 6), "segment_ids": x(4, 5, t=I), "num_segments": v(3)})
        case(op, {"data": x(4, 5, 6), "segment_ids": x(4, t=I), "num_segments": x(t=I)})
        case(op, {"data": x(4, 5, 6), "segment_ids": x(5, t=I), "num_segments": v(3)})
    for op in ("SegmentMean", "SegmentMax"):
        for ids in (x(4, t=I), x(3, t=I), x(None, t=I), x(2, 2, t=I)):
            case(op, {"data": x(4, 5), "segment_ids": ids})
    for indices, segments, count in itertools.product(
        (x(3, t=I), x(None, t=I)), (x(3, t=I), x(2, t=I)), (v(5), x(t=I), v(-1), v([1]))
    ):
        case(
            "SparseSegmentSumWithNumSegments",
            {"data": x(4, 5), "indices": indices, "segment_ids": segments, "num_segments": count},
        )
    c64, f64 = tf.complex64, tf.float64
    for op, shape in itertools.product(
        ("FFT", "IFFT2D", "FFT3D"), (x(2, 3, 4, t=c64), x(3, t=c64), x(t=c64), x(None, 4, t=c64), x(UNKNOWN, t=c64))
    ):
        case(op, {"input": shape})
    for shape, length in itertools.product(
        (x(2, 3, 9), x(9), x(None, 9), x(UNKNOWN), x()),
        (v([4]), v([9]), v([3, 5]), x(1, t=I), x(2, t=I), x(UNKNOWN, t=I)),
    ):
        for op in ("RFFT", "RFFT2D"):
            case(op, {"input": shape, "fft_length": length}, Tcomplex=c64)
        for op in ("IRFFT", "IRFFT2D"):
            case(op, {"input": (c64, *shape[1:]), "fft_length": length}, Treal=F)
    for a, b, z in itertools.product((x(), x(2, 3), x(None, 3), x(UNKNOWN)), (x(), x(2, None)), (x(2, 3), x(3), x())):
        case("Betainc", {"a": a, "b": b, "x": z})
    for t, low, high in itertools.product(
        (x(2, 3), x(None, 3), x(UNKNOWN)), (x(), x(2, 3)), (x(), x(2, None), x(2, 3))
    ):
        case("ClipByValue", {"t": t, "clip_value_min": low, "clip_value_max": high})
    for op in ("Atan2", "Igamma", "NextAfter", "Zeta", "BitwiseAnd"):
        kind = I if op == "BitwiseAnd" else F
        names = {"Atan2": "yx", "Igamma": "ax", "Zeta": "xq", "BitwiseAnd": "xy", "NextAfter": ("x1", "x2")}[op]
        for one, other in itertools.product(
            (x(2, 1, t=kind), x(None, t=kind)), (x(3, t=kind), x(2, 3, t=kind), x(3, 3, t=kind))
        ):
            case(op, {names[0]: one, names[1]: other})
    case("Complex", {"real": x(2, 1), "imag": x(3)}, Tout=c64)
    case("Real", {"input": x(2, None, t=c64)}, Tout=F)
    for op in ("SeluGrad", "SoftsignGrad"):
        case(op, {"gradients": x(2, None), "outputs" if op == "SeluGrad" else "features": x(None, 3)})
    case("ApproximateEqual", {"x": x(2, None), "y": x(None, 3)})
    case("ApproximateEqual", {"x": x(2, 3), "y": x(3)})
    for perm in (v([1, 0, 2]), x(3, t=I), x(None, t=I), v([0, 1])):
        case("ConjugateTranspose", {"x": x(2, 3, None, t=c64), "perm": perm})
    for axes in (v([0]), v([-1, 0]), x(1, t=I), v([5])):
        case("EuclideanNorm", {"input": x(2, 3, None), "reduction_indices": axes})
    for values, bounds, bins in itertools.product(
        (x(UNKNOWN), x(2, 3)), (x(2), x(3), x()), (v(5), x(t=I), v(0), v(-1))
    ):
        case("HistogramFixedWidth", {"values": values, "value_range": bounds, "nbins": bins})
    case("CumulativeLogsumexp", {"x": x(2, 3), "axis": v(1)})
    case("IsotonicRegression", {"input": x(2, None)})


def nn():
    for size, k, s, padding in itertools.product((1, 4, 7, 8, None), (1, 3, 4), (1, 2, 3), ("SAME", "VALID")):
        case("Conv2D", {"input": x(2, size, 9, 4), "filter": x(k, 2, 4, 8)}, strides=[1, s, 1, 1], padding=padding)
        case("MaxPool", {"input": x(2, size, 9, 4)}, ksize=[1, k, 2, 1], strides=[1, s, 1, 1], padding=padding)
        case(
            "AvgPool",
            {"value": x(2, 4, 9, size)},
            ksize=[1, 1, 2, k],
            strides=[1, 1, 1, s],
            padding=padding,
            data_format="NCHW",
        )
    for f in (
        x(3, 3, 2, 8),
        x(3, 3, 3, 8),
        x(3, 3, 4, 7),
        x(3, 3, 2, 7),
        x(None, None, None, 8),
        x(UNKNOWN),
        x(3, 3, 4),
    ):
        case("Conv2D", {"input": x(2, 8, 8, 4), "filter": f}, strides=[1, 1, 1, 1], padding="SAME")
        case(
            "Conv2D",
            {"input": x(2, 4, 8, 8), "filter": f},
            strides=[1, 1, 2, 2],
            padding="VALID",
            data_format="NCHW",
            dilations=[1, 1, 2, 2],
        )
    for pads in ([0, 0, 1, 2, 3, 4, 0, 0], [0, 0, 1, 2], [0, 0, -1, 2, 3, 4, 0, 0], [1, 0, 1, 2, 3, 4, 0, 0]):
        case(
            "Conv2D",
            {"input": x(2, 8, 8, 4), "filter": x(3, 3, 4, 8)},
            strides=[1, 2, 2, 1],
            padding="EXPLICIT",
            explicit_paddings=pads,
        )
    case("Conv2D", {"input": x(2, 8, 8, 4), "filter": x(3, 3, 4, 8)}, strides=[1, 2, 2], padding="SAME")
    case("Conv2D", {"input": x(2, 8, 8, 4), "filter": x(3, 3, 4, 8)}, strides=[1, 0, 2, 1], padding="SAME")
    case(
        "Conv2DBackpropInput",
        {"input_sizes": v([2, 8, 8, 4]), "filter": x(3, 3, 4, 5), "out_backprop": x(2, 4, 4, 5)},
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case(
        "Conv2DBackpropInput",
        {"input_sizes": x(4, t=I), "filter": x(3, 3, 4, 5), "out_backprop": x(2, 4, 4, 5)},
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case(
        "Conv2DBackpropFilter",
        {"input": x(2, 8, 8, 4), "filter_sizes": v([3, 3, 4, 5]), "out_backprop": x(2, 4, 4, 5)},
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case(
        "MaxPoolGrad",
        {"orig_input": x(2, 8, 8, 4), "orig_output": x(2, 4, 4, 4), "grad": x(2, 4, 4, 4)},
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case(
        "AvgPoolGrad",
        {"orig_input_shape": v([2, 8, 8, 4]), "grad": x(2, 4, 4, 4)},
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case("MaxPool", {"input": x(2, 8, 8)}, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    for value, bias in itertools.product(
        (x(2, 3), x(2, None), x(2, 3, 4), x(2, 4, 5, 3), x(3), x(UNKNOWN)), (x(3), x(4), x(None), x(3, 1))
    ):
        for layout in ("NHWC", "NCHW"):
            case("BiasAdd", {"value": value, "bias": bias}, data_format=layout)
    for layout in ("NHWC", "NCHW"):
        case("BiasAddGrad", {"out_backprop": x(2, 3, 4, 5)}, data_format=layout)
    # TensorFlow merges shapes of which one is partly known, where the kernel broadcasts: not compared.
    for logits, labels in itertools.product((x(5, 3), x(3)), (x(5, 3), x(1, 3), x(5))):
        case("SoftmaxCrossEntropyWithLogits", {"features": logits, "labels": labels})
    case("SoftmaxCrossEntropyWithLogits", {"features": x(5, 3), "labels": x(UNKNOWN)})
    for labels in (x(5, t=I), x(4, t=I), x(None, t=I), x(5, 1, t=I)):
        case("SparseSoftmaxCrossEntropyWithLogits", {"features": x(5, 3), "labels": labels})
        case("SparseSoftmaxCrossEntropyWithLogits", {"features": x(None, 3), "labels": labels})
        case("InTopKV2", {"predictions": x(5, 3), "targets": labels, "k": v(1)})
    case("Softmax", {"logits": x()})
    case("Softmax", {"logits": x(2, None, 3)})
    case("L2Loss", {"t": x(2, 3)})
    case("ReluGrad", {"gradients": x(2, None), "features": x(None, 3)})
    case("ReluGrad", {"gradients": x(2, 3), "features": x(3, 3)})
    case("RandomUniform", {"shape": v([2, 3])}, dtype="float32")
    case("RandomUniform", {"shape": x(2, t=I)}, dtype="float32")
    case("RandomUniform", {"shape": v([-1])}, dtype="float32")


def batch_norm():
    for data_format, shape in (
        ("NHWC", x(2, 3, 4, 5)),
        ("NCHW", x(2, 5, 3, 4)),
        ("NHWC", x(None, 3, 4, None)),
        ("NHWC", x(UNKNOWN)),
        ("NHWC", x(2, 3, 5)),
        ("NDHWC", x(1, 2, 3, 4, 5)),
        ("NCDHW", x(1, 5, 2, 3, 4)),
        ("NDHWC", x(2, 3, 4, 5)),
    ):
        for vector, average in itertools.product((x(5), x(None), x(4), x(5, 1)), (x(5), x(0), x(UNKNOWN))):
            for attrs in ({}, {"is_training": False}, {"exponential_avg_factor": 0.5}):
                case(
                    "FusedBatchNormV3",
                    {"x": shape, "scale": vector, "offset": x(5), "mean": average, "variance": average},
                    data_format=data_format,
                    **attrs
                )
        for vector in (x(5), x(None), x(4)):
            case(
                "FusedBatchNormGradV3",
                {
                    "y_backprop": shape,
                    "x": shape,
                    "scale": vector,
                    "reserve_space_1": x(5),
                    "reserve_space_2": x(UNKNOWN),
                    "reserve_space_3": x(),
                },
                data_format=data_format,
            )
    case(
        "FusedBatchNormGrad",
        {
            "y_backprop": x(2, 3, 4, 5),
            "x": x(2, 3, 4, 6),
            "scale": x(5),
            "reserve_space_1": x(5),
            "reserve_space_2": x(5),
        },
    )


def checks():
    for shape in (x(2, 3), x(None, 3), x(UNKNOWN), x(3), x(2, 3, 4)):
        for wanted in ([2, 3], [-1, 3], [2, -1], [4, 3]):
            case("EnsureShape", {"input": shape}, shape=wanted)


def products():
    for ta, tb in itertools.product((False, True), (False, True)):
        for a, b in itertools.product(
            (x(5, 2, 3), x(2, 3), x(None, 2, 3), x(UNKNOWN), x(3)), (x(5, 3, 4), x(1, 3, 4), x(5, 4, 3), x(3, 2))
        ):
            case("BatchMatMul", {"x": a, "y": b}, adj_x=ta, adj_y=tb)
            case("BatchMatMulV3", {"x": a, "y": b}, Tout=F, adj_x=ta, adj_y=tb)
    shapes = (x(2, 3), x(None, 3), x(3, 2), x(2, 3, 3), x(1, 3), x(UNKNOWN), x(3))
    for equation in (
        "ab->ba",
        "aa->a",
        "ab->",
        "...b->b...",
        "a...->...",
        "ab->aab",
        "ab->abc",
        "ab",
        "a.b->ab",
        "...a...->a",
    ):
        for a in shapes:
            case("Einsum", {"inputs": [a]}, equation=equation)
    for equation in (
        "ab,bc->ac",
        "ab,cb->ca",
        "...a,a...->...",
        "ab,ab->",
        "a...,b...->ab",
        "a...,b...->...ab",
        "ab,c->abc",
        "ab,bc,cd->ad",
    ):
        for a, b in itertools.product(shapes, shapes):
            case("Einsum", {"inputs": [a, b]}, equation=equation)
    for axis in (-3, -2, 0, 1, 2):
        for a in (x(2, 3), x(None, 3), x(UNKNOWN)):
            case("Cumsum", {"x": a, "axis": v(axis)})
    case("Cumprod", {"x": x(2, 3), "axis": x(1, t=I)})
    for op in ("MulNoNan", "Xdivy", "Xlogy", "TruncateDiv"):
        for a, b in itertools.product((x(2, 3), x(3), x(None, 3)), (x(2, 3), x(2, 1), x(4), x())):
            case(op, {"x": a, "y": b})


def places():
    for indices in (
        x(2, 1, t=I),
        x(2, 3, 2, t=I),
        x(None, None, t=I),
        x(3, t=I),
        x(UNKNOWN, t=I),
        x(2, 0, t=I),
        x(4, 4, t=I),
        x(t=I),
    ):
        for tensor in (x(4, 5, 6), x(4, None), x(UNKNOWN), x()):
            case("GatherNd", {"params": tensor, "indices": indices})
            for updates in (x(2, 5, 6), x(2, 3, 6)):
                case("TensorScatterAdd", {"tensor": tensor, "indices": indices, "updates": updates})
        for shape in (v([4, 5, 6]), x(3, t=I), v([-1, 2])):
            case("ScatterNd", {"indices": indices, "updates": x(2, 5, 6), "shape": shape})
    for op in ("MirrorPad", "MirrorPadGrad"):
        for shape in (x(4, 5), x(None, 5), x(UNKNOWN), x(4)):
            for pads in (v([[1, 2], [0, 0]]), x(2, 2, t=I), x(2, 3, t=I)):
                case(op, {"input": shape, "paddings": pads}, mode="REFLECT")
    for sequence, batch in ((1, 0), (0, 1), (0, 0), (2, 0), (1, 3)):
        for shape in (x(3, 4), x(None, 4), x(UNKNOWN), x(2, 4, 3)):
            case("ReverseSequence", {"input": shape, "seq_lengths": x(3, t=L)}, seq_dim=sequence, batch_dim=batch)
    for op, pairs in (("SpaceToBatchND", "paddings"), ("BatchToSpaceND", "crops")):
        for shape in (x(6, 4, 6, 3), x(None, 4, None, 3), x(UNKNOWN), x(6, 5, 6), x(6, 4)):
            for block in (v([2, 3]), v([2]), x(2, t=I), v([0, 1])):
                for given in (v([[0, 0], [0, 0]]), v([[0, 0]]), v([[1, 1], [2, 1]]), x(2, 2, t=I)):
                    case(op, {"input": shape, "block_shape": block, pairs: given})
    for op in ("SpaceToDepth", "DepthToSpace"):
        for shape in (x(2, 4, 6, 8), x(2, 8, 4, 6), x(None, None, 6, 8), x(UNKNOWN), x(2, 3, 4, 4), x(2, 4, 4)):
            for data_format in ("NHWC", "NCHW"):
                case(op, {"input": shape}, block_size=2, data_format=data_format)
    for shape in (x(2, 3, 4), x(None, 4), x(UNKNOWN), x(4)):
        for lower, upper in ((0, 0), (-1, 3), (4, 0), (0, 5)):
            case("MatrixBandPart", {"input": shape, "num_lower": v(lower, L), "num_upper": v(upper, L)})
        for k in (v(0), v(3), v(5), v(-1), x(t=I), x(1, t=I)):
            case("TopKV2", {"input": shape, "k": k})
    for num in (v(3), v(0), x(t=I), x(1, t=I)):
        case("LinSpace", {"start": x(), "stop": x(), "num": num})
    for a, b, axis in itertools.product(
        (x(2, 3), x(None, 3), x(UNKNOWN)), (x(2, 3), x(5, 3), x(2), x(UNKNOWN)), (0, 1, -1, 2)
    ):
        case("Concat", {"values": [a, b], "concat_dim": v(axis)})


def images():
    for size, k, s, padding in itertools.product((1, 4, 7, None), (1, 3, 4), (1, 2), ("SAME", "VALID")):
        case(
            "DepthwiseConv2dNative",
            {"input": x(2, size, 9, 4), "filter": x(k, 2, 4, 2)},
            strides=[1, s, s, 1],
            padding=padding,
        )
    for f in (x(3, 3, 4, None), x(3, 3, 2, 2), x(UNKNOWN), x(3, 3, 4)):
        case("DepthwiseConv2dNative", {"input": x(2, 8, 8, 4), "filter": f}, strides=[1, 1, 1, 1], padding="SAME")
    case(
        "DepthwiseConv2dNativeBackpropInput",
        {"input_sizes": v([2, 8, 8, 4]), "filter": x(3, 3, 4, 2), "out_backprop": x(2, 4, 4, 8)},
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case(
        "DepthwiseConv2dNativeBackpropInput",
        {"input_sizes": x(4, t=I), "filter": x(3, 3, 4, 2), "out_backprop": x(2, 4, 4, 8)},
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    case(
        "DepthwiseConv2dNativeBackpropFilter",
        {"input": x(2, 8, 8, 4), "filter_sizes": v([3, 3, 4, 2]), "out_backprop": x(2, 4, 4, 8)},
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
    for shape in (x(2, 3, 4, 5), x(None, 3, None, 5), x(UNKNOWN), x(2, 3, 4)):
        case("LRN", {"input": shape})
        case("LRNGrad", {"input_grads": shape, "input_image": x(2, 3, 4, 5), "output_image": x(2, None, 4, 5)})
        for op in ("ResizeBilinear", "ResizeNearestNeighbor"):
            for size in (v([6, 7]), x(2, t=I), x(3, t=I), v([6]), x(t=I)):
                case(op, {"images": shape, "size": size})
        case("ResizeNearestNeighborGrad", {"grads": shape, "size": v([6, 7])})
        case("ResizeBilinearGrad", {"grads": shape, "original_image": x(2, 7, None, 5)})


def pictures():
    text = tf.string
    for contents, channels in itertools.product((x(t=text), x(3, t=text), x(UNKNOWN, t=text)), (0, 1, 3, -1)):
        for op in ("DecodeJpeg", "DecodePng", "DecodeBmp"):
            case(op, {"contents": contents}, channels=channels)
        for expand in (True, False):
            case("DecodeImage", {"contents": contents}, channels=channels, expand_animations=expand)
        for window in (v([1, 2, 3, 4]), x(4, t=I), x(3, t=I), x(t=I)):
            case("DecodeAndCropJpeg", {"contents": contents, "crop_window": window}, channels=channels)
    for contents in (x(t=text), x(3, t=text)):
        case("DecodeGif", {"contents": contents})
        case("ExtractJpegShape", {"contents": contents})
    for shape in (x(4, 5, 3, t=U), x(None, 5, None, t=U), x(UNKNOWN, t=U), x(4, 5, t=U), x(2, 4, 5, 3, t=U)):
        case("EncodeJpeg", {"image": shape})
        case("EncodePng", {"image": shape})
        case("EncodeJpegVariableQuality", {"images": shape, "quality": x(t=I)})
    for shape in (x(2, 3, 4, 5), x(None, 3, None, 5), x(UNKNOWN), x(3, 4, 5)):
        for size in (v([6, 7]), x(2, t=I), x(3, t=I), x(t=I)):
            case("ResizeBicubic", {"images": shape, "size": size})
            case("ResizeArea", {"images": shape, "size": size})
            case("ScaleAndTranslate", {"images": shape, "size": size, "scale": x(2), "translation": x(2)})
            case("CropAndResize", {"image": shape, "boxes": x(6, 4), "box_ind": x(6, t=I), "crop_size": size})
            case("ExtractGlimpse", {"input": shape, "size": size, "offsets": x(2, 2)})
        case("ResizeBicubicGrad", {"grads": shape, "original_image": x(2, 7, None, 5)})
        for ksizes, strides, rates, padding in itertools.product(
            ([1, 2, 3, 1], [1, 5, 1, 1]), ([1, 1, 1, 1], [1, 2, 3, 1]), ([1, 1, 1, 1], [1, 2, 1, 1]), ("SAME", "VALID")
        ):
            case("ExtractImagePatches", {"images": shape}, ksizes=ksizes, strides=strides, rates=rates, padding=padding)
        for boxes in (x(2, 6, 4), x(3, 6, 4), x(2, 6, 5), x(UNKNOWN), x(6, 4)):
            case("DrawBoundingBoxes", {"images": shape, "boxes": boxes})
            case("DrawBoundingBoxesV2", {"images": shape, "boxes": boxes, "colors": x(None, 4)})
    for shape in (x(4, 5, 3), x(5, 3), x(None, None, None), x(UNKNOWN), x(4, 5, 2)):
        case("RGBToHSV", {"images": shape})
        case("HSVToRGB", {"images": shape})
        case("AdjustHue", {"images": shape, "delta": x()})
        case("AdjustSaturation", {"images": shape, "scale": x()})
        case("AdjustContrastv2", {"images": shape, "contrast_factor": x()})


def choices():
    for boxes, scores, most in itertools.product(
        (x(6, 4), x(None, 4), x(6, 3), x(UNKNOWN)), (x(6), x(5), x(UNKNOWN), x(6, 1)), (v(3), x(t=I), x(1, t=I))
    ):
        given = {"boxes": boxes, "scores": scores, "max_output_size": most}
        case("NonMaxSuppression", given)
        case("NonMaxSuppressionV3", {**given, "iou_threshold": x(), "score_threshold": x()})
        for pads in (False, True):
            case(
                "NonMaxSuppressionV4",
                {**given, "iou_threshold": x(), "score_threshold": x()},
                pad_to_max_output_size=pads,
            )
            case(
                "NonMaxSuppressionV5",
                {**given, "iou_threshold": x(), "score_threshold": x(), "soft_nms_sigma": x()},
                pad_to_max_output_size=pads,
            )
    for boxes, scores, most, total, pads in itertools.product(
        (x(2, 6, 1, 4), x(None, 6, 3, 4), x(UNKNOWN), x(2, 6, 1, 3)),
        (x(2, 6, 3), x(2, None, None), x(2, 5, 3)),
        (v(2), x(t=I)),
        (v(5), v(9), v(0), x(t=I)),
        (False, True),
    ):
        case(
            "CombinedNonMaxSuppression",
            {
                "boxes": boxes,
                "scores": scores,
                "max_output_size_per_class": most,
                "max_total_size": total,
                "iou_threshold": x(),
                "score_threshold": x(),
            },
            pad_per_class=pads,
        )
    for size, boxes in itertools.product((x(3, t=I), x(2, t=I), x(None, t=I)), (x(1, 5, 4), x(1, 5, 3), x(UNKNOWN))):
        case("SampleDistortedBoundingBox", {"image_size": size, "bounding_boxes": boxes})
        case("SampleDistortedBoundingBoxV2", {"image_size": size, "bounding_boxes": boxes, "min_object_covered": x()})


def sparse():
    for indices, values, shape in itertools.product(
        (x(5, 2, t=L), x(None, 2, t=L), x(5, t=L), x(UNKNOWN, t=L)),
        (x(5), x(4), x()),
        (v([3, 4], L), x(2, t=L), x(3, t=L)),
    ):
        case(
            "SparseToDense",
            {"sparse_indices": indices, "output_shape": shape, "sparse_values": values, "default_value": x()},
        )
        case("SparseFillEmptyRows", {"indices": indices, "values": values, "dense_shape": shape, "default_value": x()})
        case("SparseReshape", {"input_indices": indices, "input_shape": shape, "new_shape": x(3, t=L)})
        for adjoint in (False, True):
            case(
                "SparseTensorDenseMatMul",
                {"a_indices": indices, "a_values": values, "a_shape": shape, "b": x(4, 6)},
                adjoint_a=False,
                adjoint_b=adjoint,
            )
    case("SparseFillEmptyRowsGrad", {"reverse_index_map": x(3, t=L), "grad_values": x(5)})
    for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        for data, indices, ids in itertools.product(
            (x(4, 5), x(UNKNOWN), x()), (x(3, t=I), x(None, t=I), x(3, 1, t=I)), (x(3, t=I), x(4, t=I))
        ):
            case(op, {"data": data, "indices": indices, "segment_ids": ids})
            for rows in (v(6), v(-1), x(t=I)):
                case(op + "Grad", {"grad": data, "indices": indices, "segment_ids": ids, "output_dim0": rows})
                case(op + "GradV2", {"grad": data, "indices": indices, "segment_ids": ids, "dense_output_dim0": rows})
    for shape in (v([2, 3]), x(2, t=I), v([-1])):
        case("StatelessRandomUniform", {"shape": shape, "seed": x(2, t=L)})
        case("StatelessRandomUniform", {"shape": shape, "seed": x(3, t=L)})
    for classes in (x(4, 2, t=L), x(None, 3, t=L), x(UNKNOWN, t=L), x(4, t=L)):
        case(
            "LogUniformCandidateSampler",
            {"true_classes": classes},
            num_true=2,
            num_sampled=5,
            unique=True,
            range_max=10,
        )
        case("ComputeAccidentalHits", {"true_classes": classes, "sampled_candidates": x(5, t=L)}, num_true=2)


def parse():
    text = tf.string
    for shape in (x(t=text), x(3, t=text), x(None, 2, t=text), x(UNKNOWN, t=text)):
        for kind in (tf.uint8, tf.int16, tf.complex64):
            case("DecodeRaw", {"bytes": shape}, out_type=kind)
        for kind, length in itertools.product((tf.uint8, tf.int16), (v(4), v(3), v(0), v(-2), v([4]), x(t=I))):
            case("DecodePaddedRaw", {"input_bytes": shape, "fixed_length": length}, out_type=kind)
        case("StringToNumber", {"string_tensor": shape}, out_type=tf.int64)
        case("ParseTensor", {"serialized": shape}, out_type=tf.int64)
        case("DecodeJSONExample", {"json_examples": shape})
        case("ReadFile", {"filename": shape})
        case("MatchingFiles", {"pattern": shape})
        for given in (x(), x(1), x(0), x(2), x(1, 1), x(None), x(UNKNOWN)):
            case("DecodeCSV", {"records": shape, "record_defaults": [given]})


    no_keys = x(0, t=text)
    for shape, names in itertools.product(
        (x(t=text), x(3, t=text), x(None, t=text), x(UNKNOWN, t=text), x(2, 2, t=text)), (x(0, t=text), x(1, 1, t=text))
    ):
        for dense in ([2], [-1], [-1, 3], [], [2, -1], None):
            common = {"sparse_types": [F], "dense_shapes": [dense]}
            case(
                "ParseExample",
                {
                    "serialized": shape,
                    "names": names,
                    "sparse_keys": [x(t=text)],
                    "dense_keys": [x(t=text)],
                    "dense_defaults": [x()],
                },
                **common
            )
            case(
                "ParseExampleV2",
                {
                    "serialized": shape,
                    "names": names,
                    "sparse_keys": x(1, t=text),
                    "dense_keys": x(1, t=text),
                    "ragged_keys": x(1, t=text),
                    "dense_defaults": [x()],
                },
                num_sparse=1,
                ragged_value_types=[L],
                ragged_split_types=[I],
                **common
            )
            case(
                "ParseSingleExample",
                {"serialized": shape, "dense_defaults": [x()]},
                num_sparse=1,
                sparse_keys=["a"],
                dense_keys=["b"],
                **common
            )
        case(
            "ParseSequenceExampleV2",
            {
                "serialized": shape,
                "debug_name": names,
                "context_sparse_keys": x(1, t=text),
                "context_dense_keys": x(1, t=text),
                "context_ragged_keys": x(1, t=text),
                "feature_list_sparse_keys": x(1, t=text),
                "feature_list_dense_keys": x(1, t=text),
                "feature_list_ragged_keys": x(1, t=text),
                "feature_list_dense_missing_assumed_empty": x(1, t=B),
                "context_dense_defaults": [x()],
            },
            Ncontext_sparse=1,
            context_sparse_types=[F],
            context_ragged_value_types=[L],
            context_ragged_split_types=[I],
            context_dense_shapes=[[2]],
            Nfeature_list_sparse=1,
            Nfeature_list_dense=1,
            feature_list_dense_types=[F],
            feature_list_sparse_types=[L],
            feature_list_ragged_value_types=[F],
            feature_list_ragged_split_types=[L],
            feature_list_dense_shapes=[[3, 4]],
        )
        case(
            "ParseSequenceExample",
            {"serialized": shape, "debug_name": names, "context_dense_defaults": [x()]},
            Ncontext_sparse=1,
            Ncontext_dense=1,
            Nfeature_list_sparse=1,
            Nfeature_list_dense=1,
            context_sparse_keys=["a"],
            context_dense_keys=["b"],
            feature_list_sparse_keys=["c"],
            feature_list_dense_keys=["d"],
            feature_list_dense_missing_assumed_empty=[],
            context_sparse_types=[F],
            context_dense_shapes=[[2]],
            feature_list_dense_types=[F],
            feature_list_sparse_types=[L],
            feature_list_dense_shapes=[[]],
        )
        case(
            "ParseSingleSequenceExample",
            {
                "serialized": shape,
                "feature_list_dense_missing_assumed_empty": no_keys,
                "context_sparse_keys": [x(t=text)],
                "context_dense_keys": [x(t=text)],
                "feature_list_sparse_keys": [x(t=text)],
                "feature_list_dense_keys": [x(t=text)],
                "context_dense_defaults": [x()],
                "debug_name": x(t=text),
            },
            context_sparse_types=[F],
            context_dense_shapes=[[2]],
            feature_list_dense_types=[F],
            feature_list_sparse_types=[L],
            feature_list_dense_shapes=[[5]],
        )

def linear():
    matrices = (x(3, 3), x(2, 3, 3), x(None, 3), x(2, None, None), x(UNKNOWN), x(3, 4), x(3), x(0, 0))
    for matrix in matrices:
        for op in ("MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "Cholesky", "Lu", "MatrixSquareRoot"):
            case(op, {"input": matrix})
        case("MatrixLogarithm", {"input": (tf.complex64, *matrix[1:])})
        for flag in (False, True):
            case("Qr", {"input": matrix}, full_matrices=flag)
            case("SelfAdjointEigV2", {"input": matrix}, compute_v=flag)
            case("Eig", {"input": matrix}, compute_v=flag, Tout=tf.complex64)
            for vectors in (False, True):
                case("Svd", {"input": matrix}, compute_uv=vectors, full_matrices=flag)
        for rhs in (x(3, 2), x(2, 3, None), x(4, 2), x(UNKNOWN), x(None, 1), x(3)):
            case("MatrixSolve", {"matrix": matrix, "rhs": rhs})
            case("MatrixTriangularSolve", {"matrix": matrix, "rhs": rhs})
            case("MatrixSolveLs", {"matrix": matrix, "rhs": rhs, "l2_regularizer": x(t=tf.float64)})
            case("TridiagonalSolve", {"diagonals": matrix, "rhs": rhs})
            if matrix[1] is not None and len(matrix[1]) > 1:
                case("BandedTriangularSolve", {"matrix": matrix, "rhs": rhs})
        case("CholeskyGrad", {"l": matrix, "grad": x(3, 3)})
        case("MatrixDiagPart", {"input": matrix})
        case("MatrixDiag", {"diagonal": matrix})
        for diagonal in (x(3), x(2, 3), x(None), x(UNKNOWN), x(4), x()):
            case("MatrixSetDiag", {"input": matrix, "diagonal": diagonal})
        case("Diag", {"diagonal": matrix})
        case("DiagPart", {"input": matrix})
    case("DiagPart", {"input": x(2, 3, 2, 3)})
    case("DiagPart", {"input": x(2, None, None, 3)})
    case("DiagPart", {"input": x(2, 3, 3, 2)})
    for k in (v(0), v(1), v(-2), v([-1, 1]), v([0]), v(7), x(t=I), x(2, t=I)):
        for matrix in (x(3, 4), x(2, 3, 4), x(None, None), x(UNKNOWN), x(3)):
            for op in ("MatrixDiagPartV2", "MatrixDiagPartV3"):
                case(op, {"input": matrix, "k": k, "padding_value": x()})
            for diagonal in (
                (x(3), x(3, 3), x(2, 3), x(None), x(UNKNOWN))
                if matrix != x(None, None) and (k[2] is not None or matrix != x(UNKNOWN))
                else ()
            ):  # where it says more than it knows
                case("MatrixSetDiagV3", {"input": matrix, "diagonal": diagonal, "k": k})
        for diagonal, rows, columns in itertools.product(
            (x(3), x(3, 3), x(2, 3), x(UNKNOWN)), (v(-1), v(4), v(2)), (v(-1), v(4))
        ):  # what it does not know, TensorFlow takes for -1
            if diagonal == x(3) and k == v([-1, 1]):
                continue  # TensorFlow dies
            case(
                "MatrixDiagV3",
                {"diagonal": diagonal, "k": k, "num_rows": rows, "num_cols": columns, "padding_value": x()},
            )
    for a, b in itertools.product((x(2, 3), x(None, None), x(UNKNOWN), x(2, 4), x()), repeat=2):
        case("Cross", {"a": a, "b": b})
    for row, rhs in itertools.product(
        (x(1, 3), x(2, 1, 3), x(None, 3), x(UNKNOWN), x(2, 3)), (x(3, 2), x(2, 3, 2), x(4, 2), x(UNKNOWN))
    ):
        case("TridiagonalMatMul", {"superdiag": row, "maindiag": row, "subdiag": x(UNKNOWN), "rhs": rhs})


def moves():
    for value in (x(2, 3), x(None, 4), x(UNKNOWN), x()):
        for shift, axis in itertools.product((x(t=I), x(2, t=I), x(1, 1, t=I)), (v(1), v([0, 1]), x(2, t=I), v([5]))):
            case("Roll", {"input": value, "shift": shift, "axis": axis})
        case("NthElement", {"input": value, "n": v(2)})
        case("NthElement", {"input": value, "n": v(-1)})
        case("NthElement", {"input": value, "n": x(t=I)})
        for axis in (v([0]), v([1]), v([], I), x(1, t=I), v([0, 1])):
            case("UniqueV2", {"x": value, "axis": axis})
        case("ListDiff", {"x": value, "y": x(None)})
        for kind in (tf.int32, tf.uint8, tf.complex64, tf.float16):
            case("Bitcast", {"input": value}, type=kind)
            case("Bitcast", {"input": (U, *value[1:])}, type=kind)
        case("DataFormatVecPermute", {"x": (I, *value[1:])})
        case("DataFormatDimMap", {"x": (I, *value[1:])})
        for i, rows in itertools.product((x(2, t=I), x(None, t=I), x(t=I)), (x(2, 3), x(UNKNOWN), x(1, 4))):
            case("InplaceUpdate", {"x": value, "i": i, "v": rows})
        case("BiasAddV1", {"value": value, "bias": x(3)})
        case("InTopK", {"predictions": value, "targets": x(2, t=I)}, k=2)
    for a, b in itertools.product((v([2, 1]), v([3]), v([]), x(2, t=I), x(None, t=I), x(UNKNOWN, t=I)), repeat=2):
        case("BroadcastArgs", {"s0": a, "s1": b})


def quantized():
    Q, W = tf.quint8, tf.qint32
    one = x()
    for value in (x(2, 3), x(None, 3), x(UNKNOWN), x(), x(4)):
        for bound in (x(), x(3), x(UNKNOWN)):
            case("FakeQuantWithMinMaxVars", {"inputs": value, "min": bound, "max": one})
            case("FakeQuantWithMinMaxVarsPerChannel", {"inputs": value, "min": bound, "max": x(UNKNOWN)})
            if value[1] != []:  # of which TensorFlow dies
                case(
                    "FakeQuantWithMinMaxVarsPerChannelGradient",
                    {"gradients": x(UNKNOWN), "inputs": value, "min": bound, "max": x(None)},
                )
            case(
                "FakeQuantWithMinMaxVarsGradient", {"gradients": value, "inputs": x(2, None), "min": one, "max": bound}
            )
            for axis in (-1, 1, -2):
                case("QuantizeV2", {"input": value, "min_range": bound, "max_range": bound}, T=Q, axis=axis)
                if value[1] is not None or axis < 0:  # of an unknown rank TensorFlow says that the axis is too large
                    case("Dequantize", {"input": (Q, *value[1:]), "min_range": bound, "max_range": bound}, axis=axis)
                case("QuantizeAndDequantizeV2", {"input": value, "input_min": bound, "input_max": bound}, axis=axis)
                case(
                    "QuantizeAndDequantizeV4Grad",
                    {"gradients": value, "input": value, "input_min": bound, "input_max": bound},
                    axis=axis,
                )
            case("QuantizedRelu", {"features": (Q, *value[1:]), "min_features": bound, "max_features": one})
            case("RequantizationRange", {"input": (W, *value[1:]), "input_min": bound, "input_max": one})
            case(
                "QuantizeDownAndShrinkRange",
                {"input": (W, *value[1:]), "input_min": bound, "input_max": one},
                out_type=Q,
            )
            case(
                "Requantize",
                {
                    "input": (W, *value[1:]),
                    "input_min": one,
                    "input_max": one,
                    "requested_output_min": bound,
                    "requested_output_max": one,
                },
                out_type=Q,
            )
        case("QuantizeAndDequantizeV3", {"input": value, "input_min": one, "input_max": one, "num_bits": x(1, t=I)})
        case(
            "QuantizeAndDequantizeV3",
            {"input": value, "input_min": x(3), "input_max": x(UNKNOWN), "num_bits": x(t=I)},
            axis=1,
        )
        case("QuantizeAndDequantizeV4", {"input": value, "input_min": x(3), "input_max": x(UNKNOWN)}, axis=1)
        case("FakeQuantWithMinMaxArgs", {"inputs": value})
        case("FakeQuantWithMinMaxArgsGradient", {"gradients": value, "inputs": value})
        for bias in (x(3, t=Q), x(UNKNOWN, t=Q), x(4, t=Q)):
            case(
                "QuantizedBiasAdd",
                {
                    "input": (Q, *value[1:]),
                    "bias": bias,
                    "min_input": one,
                    "max_input": one,
                    "min_bias": one,
                    "max_bias": x(UNKNOWN),
                },
                out_type=W,
            )
        for other, turn in itertools.product((x(3, 5, t=Q), x(UNKNOWN, t=Q)), (False, True)):
            case(
                "QuantizedMatMul",
                {"a": (Q, *value[1:]), "b": other, "min_a": one, "max_a": one, "min_b": one, "max_b": one},
                transpose_b=turn,
            )
        for shape in (v([3, -1]), v([6]), v([-1, -1]), x(2, t=I), x(None, t=I)):
            case("QuantizedReshape", {"tensor": (Q, *value[1:]), "shape": shape, "input_min": one, "input_max": one})
        for axis, other in itertools.product(
            (v(0), v(-1), v(2), x(t=I)), (x(1, 3, t=Q), x(UNKNOWN, t=Q)) if value != x(4) else ()
        ):
            case(
                "QuantizedConcat",
                {
                    "concat_dim": axis,
                    "values": [(Q, *value[1:]), other],
                    "input_mins": [one, x(UNKNOWN)],
                    "input_maxes": [one, one],
                },
            )
    case(
        "QuantizedConcat",
        {"concat_dim": v(0), "values": [x(2, t=Q), x(3, t=Q)], "input_mins": [one, x(1)], "input_maxes": [one, one]},
    )
    for image, stride, padding in itertools.product(
        (x(1, 5, 6, 2, t=Q), x(None, None, 6, 2, t=Q), x(UNKNOWN, t=Q), x(5, 6, 2, t=Q), x(1, 2, 2, 2, t=Q)),
        (2, 0),
        ("SAME", "VALID"),
    ):
        case(
            "QuantizedMaxPool",
            {"input": image, "min_input": one, "max_input": one},
            ksize=[1, 3, 2, 1],
            strides=[1, stride, stride, 1],
            padding=padding,
        )
        for window in (x(3, 2, 2, 4, t=Q), x(None, 2, None, 4, t=Q)):
            case(
                "QuantizedConv2D",
                {
                    "input": image,
                    "filter": window,
                    "min_input": one,
                    "max_input": one,
                    "min_filter": one,
                    "max_filter": one,
                },
                strides=[1, stride, stride, 1],
                padding=padding,
            )


def windows():
    strides, ksize = [1, 2, 2, 1], [1, 3, 2, 1]
    for value in (x(2, 9, 8, 4), x(2, None, 8, None), x(UNKNOWN), x(2, 9, 8)):
        for size, step in (
            (v(ksize), v(strides)),
            (x(4, t=I), v(strides)),
            (v(ksize), x(None, t=I)),
            (v([1, 2]), v(strides)),
            (v([1, 0, 2, 1]), v(strides)),
        ):
            case("MaxPoolV2", {"input": value, "ksize": size, "strides": step}, padding="VALID")
        for padding in ("SAME", "VALID"):
            case("MaxPoolWithArgmax", {"input": value}, ksize=ksize, strides=strides, padding=padding)
            for filter in (x(3, 2, 4), x(None, 2, None), x(UNKNOWN), x(3, 2, 5)):
                case(
                    "Dilation2D",
                    {"input": value, "filter": filter},
                    strides=strides,
                    rates=[1, 2, 1, 1],
                    padding=padding,
                )
    pool = {"orig_input": x(2, 9, 8, 4), "orig_output": x(2, 4, 4, 4)}
    for gradient in (x(2, 4, 4, 4), x(2, 9, 8, 4), x(UNKNOWN), x(2, 4)):
        for op in ("MaxPoolGradV2", "MaxPoolGradGradV2"):
            case(op, {**pool, "grad": gradient, "ksize": v(ksize), "strides": v(strides)}, padding="VALID")
            case(op, {**pool, "grad": gradient, "ksize": x(4, t=I), "strides": v(strides)}, padding="VALID")
        case(
            "MaxPoolGradWithArgmax",
            {"input": x(2, 9, 8, 4), "grad": gradient, "argmax": x(2, 4, 4, 4, t=L)},
            ksize=ksize,
            strides=strides,
            padding="VALID",
        )
        for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
            case(
                op,
                {"input": x(2, 9, 8, 4), "filter": x(3, 2, 4), "out_backprop": gradient},
                strides=strides,
                rates=[1, 1, 1, 1],
                padding="VALID",
            )
    # Of FractionalMaxPool's sequences TensorFlow infers one number less than they have.
    for shape in (v([2, 9, 8, 4], L), x(4, t=L), x(3, t=L)):
        case(
            "FractionalAvgPoolGrad",
            {
                "orig_input_tensor_shape": shape,
                "out_backprop": x(2, 4, 4, 4),
                "row_pooling_sequence": x(5, t=L),
                "col_pooling_sequence": x(5, t=L),
            },
        )
    case(
        "FractionalMaxPoolGrad",
        {
            "orig_input": x(2, 9, 8, 4),
            "orig_output": x(2, 4, 4, 4),
            "out_backprop": x(2, 4, 4, 4),
            "row_pooling_sequence": x(5, t=L),
            "col_pooling_sequence": x(5, t=L),
        },
    )
    for value, k, axis in itertools.product(
        (x(2, 3), x(4, 5, 3), x(3)), (0, 2, 4), (-1, 0, 2)
    ):  # what it does not know, TensorFlow takes for -1
        case("ApproxTopK", {"input": value}, k=k, reduction_dimension=axis)


def volumes():
    window = {"strides": [1, 2, 1, 2, 1], "padding": "VALID"}
    for value in (x(2, 5, 6, 7, 3), x(None, 5, None, 7, None), x(UNKNOWN), x(2, 6, 7, 3)):
        for padding, layout in itertools.product(("SAME", "VALID"), ("NDHWC", "NCDHW")):
            attrs = {
                "strides": [1, 2, 1, 2, 1] if layout == "NDHWC" else [1, 1, 2, 1, 2],
                "padding": padding,
                "data_format": layout,
            }
            for filter in (
                (x(2, 3, 3, 3, 4), x(2, None, 3, None, 4), x(2, 3, 3, 4)) if value[1] is not None else ()
            ):  # else TensorFlow dies
                case("Conv3D", {"input": value, "filter": filter}, **attrs)
            ksize = [1, 2, 3, 2, 1] if layout == "NDHWC" else [1, 1, 2, 3, 2]
            for op in (
                ("MaxPool3D", "AvgPool3D") if layout == "NDHWC" or value[1] is not None and len(value[1]) == 5 else ()
            ):  # else TensorFlow dies
                case(op, {"input": value}, ksize=ksize, **attrs)
    for sizes in (v([2, 5, 6, 7, 3]), x(5, t=I), x(4, t=I)):
        case("AvgPool3DGrad", {"orig_input_shape": sizes, "grad": x(2, 2, 4, 3, 3)}, ksize=[1, 2, 3, 2, 1], **window)
        case(
            "Conv3DBackpropInputV2",
            {"input_sizes": sizes, "filter": x(2, 3, 2, 3, 4), "out_backprop": x(2, 2, 4, 3, 4)},
            **window
        )
    for sizes in (v([2, 3, 2, 3, 4]), x(5, t=I), x(4, t=I)):
        case(
            "Conv3DBackpropFilterV2",
            {"input": x(2, 5, 6, 7, 3), "filter_sizes": sizes, "out_backprop": x(2, 2, 4, 3, 4)},
            **window
        )
    for op, gradient in (("MaxPool3DGrad", x(2, 2, 4, 3, 3)), ("MaxPool3DGradGrad", x(2, 5, 6, 7, 3))):
        case(
            op,
            {"orig_input": x(2, 5, 6, 7, 3), "orig_output": x(2, 2, 4, 3, 3), "grad": gradient},
            ksize=[1, 2, 3, 2, 1],
            **window
        )
    for value, filter, count in itertools.product(
        (x(2, 6, 7, 3), x(2, 3, 6, 7, 3), x(2, 3, 6, 7, 5, 3)), (x(2, 3, 3, 4), x(2, 3, 2, 3, 4)), (1, 2)
    ):
        rank = len(filter[1])
        case("Conv", {"input": value, "filter": filter}, strides=[1] * rank, padding="VALID", batch_dims=count)


def sequences():
    states = {name: x(2, 3) for name in ("cs_prev", "h_prev")}
    weights = {"w": x(7, 12), "wci": x(3), "wcf": x(3), "wco": x(3)}
    for value, b in itertools.product(
        (x(5, 2, 4), x(None, 2, 4), x(UNKNOWN), x(2, 4)), (x(12), x(None), x(13), x(12, 1))
    ):
        for op in ("BlockLSTM", "BlockLSTMV2"):
            case(op, {"seq_len_max": x(t=L), "x": value, **states, **weights, "b": b})
    for value in (x(2, 4), x(None, 4), x(UNKNOWN), x(3, 4), x(2, 4, 1)):
        case("LSTMBlockCell", {"x": value, **states, **weights, "b": x(12)})
        gru = {"x": value, "h_prev": x(2, 3), "w_ru": x(7, 6), "w_c": x(7, 3), "b_ru": x(6), "b_c": x(3)}
        case("GRUBlockCell", gru)
        case("GRUBlockCellGrad", {**gru, **{name: x(2, 3) for name in ("r", "u", "c", "d_h")}})
        gates = {name: x(2, 3) for name in ("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad")}
        case("LSTMBlockCellGrad", {"x": value, **states, **weights, "b": x(12), **gates}, use_peephole=False)
    for value, lengths in itertools.product(
        (x(5, 2, 4), x(None, None, 4), x(UNKNOWN), x(5, 2)), (x(2, t=I), x(3, t=I), x(None, t=I), x(t=I))
    ):
        for count in (3, None):
            case(
                "CTCLoss",
                {
                    "inputs": value,
                    "labels_indices": x(count, 2, t=L),
                    "labels_values": x(3, t=I),
                    "sequence_length": lengths,
                },
            )
        case("CTCGreedyDecoder", {"inputs": value, "sequence_length": lengths})
        case("CTCBeamSearchDecoder", {"inputs": value, "sequence_length": lengths}, beam_width=4, top_paths=2)
    for value, mode, direction in itertools.product(
        (x(5, 2, 4), x(None, 2, 4), x(2, 4)), ("lstm", "gru"), ("unidirectional", "bidirectional")
    ):
        layers = {"input": value, "input_h": x(4, 2, 3), "input_c": x(4, 2, 3), "params": x(None)}
        for op in ("CudnnRNN", "CudnnRNNV2"):
            case(op, layers, rnn_mode=mode, direction=direction)
        case("CudnnRNNV3", {**layers, "sequence_lengths": x(2, t=I)}, rnn_mode=mode, direction=direction)
        case(
            "CudnnRNNV3",
            {**layers, "input_h": x(5, 4, 3), "input_c": x(5, 4, 3), "sequence_lengths": x(2, t=I)},
            rnn_mode=mode,
            direction=direction,
            time_major=False,
        )


def randoms():
    shapes = (v([2, 3]), v([], I), v([4], L), x(2, t=I), x(None, t=I), x(UNKNOWN, t=I), v([2, -1]), x(1, 1, t=I))
    seeds = (v([1, 2], L), x(2, t=L), x(None, t=L), x(UNKNOWN, t=L), x(3, t=L), x(t=L))
    for shape, seed in itertools.product(shapes, seeds):
        for op in ("StatelessRandomNormal", "StatelessTruncatedNormal"):
            case(op, {"shape": shape, "seed": seed})
        case("StatelessRandomUniformInt", {"shape": shape, "seed": seed, "minval": x(t=I), "maxval": x(t=I)})
    for shape in shapes:
        case(
            "StatelessRandomUniformIntV2",
            {
                "shape": shape,
                "key": x(1, t=tf.uint64),
                "counter": x(2, t=tf.uint64),
                "alg": x(t=I),
                "minval": x(t=I),
                "maxval": x(t=I),
            },
        )
        for parameter in (x(), x(3), x(None), x(UNKNOWN)):
            case("RandomGamma", {"shape": shape, "alpha": parameter})
            case("RandomPoissonV2", {"shape": shape, "rate": parameter})
            case(
                "ParameterizedTruncatedNormal",
                {"shape": shape, "means": parameter, "stdevs": x(), "minvals": x(), "maxvals": x(1)},
            )
            case("StatelessRandomBinomial", {"shape": shape, "seed": x(2, t=L), "counts": parameter, "probs": x()})
    for seed in seeds:
        case("StatelessRandomGetKeyCounterAlg", {"seed": seed})
    for logits, samples in itertools.product(
        (x(2, 3), x(None, 3), x(UNKNOWN), x(3), x(2, None)), (v(4), x(t=I), x(1, t=I), v(-1))
    ):
        case("Multinomial", {"logits": logits, "num_samples": samples})
        case("StatelessMultinomial", {"logits": logits, "num_samples": samples, "seed": x(2, t=L)})
    for value in (x(2, 3), x(None, 3), x(UNKNOWN), x()):
        case("StatelessShuffle", {"value": value, "key": x(1, t=tf.uint64), "counter": x(2, t=tf.uint64), "alg": v(1)})
        case("DeepCopy", {"x": value})
    for classes, true in itertools.product(
        (x(2, 3, t=L), x(None, 3, t=L), x(2, None, t=L), x(UNKNOWN, t=L), x(3, t=L)), (1, 3)
    ):
        for op in ("UniformCandidateSampler", "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
            case(op, {"true_classes": classes}, num_true=true, num_sampled=4, unique=True, range_max=9)
        case("AllCandidateSampler", {"true_classes": classes}, num_true=true, num_sampled=4, unique=True)
    for indices, dense, size in itertools.product(
        (x(2, 1, t=L), x(None, 2, t=L), x(UNKNOWN, t=L), x(2, t=L)),
        (v([3, 4], L), v([3], L), x(2, t=L), x(None, t=L)),
        (v(5), x(t=I), v(-1), x(1, t=I)),
    ):
        case(
            "SparseBincount",
            {"indices": indices, "values": x(None, t=I), "dense_shape": dense, "size": size, "weights": x(0)},
        )


def main():
    for fill in (
        array,
        strided,
        math,
        special,
        nn,
        batch_norm,
        checks,
        products,
        places,
        images,
        pictures,
        choices,
        sparse,
        parse,
        linear,
        moves,
        quantized,
        randoms,
        windows,
        volumes,
        sequences,
    ):
        fill()
    for op, inputs, attrs in CASES:
        outputs = infer(op, inputs, attrs)
        failing = outputs is not None and fails(op, inputs, attrs)
        specs = {name: [[s[0].as_datatype_enum, s[1], s[2]] for s in (spec if isinstance(spec, list) else [spec])]
                 for name, spec in inputs.items()}
        attrs = {name: written(name, value) for name, value in attrs.items()}
        line = {"op": op, "attrs": attrs, "inputs": specs, "outputs": outputs}
        if failing:
            line["fails"] = True
        print(json.dumps(line, separators=(",", ":")))


main()
