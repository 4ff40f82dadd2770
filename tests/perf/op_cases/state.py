# SPDX-License-Identifier: Apache-2.0
"""Variables, by handle and by reference; what is scattered into them; lists of tensors; tables."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

raw = tf.raw_ops


def side(i, axis=0):
    return i.shape("matrix")[axis]


def values(i):
    return i.reals(i.shape("matrix"), 0.5, 2)


cases("ReadVariableOp", lambda i: [i.handle(values(i))], dtype=tf.float32)
cases(
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp", lambda i: [i.handle(values(i)), i.matrix(-1e-9, 1e-9)]
)
cases("Assign AssignAdd AssignSub", lambda i: [i.reference(values(i)), i.matrix(-1e-9, 1e-9)])
cases("ResourceGather", lambda i: [i.handle(values(i)), i.ints((side(i),), side(i))], dtype=tf.float32)
cases("ResourceGatherNd", lambda i: [i.handle(values(i)), i.ints((side(i), 1), side(i))], dtype=tf.float32)


def updates(i, one=False):
    return i.floats((side(i) // 2, side(i, 1)), *((1, 1.0000001) if one else (-1e-9, 1e-9)))


def indices(i, *more):
    return i.ints((side(i) // 2, *more), side(i))


cases(
    "ResourceScatterAdd ResourceScatterMax ResourceScatterMin ResourceScatterSub ResourceScatterUpdate",
    lambda i: [i.handle(values(i)), indices(i), updates(i)],
)
cases("ResourceScatterMul ResourceScatterDiv", lambda i: [i.handle(values(i)), indices(i), updates(i, True)])
cases(
    "ScatterAdd ScatterMax ScatterMin ScatterSub ScatterUpdate",
    lambda i: [i.reference(values(i)), indices(i), updates(i)],
)
cases("ScatterMul ScatterDiv", lambda i: [i.reference(values(i)), indices(i), updates(i, True)])
cases(
    "ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate",
    lambda i: [i.handle(values(i)), indices(i, 1), updates(i)],
)
cases(
    "ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate",
    lambda i: [i.reference(values(i)), indices(i, 1), updates(i)],
)


def part(i):
    return [[1, 1], list(i.shape("matrix")), [1, 1], i.floats([d - 1 for d in i.shape("matrix")])]


cases("ResourceStridedSliceAssign", lambda i: [i.handle(values(i)), *part(i)])
cases("StridedSliceAssign", lambda i: [i.reference(values(i)), *part(i)])

# Lists of tensors: what makes the list is a part of each but the first.


def listed(i):
    return raw.TensorListFromTensor(tensor=i.matrix(), element_shape=[side(i, 1)])


cases("TensorListFromTensor", lambda i: [i.matrix(), [side(i, 1)]])
case("TensorListStack, with TensorListFromTensor", lambda i: [listed(i), [side(i, 1)]], element_dtype=tf.float32)
case(
    "TensorListGather, with TensorListFromTensor",
    lambda i: [listed(i), i.ints((side(i),), side(i)), [side(i, 1)]],
    element_dtype=tf.float32,
)
case(
    "TensorListConcatV2, with TensorListSplit",
    lambda i: [
        raw.TensorListSplit(
            tensor=i.matrix(), element_shape=[-1, side(i, 1)], lengths=np.full(side(i) // 4, 4, np.int64)
        ),
        [-1, side(i, 1)],
        np.zeros(0, np.int64),
    ],
    element_dtype=tf.float32,
)
cases(
    "TensorListScatterV2",
    lambda i: [i.matrix(), i.read(i.random.permutation(side(i)).astype(np.int32)), [side(i, 1)], -1],
)
case(
    "TensorListSetItem, with TensorListFromTensor", lambda i: [listed(i), i.read(np.int32(1)), i.floats((side(i, 1),))]
)
case(
    "TensorListGetItem, with TensorListFromTensor",
    lambda i: [listed(i), i.read(np.int32(1)), [side(i, 1)]],
    element_dtype=tf.float32,
)
case("TensorListPushBack, with TensorListFromTensor", lambda i: [listed(i), i.floats((side(i, 1),))])

# Tables from keys to values.


def table(i, keys, found):
    handle = raw.HashTableV2(
        shared_name=f"t{i.random.integers(1 << 60)}",
        key_dtype=keys.dtype if keys.dtype != object else tf.string,
        value_dtype=found.dtype,
    )
    i.before.append(raw.InitializeTableV2(table_handle=handle, keys=keys, values=found))
    return handle


def numbers(i):
    many = i.pick(8, 1024, 65536)
    return i.random.permutation(4 * many)[:many].astype(np.int64), np.arange(many, dtype=np.int64)


case(
    "LookupTableFindV2, int64",
    lambda i: [
        table(i, *numbers(i)),
        i.ints((i.pick(4, 4096, 262144),), i.pick(32, 4096, 262144), dtype=np.int64),
        np.int64(-1),
    ],
)


def words(i):
    many = i.pick(8, 1024, 32768)
    keys = np.array([b"word %d" % one for one in range(many)], object)
    return [
        table(i, keys, np.arange(many, dtype=np.int64)),
        i.read(keys[i.random.integers(0, many, many)]),
        np.int64(-1),
    ]


case("LookupTableFindV2, texts", words)


def mutable(i, dense=False):
    name, keys, found = f"m{i.random.integers(1 << 60)}", *numbers(i)
    if dense:
        handle = raw.MutableDenseHashTableV2(
            empty_key=np.int64(-1), deleted_key=np.int64(-2), value_dtype=tf.int64, shared_name=name
        )
    else:
        handle = raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name=name)
    i.before.append(raw.LookupTableInsertV2(table_handle=handle, keys=keys, values=found))
    return handle, keys, found


for _dense, _word in ((False, "mutable"), (True, "mutable and dense")):
    case(
        f"LookupTableFindV2, {_word}",
        lambda i, dense=_dense: [
            mutable(i, dense)[0],
            i.ints((i.pick(4, 4096, 262144),), i.pick(32, 4096, 262144), dtype=np.int64),
            np.int64(-1),
        ],
    )
    case(
        f"LookupTableInsertV2, {_word}, keys that are there",
        lambda i, dense=_dense: [(made := mutable(i, dense))[0], i.read(made[1]), i.read(made[2])],
    )
    case(
        f"LookupTableExportV2, {_word}",
        lambda i, dense=_dense: [mutable(i, dense)[0]],
        Tkeys=tf.int64,
        Tvalues=tf.int64,
    )
