# SPDX-License-Identifier: Apache-2.0
"""Cases of the array package: slices by vectors of indices, mirrors, blocks, orders."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op


def _indices(d, dtype, shape, distinct=False):
    """Vectors of indices of the first dims of shape; now and then one outside."""
    depth = d.int(1, len(shape))
    rows = d.shape(1, 2, empty=0.05, large=0)
    count = int(np.prod(rows))
    places = int(np.prod(shape[:depth]))
    if distinct:
        flat = d.random.permutation(max(1, places))[:count]
        rows, count = (len(flat),), len(flat)
    else:
        flat = d.random.integers(0, max(1, places), count)
    value = np.stack(np.unravel_index(flat, [max(1, s) for s in shape[:depth]]), -1).reshape((*rows, depth))
    if value.size and d.chance(0.1):
        value.flat[d.int(0, value.size - 1)] = d.pick([-1, 100])
    return value.astype(tf.as_dtype(dtype).as_numpy_dtype), rows + tuple(shape[depth:])


def _policy(d):
    return {"bad_indices_policy": d.pick(["IGNORE", "ERROR", "DEFAULT"])} if d.chance(0.2) else {}


@op("GatherNd")
def gather_nd(d):
    types = d.types("Tparams")
    shape = d.shape(1, 4)
    indices, _ = _indices(d, types["Tindices"], shape)
    return Case([d.tensor(types["Tparams"], shape), indices], _policy(d), gradients=types["Tindices"] != tf.int16)


@op("ScatterNd")
def scatter_nd(d):
    t = d.dtype(among=registry.dtypes("ScatterNd"))
    types = d.pick([c for c in registry.combinations("ScatterNd") if c["T"] == t])
    shape = d.shape(1, 4)
    indices, updates = _indices(d, types["Tindices"], shape)
    return Case([indices, d.tensor(types["T"], updates, special=0.1), d.ints(shape, types["Tindices"])], _policy(d))


@op("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")
def tensor_scatter(d):
    types = d.types()
    shape = d.shape(1, 4)
    # Of two updates of one place the later one stays; its gradient is every one's.
    indices, updates = _indices(d, types["Tindices"], shape, distinct=d.op == "TensorScatterUpdate" and d.chance(0.8))
    return Case(
        [d.tensor(types["T"], shape, special=0.1), indices, d.tensor(types["T"], updates, special=0.1)], _policy(d)
    )


@op("MirrorPad")
def mirror_pad(d):
    types, shape = d.types(), d.shape(0, 4)
    mode = d.pick(["REFLECT", "SYMMETRIC"])
    most = [max(0, dim - (mode == "REFLECT")) for dim in shape]
    pads = np.array([[d.int(0, m), d.int(0, m)] for m in most]).reshape((-1, 2))
    return Case([d.tensor(types["T"], shape), d.ints(pads, types["Tpaddings"])], {"mode": mode})


@op("MirrorPadGrad")
def mirror_pad_grad(d):
    types, shape = d.types(), d.shape(0, 4, empty=0)
    mode = d.pick(["REFLECT", "SYMMETRIC"])
    most = [max(0, dim - (mode == "REFLECT")) for dim in shape]
    pads = np.array([[d.int(0, m), d.int(0, m)] for m in most]).reshape((-1, 2))
    outer = tuple(dim + int(sum(pair)) for dim, pair in zip(shape, pads))
    return Case([d.tensor(types["T"], outer, -3, 3), d.ints(pads, types["Tpaddings"])], {"mode": mode})


@op("ReverseSequence")
def reverse_sequence(d):
    types, shape = d.types(), d.shape(2, 4)
    batch, sequence = [int(i) for i in d.random.permutation(len(shape))[:2]]
    lengths = d.tensor(types["Tlen"], (shape[batch],), 0, shape[sequence] + 1 + d.chance(0.1))
    return Case([d.tensor(types["T"], shape), lengths], {"seq_dim": sequence, "batch_dim": batch})


@op("SpaceToBatchND")
def space_to_batch(d):
    types = d.types()
    count = d.int(0, 3)
    blocks = [d.int(1, 3) for _ in range(count)]
    pads = [[d.int(0, 2), d.int(0, 2)] for _ in range(count)]
    dims = []
    for block, (before, after) in zip(blocks, pads):
        whole = block * d.int(1, 3)
        while whole < before + after:
            whole += block
        dims.append(whole - before - after)
    shape = (d.int(1, 3), *dims, *d.shape(0, 2, large=0))
    return Case(
        [
            d.tensor(types["T"], shape),
            d.ints(blocks, types["Tblock_shape"]),
            d.ints(np.array(pads).reshape((-1, 2)), types["Tpaddings"]),
        ]
    )


@op("BatchToSpaceND")
def batch_to_space(d):
    types = d.types()
    count = d.int(0, 3)
    blocks = [d.int(1, 3) for _ in range(count)]
    dims = [d.int(1, 3) for _ in range(count)]
    crops = []
    for block, dim in zip(blocks, dims):
        before = d.int(0, min(2, block * dim))
        crops.append([before, d.int(0, min(2, block * dim - before))])
    shape = (d.int(1, 2) * int(np.prod(blocks, dtype=np.int64)), *dims, *d.shape(0, 2, large=0))
    return Case(
        [
            d.tensor(types["T"], shape),
            d.ints(blocks, types["Tblock_shape"]),
            d.ints(np.array(crops).reshape((-1, 2)), types["Tcrops"]),
        ]
    )


@op("SpaceToDepth", "DepthToSpace")
def depth(d):
    t, block = d.dtype(), d.int(2, 3)
    deep = (d.int(0, 2), d.int(1, 3), d.int(1, 3), d.int(1, 3))
    image = (deep[0], deep[1] * block, deep[2] * block, deep[3])
    shape = image if d.op == "SpaceToDepth" else (*deep[:3], deep[3] * block * block)
    return Case([d.tensor(t, shape)], {"block_size": block})


@op("MatrixBandPart")
def band(d):
    t, shape = d.dtype(), d.shape(2, 4)
    dtype = d.pick([tf.int32, tf.int64])
    return Case([d.tensor(t, shape), d.ints(d.int(-1, shape[-2]), dtype), d.ints(d.int(-1, shape[-1]), dtype)])


@op("LinSpace")
def linspace(d):
    types = d.types()
    bounds = [d.tensor(types["T"], (), -100, 100) for _ in range(2)]
    return Case([*bounds, d.ints(d.int(1, 20), types["Tidx"])])


@op("TopKV2")
def top_k(d):
    types, shape = d.types(), d.shape(1, 3)
    k = d.int(0, shape[-1])
    attrs = {"index_type": types["index_type"], **({"sorted": False} if d.chance(0.3) else {})}
    x = d.tensor(types["T"], shape, -50, 50)
    # Where one is asked for, TensorFlow passes over NaN but for the last one of what its vectors leave over.
    if d.number % 3 == 2 and types["T"] in registry.FLOATS and k != 1:
        x[d.random.random(x.shape) < 0.3] = np.nan
    return Case([x, d.ints(k, types["Tk"])], attrs, differentiated=(0,))


@op("Concat")
def concat(d):
    t, shape = d.dtype(), d.shape(1, 4)
    axis = d.int(-len(shape), len(shape) - 1)
    values = []
    for _ in range(d.int(2, 4)):
        dims = list(shape)
        dims[axis] = d.int(0, 3)
        values.append(d.tensor(t, dims))
    return Case([d.ints(axis), values])
