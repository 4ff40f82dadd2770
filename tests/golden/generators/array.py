# SPDX-License-Identifier: Apache-2.0
"""Cases of the array package."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, Const, op


def _dims(d, dims, dtype=tf.int32):
    return d.ints(list(dims), dtype)


@op("Fill")
def fill(d):
    types = d.types()
    return Case([_dims(d, d.shape(), types["index_type"]), d.tensor(types["T"])])


@op("ZerosLike", "OnesLike", "Shape", "Size", "Rank")
def like(d):
    types = d.types()
    attrs = {"out_type": types["out_type"]} if "out_type" in types else {}
    return Case([d.tensor(types["T"], d.shape(0, 5))], attrs)


@op("ShapeN")
def shape_n(d):
    types = d.types()
    return Case([[d.tensor(types["T"], d.shape()) for _ in range(d.int(1, 4))]], {"out_type": types["out_type"]})


@op("Reshape")
def reshape(d):
    types = d.types()
    shape = d.shape()
    target = list(d.random.permutation(shape)) if shape else [1] * d.int(0, 2)
    if len(target) > 1 and d.chance(0.3):
        target = [int(np.prod(target[:2])), *target[2:]]
    if target and d.chance(0.3):
        target[d.int(0, len(target) - 1)] = -1
    return Case([d.tensor(types["T"], shape), _dims(d, target, types["Tshape"])])


@op("ExpandDims")
def expand_dims(d):
    types = d.types()
    shape = d.shape()
    return Case(
        [
            d.tensor(types["T"], shape),
            d.given(np.array(d.int(-len(shape) - 1, len(shape)), types["Tdim"].as_numpy_dtype)),
        ]
    )


@op("Squeeze")
def squeeze(d):
    shape = tuple(1 if d.chance(0.5) else dim for dim in d.shape(0, 5))
    ones = [i - (len(shape) if d.chance(0.3) else 0) for i, dim in enumerate(shape) if dim == 1 and d.chance(0.6)]
    if d.chance(0.1):
        ones = [d.int(-6, 5)]
    return Case([d.tensor(d.dtype(), shape)], {"squeeze_dims": ones} if d.chance(0.7) else {})


@op("ConcatV2")
def concat(d):
    types = d.types()
    shape = list(d.shape(1, 4))
    axis = d.int(-len(shape), len(shape) - 1)
    parts = []
    for _ in range(d.int(2, 5)):
        shape[axis] = d.int(0, 4)
        parts.append(d.tensor(types["T"], shape))
    return Case([parts, d.given(np.array(axis, types["Tidx"].as_numpy_dtype))])


@op("ConcatOffset")
def concat_offset(d):
    t = d.dtype("shape_type")
    shape = list(d.shape(1, 4))
    axis = d.int(-len(shape), len(shape) - 1)
    shapes = []
    for _ in range(d.int(2, 5)):
        shape[axis] = d.int(0, 4)
        shapes.append(np.array(shape, t.as_numpy_dtype))
    return Case([np.array(axis, np.int32), shapes])


@op("Split")
def split(d):
    shape = list(d.shape(1, 4))
    axis, parts = d.int(-len(shape), len(shape) - 1), d.int(1, 4)
    if not d.chance(0.1):
        shape[axis] = parts * d.int(0, 3)
    return Case([d.given(np.int32(axis)), d.tensor(d.dtype(), shape)], {"num_split": parts})


@op("SplitV")
def split_v(d):
    types = d.types()
    shape = list(d.shape(1, 4))
    axis, count = d.int(-len(shape), len(shape) - 1), d.int(1, 4)
    sizes = [d.int(0, 3) for _ in range(count)]
    shape[axis] = sum(sizes)
    if d.chance(0.4):
        sizes[d.int(0, len(sizes) - 1)] = -1
    # TensorFlow dies of constant sizes of type int8, and takes the last dimension where the axis is not known.
    sizes = np.array(sizes, np.int8) if types["Tlen"] == tf.int8 else _dims(d, sizes, types["Tlen"])
    axis = Const(np.int32(axis)) if isinstance(sizes, Const) else d.given(np.int32(axis))
    return Case([d.tensor(types["T"], shape), sizes, axis], {"num_split": count})


@op("Pack")
def pack(d):
    t, shape = d.dtype(), d.shape(0, 3)
    return Case([[d.tensor(t, shape) for _ in range(d.int(1, 5))]], {"axis": d.int(-len(shape) - 1, len(shape))})


@op("Unpack")
def unpack(d):
    shape = d.shape(1, 4, large=0)
    axis = d.int(-len(shape), len(shape) - 1)
    return Case(
        [d.tensor(d.dtype(), shape)], {"axis": axis, "num": shape[axis] + (1 if d.chance(0.05) else 0)}, blind=False
    )


@op("OneHot")
def one_hot(d):
    types = d.types()
    indices = d.tensor(types["TI"], d.shape(0, 3), -1, 6)
    attrs = {"axis": d.int(-1, indices.ndim)}
    return Case([indices, d.given(np.int32(d.int(0, 5))), d.tensor(types["T"]), d.tensor(types["T"])], attrs)


@op("Range")
def span(d):
    t = d.dtype("Tidx")
    if t.is_integer:
        start, limit, delta = d.int(-5, 5), d.int(-5, 20), d.pick([1, 2, 3, -1, -2, 0])
        if t.is_unsigned:
            start, limit, delta = abs(start), abs(limit), abs(delta)
    else:
        start, limit, delta = d.int(-8, 8) / 4, d.int(-8, 20) / 4, d.pick([0.25, 0.5, 1, 1.5, -0.5, 0])
    return Case([d.given(np.array(one).astype(t.as_numpy_dtype)) for one in (start, limit, delta)])


@op("BroadcastTo")
def broadcast_to(d):
    types = d.types()
    full = d.shape(0, 5)
    part = tuple(1 if d.chance(0.4) else dim for dim in full)[d.int(0, len(full)) if d.chance(0.4) else 0:]
    return Case([d.tensor(types["T"], part), _dims(d, full, types["Tidx"])])


@op("BroadcastGradientArgs")
def broadcast_gradient_args(d):
    t = d.dtype()
    return Case([np.array(shape, t.as_numpy_dtype) for shape in d.broadcast()])


@op("Gather")
def gather(d):
    types = d.types("Tparams")
    shape = d.shape(1, 3)
    high = max(1, shape[0]) + (1 if d.chance(0.1) else 0)
    return Case([d.tensor(types["Tparams"], shape), d.tensor(types["Tindices"], d.shape(0, 3), 0, high)])


@op("GatherV2")
def gather_v2(d):
    types = d.types("Tparams")
    shape = d.shape(1, 4)
    batch = d.int(0, len(shape) - 1) if d.chance(0.4) else 0
    axis = d.int(batch, len(shape) - 1)
    high = max(1, shape[axis]) + (1 if d.chance(0.1) else 0)
    indices = d.tensor(types["Tindices"], shape[:batch] + d.shape(0, 2), 0, high)
    if d.chance(0.3):
        axis -= len(shape)
    if batch and d.chance(0.2):
        batch -= indices.ndim
    return Case(
        [d.tensor(types["Tparams"], shape), indices, d.given(np.array(axis, types["Taxis"].as_numpy_dtype))],
        {"batch_dims": batch},
    )


@op("DynamicPartition")
def dynamic_partition(d):
    shape, count = d.shape(0, 3), d.int(1, 4)
    high = count + (1 if d.chance(0.1) else 0)
    return Case(
        [d.tensor(d.dtype(), shape), d.tensor(tf.int32, shape[: d.int(0, len(shape))], 0, high)],
        {"num_partitions": count},
    )


@op("DynamicStitch")
def dynamic_stitch(d):
    t, row = d.dtype(), d.shape(0, 2)
    shapes = [d.shape(0, 2, large=0) for _ in range(d.int(1, 3))]
    total = sum(int(np.prod(shape)) for shape in shapes)
    # Every place is given, so that nothing is left that nobody wrote.
    places = (
        list(d.random.permutation(total))
        if d.chance(0.7)
        else sorted(d.int(0, max(0, total - 1)) for _ in range(total))
    )
    if sorted(set(places)) != list(range(max(places, default=-1) + 1)):
        places = list(range(total))
    indices, data = [], []
    for shape in shapes:
        count = int(np.prod(shape))
        indices.append(np.array(places[:count], np.int32).reshape(shape))
        places = places[count:]
        data.append(d.tensor(t, shape + row))
    return Case([indices, data])


@op("Unique", "UniqueWithCounts")
def unique(d):
    types = d.types()
    t = types["T"]
    shape = (d.pick([0, 1, 5, 20, 60]),)
    low, high = (0, 6) if t in registry.INTEGERS or t in registry.FLOATS else (None, None)
    x = d.tensor(t, shape, low, high, special=0)
    if t in registry.FLOATS:
        x = np.round(x)
    return Case([x], {"out_idx": types["out_idx"]})


@op("Select")
def select(d):
    t, shape = d.dtype(), d.shape()
    condition = d.pick([shape, shape, (), shape[:1]])
    return Case([d.tensor(tf.bool, condition), d.tensor(t, shape), d.tensor(t, shape)])


@op("SelectV2")
def select_v2(d):
    t = d.dtype()
    condition, x, y = d.broadcast(3)
    return Case([d.tensor(tf.bool, condition), d.tensor(t, x), d.tensor(t, y)])


@op("Where")
def where(d):
    t = d.dtype()
    x = d.tensor(t, d.shape(1, 5))
    if t != tf.bool:
        x = np.where(d.random.random(x.shape) < 0.5, np.zeros((), x.dtype), x)
    return Case([x])


@op("Slice")
def slice_(d):
    types = d.types()
    shape = d.shape()
    begin = [d.int(0, dim) for dim in shape]
    size = [-1 if d.chance(0.2) else d.int(0, dim - b) for dim, b in zip(shape, begin)]
    return Case([d.tensor(types["T"], shape), _dims(d, begin, types["Index"]), _dims(d, size, types["Index"])])


@op("XlaDynamicSlice")
def dynamic_slice(d):
    types = d.types(first="T")
    shape = d.shape()
    size = [d.int(0, dim + d.chance(0.03)) for dim in shape]
    start = [d.int(-2, dim + 2) for dim in shape]
    return Case(
        [
            d.tensor(types["T"], shape),
            _dims(d, start, types["Tindices"]),
            Const(np.array(size, types["Tindices"].as_numpy_dtype)),
        ]
    )


@op("XlaDynamicUpdateSlice")
def dynamic_update_slice(d):
    types = d.types(first="T")
    shape = d.shape()
    size = tuple(d.int(0, dim + d.chance(0.03)) for dim in shape)
    start = [d.int(-2, dim + 2) for dim in shape]
    return Case([d.tensor(types["T"], shape), d.tensor(types["T"], size), _dims(d, start, types["Tindices"])])


def _strides(d, shape):
    """begin, end, strides and the masks of a strided slice of `shape`; with one ellipsis at most."""
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    begin, end, strides = [], [], []
    dims = list(shape)
    ellipsis = d.int(0, len(dims)) if d.chance(0.3) else None
    skipped = d.int(0, len(dims) - ellipsis) if ellipsis is not None else 0
    place = 0
    while place < len(dims):
        bit = 1 << len(begin)
        dim = dims[place]
        if ellipsis == place:
            masks["ellipsis_mask"] |= bit
            begin.append(0), end.append(0), strides.append(1)
            place += skipped
            ellipsis = None
            continue
        if d.chance(0.1):
            masks["new_axis_mask"] |= bit
            begin.append(0), end.append(0), strides.append(1)
            continue
        if d.chance(0.12) and skipped == 0:
            break
        begin.append(d.int(-dim - 1, dim + 1)), end.append(d.int(-dim - 1, dim + 1)), strides.append(
            d.pick([1, 1, 1, 2, 3, -1, -2])
        )
        if dim and d.chance(0.2):
            masks["shrink_axis_mask"] |= bit
            begin[-1], strides[-1] = d.int(-dim, dim - 1), 1
            end[-1] = begin[-1] + 1
        for name in ("begin_mask", "end_mask"):
            masks[name] |= bit if d.chance(0.25) else 0
        place += 1
    if d.chance(0.03) and strides:
        strides[0] = 0
    return begin, end, strides, masks


@op("StridedSlice", count=60)
def strided_slice(d):
    types = d.types()
    shape = d.shape()
    begin, end, strides, masks = _strides(d, shape)
    return Case([d.tensor(types["T"], shape)] + [_dims(d, one, types["Index"]) for one in (begin, end, strides)], masks)


@op("StridedSliceGrad", count=60)
def strided_slice_grad(d):
    types = d.types()
    shape = d.shape(1, 4)
    begin, end, strides, masks = _strides(d, shape)
    index = types["Index"].as_numpy_dtype
    try:
        sliced = tf.strided_slice(tf.zeros(shape), begin, end, strides, **masks).shape if begin else shape
    except (ValueError, tf.errors.OpError):
        sliced = shape
    return Case(
        [_dims(d, shape, index)]
        + [_dims(d, one, index) for one in (begin, end, strides)]
        + [d.tensor(types["T"], tuple(sliced))],
        masks,
    )


@op("Pad")
def pad(d):
    types = d.types()
    shape = d.shape()
    return Case([d.tensor(types["T"], shape), d.given(_paddings(d, shape, types["Tpaddings"]))])


@op("PadV2")
def pad_v2(d):
    types = d.types()
    shape = d.shape()
    return Case([d.tensor(types["T"], shape), d.given(_paddings(d, shape, types["Tpaddings"])), d.tensor(types["T"])])


def _paddings(d, shape, dtype):
    return np.array([[d.int(0, 2), d.int(0, 2)] for _ in shape], dtype.as_numpy_dtype).reshape(len(shape), 2)


@op("ReverseV2")
def reverse(d):
    types = d.types()
    shape = d.shape(0, 5)
    return Case([d.tensor(types["T"], shape), d.given(d.axes(len(shape), types["Tidx"]))])


@op("Transpose")
def transpose(d):
    types = d.types()
    shape = d.shape(0, 5)
    order = [int(i) - (len(shape) if d.chance(0.1) else 0) for i in d.random.permutation(len(shape))]
    return Case([d.tensor(types["T"], shape), _dims(d, order, types["Tperm"])])


@op("InvertPermutation")
def invert_permutation(d):
    t = d.dtype()
    order = d.random.permutation(d.int(0, 8)).astype(t.as_numpy_dtype)
    if order.size and d.chance(0.15):
        order[d.int(0, order.size - 1)] = d.int(-1, order.size)
    return Case([order])


@op("Tile")
def tile(d):
    types = d.types()
    shape = d.shape(large=0)
    return Case(
        [
            d.tensor(types["T"], shape),
            _dims(d, [d.int(0 if d.chance(0.1) else 1, 3) for _ in shape], types["Tmultiples"]),
        ]
    )
