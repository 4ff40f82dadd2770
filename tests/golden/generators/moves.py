# SPDX-License-Identifier: Apache-2.0
"""Cases of the packages array and nn: elements moved or seen as others, which there are, lists of dims, and first
versions of ops."""

import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op


@op("Roll", count=64)
def roll(d):
    types = d.types()
    shape = d.shape(1, 4)
    count = d.int(1, 3)
    axes, shifts = [d.int(-len(shape), len(shape) - 1) for _ in range(count)], [d.int(-9, 9) for _ in range(count)]
    if d.chance(0.03):
        axes[0] = len(shape)
    if count == 1 and d.chance(0.5):
        axes, shifts = axes[0], shifts[0]
    return Case([d.tensor(types["T"], shape), d.ints(shifts, types["Tshift"]), d.ints(axes, types["Taxis"])])


@op("Bitcast", count=90)
def bitcast(d):
    kinds = registry.dtypes("Bitcast")
    source, target = d.turn(kinds), d.pick(kinds)
    shape = d.shape(0, 3)
    if source.size < target.size and d.chance(0.9):
        shape = (*shape, target.size // source.size)
    value = d.tensor(source, shape)
    if target.is_floating or target.is_complex:  # whose bits are compared: no signalling NaN
        value = np.zeros_like(value) if d.chance(0.2) else d.tensor(source, shape, 0, 60)
    return Case([value], {"type": target}, gradients=False)


@op("InplaceUpdate", "InplaceAdd", "InplaceSub", count=48)
def in_place(d):
    among = None if d.op == "InplaceUpdate" else [*registry.FLOATS, *registry.INTEGERS, *registry.COMPLEX]
    dtype, shape = d.dtype(among=among), d.shape(1, 3)
    rows = d.int(0, 5) if d.chance(0.1) else d.int(1, 4)
    places = np.array([d.int(-9, 9) for _ in range(rows)], np.int32)
    # Of a tensor without elements TensorFlow makes no difference whether rows are its rows.
    return Case(
        [d.tensor(dtype, shape), places, d.tensor(dtype, (rows, *shape[1:]))],
        gradients=False,
        disturb=bool(np.prod(shape)) and d.chance(0.5),
    )


@op("TensorStridedSliceUpdate", count=64)
def slice_update(d):
    types = d.types()
    shape = d.shape(1, 3)
    x = d.tensor(types["T"], shape)
    begin, end, strides, cut = [], [], [], []
    masks = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
    for i, dim in enumerate(shape[: d.int(1, len(shape))]):
        if dim and d.chance(0.2):
            at = d.int(-dim, dim - 1)
            one = (at, at + 1, 1)
            masks["shrink_axis_mask"] |= 1 << i
            cut.append(at)
        else:
            step = d.pick([1, 1, 2, -1, -2])
            low, high = d.int(0, dim), d.int(0, dim)
            one = (max(low, high), min(low, high), step) if step < 0 else (min(low, high), max(low, high), step)
            if d.chance(0.2):
                masks["begin_mask"] |= 1 << i
            if d.chance(0.2):
                masks["end_mask"] |= 1 << i
            cut.append(
                slice(
                    None if masks["begin_mask"] >> i & 1 else one[0],
                    None if masks["end_mask"] >> i & 1 else one[1],
                    step,
                )
            )
        begin.append(one[0]), end.append(one[1]), strides.append(one[2])
    taken = np.empty(shape)[tuple(cut)].shape
    index = types["Index"]
    return Case(
        [x, d.ints(begin, index), d.ints(end, index), d.ints(strides, index), d.tensor(types["T"], taken)],
        masks,
        disturb=d.chance(0.3),
    )


@op("ParallelDynamicStitch", count=48)
def stitch(d):
    dtype, count, tail = d.dtype(), d.int(1, 3), d.shape(0, 2)
    order = d.random.permutation(sum(sizes := [d.int(1, 3) for _ in range(count)])).astype(np.int32)
    indices = np.split(order, np.cumsum(sizes)[:-1])
    return Case([indices, [d.tensor(dtype, (size, *tail)) for size in sizes]], {"N": count}, disturb=d.chance(0.3))


@op("ParallelConcat", count=48)
def parallel_concat(d):
    dtype, count, tail = d.dtype(), d.int(1, 4), d.shape(0, 3)
    return Case(
        [[d.tensor(dtype, (1, *tail)) for _ in range(count)]],
        {"shape": (count if d.chance(0.95) else count + 1, *tail)},
        gradients=False,
        blind=False,
    )


@op("Snapshot", "GuaranteeConst")
def same(d):
    return Case([d.tensor(d.dtype(), d.shape())], gradients=d.op == "Snapshot")


def one_zero(x):
    """Where -0 is 0: of halves TensorFlow compares the bits."""
    return np.where(x == 0, np.zeros_like(x), x) if x.dtype != object and x.dtype.itemsize == 2 else x


@op("UniqueV2", "UniqueWithCountsV2", count=64)
def unique(d):
    types = d.types()
    shape = d.shape(1, 3)
    dtype = types["T"]
    x = d.tensor(dtype, shape, *((0, 2) if dtype.is_integer else ()), special=0.5)
    if (dtype.is_floating) and d.chance(0.7):
        x = np.round(d.tensor(dtype, shape, 0, 2))
        x = x.astype(dtype.as_numpy_dtype)
    x = one_zero(x)
    axis = [d.int(-len(shape), len(shape) - 1)] if len(shape) > 1 or d.chance(0.5) else []
    if d.chance(0.04):
        axis = [len(shape)] if d.chance(0.5) else []
    return Case([x, d.ints(axis, types["Taxis"])], {"out_idx": types["out_idx"]}, disturb=d.chance(0.3))


@op("ListDiff", count=60)
def list_diff(d):
    types = d.types()
    dtype = types["T"]
    few = (0, 8) if dtype.is_integer else ()
    values = [d.tensor(dtype, (d.int(0, 9),), *few, special=0.6) for _ in range(2)]
    if dtype.is_floating:
        values = [
            np.where(
                np.isfinite(one.astype(np.float32)), np.round(one.astype(np.float32)), one.astype(np.float32)
            ).astype(dtype.as_numpy_dtype)
            for one in values
        ]
    return Case([one_zero(one) for one in values], {"out_idx": types["out_idx"]})


@op("NthElement", count=60)
def nth_element(d):
    dtype, shape = d.dtype(), d.shape(1, 3, empty=0)
    n = d.int(0, shape[-1] - 1) if d.chance(0.95) else d.pick([-1, shape[-1]])
    return Case(
        [d.tensor(dtype, shape, *((0, 5) if dtype.is_integer else ()), special=0), d.given(np.int32(n))],
        {"reverse": d.chance(0.5)},
    )


@op("BroadcastArgs", count=40)
def broadcast_args(d):
    dtype = d.dtype()
    shapes = d.broadcast(high=5)
    if d.chance(0.05):
        shapes = [(2, 3), (3, 2)]
    return Case([d.ints(list(shape), dtype) for shape in shapes], disturb=False)


FORMATS = [
    ("NHWC", "NCHW"),
    ("NCHW", "NHWC"),
    ("NHWC", "HWNC"),
    ("NDHWC", "NCDHW"),
    ("NCDHW", "NDHWC"),
    ("NHWC", "NHWC"),
]


def formats(d):
    source, target = d.pick(FORMATS)
    if d.chance(0.06):
        target = d.pick(["NHW", "ABCD", "NCDHWX", "NNHC"])
    return source, target, {"src_format": source, "dst_format": target}


@op("DataFormatDimMap", count=40)
def dim_map(d):
    source, _, attrs = formats(d)
    return Case([d.tensor(d.dtype(), d.shape(0, 2), -len(source), len(source))], attrs, disturb=False)


@op("DataFormatVecPermute", count=50)
def vec_permute(d):
    source, _, attrs = formats(d)
    count = len(source) - d.pick([0, 2])
    return Case([d.tensor(d.dtype(), (count, 2) if d.chance(0.4) else (count,), -5, 50)], attrs)


@op("InTopK", count=40)
def in_top_k(d):
    rows, columns = d.int(0, 5), d.int(1, 6)
    return Case(
        [
            d.tensor(tf.float32, (rows, columns)),
            d.tensor(d.dtype(), (rows,), -1 if d.chance(0.1) else 0, columns + (1 if d.chance(0.1) else 0)),
        ],
        {"k": d.int(0, 7)},
    )


@op("BiasAddV1", count=48)
def bias_add(d):
    dtype, shape = d.dtype(), d.shape(2, 5)
    return Case([d.tensor(dtype, shape), d.tensor(dtype, shape[-1:])])
