# SPDX-License-Identifier: Apache-2.0
"""Cases of writers of event files: what they take and refuse, and in which order. What stands in the files then is
judged by judge_files.py."""

import numpy as np
import tensorflow as tf

from .draw import FOLDER, Program, op

raw = tf.raw_ops
WRITES = [
    "WriteScalarSummary",
    "WriteHistogramSummary",
    "WriteImageSummary",
    "WriteAudioSummary",
    "WriteSummary",
    "WriteRawProtoSummary",
    "WriteGraphSummary",
    "ImportEvent",
]


def _feeds(d, name):
    """The inputs behind the writer, and attributes: mostly good ones."""
    place = lambda value: tf.constant(value)
    step = {"step": np.int64(d.int(0, 99))}
    tag = {"tag": d.pick(["loss", "a/b", ""])}
    numbers = [tf.float32, tf.float64, tf.int32, tf.uint8, tf.int64, tf.half]
    if name == "WriteScalarSummary":
        return {**step, **tag, "value": place(d.tensor(d.pick(numbers), ()))}
    if name == "WriteHistogramSummary":
        values = d.tensor(d.pick(numbers + [tf.bool]), d.shape(0, 2, large=0), special=0.1)
        return {**step, **tag, "values": place(values)}
    if name == "WriteImageSummary":
        t = d.pick([tf.uint8, tf.float32, tf.half, tf.float64])
        shape = (d.int(0, 3), d.int(1, 4), d.int(1, 4), d.pick([1, 3, 4]) if d.chance(0.9) else 2)
        return {
            **step,
            **tag,
            "tensor": place(d.tensor(t, shape, 0, 9)),
            "bad_color": np.array(d.pick([[1, 2, 3, 4], [9]]), np.uint8),
            "max_images": d.int(1, 3),
        }
    if name == "WriteAudioSummary":
        values = d.tensor(tf.float32, (d.int(0, 3), d.int(1, 9)) + ((d.int(1, 2),) if d.chance(0.5) else ()), -1, 1)
        return {
            **step,
            **tag,
            "tensor": place(values),
            "sample_rate": np.float32(8000 if d.chance(0.9) else -1),
            "max_outputs": d.int(1, 3),
        }
    if name == "WriteSummary":
        metadata = tf.compat.v1.SummaryMetadata(display_name=d.pick(["", "a name"])).SerializeToString()
        return {
            **step,
            **tag,
            "tensor": place(d.tensor(d.pick(numbers + [tf.string, tf.bool]), d.shape(0, 2, large=0))),
            "summary_metadata": metadata,
        }
    value = tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag="x", simple_value=d.int(0, 9))])
    if name == "WriteRawProtoSummary":
        return {**step, "tensor": [value.SerializeToString() if d.chance(0.95) else b"none"] * d.int(1, 3)}
    if name == "WriteGraphSummary":
        return {**step, "tensor": tf.Graph().as_graph_def().SerializeToString() if d.chance(0.9) else b"no graph"}
    return {"event": tf.compat.v1.Event(step=3, summary=value).SerializeToString() if d.chance(0.9) else b"no event"}


@op("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter", *WRITES, count=20)
def writers(d):
    graph = tf.Graph()
    with graph.as_default():
        folder = tf.compat.v1.placeholder(tf.string, [], "folder")
        writer = raw.SummaryWriter(shared_name=d.pick(["w", ""]), name="writer")
        raw.CreateSummaryFileWriter(
            writer=writer,
            logdir=raw.StringJoin(inputs=[folder, tf.constant(d.pick(["", "/run", "/a/b"]))]),
            max_queue=d.pick([0, 1, 10]),
            flush_millis=d.pick([0, 1000]),
            filename_suffix=d.pick(["", ".v2"]),
            name="create",
        )
        raw.FlushSummaryWriter(writer=writer, name="flush")
        raw.CloseSummaryWriter(writer=writer, name="close")
        for i, name in enumerate([d.op if d.op in WRITES else d.pick(WRITES), d.pick(WRITES)]):
            getattr(raw, name)(writer=writer, name=f"write{i}", **_feeds(d, name))
    steps = ["create"] if d.chance(0.9) else []
    steps += [d.pick(["write0", "write0", "write1", "flush", "close", "create"]) for _ in range(d.int(2, 6))]
    runs = [({"folder:0": FOLDER} if step == "create" else {}, [], [step]) for step in steps]
    return Program(graph, runs, " ".join(steps))
