# SPDX-License-Identifier: Apache-2.0
"""Cases of what steps change and guard: slices of variables, variables of one step, mutexes, tables without names and
with reserved keys."""

import numpy as np
import tensorflow as tf

from .draw import Case, Program, Variable, op

raw = tf.raw_ops


def _slice(d, shape, t):
    """begin, end, strides and masks of a slice of some dims, and the shape of what it gives; None: TensorFlow has
    none."""
    begin, end, strides, masks = (
        [],
        [],
        [],
        dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0),
    )
    seen, at, i = [], 0, 0
    ellipsis = d.int(0, len(shape)) if d.chance(0.3) else None
    count = d.int(0, len(shape))
    while at < len(shape):
        if ellipsis == i:
            skip = d.int(0, len(shape) - at)
            masks["ellipsis_mask"] |= 1 << i
            begin.append(0), end.append(0), strides.append(1)
            seen += shape[at:at + skip]
            at += skip
            count = len(shape)  # all that follow are named
        elif ellipsis is None and at >= count:
            seen += shape[at:]
            break
        elif d.chance(0.15):
            masks["new_axis_mask"] |= 1 << i
            begin.append(0), end.append(0), strides.append(1)
            seen.append(1)
        elif d.chance(0.2) and shape[at] > 0:
            masks["shrink_axis_mask"] |= 1 << i
            index = d.int(-shape[at], shape[at] - 1) if d.chance(0.97) else shape[at]
            begin.append(index), end.append(index + 1), strides.append(1)
            at += 1
        else:
            step = d.pick([1, 1, 2, -1, -2, 3])
            low, high = d.int(-shape[at] - 1, shape[at] + 1), d.int(-shape[at] - 1, shape[at] + 1)
            begin.append(low), end.append(high), strides.append(step)
            whole = [d.chance(0.4), d.chance(0.4)]
            masks["begin_mask"] |= whole[0] << i
            masks["end_mask"] |= whole[1] << i
            seen.append(len(range(shape[at])[slice(None if whole[0] else low, None if whole[1] else high, step)]))
            at += 1
        i += 1
    kind = t.as_numpy_dtype
    return [d.given(np.array(one, kind)) for one in (begin, end, strides)], masks, tuple(seen)


@op("StridedSliceAssign", "ResourceStridedSliceAssign", count=70)
def slice_assign(d):
    while True:
        types = d.types("T")
        if types["T"] != tf.string:  # texts have no kernel
            break
        d.number += 1
    shape = d.shape(0, 4, large=0)
    bounds, masks, seen = _slice(d, shape, types["Index"])
    value = tuple(1 if d.chance(0.2) else dim for dim in seen)
    value = value[d.int(0, len(value)) if d.chance(0.2) else 0:]
    variable = Variable(d.tensor(types["T"], shape, special=0.1), unset=bool(np.prod(shape)) and d.chance(0.04))
    return Case([variable, *bounds, d.tensor(types["T"], value, special=0.1)], masks)


@op("TemporaryVariable", "DestroyTemporaryVariable", count=24)
def temporary(d):
    """Made, assigned, changed, taken apart; in each run another one."""
    t, shape = d.pick([tf.float32, tf.int64, tf.half, tf.float64]), d.shape(empty=0, large=0)
    graph = tf.Graph()
    with graph.as_default():
        value = tf.compat.v1.placeholder(t, shape, "value")
        ref = raw.TemporaryVariable(shape=shape, dtype=t, var_name="v")
        ref = raw.Assign(ref=ref, value=value)
        for _ in range(d.int(0, 3)):
            ref = d.pick([raw.AssignAdd, raw.AssignSub])(ref=ref, value=value)
        raw.DestroyTemporaryVariable(ref=ref, var_name="v", name="last")
    runs = [({"value:0": d.tensor(t, shape, -9, 9)}, ["last:0"], []) for _ in range(d.int(1, 3))]
    return Program(graph, runs, f"of {t.name}")


@op("MutexV2", "MutexLock", "ConsumeMutexLock", count=20)
def mutex(d):
    """A variable that is read and written under a lock, once or twice in a step, step by step."""
    graph, turns = tf.Graph(), d.int(1, 3)
    with graph.as_default():
        handle = raw.MutexV2(shared_name=d.pick(["", "m"]))
        variable = raw.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v")
        raw.AssignVariableOp(resource=variable, value=1.0, name="assign")
        after = []
        for _ in range(turns):
            with tf.control_dependencies(after):
                lock = raw.MutexLock(mutex=handle)
            with tf.control_dependencies([lock]):
                value = raw.ReadVariableOp(resource=variable, dtype=tf.float32)
            written = raw.AssignVariableOp(resource=variable, value=value * 2)
            with tf.control_dependencies([written]):
                after = [raw.ConsumeMutexLock(mutex_lock=lock)]
        with tf.control_dependencies(after):
            raw.ReadVariableOp(resource=variable, dtype=tf.float32, name="read")
    return Program(
        graph, [({}, [], ["assign"])] + [({}, ["read:0"], []) for _ in range(d.int(1, 4))], f"{turns} locks in a step"
    )


ROWS = [
    (tf.string, tf.int64),
    (tf.string, tf.float32),
    (tf.int64, tf.int64),
    (tf.int64, tf.float32),
    (tf.int32, tf.int32),
    (tf.string, tf.bool),
]
WORDS = {
    tf.string: [b"", b"a", b"bee", b"a long key that is no small one", b"gone"],
    tf.int64: [0, 1, -1, 7, 2**40],
    tf.int32: [0, 1, -1, 7, 9],
}


def _keys(d, t, shape, words):
    keys = np.empty(shape, object if t == tf.string else t.as_numpy_dtype)
    for at in np.ndindex(*shape):
        keys[at] = d.pick(words)
    return keys


@op("MutableDenseHashTableV2", count=40)
def reserved_keys(d):
    """A table step by step; what TensorFlow refuses it may have done in part, and nothing comes after."""
    key, value = d.pick(ROWS)
    width = d.pick([(), (), (1,), (2,)]) if key != tf.string else ()
    row = d.pick([(), (), (1,), (3,)])
    words = WORDS[key]
    special = [
        np.full(width, word, object if key == tf.string else key.as_numpy_dtype)
        for word in (words[0], words[-1] if d.chance(0.95) else words[0])
    ]
    place = tf.compat.v1.placeholder
    graph = tf.Graph()
    with graph.as_default():
        handle = raw.MutableDenseHashTableV2(
            empty_key=tf.constant(special[0]),
            deleted_key=tf.constant(special[1]),
            value_dtype=value,
            value_shape=row,
            shared_name=d.pick(["", "t"]),
            initial_num_buckets=d.pick([4, 8, 131072]) if d.chance(0.95) else 3,
            max_load_factor=d.pick([0.5, 0.8]),
            name="table",
        )
        keys, values = place(key, None, "keys"), place(value, None, "values")
        raw.LookupTableInsertV2(table_handle=handle, keys=keys, values=values, name="insert")
        raw.LookupTableRemoveV2(table_handle=handle, keys=keys, name="remove")
        raw.LookupTableFindV2(table_handle=handle, keys=keys, default_value=place(value, None, "default"), name="find")
        raw.LookupTableSizeV2(table_handle=handle, name="size")
    runs = []
    for _ in range(d.int(2, 8)):
        step = d.pick(["insert", "insert", "find", "find", "remove", "size"])
        if step == "size":
            runs.append(({}, ["size:0"], []))
            continue
        bad = d.chance(0.06)
        shape = (d.int(0, 4),) if step != "find" or width else d.shape(0, 1, large=0)
        feeds = {"keys:0": _keys(d, key, shape + width, words if bad else words[1:-1])}
        if step == "insert":
            feeds["values:0"] = d.tensor(value, shape + row)
        elif step == "find":
            feeds["default:0"] = d.tensor(value, row)
        runs.append((feeds, ["find:0"] if step == "find" else [], [] if step == "find" else [step]))
        if bad:
            break
    return Program(graph, runs, f"{len(runs)} steps")


@op(
    "AnonymousHashTable",
    "AnonymousMutableHashTable",
    "AnonymousMutableHashTableOfTensors",
    "AnonymousMutableDenseHashTable",
    count=20,
)
def anonymous(d):
    """Each step has a table of its own: filled, asked, counted."""
    key, value = d.pick([(tf.string, tf.int64), (tf.string, tf.float32), (tf.int64, tf.int64), (tf.int64, tf.float32)])
    row = d.pick([(1,), (3,)]) if d.op.endswith("OfTensors") else ()
    words = WORDS[key]
    place = tf.compat.v1.placeholder
    graph = tf.Graph()
    with graph.as_default():
        if "Dense" in d.op:
            attrs = {
                "value_dtype": value,
                "empty_key": tf.constant(words[0], key),
                "deleted_key": tf.constant(words[-1], key),
            }
        else:
            attrs = {"value_dtype": value, "key_dtype": key}
        if row:
            attrs["value_shape"] = row
        handle = getattr(raw, d.op)(**attrs)
        keys, values = place(key, None, "keys"), place(value, None, "values")
        fill = raw.InitializeTableV2 if d.op == "AnonymousHashTable" else raw.LookupTableInsertV2
        filled = fill(table_handle=handle, keys=keys, values=values)
        with tf.control_dependencies([filled]):
            raw.LookupTableFindV2(
                table_handle=handle,
                keys=place(key, None, "asked"),
                default_value=place(value, None, "default"),
                name="find",
            )
            raw.LookupTableSizeV2(table_handle=handle, name="size")
    runs = []
    for _ in range(d.int(1, 3)):
        some = np.array(d.random.permutation(np.array(words[1:-1], object)))[: d.int(1, 3)]
        some = some if key == tf.string else some.astype(key.as_numpy_dtype)
        feeds = {
            "keys:0": some,
            "values:0": d.tensor(value, some.shape + row, special=0),
            "asked:0": _keys(d, key, (d.int(0, 4),), words[1:-1]),
            "default:0": d.tensor(value, row, special=0),
        }
        runs.append((feeds, ["find:0", "size:0"], []))
    return Program(graph, runs, f"of {key.name} and {value.name}")
