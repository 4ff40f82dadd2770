# SPDX-License-Identifier: Apache-2.0
"""Cases of checkpoints of the first format: what one step saves the next one restores, as a whole and in slices. That
each side reads the other's files is tested beside the ops."""

import numpy as np
import tensorflow as tf

from .draw import FOLDER, Program, op

raw = tf.raw_ops
TYPES = [
    tf.float32,
    tf.float64,
    tf.int32,
    tf.int64,
    tf.bool,
    tf.string,
    tf.half,
    tf.bfloat16,
    tf.int8,
    tf.uint8,
    tf.int16,
    tf.uint16,
    tf.complex64,
    tf.complex128,
]


def _spec(shape, box):
    return " ".join(map(str, shape)) + " " + ":".join("-" if whole else f"{low},{size}" for whole, low, size in box)


def _box(d, shape):
    box = []
    for dim in shape:
        low = d.int(0, dim - 1)
        box.append((True, 0, dim) if d.chance(0.3) else (False, low, d.int(1, dim - low)))
    return box


def _cut(value, box):
    return value[tuple(slice(low, low + size) for _, low, size in box)]


@op("Save", "SaveSlices", "Restore", "RestoreSlice", count=30)
def saved(d):
    graph = tf.Graph()
    slices = d.op == "SaveSlices" or (d.op == "RestoreSlice" and d.chance(0.5))
    names, specs, values, asked = [], [], [], []
    for i in range(d.int(1, 3)):
        t = d.pick(TYPES)
        shape = d.shape(1 if slices else 0, 3, empty=0 if slices else 0.1, large=0)
        value = d.tensor(t, shape)
        if value.dtype == object:
            value = np.array([bytes(one) for one in value.flat], object).reshape(shape)
        name = d.pick(["a", "layer/kernel", "grün"]) + str(i)
        if slices and t != tf.string and shape[0] > 1 and d.chance(0.7):
            # In two pieces.
            at = d.int(1, shape[0] - 1)
            for low, size in ((0, at), (at, shape[0] - at)):
                box = [(False, low, size)] + [(True, 0, dim) for dim in shape[1:]]
                names.append(name), specs.append(_spec(shape, box)), values.append(_cut(value, box))
        else:
            names.append(name), specs.append(""), values.append(value)
        asked.append((name, t, shape))
    with graph.as_default():
        path = tf.compat.v1.placeholder(tf.string, [], "folder")
        target = raw.StringJoin(inputs=[path, tf.constant("/model.ckpt")])
        data = [tf.constant(value) for value in values]
        if slices:
            raw.SaveSlices(filename=target, tensor_names=names, shapes_and_slices=specs, data=data, name="save")
        else:
            raw.Save(filename=target, tensor_names=names, data=data, name="save")
        pattern = raw.StringJoin(inputs=[path, tf.constant(d.pick(["/model.ckpt", "/model.ckp*", "/m?del.ckpt"]))])
        fetches = []
        for i, (name, t, shape) in enumerate(asked):
            if d.chance(0.05):
                name += "missing"
            dt = t if d.chance(0.95) else d.pick(TYPES)
            if d.op != "Restore" and t != tf.string and shape and all(shape) and d.chance(0.7):
                spec = _spec(shape, _box(d, shape)) if d.chance(0.95) else _spec((9,), [(True, 0, 9)])
                raw.RestoreSlice(file_pattern=pattern, tensor_name=name, shape_and_slice=spec, dt=dt, name=f"back{i}")
            else:
                raw.Restore(file_pattern=pattern, tensor_name=name, dt=dt, name=f"back{i}")
            fetches.append(f"back{i}:0")
    runs = [({"folder:0": FOLDER}, [], ["save"])] if d.chance(0.95) else []
    runs += [({"folder:0": FOLDER}, [fetch], []) for fetch in fetches]
    return Program(graph, runs, f"{len(names)} pieces")
