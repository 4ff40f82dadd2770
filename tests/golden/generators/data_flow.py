# SPDX-License-Identifier: Apache-2.0
"""Cases of the data_flow package: what happens to queues step by step. No step waits: it has what it asks for, or an error."""
import numpy as np
import tensorflow as tf

from .draw import Program, op

raw = tf.raw_ops
KINDS = ("FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2")
ASKED = {"QueueEnqueueV2": "enqueue", "QueueEnqueueManyV2": "many", "QueueDequeueV2": "dequeue", "QueueDequeueManyV2": "take", "QueueDequeueUpToV2": "up_to",
         "QueueCloseV2": "close", "QueueSizeV2": "size", "QueueIsClosedV2": "is_closed"}


class Queue:
    """A queue of two components in a graph, and how many elements it would have."""

    def __init__(self, d, kind):
        self.d, self.kind = d, kind
        self.types = [d.pick([tf.float32, tf.int64, tf.string, tf.bool]) for _ in range(2)]
        self.shape = d.shape(0, 2, empty=0, large=0)
        self.capacity = d.pick([-1, 3, 6])
        self.size, self.closed = 0, False
        self.runs = []
        attrs = {"component_types": self.types, "capacity": self.capacity, "shared_name": d.pick(["", "q"])}
        known = [self.shape, []]
        if kind == "PaddingFIFOQueueV2":
            known = [[None] * len(self.shape), []]
        if kind == "RandomShuffleQueueV2":
            attrs.update(seed=1, seed2=2, min_after_dequeue=0)
        self.handle = getattr(raw, kind)(shapes=known, **attrs, name="queue")
        self._nodes()

    def _nodes(self):
        handle, types = self.handle, self.types
        one = [tf.compat.v1.placeholder(t, None, f"one{i}") for i, t in enumerate(types)]
        raw.QueueEnqueueV2(handle=handle, components=one, name="enqueue")
        raw.QueueEnqueueManyV2(handle=handle, components=[tf.compat.v1.placeholder(t, None, f"many{i}") for i, t in enumerate(types)], name="many")
        raw.QueueDequeueV2(handle=handle, component_types=types, name="dequeue")
        n = tf.compat.v1.placeholder(tf.int32, [], "n")
        raw.QueueDequeueManyV2(handle=handle, n=n, component_types=types, name="take")
        raw.QueueDequeueUpToV2(handle=handle, n=n, component_types=types, name="up_to")
        raw.QueueCloseV2(handle=handle, cancel_pending_enqueues=self.d.chance(0.5), name="close")
        raw.QueueSizeV2(handle=handle, name="size")
        raw.QueueIsClosedV2(handle=handle, name="is_closed")

    def _values(self, count=None):
        lead = () if count is None else (count,)
        shape = tuple(self.d.int(0, 3) for _ in self.shape) if self.kind == "PaddingFIFOQueueV2" else self.shape
        values = [self.d.tensor(t, lead + dims) for t, dims in zip(self.types, (shape, ()))]
        if self.kind == "RandomShuffleQueueV2":  # whose order is its own: all elements are alike
            values = [np.zeros_like(value) if value.dtype != object else np.full(value.shape, b"x", object) for value in values]
        return values

    def step(self, name):
        """Adds a run, when it would not wait."""
        d, room = self.d, self.capacity < 0 or self.size < self.capacity
        if name == "enqueue" and (room or self.closed):
            values = self._values()
            fits = values[1].ndim == 0
            self.runs.append(({f"one{i}:0": value for i, value in enumerate(values)}, [], ["enqueue"]))
            self.size += 1 if fits and not self.closed else 0
        elif name == "many":
            count = d.int(0, 3)
            if self.capacity >= 0 and self.size + count > self.capacity and not self.closed:
                return
            values = self._values(count)
            self.runs.append(({f"many{i}:0": value for i, value in enumerate(values)}, [], ["many"]))
            self.size += count if values[1].ndim == 1 and not self.closed else 0
        elif name == "dequeue" and (self.size or self.closed):
            self.runs.append(({}, ["dequeue:0", "dequeue:1"], []))
            self.size = max(0, self.size - 1)
        elif name in ("take", "up_to"):
            count = d.int(0, self.size)
            if self.closed and d.chance(0.5):
                count = self.size + 1
            if count > self.size and not self.closed:
                return
            self.runs.append(({"n:0": np.int32(count)}, [f"{name}:0", f"{name}:1"], []))
            self.size -= count if count <= self.size else self.size if name == "up_to" else 0
        elif name == "close":
            self.runs.append(({}, [], ["close"]))
            self.closed = True
        elif name in ("size", "is_closed"):
            self.runs.append(({}, [f"{name}:0"], []))


@op(*KINDS, *ASKED, count=16)
def queue(d):
    graph = tf.Graph()
    with graph.as_default():
        one = Queue(d, d.op if d.op in KINDS else d.pick(KINDS))
    for _ in range(d.int(4, 14)):
        name = d.pick(["enqueue", "enqueue", "many", "many", "dequeue", "take", "up_to", "size", "is_closed"])
        one.step("close" if d.chance(0.06) else name)
    if d.op in ASKED:
        one.step(ASKED[d.op])
    one.step("size")
    return Program(graph, one.runs, f"{one.kind}, {len(one.runs)} steps")
