# SPDX-License-Identifier: Apache-2.0
"""Sparse and ragged tensors, sets."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

raw = tf.raw_ops


def some(i):
    """A shape whose twentieth part is there."""
    return i.pick((4, 4), (128, 128), (1024, 512))


def sparse(i, **more):
    return i.sparse(some(i), **more)


def shuffled(i):
    places, values, shape = sparse(i)
    many = places.shape[0]
    order = i.random.permutation(many)
    return [
        i.read(np.stack(np.unravel_index(i.rows(many, int(np.prod(shape))), shape), -1)[order].astype(np.int64)),
        values,
        shape,
    ]


cases("SparseToDense", lambda i: [(s := sparse(i))[0], s[2], s[1], 0.0])
cases("SparseReshape", lambda i: [(s := sparse(i))[0], s[2], np.array([some(i)[0] * 2, -1], np.int64)])
cases("SparseFillEmptyRows", lambda i: [*sparse(i), 0.0])
cases(
    "SparseFillEmptyRowsGrad",
    lambda i: [
        i.read(i.random.permutation(np.prod(some(i)))[: np.prod(some(i)) // 2].astype(np.int64)),
        i.floats((np.prod(some(i)),)),
    ],
)
cases("SparseTensorDenseMatMul", lambda i: [*sparse(i), i.floats((some(i)[1], 64))])
case("SparseTensorDenseMatMul, a vector", lambda i: [*sparse(i), i.floats((some(i)[1], 1))])
case("SparseTensorDenseMatMul, adjoint", lambda i: [*sparse(i), i.floats((some(i)[0], 64))], adjoint_a=True)
cases("SparseReorder", shuffled)
cases("SparseConcat", lambda i: [list(part) for part in zip(sparse(i), sparse(i))], concat_dim=1)
case("SparseConcat, rows", lambda i: [list(part) for part in zip(sparse(i), sparse(i))], concat_dim=0)
cases("SparseSplit", lambda i: [np.int64(1), *sparse(i)], num_split=4)
cases("SparseSlice", lambda i: [*sparse(i), np.array([1, 1], np.int64), np.array([d // 2 for d in some(i)], np.int64)])


def sliced(i):
    shape, start = some(i), np.array([1, 1])
    places = np.stack(np.unravel_index(i.rows(max(2, np.prod(shape) // 20), np.prod(shape)), shape), -1).astype(
        np.int64
    )
    inside = places[(places >= start).all(1)] - start
    return [i.floats((len(inside),)), i.read(places), start.astype(np.int64), i.read(inside)]


cases("SparseSliceGrad", sliced)
cases("SparseAdd", lambda i: [*sparse(i), *sparse(i), np.float32(0)])


def added(i):
    shape = some(i)
    flat = [i.rows(max(2, np.prod(shape) // 20), np.prod(shape)) for _ in range(2)]
    total = np.union1d(*flat)
    return [
        i.floats((len(total),)),
        *(i.read(np.stack(np.unravel_index(one, shape), -1).astype(np.int64)) for one in (*flat, total)),
    ]


cases("SparseAddGrad", added)
cases("SparseSparseMaximum SparseSparseMinimum", lambda i: [*sparse(i), *sparse(i)])
cases("SparseTensorDenseAdd", lambda i: [*sparse(i), i.floats(some(i))])
cases("SparseDenseCwiseAdd SparseDenseCwiseMul SparseDenseCwiseDiv", lambda i: [*sparse(i), i.floats(some(i), 1, 2)])
case("SparseDenseCwiseMul, a row to each", lambda i: [*sparse(i), i.floats(some(i)[1:], 1, 2)])
cases("SparseReduceSum SparseReduceMax SparseReduceSumSparse SparseReduceMaxSparse", lambda i: [*sparse(i), [1]])
case("SparseReduceSum, columns", lambda i: [*sparse(i), [0]])
cases("SparseSoftmax", lambda i: [*sparse(i)])


def mostly_zeros(i):
    side = i.pick(4, 128, 384)
    return i.read(i.reals((side, side)) * (i.random.random((side, side)) < 0.05).astype(np.float32))


cases("SparseMatMul", lambda i: [mostly_zeros(i), mostly_zeros(i)], a_is_sparse=True, b_is_sparse=True)
case("SparseMatMul, one sparse", lambda i: [mostly_zeros(i), i.floats((i.pick(4, 128, 384),) * 2)], a_is_sparse=True)

# Counts.
COUNTED = {"minlength": -1, "maxlength": -1, "binary_output": False}
cases(
    "DenseCountSparseOutput",
    lambda i: [i.ints(i.pick((2, 4), (32, 256), (512, 512)), 50), np.zeros(0, np.float32)],
    **COUNTED,
)
cases(
    "SparseCountSparseOutput",
    lambda i: [
        *sparse(i, values=lambda many: i.random.integers(0, 50, many).astype(np.int32)),
        np.zeros(0, np.float32),
    ],
    **COUNTED,
)
cases(
    "SparseBincount",
    lambda i: [
        *sparse(i, values=lambda many: i.random.integers(0, 50, many).astype(np.int32)),
        50,
        np.zeros(0, np.float32),
    ],
)


def ragged(i, values=None):
    """Splits and values of rows with at most 15."""
    rows = i.pick(4, 512, 16384)
    many = i.random.integers(0, 16, rows)
    return i.read(np.concatenate([[0], np.cumsum(many)]).astype(np.int64)), i.read(
        values(many.sum()) if values else i.reals((many.sum(),))
    )


cases(
    "RaggedCountSparseOutput",
    lambda i: [*ragged(i, lambda many: i.random.integers(0, 50, many).astype(np.int32)), np.zeros(0, np.float32)],
    **COUNTED,
)

# Ragged.
cases(
    "RaggedGather",
    lambda i: [[(r := ragged(i))[0]], r[1], i.ints((i.pick(4, 512, 16384),), i.pick(4, 512, 16384))],
    OUTPUT_RAGGED_RANK=1,
)
cases("RaggedRange", lambda i: [0, i.ints((i.pick(4, 512, 16384),), 16), 1])
cases("RaggedTensorToSparse", lambda i: [[(r := ragged(i))[0]], r[1]])
case("RaggedTensorToVariant, whole", lambda i: [[(r := ragged(i))[0]], r[1]], batched_input=False)
case("RaggedTensorToVariant, by rows", lambda i: [[(r := ragged(i))[0]], r[1]], batched_input=True)

# Packed.
case("SerializeSparse, texts", sparse, out_type=tf.string)
cases("SerializeManySparse", sparse, out_type=tf.string)
case(
    "DeserializeSparse, with SerializeSparse",
    lambda i: [raw.SerializeSparse(**dict(zip(("sparse_indices", "sparse_values", "sparse_shape"), sparse(i))))],
    dtype=tf.float32,
)
case(
    "DeserializeManySparse, with SerializeManySparse",
    lambda i: [raw.SerializeManySparse(**dict(zip(("sparse_indices", "sparse_values", "sparse_shape"), sparse(i))))],
    dtype=tf.float32,
)

# Sets.


def sets(i):
    rows = i.pick(2, 128, 4096)
    return i.ints((rows, 16), 40, dtype=np.int64)


def sparse_sets(i):
    rows = i.pick(2, 128, 4096)
    return i.sparse((rows, 32), 0.4, lambda many: i.random.integers(0, 40, many).astype(np.int64))


cases("DenseToDenseSetOperation", lambda i: [sets(i), sets(i)], set_operation="intersection")
case("DenseToDenseSetOperation, union", lambda i: [sets(i), sets(i)], set_operation="union")
cases("DenseToSparseSetOperation", lambda i: [sets(i), *sparse_sets(i)], set_operation="a-b")
cases("SparseToSparseSetOperation", lambda i: [*sparse_sets(i), *sparse_sets(i)], set_operation="union")
cases("SetSize", sparse_sets)

# Crosses.


def column(i):
    rows = i.pick(2, 256, 8192)
    return i.sparse((rows, 4), 0.5, lambda many: i.words((many,), 3, 8))


def crossed(i):
    made = [column(i), column(i)]
    return [list(part) for part in zip(*made)]


HASHED = {
    "hashed_output": True,
    "num_buckets": 1000,
    "hash_key": 0xDECAFCAFFE,
    "out_type": tf.int64,
    "internal_type": tf.string,
}
cases("SparseCross", lambda i: [*crossed(i), []], **HASHED)
cases("SparseCrossV2", lambda i: [*crossed(i), [], b"_X_"])
cases("SparseCrossHashed", lambda i: [*crossed(i), [], np.int64(1000), False, np.array([1, 2], np.int64)])


def bags(i):
    return ragged(i, lambda many: i.words((many,), 3, 8))


cases(
    "RaggedCross",
    lambda i: [[(one := bags(i))[1], (two := bags(i))[1]], [one[0], two[0]], [], [], [], []],
    input_order="RR",
    hashed_output=True,
    num_buckets=1000,
    hash_key=0xDECAFCAFFE,
    out_values_type=tf.int64,
    out_row_splits_type=tf.int64,
)
