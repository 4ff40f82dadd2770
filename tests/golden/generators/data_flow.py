# SPDX-License-Identifier: Apache-2.0
"""Cases of the data_flow package: what happens to queues step by step, and to lists of tensors. No step waits: it has
what it asks for, or an error."""

import numpy as np
import tensorflow as tf

from .draw import Program, op

raw = tf.raw_ops
KINDS = ("FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2")
ASKED = {
    "QueueEnqueueV2": "enqueue",
    "QueueEnqueueManyV2": "many",
    "QueueDequeueV2": "dequeue",
    "QueueDequeueManyV2": "take",
    "QueueDequeueUpToV2": "up_to",
    "QueueCloseV2": "close",
    "QueueSizeV2": "size",
    "QueueIsClosedV2": "is_closed",
}


class Queue:
    """A queue of two components in a graph, and how many elements it would have."""

    def __init__(self, d, kind):
        self.d, self.kind = d, kind
        self.version = "V2" if kind.endswith("V2") else ""
        self.types = [d.pick([tf.float32, tf.int64, tf.string, tf.bool]) for _ in range(2)]
        self.shape = d.shape(0, 2, empty=0, large=0)
        self.capacity = d.pick([-1, 3, 6])
        self.size, self.closed = 0, False
        self.runs = []
        attrs = {"component_types": self.types, "capacity": self.capacity, "shared_name": d.pick(["", "q"])}
        known = [self.shape, []]
        if kind.startswith("Padding"):
            known = [[None] * len(self.shape), []]
        if kind.startswith("RandomShuffle"):
            attrs.update(seed=1, seed2=2, min_after_dequeue=0)
        self.handle = getattr(raw, kind)(shapes=known, **attrs, name="queue")
        self._nodes()

    def _nodes(self):
        handle, types = self.handle, self.types

        def of_version(name):
            return getattr(raw, name + self.version)

        one = [tf.compat.v1.placeholder(t, None, f"one{i}") for i, t in enumerate(types)]
        of_version("QueueEnqueue")(handle=handle, components=one, name="enqueue")
        of_version("QueueEnqueueMany")(
            handle=handle,
            components=[tf.compat.v1.placeholder(t, None, f"many{i}") for i, t in enumerate(types)],
            name="many",
        )
        of_version("QueueDequeue")(handle=handle, component_types=types, name="dequeue")
        n = tf.compat.v1.placeholder(tf.int32, [], "n")
        of_version("QueueDequeueMany")(handle=handle, n=n, component_types=types, name="take")
        of_version("QueueDequeueUpTo")(handle=handle, n=n, component_types=types, name="up_to")
        of_version("QueueClose")(handle=handle, cancel_pending_enqueues=self.d.chance(0.5), name="close")
        of_version("QueueSize")(handle=handle, name="size")
        of_version("QueueIsClosed")(handle=handle, name="is_closed")

    def _values(self, count=None):
        lead = () if count is None else (count,)
        shape = tuple(self.d.int(0, 3) for _ in self.shape) if self.kind.startswith("Padding") else self.shape
        values = [self.d.tensor(t, lead + dims) for t, dims in zip(self.types, (shape, ()))]
        if self.kind.startswith("RandomShuffle"):  # whose order is its own: all elements are alike
            values = [
                np.zeros_like(value) if value.dtype != object else np.full(value.shape, b"x", object)
                for value in values
            ]
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


FIRST_KINDS = tuple(kind.removesuffix("V2") for kind in KINDS)
FIRST_ASKED = {name.removesuffix("V2"): what for name, what in ASKED.items()}


@op(*FIRST_KINDS, *FIRST_ASKED, count=6)
def first_queue(d):
    """The first version, whose handles are references."""
    graph = tf.Graph()
    with graph.as_default():
        one = Queue(d, d.op if d.op in FIRST_KINDS else d.pick(FIRST_KINDS))
    for _ in range(d.int(3, 8)):
        one.step(d.pick(["enqueue", "enqueue", "many", "dequeue", "take", "up_to", "size", "is_closed", "close"]))
    if d.op in FIRST_ASKED:
        one.step(FIRST_ASKED[d.op])
    one.step("size")
    return Program(graph, one.runs, f"{one.kind}, {len(one.runs)} steps")


LISTS = (
    "EmptyTensorList",
    "TensorListReserve",
    "TensorListFromTensor",
    "TensorListSplit",
    "TensorListScatterV2",
    "TensorListPushBack",
    "TensorListPopBack",
    "TensorListSetItem",
    "TensorListScatterIntoExistingList",
    "TensorListResize",
    "TensorListGetItem",
    "TensorListStack",
    "TensorListGather",
    "TensorListConcatV2",
    "TensorListLength",
    "TensorListElementShape",
)
MAKERS, CHANGERS, READERS = LISTS[:5], LISTS[5:10], LISTS[10:]
LIST_TYPES = [tf.float32, tf.float64, tf.int64, tf.string, tf.bool, tf.complex64]


class Lists:
    """Lists that come of one another in a graph, all alive to its end."""

    def __init__(self, d):
        self.d = d
        self.type = d.turn(LIST_TYPES)
        self.shape = d.shape(0, 2, empty=0.05, large=0)
        self.feeds, self.fetches, self.count = {}, [], 0
        self.uneven = False  # elements differ in their first dimension
        self.blind = d.chance(0.15)  # no shape is known before the step, and some are wrong
        self.differentiable = self.type in (tf.float32, tf.float64) and not self.blind
        self.inputs = []

    def value(self, lead=(), shape=None):
        """A placeholder, blind ones sometimes of another shape than the list's elements."""
        shape = tuple(self.shape if shape is None else shape)
        if shape and self.blind and self.d.chance(0.2):
            shape = shape[:-1] + (shape[-1] + 1,)
        return self.feed(self.d.tensor(self.type, tuple(lead) + shape))

    def feed(self, value):
        place = tf.compat.v1.placeholder(
            tf.as_dtype(value.dtype if value.dtype != object else tf.string),
            None if self.blind else value.shape,
            f"in{len(self.feeds)}",
        )
        self.feeds[place.name] = value
        if self.differentiable and place.dtype == self.type:
            self.inputs.append(place.op.name)
        return place

    def number(self, value):
        return self.feed(np.int32(value)) if self.d.chance(0.5) else tf.constant(value, tf.int32)

    def element_shape(self, shape=None, kinds=(tf.int32, tf.int64)):
        """The shape of elements, perhaps partly known, or any."""
        dims = [-1 if self.d.chance(0.3) else dim for dim in (self.shape if shape is None else shape)]
        if self.uneven:
            dims[0] = -1
        if dims and not self.uneven and self.blind and self.d.chance(0.2):
            dims[0] += 2
        found = np.array(-1 if self.d.chance(0.25) else dims, self.d.pick(kinds).as_numpy_dtype)
        return self.feed(found) if self.blind else tf.constant(found)

    def fetch(self, tensor):
        self.fetches.append(tensor)
        return tensor

    def make(self, name):
        d, dtype, rows = self.d, self.type, self.d.int(0, 4)
        if name == "EmptyTensorList":
            handle, self.count = (
                raw.EmptyTensorList(
                    element_shape=self.element_shape(),
                    max_num_elements=self.number(d.pick([-1, 2, 9])),
                    element_dtype=dtype,
                ),
                0,
            )
        elif name == "TensorListReserve":
            handle, self.count = (
                raw.TensorListReserve(
                    element_shape=self.element_shape(),
                    num_elements=self.number(rows - (0 if d.chance(0.95) else 5)),
                    element_dtype=dtype,
                ),
                rows,
            )
        elif name == "TensorListFromTensor":
            handle, self.count = (
                raw.TensorListFromTensor(tensor=self.value((rows,)), element_shape=self.element_shape()),
                rows,
            )
        elif name == "TensorListSplit":
            lengths = [d.int(0, 3) for _ in range(rows)]
            total = sum(lengths) + (0 if d.chance(0.93) else 1)
            self.shape, self.uneven = (3,) + self.shape, True
            handle = raw.TensorListSplit(
                tensor=self.value((total,), self.shape[1:]),
                element_shape=self.element_shape((-1,) + self.shape[1:]),
                lengths=self.feed(np.array(lengths, np.int64)),
            )
            self.count = rows
        else:
            indices = np.array(d.random.permutation(5)[:rows], np.int32)
            if d.chance(0.06) and rows:
                indices[0] = d.pick([-1, 9])
            size = d.pick([-1, 5, 6])
            handle = raw.TensorListScatterV2(
                tensor=self.value((rows,)),
                indices=self.feed(indices),
                element_shape=self.element_shape(),
                num_elements=self.number(size),
            )
            self.count = max(int(indices.max()) + 1 if rows else 0, size)
        return handle

    def index(self):
        d = self.d  # of a negative index TensorFlow dies
        return self.number(d.int(0, max(0, self.count - 1)) if d.chance(0.95) else self.count)

    def change(self, name, handle):
        d = self.d
        if name == "TensorListPushBack":
            self.count += 1
            return raw.TensorListPushBack(input_handle=handle, tensor=self.value())
        if name == "TensorListPopBack":
            self.count = max(0, self.count - 1)
            handle, element = raw.TensorListPopBack(
                input_handle=handle, element_shape=self.element_shape(kinds=(tf.int32,)), element_dtype=self.type
            )
            self.fetch(element)
            return handle
        if name == "TensorListSetItem":
            return raw.TensorListSetItem(
                input_handle=handle, index=self.index(), item=self.value(), resize_if_index_out_of_bounds=d.chance(0.2)
            )
        if name == "TensorListScatterIntoExistingList":
            indices = np.array(d.random.permutation(self.count + 1)[:d.int(0, 3)], np.int32)
            if self.uneven or indices.max(initial=0) >= self.count:
                self.differentiable = False  # TensorFlow's gradient keeps the new size
            self.count = max(self.count, int(indices.max(initial=-1)) + 1)
            return raw.TensorListScatterIntoExistingList(
                input_handle=handle, tensor=self.value((len(indices),)), indices=self.feed(indices)
            )
        self.count = d.int(0, self.count + 2)
        return raw.TensorListResize(input_handle=handle, size=self.number(self.count if d.chance(0.95) else -1))

    def read(self, name, handle):
        d, dtype = self.d, self.type
        if name == "TensorListGetItem":
            self.fetch(
                raw.TensorListGetItem(
                    input_handle=handle, index=self.index(), element_shape=self.element_shape(), element_dtype=dtype
                )
            )
        elif name == "TensorListStack":
            rows = self.count if d.chance(0.5) else -1
            self.fetch(
                raw.TensorListStack(
                    input_handle=handle,
                    element_shape=self.element_shape(kinds=(tf.int32,)),
                    element_dtype=dtype,
                    num_elements=rows,
                )
            )
        elif name == "TensorListGather":
            indices = np.array(
                (
                    [d.int(0, self.count - 1 if d.chance(0.97) else self.count) for _ in range(d.int(0, 4))]
                    if self.count
                    else []
                ),
                np.int32,
            )
            self.fetch(
                raw.TensorListGather(
                    input_handle=handle,
                    indices=self.feed(indices),
                    element_shape=self.element_shape(kinds=(tf.int32,)),
                    element_dtype=dtype,
                )
            )
        elif name == "TensorListConcatV2":
            shape = (-1,) + tuple(self.shape[1:]) if self.shape else self.shape
            leading = np.array([2] * d.pick([self.count, self.count, 0]), np.int64)
            for part in raw.TensorListConcatV2(
                input_handle=handle,
                element_shape=self.element_shape(shape),
                leading_dims=self.feed(leading),
                element_dtype=dtype,
            ):
                self.fetch(part)
        elif name == "TensorListLength":
            self.fetch(raw.TensorListLength(input_handle=handle))
        else:
            self.fetch(raw.TensorListElementShape(input_handle=handle, shape_type=d.pick([tf.int32, tf.int64])))


@op(*LISTS, count=26)
def lists(d):
    graph = tf.Graph()
    with graph.as_default():
        one = Lists(d)
        handles = [one.make(d.op if d.op in MAKERS else d.pick(MAKERS))]
        counts = [one.count]
        for step in range(d.int(1, 4)):
            name = d.op if d.op in CHANGERS and step == 0 else d.pick(CHANGERS)
            # Mostly the newest: an older one has other elements, which then must have stayed.
            chosen = len(handles) - 1 if d.chance(0.85) else d.pick(range(len(handles)))
            one.count = counts[chosen]
            handles.append(one.change(name, handles[chosen]))
            counts.append(one.count)
            if one.uneven and handles[-1].op.type in ("TensorListPushBack", "TensorListSetItem"):
                one.differentiable = False  # TensorFlow takes all elements to have the shape of this one
        one.read(d.op if d.op in READERS else "TensorListLength", handles[-1])
        read = d.pick(["TensorListStack", "TensorListStack", "TensorListGetItem", "TensorListGather"])
        one.read(read, handles[-1])
        if d.chance(0.3):
            one.read("TensorListLength", d.pick(handles))
        ys = [
            y.op.name
            for y in one.fetches[-1:]
            if y.dtype == one.type and one.differentiable and y.op.type != "TensorListLength"
        ]
    gradients = (ys, one.inputs) if ys and one.inputs else None
    return Program(
        graph, [(one.feeds, [tensor.name for tensor in one.fetches], [])], f"{one.type.name} lists", gradients
    )


OPTIONALS = ("OptionalNone", "OptionalFromValue", "OptionalHasValue", "OptionalGetValue")


@op(*OPTIONALS, count=26)
def optional(d):
    """An optional is made, asked whether it holds something, and what; now and then for other types or shapes than it
    holds."""
    graph, feeds = tf.Graph(), {}
    with graph.as_default():
        kinds = [d.pick([tf.float32, tf.int32, tf.string, tf.bool]) for _ in range(d.int(1, 3))]
        values = [d.tensor(kind, d.shape(0, 2)) for kind in kinds]
        places = [tf.compat.v1.placeholder(kind, None, f"value{i}") for i, kind in enumerate(kinds)]
        feeds = {place.name: value for place, value in zip(places, values)}
        empty = d.chance(0.2)
        made = raw.OptionalNone() if empty else raw.OptionalFromValue(components=places)
        raw.OptionalHasValue(optional=made, name="has")
        shapes = [tf.TensorShape([None] * value.ndim if d.chance(0.5) else value.shape) for value in values]
        if d.chance(0.1):
            shapes[0] = tf.TensorShape([7] * (values[0].ndim + 1))
        if d.chance(0.1):
            kinds[-1] = tf.int64
        raw.OptionalGetValue(optional=made, output_types=kinds, output_shapes=shapes, name="get")
    wanted = ["has:0"] + (
        [f"get:{i}" for i in range(len(kinds))] if d.op == "OptionalGetValue" or (d.chance(0.5) and not empty) else []
    )
    floats = [place.op.name for place, kind in zip(places, kinds) if kind == tf.float32]
    asked = not empty and len(wanted) > 1 and kinds[-1] != tf.int64 and kinds == [tf.float32]
    if asked:
        with graph.as_default():
            tf.square(graph.get_tensor_by_name("get:0"), name="y")
    return Program(
        graph,
        [({} if empty else feeds, wanted + (["y:0"] if asked else []), [])],
        "optional",
        (["y"], floats) if asked else None,
    )
