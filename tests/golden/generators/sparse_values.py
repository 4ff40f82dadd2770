# SPDX-License-Identifier: Apache-2.0
"""Cases of the sparse package: sparse tensors put together and taken apart, added, reduced, counted, as sets."""
import numpy as np
import tensorflow as tf

from .draw import Case, op
from .packed import PACKED, parts_of, ragged_of, sparse_of


def shuffled(d, rows, values):
    order = d.random.permutation(len(rows))
    return rows[order], values[order]


def small(d, dtype, count):
    """Numbers whose sums are exact, but in halves."""
    return d.tensor(dtype, (count,), -4 if not tf.as_dtype(dtype).is_unsigned else 0, 5)


@op("SparseReorder", count=40)
def reorder(d):
    rows, values, shape = parts_of(d, d.turn(PACKED), d.shape(1, 4, large=0))
    return Case([*shuffled(d, rows, values), shape], disturb=False)


@op("SparseConcat", count=48)
def concat(d):
    dtype, shape = d.turn(PACKED), list(d.shape(1, 3, large=0))
    axis = d.int(0, len(shape) - 1)
    made = []
    for _ in range(d.int(2, 4)):
        one = list(shape)
        one[axis] = d.int(0, 4)
        if d.chance(0.02):
            one[0] += 1
        made.append(parts_of(d, dtype, tuple(one)))
    given = axis - len(shape) if d.chance(0.3) else axis
    return Case([list(part) for part in zip(*made)], {"concat_dim": given if not d.chance(0.03) else 7}, disturb=False)


@op("SparseSplit", count=48)
def split(d):
    shape = d.shape(1, 3, large=0)
    axis = d.int(0, len(shape) - 1)
    pieces = d.int(1, max(1, shape[axis])) + (1 if d.chance(0.05) else 0)
    rows, values, shape = parts_of(d, d.turn(PACKED), shape)
    return Case(
        [
            np.array(axis - len(shape) if d.chance(0.2) else axis if not d.chance(0.03) else 9, np.int64),
            rows,
            values,
            shape,
        ],
        {"num_split": pieces},
        gradients=False,
        disturb=False,
    )


@op("SparseSlice", count=48)
def take_slice(d):
    rows, values, shape = parts_of(d, d.turn(PACKED), d.shape(1, 3, large=0))
    start = np.array([d.int(0, dim) for dim in shape], np.int64)
    size = np.array([d.int(0, dim + 1) for dim in shape], np.int64)
    return Case([rows, values, shape, start, size], disturb=False)


@op("SparseSliceGrad", count=30)
def slice_grad(d):
    dtype = d.dtype()
    shape = d.shape(1, 3, large=0)
    rows = sparse_of(d, shape)
    start = np.array([d.int(0, dim) for dim in shape], np.int64)
    size = np.array([d.int(0, dim + 1) for dim in shape], np.int64)
    inside = np.array([bool((row >= start).all() and (row < start + size).all()) for row in rows], bool)
    out = rows[inside] - start if len(rows) else rows
    if len(out) and d.chance(0.06):
        out[0] += 1
    return Case([d.tensor(dtype, (len(out),)), rows, start, out.astype(np.int64)], disturb=False)


@op("RaggedTensorToSparse", count=48)
def ragged_to_sparse(d):
    splits, values = ragged_of(d, d.turn(PACKED), d.pick([tf.int32, tf.int64]), d.int(1, 3))
    return Case([splits, values], {}, disturb=False)


# ---- Arithmetic ----

@op("SparseAdd", count=48)
def add(d):
    dtype = d.dtype()
    shape = d.shape(1, 3, large=0)
    rows, others = sparse_of(d, shape), sparse_of(d, shape)
    real = {tf.complex64: tf.float32, tf.complex128: tf.float64}.get(dtype, dtype)
    other = np.array(shape, np.int64)
    if d.chance(0.04):
        other = other + 1
    thresh = np.array(d.pick([0, 0, 1, 3]), tf.as_dtype(real).as_numpy_dtype)
    return Case(
        [
            rows,
            small(d, dtype, len(rows)),
            np.array(shape, np.int64),
            others,
            small(d, dtype, len(others)),
            other,
            thresh,
        ],
        disturb=False,
    )


@op("SparseAddGrad", count=30)
def add_grad(d):
    dtype = d.dtype()
    shape = d.shape(1, 3, empty=0, large=0)
    rows, others = sparse_of(d, shape), sparse_of(d, shape)
    total = sorted({tuple(row) for row in np.concatenate([rows, others]).tolist() if not d.chance(0.1)})
    total = np.array(total, np.int64).reshape(-1, len(shape))
    return Case([small(d, dtype, len(total)), rows, others, total], disturb=False)


@op("SparseSparseMaximum", "SparseSparseMinimum", count=40)
def pick(d):
    dtype = d.dtype()
    shape = d.shape(1, 3, large=0)
    rows, others = sparse_of(d, shape), sparse_of(d, shape)
    return Case(
        [
            rows,
            small(d, dtype, len(rows)),
            np.array(shape, np.int64),
            others,
            small(d, dtype, len(others)),
            np.array(shape, np.int64),
        ],
        disturb=False,
    )


@op("SparseTensorDenseAdd", count=48)
def add_dense(d):
    dtype, index = d.dtype(), d.pick([tf.int32, tf.int64])
    shape = d.shape(1, 4, large=0)
    rows = sparse_of(d, shape).astype(index.as_numpy_dtype)
    if rows.size and d.chance(0.05):
        rows.flat[0] = d.pick([-1, 100])
    return Case(
        [rows, small(d, dtype, len(rows)), np.array(shape, index.as_numpy_dtype), d.tensor(dtype, shape, 0, 5)],
        disturb=d.chance(0.5),
    )


@op("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv", count=40)
def with_dense(d):
    dtype = d.dtype()
    shape = d.shape(1, 4, empty=0, large=0)
    rows = sparse_of(d, shape)
    dims = tuple(1 if d.chance(0.3) else dim for dim in shape)[d.int(0, len(shape)) if d.chance(0.3) else 0:]
    dense = d.tensor(dtype, dims, 1, 5)
    if d.chance(0.03):
        dense = d.tensor(dtype, (*dims, 7), 1, 5)
    return Case(
        [rows, small(d, dtype, len(rows)), np.array(shape, np.int64), dense],
        gradients=d.op != "SparseDenseCwiseAdd",
        disturb=False,
    )


@op("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse", count=48)
def reduce(d):
    dtype = d.dtype()
    shape = d.shape(1, 4, empty=0, large=0)
    rows = sparse_of(d, shape, most=10)
    axes = d.axes(len(shape))
    if d.chance(0.04):
        axes = np.append(axes, d.pick([7, -9])).astype(np.int32)
    return Case(
        [rows, small(d, dtype, len(rows)), np.array(shape, np.int64), axes], {"keep_dims": d.chance(0.4)}, disturb=False
    )


@op("SparseSoftmax", count=40)
def softmax(d):
    dtype = d.dtype()
    shape = d.shape(1 if d.chance(0.04) else 2, 4, empty=0, large=0)
    rows = sparse_of(d, shape, most=10)
    return Case([rows, d.tensor(dtype, (len(rows),), -5, 5), np.array(shape, np.int64)], disturb=False)


@op("SparseMatMul", count=40)
def matmul(d):
    types = d.types("Ta")
    transpose_a, transpose_b = d.chance(0.4), d.chance(0.4)
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    a, b = d.tensor(types["Ta"], (k, m) if transpose_a else (m, k), -3, 3), d.tensor(
        types["Tb"], (n, k) if transpose_b else (k, n), -3, 3
    )
    a, b = (x * d.random.integers(0, 2, x.shape).astype(x.dtype) for x in (a, b))
    return Case(
        [a, b],
        {
            "transpose_a": transpose_a,
            "transpose_b": transpose_b,
            "a_is_sparse": d.chance(0.5),
            "b_is_sparse": d.chance(0.5),
        },
    )


# ---- Counts ----

def counted(d, count, low=0):
    """Values, and weights of a type or none."""
    out = d.pick([tf.int32, tf.int64, tf.float32, tf.float64])
    weights = d.tensor(out, (count,), -3, 4) if d.chance(0.5) else np.zeros(0, out.as_numpy_dtype)
    return d.tensor(d.pick([tf.int32, tf.int64]), (count,), low, d.pick([3, 9])), weights


def counting(d):
    return {
        "minlength": d.pick([-1, -1, 0, 4, 12]),
        "maxlength": d.pick([-1, -1, 0, 3, 8]),
        "binary_output": d.chance(0.3),
    }


@op("DenseCountSparseOutput", count=50)
def count_dense(d):
    shape = d.pick([(d.int(0, 6),), (d.int(0, 3), d.int(0, 4))])
    values, weights = counted(d, int(np.prod(shape)), -1 if d.chance(0.05) else 0)
    if weights.size:
        weights = weights.reshape(shape)
    return Case([values.reshape(shape), weights], counting(d), gradients=False)


@op("SparseCountSparseOutput", count=50)
def count_sparse(d):
    shape = d.pick([(d.int(1, 6),), (d.int(1, 3), d.int(1, 4))])
    rows = sparse_of(d, shape)
    values, weights = counted(d, len(rows), -1 if d.chance(0.05) else 0)
    if weights.size == 0 and d.chance(0.5):
        weights = weights[:0]
    return Case([rows, values, np.array(shape, np.int64), weights], counting(d), gradients=False, disturb=False)


@op("RaggedCountSparseOutput", count=50)
def count_ragged(d):
    lengths = d.random.integers(0, 4, d.int(0, 4))
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values, weights = counted(d, int(lengths.sum()), -1 if d.chance(0.05) else 0)
    if d.chance(0.05):
        splits[d.int(0, len(splits) - 1)] += d.pick([-1, 1])
    return Case([splits, values, weights], counting(d), gradients=False, disturb=False)


# ---- Sets ----

def rows_of(d, dtype, shape):
    if dtype == tf.string:
        values = np.array(
            [d.pick([b"a", b"b", b"c", b"", b"longer words"]) for _ in range(int(np.prod(shape)))], object
        )
        return values.reshape(shape)
    return d.tensor(dtype, shape, 0, 5)


def operation(d):
    return {
        "set_operation": d.pick(["a-b", "b-a", "intersection", "union"]) if not d.chance(0.03) else "sum",
        "validate_indices": d.chance(0.7),
    }


@op("DenseToDenseSetOperation", count=50)
def dense_sets(d):
    dtype = d.dtype()
    groups = d.shape(1, 2, empty=0, large=0)
    return Case(
        [
            rows_of(d, dtype, (*groups, d.int(0, 4))),
            rows_of(d, dtype, (*groups, d.int(0, 4)) if not d.chance(0.04) else (*groups, 1, 2)),
        ],
        operation(d),
        disturb=False,
    )


def sparse_sets(d, dtype, groups):
    shape = (*groups, d.int(1, 4))
    rows = sparse_of(d, shape, most=8)
    return rows, rows_of(d, dtype, (len(rows),)), np.array(shape, np.int64)


@op("DenseToSparseSetOperation", count=50)
def mixed_sets(d):
    dtype = d.dtype()
    groups = d.shape(1, 2, empty=0, large=0)
    return Case(
        [
            rows_of(d, dtype, (*groups, d.int(0, 4))),
            *sparse_sets(d, dtype, groups if not d.chance(0.04) else (*groups, 2)),
        ],
        operation(d),
        disturb=False,
    )


@op("SparseToSparseSetOperation", count=50)
def both_sets(d):
    dtype = d.dtype()
    groups = d.shape(1, 2, empty=0, large=0)
    return Case(
        [*sparse_sets(d, dtype, groups), *sparse_sets(d, dtype, groups if not d.chance(0.04) else (*groups, 2))],
        operation(d),
        disturb=False,
    )


@op("SetSize", count=30)
def set_size(d):
    return Case(
        list(sparse_sets(d, d.dtype(), d.shape(1, 2, empty=0, large=0))),
        {"validate_indices": d.chance(0.7)},
        disturb=False,
    )


# ---- Crosses ----

def features(d, dtype, count):
    if dtype == tf.string:
        array = np.empty(count, object)
        array[:] = [
            d.pick([b"a", b"", b"feature", "ü".encode(), b"a longer feature, longer than sixteen", b"x_X_y"])
            for _ in range(count)
        ]
        return array
    return d.tensor(tf.int64, (count,))


@op("SparseCross", "SparseCrossV2", "SparseCrossHashed", count=50)
def cross(d):
    batch = d.int(0, 3)
    kinds = [tf.int64, tf.string]
    n, m = d.int(0, 2), d.int(0, 2)
    if not n + m:
        n = 1
    sparse = []
    for _ in range(n):
        shape = (batch if not d.chance(0.03) else batch + 1, d.int(1, 3))
        rows = sparse_of(d, shape)
        sparse.append((rows, features(d, d.pick(kinds), len(rows)), np.array(shape, np.int64)))
    dense = []
    for _ in range(m):
        width = d.int(0, 2)
        dense.append(features(d, d.pick(kinds), batch * width).reshape(batch, width))
    inputs = [[one[i] for one in sparse] for i in range(3)] + [dense]
    attrs = {
        "N": n,
        "sparse_types": [tf.string if one[1].dtype == object else tf.int64 for one in sparse],
        "dense_types": [tf.string if one.dtype == object else tf.int64 for one in dense],
    }
    if d.op == "SparseCross":
        hashed = d.chance(0.6)
        kind = tf.int64 if hashed else tf.string
        attrs.update(
            hashed_output=hashed,
            num_buckets=d.pick([0, 1, 10, 1000]),
            hash_key=d.pick([0xDECAFCAFFE, 1, -5]),
            out_type=kind,
            internal_type=kind if hashed else tf.string,
        )
    elif d.op == "SparseCrossV2":
        inputs.append(np.array(d.pick([b"", b"_X_", b"|"]), object))
    else:
        inputs += [
            np.array(d.pick([0, 1, 10, 1000]), np.int64),
            np.array(d.chance(0.5)),
            np.array([d.int(-9, 9), d.int(-9, 9)], np.int64),
        ]
    return Case(inputs, attrs, disturb=False)


@op("RaggedCross", count=60)
def ragged_cross(d):
    batch = d.int(0, 3)
    kinds = [tf.int64, tf.string]
    order = "".join(d.pick("RSD") for _ in range(d.int(1, 3)))
    ragged, sparse, dense = [], [], []
    for kind in order:
        rows = batch if not d.chance(0.02) else batch + 1
        if kind == "R":
            splits = np.concatenate([[0], np.cumsum(d.random.integers(0, 3, rows))]).astype(
                d.pick([np.int32, np.int64])
            )
            ragged.append((features(d, d.pick(kinds), int(splits[-1])), splits))
        elif kind == "S":
            places = sparse_of(d, (rows, d.int(1, 3)))
            sparse.append((places, features(d, d.pick(kinds), len(places)), np.array((rows, 3), np.int64)))
        else:
            width = d.int(0, 2)
            dense.append(features(d, d.pick(kinds), rows * width).reshape(rows, width))
    hashed = d.chance(0.6)
    inputs = [[one[i] for one in ragged] for i in range(2)] + [[one[i] for one in sparse] for i in range(3)] + [dense]

    def types(values):
        return [tf.string if one.dtype == object else tf.as_dtype(one.dtype) for one in values]
    return Case(
        inputs,
        {
            "Nsparse": len(sparse),
            "input_order": order if not d.chance(0.03) else order + "R",
            "hashed_output": hashed,
            "num_buckets": d.pick([0, 1, 10, 1000]),
            "hash_key": d.pick([0xDECAFCAFFE, 1, -5]),
            "out_values_type": tf.int64 if hashed else tf.string,
            "out_row_splits_type": d.pick([tf.int32, tf.int64]),
            "ragged_values_types": types(inputs[0]),
            "ragged_splits_types": types(inputs[1]),
            "sparse_values_types": types(inputs[3]),
            "dense_types": types(dense),
        },
        disturb=False,
    )
