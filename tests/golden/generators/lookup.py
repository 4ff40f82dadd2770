# SPDX-License-Identifier: Apache-2.0
"""Cases of the lookup package: tables that are filled, asked and changed, step by step."""
import numpy as np
import tensorflow as tf

from .draw import Program, op

raw = tf.raw_ops
FIXED, MUTABLE = ("HashTableV2",), ("MutableHashTableV2", "MutableHashTableOfTensorsV2")
ASKED = {
    "InitializeTableV2": "fill",
    "LookupTableFindV2": "find",
    "LookupTableImportV2": "import",
    "LookupTableInsertV2": "insert",
    "LookupTableRemoveV2": "remove",
    "LookupTableExportV2": "export",
    "LookupTableSizeV2": "size",
}
TYPES = [
    (tf.string, tf.int64),
    (tf.string, tf.string),
    (tf.string, tf.float32),
    (tf.int64, tf.string),
    (tf.int64, tf.int64),
    (tf.int64, tf.float32),
    (tf.string, tf.bool),
    (tf.string, tf.int32),
    (tf.int32, tf.int32),
]
ROW_TYPES = [
    (tf.string, tf.int64),
    (tf.string, tf.string),
    (tf.string, tf.float32),
    (tf.int64, tf.string),
    (tf.int64, tf.int64),
]


class Table:
    """A table in a graph, and what it would hold."""

    def __init__(self, d, kind):
        self.d, self.kind, self.rows = d, kind, kind == "MutableHashTableOfTensorsV2"
        self.key, self.value = d.pick(ROW_TYPES if self.rows else TYPES)
        self.shape = (d.int(1, 3),) if self.rows else ()
        more = {"value_shape": self.shape} if self.rows else {}
        self.handle = getattr(raw, kind)(
            key_dtype=self.key, value_dtype=self.value, shared_name=d.pick(["", "t"]), name="table", **more
        )
        self.held, self.filled, self.runs = {}, False, []
        self.ended = False  # a fixed table that was filled in part, as TensorFlow does where a key has two values
        self._nodes()

    def _nodes(self):
        place = tf.compat.v1.placeholder
        keys, values = place(self.key, None, "keys"), place(self.value, None, "values")
        entries = {"table_handle": self.handle, "keys": keys, "values": values}
        raw.InitializeTableV2(**entries, name="fill")
        raw.LookupTableImportV2(**entries, name="import")
        raw.LookupTableInsertV2(**entries, name="insert")
        raw.LookupTableRemoveV2(table_handle=self.handle, keys=keys, name="remove")
        raw.LookupTableFindV2(
            table_handle=self.handle, keys=keys, default_value=place(self.value, None, "default"), name="find"
        )
        raw.LookupTableExportV2(table_handle=self.handle, Tkeys=self.key, Tvalues=self.value, name="export")
        raw.LookupTableSizeV2(table_handle=self.handle, name="size")

    def _keys(self, shape):
        words = (
            [b"", b"a", b"bee", b"a long key that is no small one", b"\x00"]
            if self.key == tf.string
            else [0, 1, -1, 7, 2**31 - 1]
        )
        kind = object if self.key == tf.string else self.key.as_numpy_dtype
        found = np.empty(shape, kind)
        for at in np.ndindex(*shape):
            found[at] = self.d.pick(words)
        return found

    def _entries(self):
        count = self.d.int(0, 5)
        keys = self._keys((count,))
        if self.d.chance(0.7):  # each once
            keys = keys[sorted({key: i for i, key in enumerate(keys.tolist())}.values())]
        shape = self.shape if self.d.chance(0.95) else self.shape + (2,)
        values = self.d.tensor(self.value, (len(keys),) + shape)
        return keys, values if values.dtype == object else np.nan_to_num(values)  # a NaN is not even itself

    def _note(self, keys, values, once=False):
        if values.shape[1:] != self.shape:
            return
        entries = {}
        for key, value in zip(keys.tolist(), values):
            if once and key in entries and np.any(entries[key] != value):
                self.ended = True
                return
            entries[key] = value
        if once:
            if not self.filled:
                self.held, self.filled = entries, True
        else:
            self.held.update(entries)

    def step(self, name):
        """Adds a run."""
        d, fixed = self.d, self.kind in FIXED
        if self.ended:
            return
        if name in ("fill", "import", "insert"):
            if fixed and self.filled and name != "insert":
                return  # TensorFlow compares sizes alone
            keys, values = self._entries()
            self.runs.append(({"keys:0": keys, "values:0": values}, [], [name]))
            if name == "import" and not fixed:
                if values.shape[1:] == self.shape:
                    self.held = {}
                    self._note(keys, values)
            elif (name == "insert") != fixed:
                self._note(keys, values, once=fixed)
        elif name == "remove":
            keys = self._keys((d.int(0, 3),))
            self.runs.append(({"keys:0": keys}, [], [name]))
            if not fixed:
                for key in keys.tolist():
                    self.held.pop(key, None)
        elif name == "find":
            keys = self._keys(d.shape(0, 2, empty=0.1, large=0))
            shape = self.shape if d.chance(0.92) else self.shape + (2,)
            self.runs.append(({"keys:0": keys, "default:0": d.tensor(self.value, shape)}, ["find:0"], []))
        elif name == "export" and len(self.held) < 2:  # more have no order
            self.runs.append(({}, ["export:0", "export:1"], []))
        elif name == "size":
            self.runs.append(({}, ["size:0"], []))


@op(*FIXED, *MUTABLE, *ASKED, count=26)
def table(d):
    graph = tf.Graph()
    with graph.as_default():
        one = Table(d, d.op if d.op not in ASKED else d.pick(FIXED + MUTABLE))
    if one.kind in FIXED and d.chance(0.8):
        one.step(d.pick(["fill", "import"]))
    for _ in range(d.int(2, 8)):
        one.step(d.pick(["fill", "find", "find", "import", "insert", "insert", "remove", "export", "size"]))
    if d.op in ASKED:
        one.step(ASKED[d.op])
    one.step("size")
    return Program(graph, one.runs, f"{one.kind}, {len(one.runs)} steps")
