# SPDX-License-Identifier: Apache-2.0
"""What moves elements: slices, gathers, concatenation, padding, blocks."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases


def side(i, axis=0):
    return i.shape("matrix")[axis]


cases("Transpose ConjugateTranspose", lambda i: [i.matrix(), [1, 0]])
case("Transpose, NHWC to NCHW", lambda i: [i.picture(), [0, 3, 1, 2]])
case("Transpose, NCHW to NHWC", lambda i: [i.picture(), [0, 2, 3, 1]])
case("ConjugateTranspose, complex", lambda i: [i.complexes(i.shape("matrix")), [1, 0]])
case("ConcatV2, rows", lambda i: [[i.matrix(), i.matrix()], 0])
case("ConcatV2, columns", lambda i: [[i.matrix(), i.matrix()], 1])
cases("Concat", lambda i: [1, [i.matrix(), i.matrix()]])
cases("Split", lambda i: [1, i.matrix()], num_split=2)
case("Split, rows", lambda i: [0, i.matrix()], num_split=4)
cases("SplitV", lambda i: [i.matrix(), [1, side(i, 1) - 1], 1], num_split=2)
case("Pack", lambda i: [[i.matrix(), i.matrix()]])
case(
    "ParallelConcat",
    lambda i: [[i.floats((1, *i.shape("matrix"))), i.floats((1, *i.shape("matrix")))]],
    shape=lambda i: (2, *i.shape("matrix")),
)
cases("Unpack", lambda i: [i.floats((4,) + i.shape("matrix"))], num=4)
case("Unpack, the last axis", lambda i: [i.floats(i.shape("matrix") + (4,))], num=4, axis=2)
cases("Slice", lambda i: [i.matrix(), [1, 1], [d - 2 for d in i.shape("matrix")]])
case("StridedSlice, every second", lambda i: [i.matrix(), [0, 0], list(i.shape("matrix")), [1, 2]])
case(
    "StridedSlice, a column",
    lambda i: [i.matrix(), [0, 1], [0, 2], [1, 1]],
    begin_mask=1,
    end_mask=1,
    shrink_axis_mask=2,
)
case(
    "StridedSliceGrad",
    lambda i: [
        list(i.shape("matrix")),
        [1, 1],
        list(i.shape("matrix")),
        [1, 1],
        i.floats([d - 1 for d in i.shape("matrix")]),
    ],
)
cases(
    "TensorStridedSliceUpdate",
    lambda i: [i.matrix(), [1, 1], list(i.shape("matrix")), [1, 1], i.floats([d - 1 for d in i.shape("matrix")])],
)
cases(
    "XlaDynamicSlice",
    lambda i: [i.matrix(), i.read(np.array([1, 1], np.int32)), np.array([d - 2 for d in i.shape("matrix")], np.int32)],
)
cases(
    "XlaDynamicUpdateSlice",
    lambda i: [i.matrix(), i.floats([d - 2 for d in i.shape("matrix")]), i.read(np.array([1, 1], np.int32))],
)
cases("Pad", lambda i: [i.matrix(), [[1, 1], [1, 1]]])
cases("PadV2", lambda i: [i.matrix(), [[1, 1], [1, 1]], 3.0])
case("Pad, a picture", lambda i: [i.picture(), [[0, 0], [1, 1], [1, 1], [0, 0]]])
cases("MirrorPad", lambda i: [i.matrix(), [[1, 1], [1, 1]]], mode="REFLECT")
cases("MirrorPadGrad", lambda i: [i.floats([d + 2 for d in i.shape("matrix")]), [[1, 1], [1, 1]]], mode="REFLECT")
cases("Tile", lambda i: [i.matrix(), [2, 1]])
case("Tile, a column", lambda i: [i.floats((side(i), 1)), [1, side(i, 1)]])
cases("BroadcastTo", lambda i: [i.floats((side(i), 1)), list(i.shape("matrix"))])
case("BroadcastTo, a row", lambda i: [i.floats((1, side(i, 1))), list(i.shape("matrix"))])
cases("Fill", lambda i: [i.read(np.array(i.shape("matrix"), np.int32)), i.read(np.float32(3))])
cases("ReverseV2", lambda i: [i.matrix(), [1]])
case("ReverseV2, rows", lambda i: [i.matrix(), [0]])
cases("ReverseSequence", lambda i: [i.matrix(), i.ints((side(i),), side(i, 1), dtype=np.int64)], seq_dim=1)
cases("Roll", lambda i: [i.matrix(), [1], [1]])
case("Roll, both axes", lambda i: [i.matrix(), [1, 2], [0, 1]])
cases("Snapshot", lambda i: [i.matrix()])
cases("Range", lambda i: [i.read(np.int32(0)), int(np.prod(i.shape("matrix"))), 1])
cases("LinSpace", lambda i: [i.read(np.float32(0)), 1.0, int(np.prod(i.shape("matrix")))])
cases("MatrixBandPart", lambda i: [i.floats((i.shape("square"),) * 2), np.int64(2), np.int64(3)])
case("MatrixBandPart, the lower half", lambda i: [i.floats((i.shape("square"),) * 2), np.int64(-1), np.int64(0)])
cases("OneHot", lambda i: [i.ints((side(i),), side(i, 1)), side(i, 1), 1.0, 0.0])

# By indices.
cases("Gather", lambda i: [i.matrix(), i.ints((side(i),), side(i))])
cases("GatherV2", lambda i: [i.matrix(), i.ints((side(i),), side(i)), 0])
case("GatherV2, columns", lambda i: [i.matrix(), i.ints((side(i, 1),), side(i, 1)), 1])
case(
    "GatherV2, single elements",
    lambda i: [
        i.floats((np.prod(i.shape("matrix")),)),
        i.ints((np.prod(i.shape("slow")),), np.prod(i.shape("matrix"))),
        0,
    ],
)
case("GatherV2, of each row", lambda i: [i.matrix(), i.ints((side(i), 4), side(i, 1)), 1], batch_dims=1)
case("GatherV2, texts", lambda i: [i.texts(), i.ints((i.shape("texts"),), i.shape("texts")), 0])
cases("GatherNd", lambda i: [i.matrix(), i.ints((np.prod(i.shape("slow")), 2), min(i.shape("matrix")))])
case("GatherNd, rows", lambda i: [i.matrix(), i.ints((side(i), 1), side(i))])
cases("ScatterNd", lambda i: [i.ints((side(i), 1), side(i)), i.matrix(), list(i.shape("matrix"))])
case(
    "ScatterNd, single elements",
    lambda i: [
        i.ints((np.prod(i.shape("slow")), 2), min(i.shape("matrix"))),
        i.floats((np.prod(i.shape("slow")),)),
        list(i.shape("matrix")),
    ],
)
cases("TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate",
      lambda i: [i.matrix(), i.ints((side(i) // 2, 1), side(i)), i.floats((side(i) // 2, side(i, 1)))])
case(
    "TensorScatterAdd, single elements",
    lambda i: [
        i.matrix(),
        i.ints((np.prod(i.shape("slow")), 2), min(i.shape("matrix"))),
        i.floats((np.prod(i.shape("slow")),)),
    ],
)
cases("InvertPermutation", lambda i: [i.read(i.random.permutation(np.prod(i.shape("matrix"))).astype(np.int32))])
cases("DynamicPartition", lambda i: [i.matrix(), i.ints((side(i),), 4)], num_partitions=4)
case(
    "DynamicPartition, single elements",
    lambda i: [i.floats((np.prod(i.shape("matrix")),)), i.ints((np.prod(i.shape("matrix")),), 4)],
    num_partitions=4,
)


def halves(i):
    order = i.random.permutation(side(i)).astype(np.int32)
    return [[i.read(part) for part in np.split(order, 2)], [i.floats((side(i) // 2, side(i, 1))) for _ in range(2)]]


cases("DynamicStitch ParallelDynamicStitch", halves)
cases(
    "InplaceAdd InplaceSub InplaceUpdate",
    lambda i: [i.matrix(), i.ints((side(i) // 2,), side(i)), i.floats((side(i) // 2, side(i, 1)))],
)

# Blocks of pixels.
cases(
    "BatchToSpaceND",
    lambda i: [i.floats(i.pick((4, 2, 2, 4), (4, 14, 14, 64), (32, 28, 28, 64))), [2, 2], [[0, 0], [0, 0]]],
)
cases("SpaceToBatchND", lambda i: [i.picture(), [2, 2], [[0, 0], [0, 0]]])
cases(
    "BatchToSpace",
    lambda i: [i.floats(i.pick((4, 2, 2, 4), (4, 14, 14, 64), (32, 28, 28, 64))), [[0, 0], [0, 0]]],
    block_size=2,
)
cases("SpaceToBatch", lambda i: [i.picture(), [[0, 0], [0, 0]]], block_size=2)
cases("DepthToSpace SpaceToDepth", lambda i: [i.picture()], block_size=2)
cases("ExtractImagePatches", lambda i: [i.floats(i.pick((1, 4, 4, 4), (1, 28, 28, 16), (8, 56, 56, 16)))],
      ksizes=[1, 3, 3, 1], strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME")

# Ragged to dense.


def lengths(i, rows, longest):
    return i.random.integers(0, longest, rows)


def ragged_rows(i):
    many = lengths(i, side(i), side(i, 1))
    return [
        i.read(np.array([-1, -1], np.int64)),
        i.floats((many.sum(),)),
        0.0,
        [i.read(np.concatenate([[0], np.cumsum(many)]).astype(np.int64))],
    ]


cases("RaggedTensorToTensor", ragged_rows, row_partition_types=["ROW_SPLITS"])
