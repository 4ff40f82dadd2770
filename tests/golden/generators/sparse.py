# SPDX-License-Identifier: Apache-2.0
"""Cases of sparse tensors: to dense ones, reshaped, filled, multiplied, and summed by segment."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op


def _indices(d, shape, dtype, ordered=True):
    places = int(np.prod(shape, dtype=np.int64))
    count = d.int(0, min(6, places))
    flat = d.random.permutation(places)[:count] if places else np.zeros(0, np.int64)
    if ordered:
        flat = np.sort(flat)
    rows = (
        np.stack(np.unravel_index(flat, shape), -1)
        if shape and count
        else np.zeros((count if shape else 0, len(shape)))
    )
    return rows.astype(tf.as_dtype(dtype).as_numpy_dtype)


@op("SparseToDense")
def to_dense(d):
    t = d.dtype(among=[t for t in registry.dtypes(d.op) if t != tf.string])
    index = d.pick([tf.int32, tf.int64])
    shape = d.shape(1, 3)
    validate = d.chance(0.7)
    rows = _indices(d, shape, index, ordered=validate or d.chance(0.5))
    if len(shape) == 1 and d.chance(0.5):
        rows = rows[:, 0]
    values = d.tensor(t, () if d.chance(0.2) else (len(rows),))
    # Of a vector of indices TensorFlow's gradient makes one index.
    return Case(
        [rows, d.ints(shape, index), values, d.tensor(t)], {"validate_indices": validate}, gradients=rows.ndim == 2
    )


@op("SparseReshape", count=40)
def reshape(d):
    shape = d.shape(1, 3)
    total = int(np.prod(shape))
    target = d.pick(
        [[total], [-1], [1, total], [total, 1], [-1, shape[0]] if shape[0] else [0, 2], list(shape[::-1]), [total + 1]]
    )
    return Case([_indices(d, shape, tf.int64), d.ints(shape, tf.int64), d.ints(target, tf.int64)])


@op("SparseFillEmptyRows")
def fill_empty_rows(d):
    t = d.dtype(among=registry.dtypes(d.op))
    shape = d.shape(1, 3)
    rows = _indices(d, shape, tf.int64, ordered=d.chance(0.7))
    if rows.size and d.chance(0.08):
        rows[0, 0] = d.pick([-1, 100])
    return Case([rows, d.tensor(t, (len(rows),)), d.ints(shape, tf.int64), d.tensor(t)], differentiated=(1,))


@op("SparseFillEmptyRowsGrad")
def fill_empty_rows_grad(d):
    t = d.dtype()
    total = d.int(1, 8)
    places = d.random.permutation(total)[: d.int(0, total)].astype(np.int64)
    return Case([places, d.tensor(t, (total,), -5, 5)])


@op("SparseTensorDenseMatMul")
def matmul(d):
    types = d.types()
    t, adjoint_a, adjoint_b = types["T"], d.chance(0.4), d.chance(0.4)
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    a, b = ((k, m) if adjoint_a else (m, k)), ((n, k) if adjoint_b else (k, n))
    rows = _indices(d, a, types["Tindices"])
    return Case(
        [rows, d.tensor(t, (len(rows),), -5, 5), d.ints(a, tf.int64), d.tensor(t, b, -5, 5)],
        {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b},
    )


@op("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def segment(d):
    types = d.types()
    shape = d.shape(1, 3)
    count = d.int(1, 8) if shape[0] else 0
    ids = np.sort(d.random.integers(0, 6, count))
    if count and d.chance(0.08):
        ids[0] = d.pick([-1, 7])
    indices = d.tensor(types["Tidx"], (count,), 0, max(1, shape[0]) + (1 if d.chance(0.08) else 0))
    # TensorFlow's sparse gradients of no rows are nothing that adds up, and its dense ones are never written.
    return Case(
        [d.tensor(types["T"], shape, -5, 5), indices, ids.astype(types["Tsegmentids"].as_numpy_dtype)],
        {"sparse_gradient": d.chance(0.4) and count > 0},
        gradients=lambda case: case.inputs[0].size == 0 or case.inputs[1].size > 0,
    )


@op(
    "SparseSegmentSumGrad",
    "SparseSegmentMeanGrad",
    "SparseSegmentSqrtNGrad",
    "SparseSegmentSumGradV2",
    "SparseSegmentMeanGradV2",
    "SparseSegmentSqrtNGradV2",
)
def segment_grad(d):
    types = d.types()
    shape = d.shape(1, 3, empty=0)
    rows, count = d.int(1, 6), d.int(
        0 if d.op.endswith("V2") else 1, 8
    )  # of no indices TensorFlow makes nothing, not zeros
    ids = np.sort(d.random.integers(0, shape[0], count)).astype(types["Tsegmentids"].as_numpy_dtype)
    indices = d.tensor(types["Tidx"], (count,), 0, rows + (1 if d.chance(0.08) else 0))
    return Case([d.tensor(types["T"], shape, -5, 5), indices, ids, d.ints(rows)])


@op("Bincount", "DenseBincount", count=40)
def bincount(d):
    dense = d.op == "DenseBincount"
    t, index = d.dtype(), d.types()["Tidx"] if dense else tf.int32
    shape = d.shape(1, 2) if dense else d.shape(0, 3)
    values = d.tensor(index, shape, 0, 9)
    if values.size and d.chance(0.08):
        values.flat[0] = d.pick([-1, -2**31])
    weights = d.tensor(t, shape, -5, 5) if d.chance(0.5) else np.zeros(0, tf.as_dtype(t).as_numpy_dtype)
    size = d.ints(d.pick([0, 1, 5, 9, 9, 12, -1]), index)
    return Case([values, size, weights], {"binary_output": d.chance(0.3)} if dense else {})


def _partition(d, parents, index, splits):
    """Rows below `parents` rows: their number, and how they are parted."""
    lengths = d.random.integers(0, 4, parents)
    if splits:
        numbers = np.concatenate([[0], np.cumsum(lengths)])
    else:
        numbers = np.repeat(np.arange(parents), lengths)
    if numbers.size and d.chance(0.04):
        numbers[d.int(0, numbers.size - 1)] += d.pick([-1, 1, 50])
    return int(lengths.sum()), numbers.astype(index.as_numpy_dtype)


@op("RaggedTensorToTensor", count=80)
def ragged_to_tensor(d):
    t = d.dtype()
    index, wanted = d.pick([tf.int32, tf.int64]), d.pick([tf.int32, tf.int64])
    first = d.int(0, 4)
    splits = d.chance(0.6)
    rows, kinds, tensors = first, [], []
    if not splits:
        kinds.append("FIRST_DIM_SIZE")
        tensors.append(np.array(first, index.as_numpy_dtype))
    ragged = d.int(1, 3)
    for _ in range(ragged):
        rows, numbers = _partition(d, rows, index, splits)
        kinds.append("ROW_SPLITS" if splits else "VALUE_ROWIDS")
        tensors.append(numbers)
    inner = d.shape(0, 2)
    values = d.tensor(t, (rows, *inner))
    default = d.tensor(t, d.pick([(), (), inner, inner[1:], tuple(1 for _ in inner), (2,)]))
    rank = ragged + 1 + len(inner)
    shape = d.pick(
        [
            -1,
            [-1] * rank,
            [-1] * rank,
            [d.int(0, 5), *[d.pick([-1, 1, 2, 4]) for _ in range(ragged)], *[d.pick([-1, dim]) for dim in inner]],
            [-1] * (rank + 1),
        ]
    )
    return Case([d.ints(shape, wanted), values, default, tensors], {"row_partition_types": kinds})
