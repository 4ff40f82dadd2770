# SPDX-License-Identifier: Apache-2.0
"""Cases of the sparse package: sparse and ragged tensors packed into texts and variants and taken out again, gathered,
made of ranges; and through pipelines."""

import numpy as np
import tensorflow as tf

from .draw import Case, Program, op

raw = tf.raw_ops
PACKED = [
    tf.float32,
    tf.int64,
    tf.string,
    tf.float64,
    tf.bool,
    tf.int32,
    tf.uint8,
    tf.complex64,
    tf.float16,
    tf.bfloat16,
    tf.int8,
    tf.uint16,
]


def sparse_of(d, shape, most=6):
    """Indices in order."""
    places = int(np.prod(shape, dtype=np.int64))
    flat = np.sort(d.random.permutation(places)[: d.int(0, min(most, places))]) if places else np.zeros(0, np.int64)
    if not shape or not len(flat):
        return np.zeros((0, len(shape)), np.int64)
    return np.stack(np.unravel_index(flat, shape), -1).astype(np.int64)


def parts_of(d, dtype, shape):
    rows = sparse_of(d, shape)
    return rows, d.tensor(dtype, (len(rows),)), np.array(shape, np.int64)


def message(value):
    return tf.make_tensor_proto(
        value, dtype=tf.string if value.dtype == object else None, shape=value.shape
    ).SerializeToString(deterministic=True)


def messages(d, dtype, shape):
    parts = list(parts_of(d, dtype, shape))
    if d.chance(0.02):
        parts[d.int(0, 2)] = d.pick(
            [
                np.zeros((2, 2, 2), np.int64),
                np.zeros((3,), np.int64),
                np.zeros((), np.float32),
                np.zeros((1, 1), np.float32),
            ]
        )
    words = [message(part) for part in parts]
    if d.chance(0.01):
        words[d.int(0, 2)] = d.pick([b"", b"\xff", words[0][:-1]])
    return words


def packed(d, outer, dtype):
    """Sparse tensors of one rank, each with a shape of its own."""
    rank = d.int(0, 3)
    count = int(np.prod(outer, dtype=int))
    words = []
    for _ in range(count):
        shape = tuple(d.int(1, 4) for _ in range(rank if not d.chance(0.01) else rank + 1))
        words += messages(d, dtype if not d.chance(0.01) else tf.int8, shape)
    array = np.empty(len(words), object)
    array[:] = words
    return array.reshape((*outer, 3))


@op("DeserializeSparse", count=48)
def deserialize(d):
    dtype = d.turn(PACKED)
    outer = d.pick([(), (), (1,), (3,), (2, 2), (1, 2, 1)])
    return Case([packed(d, outer, dtype)], {"dtype": dtype}, gradients=False, disturb=d.chance(0.3))


@op("DeserializeManySparse", count=40)
def deserialize_many(d):
    dtype = d.turn(PACKED)
    return Case([packed(d, (d.int(1, 4),), dtype)], {"dtype": dtype}, gradients=False, disturb=d.chance(0.3))


@op("SerializeSparse", "SerializeManySparse", count=60)
def serialize(d):
    """As texts, or as variants, which only programs have."""
    if d.chance(0.5):
        return through_variants(d)
    rows, values, shape = parts_of(d, d.turn(PACKED), d.shape(2 if "Many" in d.op else 0, 4, large=0))
    if rows.size and d.chance(0.06):
        rows[0, 0] = d.pick([-1, 100])
    return Case([rows, values, shape], gradients=False)


def through_variants(d):
    """A sparse tensor as variants, or its rows, and taken out as one."""
    with tf.Graph().as_default() as graph:
        dtype = d.turn(PACKED)
        if "Many" not in d.op:
            rank = d.int(0, 3)
            rows, values, shape = parts_of(d, dtype, tuple(d.int(0, 4) for _ in range(rank)))
            variants = raw.SerializeSparse(
                sparse_indices=rows, sparse_values=tf.constant(values, dtype), sparse_shape=shape, out_type=tf.variant
            )
            variants = tf.reshape(variants, d.pick([[3], [1, 3], [1, 1, 3]]))
        else:
            rows, values, shape = parts_of(d, dtype, d.shape(2, 4, empty=0, large=0))
            variants = raw.SerializeManySparse(
                sparse_indices=rows, sparse_values=tf.constant(values, dtype), sparse_shape=shape, out_type=tf.variant
            )
        wanted = dtype if not d.chance(0.05) else tf.uint32
        out = raw.DeserializeSparse(serialized_sparse=variants, dtype=wanted)
    return Program(graph, [({}, [one.name for one in out], [])], "sparse tensors as variants")


# ---- Ragged ----

def splits_of(d, rows, dtype):
    """Splits of so many rows, and how many values there are."""
    lengths = d.random.integers(0, 4, rows)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    if d.chance(0.03):
        splits[d.int(0, rows)] += d.pick([-1, 1, 50])
    return splits.astype(dtype.as_numpy_dtype), int(lengths.sum())


def ragged_of(d, dtype, split_type, levels, rows=None):
    rows = d.int(0, 4) if rows is None else rows
    splits = []
    for _ in range(levels):
        one, rows = splits_of(d, rows, split_type)
        splits.append(one)
    return splits, d.tensor(dtype, (rows, *d.shape(0, 2, large=0)))


@op("RaggedGather", count=80)
def ragged_gather(d):
    dtype, split_type, index = d.dtype("Tvalues"), d.pick([tf.int32, tf.int64]), d.pick([tf.int32, tf.int64])
    levels = d.int(1, 3)
    rows = d.int(1, 4)
    splits, values = ragged_of(d, dtype, split_type, levels, rows)
    shape = d.pick([(), (d.int(0, 4),), (2, d.int(1, 3)), (2, 1, 2)])
    indices = d.tensor(index, shape, 0, rows + (1 if d.chance(0.06) else 0))
    return Case([splits, values, indices], {"OUTPUT_RAGGED_RANK": max(levels + len(shape) - 1, 0)})


@op("RaggedRange", count=70)
def ragged_range(d):
    dtype = d.dtype()
    rows = d.int(0, 5)
    size = d.pick([3, 10, 30])

    def one(low, high):
        return d.tensor(dtype, d.pick([(), (rows,), (rows,)]), low, high)
    starts, limits, deltas = one(-size, size), one(-size, size), one(-3, 4)
    if deltas.size and not d.chance(0.1):
        deltas = np.where(deltas == 0, np.ones_like(deltas), deltas)
    if dtype.is_floating and d.chance(0.5):
        starts, limits, deltas = (np.round(x * 4) / 4 for x in (starts, limits, deltas))
        starts, limits, deltas = (np.asarray(x).astype(dtype.as_numpy_dtype) for x in (starts, limits, deltas))
    if d.chance(0.04) and limits.size:
        limits.flat[0] = (
            d.pick([1e30, -1e30, np.nan, np.inf])
            if dtype.is_floating
            else limits.dtype.type(d.pick([2**31 - 1, -(2**31)]))
        )
    return Case([starts, limits, deltas], {"Tsplits": d.pick([tf.int32, tf.int64])}, gradients=False)


@op("RaggedTensorToVariant", "RaggedTensorFromVariant", count=40)
def ragged_variants(d):
    """As variants by rows or whole, and back in another arrangement; with gradients where there are some."""
    with tf.Graph().as_default() as graph:
        dtype, split_type = d.turn([tf.float32, tf.int64, tf.string, tf.float64, tf.bool, tf.int32]), d.pick(
            [tf.int32, tf.int64]
        )
        levels = d.int(0, 3)
        splits, values = ragged_of(d, dtype, split_type, levels, d.int(1, 4))
        values = tf.identity(tf.constant(values, dtype), name="values")
        by_row = d.chance(0.7)
        variants = (
            raw.RaggedTensorToVariant(
                rt_nested_splits=[tf.constant(one) for one in splits], rt_dense_values=values, batched_input=by_row
            )
            if levels
            else raw.RaggedTensorToVariant(rt_nested_splits=[], rt_dense_values=values, batched_input=by_row)
        )
        inner = max(levels - 1, 0) if by_row else levels
        differentiable = (
            dtype.is_floating and levels > 0 and d.chance(0.7)
        )  # of one row without splits TensorFlow makes a gradient of another shape
        if d.chance(0.2):
            variants = tf.reshape(variants, [1, -1] if by_row else [1])
            differentiable = False
        rank = variants.shape.rank
        out = inner + rank if not (by_row and levels == 0 and rank == 1) else d.pick([0, 1])
        inner = d.pick([-1, inner]) if out > 0 else -1
        wanted = split_type if not d.chance(0.03) else tf.int64
        made = raw.RaggedTensorFromVariant(
            encoded_ragged=variants, input_ragged_rank=inner, output_ragged_rank=out, Tvalues=dtype, Tsplits=wanted
        )
        names = [one.name for one in made.output_nested_splits] + [made.output_dense_values.name]
        gradients = (["y"], ["values"]) if differentiable else None
        if differentiable:
            tf.identity(tf.square(made.output_dense_values), name="y")
            names.append("y:0")
    return Program(graph, [({}, names, [])], "ragged tensors as variants", gradients)


# ---- Under numbers ----

@op("AddSparseToTensorsMap", "AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap", count=25)
def tensors_map(d):
    """Kept, and taken in another order, some of them twice, which is refused."""
    with tf.Graph().as_default() as graph:
        dtype, rank = d.turn(PACKED), d.int(1, 3)
        runs, count = [], 0
        handles = tf.compat.v1.placeholder(tf.int64, [None], "handles")
        raw.TakeManySparseFromTensorsMap(
            sparse_handles=handles, dtype=dtype if not d.chance(0.05) else tf.uint32, shared_name="kept", name="take"
        )
        for i in range(d.int(1, 4)):
            shape = tuple(d.int(1, 4) for _ in range(rank))
            if d.chance(0.5):
                rows, values, dims = parts_of(d, dtype, shape)
                added = raw.AddSparseToTensorsMap(
                    sparse_indices=rows,
                    sparse_values=tf.constant(values, dtype),
                    sparse_shape=dims,
                    shared_name="kept",
                    name=f"add{i}",
                )
                count += 1
            else:
                rows, values, dims = parts_of(d, dtype, (d.int(1, 3), *shape))
                added = raw.AddManySparseToTensorsMap(
                    sparse_indices=rows,
                    sparse_values=tf.constant(values, dtype),
                    sparse_shape=dims,
                    shared_name="kept",
                    name=f"add{i}",
                )
                count += int(dims[0])
            runs.append(({}, [added.name], []))
        left = [int(i) for i in d.random.permutation(count)]
        while left and len(runs) < 8:
            taken = [left.pop() for _ in range(d.int(1, len(left)))]
            if d.chance(0.1):
                runs.append(({"handles:0": np.array([*taken[:1], 99], np.int64)}, [f"take:{k}" for k in range(3)], []))
                break  # of which TensorFlow has lost the first
            runs.append(({"handles:0": np.array(taken, np.int64)}, [f"take:{k}" for k in range(3)], []))
    return Program(graph, runs, "sparse tensors under numbers")
