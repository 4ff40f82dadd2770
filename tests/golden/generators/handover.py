# SPDX-License-Identifier: Apache-2.0
"""Cases of what steps hand to one another (package data_flow): priority queues, accumulators, staging areas, barriers.
What happens step by step; no step waits: it has what it asks for, or an error. Each generator keeps what TensorFlow
would hold, so that it knows who would wait.
"""

import numpy as np
import tensorflow as tf

from .draw import Program, op

raw = tf.raw_ops


class Steps:
    """A graph of which runs are drawn one by one."""

    def __init__(self, d):
        self.d, self.graph, self.runs, self.made = d, tf.Graph(), [], {}

    def place(self, name, dtype, shape=None):
        return tf.compat.v1.placeholder(dtype, shape, name)

    def node(self, kind, name=None, **arguments):
        """The node of these arguments, made once."""
        if name not in self.made:
            with self.graph.as_default():
                getattr(raw, kind)(name=name, **arguments)
            self.made[name] = self.graph.get_operation_by_name(name)
        return self.made[name]

    def run(self, node, feeds):
        fetches = [output.name for output in node.outputs]
        self.runs.append(
            ({f"{name}:0": value for name, value in feeds.items()}, fetches, [] if fetches else [node.name])
        )

    def program(self, about):
        return Program(self.graph, self.runs, f"{about}, {len(self.runs)} steps")


# ---- Queues that give what is least first ----


class Queue(Steps):
    def __init__(self, d, kind):
        super().__init__(d)
        self.kind, self.version = kind, "V2" if kind.endswith("V2") else ""
        self.types = [d.pick([tf.float32, tf.int64, tf.string, tf.bool]) for _ in range(d.int(1, 2))]
        self.shapes = [d.shape(0, 2, empty=0, large=0) for _ in self.types]
        self.capacity, self.size, self.closed = d.pick([-1, 3, 6]), 0, False
        with self.graph.as_default():
            self.handle = getattr(raw, kind)(
                component_types=self.types,
                shapes=self.shapes,
                capacity=self.capacity,
                shared_name=d.pick(["", "q"]),
                name="queue",
            )
            self.all_types = [tf.int64, *self.types]
            self.one = [self.place(f"one{i}", t) for i, t in enumerate(self.all_types)]
            self.many = [self.place(f"many{i}", t) for i, t in enumerate(self.all_types)]
            self.n = self.place("n", tf.int32, [])

    def get(self, kind, name, **arguments):
        return self.node(kind + self.version, name, handle=self.handle, **arguments)

    def values(self, lead=()):
        d = self.d
        shapes = [tuple(shape) for shape in self.shapes]
        fits = d.chance(0.95)
        if not fits:
            shapes[-1] += (2,)
        values = [d.tensor(t, tuple(lead) + shape) for t, shape in zip(self.types, shapes)]
        if self.kind == "RandomShuffleQueue":  # whose order is its own: all elements are alike
            values = [
                np.zeros_like(value) if value.dtype != object else np.full(value.shape, b"x", object)
                for value in values
            ]
        if self.priority:
            values.insert(0, d.random.integers(-2, 4, lead or ()).astype(np.int64))
        return [np.asarray(value) for value in values], fits

    def step(self, name):
        d = self.d
        room = self.closed or self.capacity < 0 or self.size < self.capacity
        if name == "one" and room:
            values, fits = self.values()
            self.run(
                self.get("QueueEnqueue", "enqueue", components=self.one),
                {f"one{i}": value for i, value in enumerate(values)},
            )
            self.size += 1 if fits and not self.closed else 0
        elif name == "many":
            count = d.int(0, 5)
            if self.capacity >= 0 and self.size + count > self.capacity and not self.closed:
                return
            values, fits = self.values((count,))
            self.run(
                self.get("QueueEnqueueMany", "enqueue_many", components=self.many),
                {f"many{i}": value for i, value in enumerate(values)},
            )
            self.size += count if fits and not self.closed else 0
        elif name == "take" and (self.size or self.closed):
            self.run(self.get("QueueDequeue", "dequeue", component_types=self.all_types), {})
            self.size = max(0, self.size - 1)
        elif name in ("take_many", "up_to"):
            count = d.int(0, self.size) if not self.closed or d.chance(0.5) else self.size + 1
            if self.priority and name == "up_to" and count > self.size > 0:
                return  # TensorFlow loses what is left
            kind = "QueueDequeueMany" if name == "take_many" else "QueueDequeueUpTo"
            self.run(self.get(kind, name, component_types=self.all_types, n=self.n), {"n": np.int32(count)})
            self.size -= count if count <= self.size else self.size if name == "up_to" else 0
        elif name == "close":
            self.run(self.get("QueueClose", "close", cancel_pending_enqueues=d.chance(0.5)), {})
            self.closed = True
        elif name == "is_closed":
            self.run(self.get("QueueIsClosed", "is_closed"), {})
        elif name == "size":
            self.run(self.get("QueueSize", "size"), {})


@op("PriorityQueue", "PriorityQueueV2", count=2)
def queue(d):
    one = Queue(d, d.op)
    for _ in range(d.int(4, 14)):
        name = d.pick(["one", "one", "many", "many", "take", "take", "take_many", "up_to", "size", "is_closed"])
        one.step("close" if d.chance(0.06) else name)
    one.step("size")
    return one.program(one.kind)


# ---- Accumulators ----

DENSE = (
    "ConditionalAccumulator",
    "AccumulatorApplyGradient",
    "AccumulatorTakeGradient",
    "AccumulatorNumAccumulated",
    "AccumulatorSetGlobalStep",
)
SPARSE = ("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient")
RESOURCE = tuple("Resource" + name for name in DENSE)
HELD = [tf.float32, tf.float64, tf.float16]


class Accumulator(Steps):
    def __init__(self, d, prefix):
        super().__init__(d)
        self.prefix, self.type = prefix, d.turn(HELD)
        self.full = d.shape(1 if prefix == "Sparse" else 0, 3, empty=0.05, large=0)
        known = None if d.chance(0.15) else [None if d.chance(0.3) else dim for dim in self.full]
        self.count, self.global_step = 0, 0
        with self.graph.as_default():
            self.handle = getattr(raw, prefix + "ConditionalAccumulator")(
                dtype=self.type,
                shape=known,
                reduction_type=d.pick(["MEAN", "MEAN", "SUM"]),
                shared_name=d.pick(["", "a"]),
                name="accumulator",
            )
            self.local = self.place("local_step", tf.int64, [])
            self.required = self.place("num_required", tf.int32, [])
            self.new_step = self.place("new_step", tf.int64, [])
            self.parts = [
                self.place(name, kind)
                for name, kind in (("gradient", self.type), ("indices", tf.int64), ("dims", tf.int64))
            ]
        self.known = known

    def get(self, kind, name, **arguments):
        resource = "Resource" if self.prefix == "Resource" else ""
        return self.node(resource + kind, name, handle=self.handle, **arguments)

    def gradient(self, shape):
        return self.d.tensor(self.type, shape, -4, 4, special=0.02)

    def apply(self):
        d = self.d
        local = self.global_step + d.pick([0, 0, 0, 1, 3, -1])
        feeds = {"local_step": np.int64(local)}
        shape, fits = self.full, True
        if d.chance(0.12):
            shape, fits = (shape[:-1] + (shape[-1] + 1,) if shape and d.chance(0.6) else shape + (2,)), None
        if self.prefix == "Sparse":
            node, fits = self.apply_sparse(feeds, shape, fits)
        else:
            feeds["gradient"] = self.gradient(shape)
            node = self.get("AccumulatorApplyGradient", "apply", local_step=self.local, gradient=self.parts[0])
            if fits is None:
                fits = self.fits(shape)
        if fits is None:
            return
        self.run(node, feeds)
        self.count += 1 if fits and local >= self.global_step else 0

    def fits(self, shape):
        """Whether a gradient of another shape is refused for certain; None: it depends."""
        if self.known is None or len(shape) == len(self.known):
            return None
        return False

    def apply_sparse(self, feeds, shape, fits):
        d = self.d
        rows = max(1, self.full[0])
        indices = (
            np.sort(d.random.integers(0, rows, d.int(0, 4)))
            if d.chance(0.8)
            else d.random.integers(0, rows, d.int(0, 4))
        )
        known = d.chance(0.5)
        values = (len(indices),) + tuple(shape[1:])
        if len(values) != len(self.full) or values[1:] != tuple(self.full[1:]):
            fits = None
        elif self.known and self.known[0] == 0 and len(indices):
            fits = None
        else:
            fits = True
        feeds["gradient"], feeds["indices"] = self.gradient(values), np.asarray(indices, np.int64)
        feeds["dims"] = np.array(self.full if known or d.chance(0.5) else [9, 9], np.int64)
        if d.chance(0.05):
            feeds["indices"], fits = np.append(feeds["indices"], 0), False
        node = self.node(
            "SparseAccumulatorApplyGradient",
            f"apply_{known}",
            handle=self.handle,
            local_step=self.local,
            gradient_indices=self.parts[1],
            gradient_values=self.parts[0],
            gradient_shape=self.parts[2],
            has_known_shape=known,
        )
        if not fits and feeds["local_step"] < self.global_step:
            return node, True  # it is dropped, unseen
        return node, fits

    def step(self, name):
        d = self.d
        if name == "apply":
            self.apply()
        elif name == "take" and (self.count or d.chance(0.1)):
            required = d.int(1, self.count) if self.count and d.chance(0.95) else d.int(-1, 0)
            kind = "SparseAccumulatorTakeGradient" if self.prefix == "Sparse" else "AccumulatorTakeGradient"
            self.run(
                self.get(kind, "take", num_required=self.required, dtype=self.type),
                {"num_required": np.int32(required)},
            )
            if required > 0:
                self.count, self.global_step = 0, self.global_step + 1
        elif name == "count":
            self.run(self.get("AccumulatorNumAccumulated", "count"), {})
        elif name == "set":
            self.global_step += d.pick([1, 4, -1])
            self.run(
                self.get("AccumulatorSetGlobalStep", "set", new_global_step=self.new_step),
                {"new_step": np.int64(self.global_step)},
            )


@op(*DENSE, *SPARSE, *RESOURCE, count=3)
def accumulator(d):
    one = Accumulator(
        d,
        (
            "Resource"
            if d.op in RESOURCE
            else "Sparse" if d.op in SPARSE or (d.number % 3 == 2 and d.op not in DENSE[:3]) else ""
        ),
    )
    for _ in range(d.int(4, 12)):
        one.step(
            d.pick(
                ["apply", "apply", "apply", "apply", "take", "count", "set"]
                if d.chance(0.5)
                else ["apply", "apply", "take"]
            )
        )
    one.step("set" if d.op.endswith("SetGlobalStep") else "apply")
    one.step("apply")
    one.step("count")
    one.step("take")
    return one.program(f"{d.op} of {one.type.name}")


# ---- Staging areas ----

STAGES = ("Stage", "Unstage", "StagePeek", "StageSize", "StageClear")
MAPS = ("MapStage", "MapUnstage", "MapPeek", "MapUnstageNoKey", "MapSize", "MapIncompleteSize", "MapClear")


def sizes(values):
    return sum(
        24 * value.size + sum(len(text) for text in value.flat) if value.dtype == object else value.nbytes
        for value in values
    )


class Stage(Steps):
    def __init__(self, d):
        super().__init__(d)
        self.types = [d.pick([tf.float32, tf.int64, tf.string, tf.bool]) for _ in range(d.int(1, 3))]
        self.bounds = {"capacity": d.pick([0, 0, 2]), "memory_limit": d.pick([0, 0, 200]), "shared_name": "area"}
        self.held = []  # the bytes of each element
        with self.graph.as_default():
            self.values = [self.place(f"value{i}", t) for i, t in enumerate(self.types)]
            self.index = self.place("index", tf.int32, [])

    def step(self, name):
        d, limit = self.d, self.bounds["memory_limit"]
        if name == "Stage":
            values = [d.tensor(t, d.shape(0, 2, large=0)) for t in self.types]
            size = sizes(values)
            never = limit and size > limit
            if not never and (
                (limit and sum(self.held) + size > limit)
                or (self.bounds["capacity"] and len(self.held) >= self.bounds["capacity"])
            ):
                return
            self.run(
                self.node("Stage", "stage", values=self.values, **self.bounds),
                {f"value{i}": value for i, value in enumerate(values)},
            )
            if not never:
                self.held.append(size)
        elif name == "Unstage" and self.held:
            self.run(self.node("Unstage", "unstage", dtypes=self.types, **self.bounds), {})
            self.held.pop(0)
        elif name == "StagePeek" and self.held:
            self.run(
                self.node("StagePeek", "peek", index=self.index, dtypes=self.types, **self.bounds),
                {"index": np.int32(d.int(0, len(self.held) - 1))},
            )
        elif name == "StageSize":
            self.run(self.node("StageSize", "size", dtypes=self.types if d.chance(0.5) else [], **self.bounds), {})
        elif name == "StageClear":
            self.run(self.node("StageClear", "clear", dtypes=self.types, **self.bounds), {})
            self.held = []


@op(*STAGES, count=2)
def stage(d):
    one = Stage(d)
    for _ in range(d.int(3, 12)):
        one.step(
            d.pick(["Stage", "Stage", "Stage", "Unstage", "Unstage", "StagePeek", "StageSize"])
            if d.chance(0.95)
            else "StageClear"
        )
    one.step("Stage")
    one.step(d.op)
    one.step("StageSize")
    return one.program("staging area")


class Map(Steps):
    def __init__(self, d, ordered):
        super().__init__(d)
        self.prefix = "Ordered" if ordered else ""
        self.types = [d.pick([tf.float32, tf.int64, tf.string, tf.bool]) for _ in range(d.int(1, 3))]
        self.bounds = {"capacity": d.pick([0, 0, 2]), "memory_limit": 0, "shared_name": "area"}
        self.whole, self.begun = {}, {}  # key -> the places that have a value
        with self.graph.as_default():
            self.values = [self.place(f"value{i}", t) for i, t in enumerate(self.types)]
            self.key, self.indices = self.place("key", tf.int64, []), self.place("indices", tf.int32)

    def some(self):
        """Places in their order; all of them, mostly."""
        count = len(self.types)
        if self.d.chance(0.6):
            return list(range(count))
        return sorted(self.d.random.permutation(count)[: self.d.int(1, count)].tolist())

    def asked(self, places):
        """The places as they are fed: now and then wrong."""
        if self.d.chance(0.06):
            wrong = (
                [place + len(self.types) for place in places]
                if self.d.chance(0.5)
                else [-1] * len(places) if len(places) == 1 else places[::-1]
            )
            return wrong, wrong == places
        return places, True

    def stage(self):
        d, key, places = self.d, self.d.int(0, 4), self.some()
        whole = len(places) == len(self.types)
        if whole and self.bounds["capacity"] and len(self.whole) >= self.bounds["capacity"]:
            return
        there = self.begun.get(key, set())
        if not whole and places[0] not in there and there & set(places):
            return  # TensorFlow leaves those in that come before one that is there
        fed, right = (places, True) if whole else self.asked(places)  # TensorFlow does not look at them
        feeds = {"key": np.int64(key), "indices": np.array(fed, np.int32)}
        feeds.update({f"value{i}": d.tensor(self.types[i], d.shape(0, 2, large=0)) for i in places})
        name = "stage" + "".join(map(str, places))
        self.run(
            self.node(
                self.prefix + "MapStage",
                name,
                key=self.key,
                indices=self.indices,
                values=[self.values[i] for i in places],
                dtypes=self.types,
                **self.bounds,
            ),
            feeds,
        )
        if not right:
            return
        if whole:
            self.whole.setdefault(key, set(places))
            return
        there = self.begun.setdefault(key, set())
        if there & set(places):
            return
        there |= set(places)
        if len(there) == len(self.types):
            self.whole.setdefault(key, self.begun.pop(key))

    def get(self, name):
        d = self.d
        if not self.whole:
            return
        any_key = name == "MapUnstageNoKey"
        if any_key and not self.prefix and len(self.whole) > 1:
            return  # which of them comes is nobody's word
        key, places = min(self.whole) if any_key else d.pick(sorted(self.whole)), self.some()
        if any_key or d.chance(0.8):
            places = sorted(self.whole[key] & set(places)) or sorted(self.whole[key])
        if name != "MapPeek" and places[0] in self.whole[key] and not set(places) <= self.whole[key]:
            return  # TensorFlow loses those before one that was taken
        fed, right = (places, True) if any_key else self.asked(places)  # TensorFlow dies of it later
        feeds = {"indices": np.array(fed, np.int32)}
        arguments = {"indices": self.indices, "dtypes": [self.types[i] for i in places], **self.bounds}
        if not any_key:
            feeds["key"], arguments["key"] = np.int64(key), self.key
        self.run(self.node(self.prefix + name, name + "".join(map(str, places)), **arguments), feeds)
        if name != "MapPeek" and right and set(places) <= self.whole[key]:
            self.whole[key] -= set(places)
            if not self.whole[key]:
                del self.whole[key]

    def step(self, name):
        if name == "MapStage":
            self.stage()
        elif name in ("MapUnstage", "MapPeek", "MapUnstageNoKey"):
            self.get(name)
        else:
            self.run(self.node(self.prefix + name, name, dtypes=self.types, **self.bounds), {})
            if name == "MapClear":
                self.whole, self.begun = {}, {}


@op(*MAPS, *("Ordered" + name for name in MAPS), count=2)
def map_stage(d):
    one = Map(d, d.op.startswith("Ordered"))
    one.step("MapStage")
    for _ in range(d.int(3, 14)):
        one.step(
            d.pick(
                [
                    "MapStage",
                    "MapStage",
                    "MapStage",
                    "MapUnstage",
                    "MapUnstage",
                    "MapPeek",
                    "MapUnstageNoKey",
                    "MapSize",
                    "MapIncompleteSize",
                ]
            )
            if d.chance(0.96)
            else "MapClear"
        )
    one.step("MapStage")
    one.step(d.op.removeprefix("Ordered"))
    one.step("MapSize")
    one.step("MapIncompleteSize")
    return one.program(f"{one.prefix}map")


# ---- Barriers ----

BARRIERS = (
    "Barrier",
    "BarrierInsertMany",
    "BarrierTakeMany",
    "BarrierClose",
    "BarrierReadySize",
    "BarrierIncompleteSize",
)


class Barrier(Steps):
    def __init__(self, d):
        super().__init__(d)
        self.types = [d.pick([tf.float32, tf.int64, tf.string, tf.bool]) for _ in range(d.int(1, 3))]
        self.shapes = [d.shape(0, 2, empty=0, large=0) for _ in self.types]
        self.begun, self.ready, self.closed, self.cancelled = {}, 0, False, False
        with self.graph.as_default():
            self.handle = raw.Barrier(
                component_types=self.types, shapes=self.shapes, shared_name=d.pick(["", "b"]), name="barrier"
            )
            self.keys, self.n = self.place("keys", tf.string, [None]), self.place("n", tf.int32, [])
            self.values = [
                self.place(f"value{i}", t, [None] + list(shape))
                for i, (t, shape) in enumerate(zip(self.types, self.shapes))
            ]

    def insert(self):
        d, component = self.d, self.d.int(0, len(self.types) - 1)
        keys = [f"k{i}" for i in d.random.permutation(6)[: d.int(0, 4)]]
        missing = [key for key, there in self.begun.items() if component not in there]
        if d.chance(0.6) and missing:
            keys = missing[: d.int(1, len(missing))]
        new = [key for key in keys if key not in self.begun]
        clashes = [key for key in keys if component in self.begun.get(key, ())]
        completes = [key for key in keys if len(self.begun.get(key, set()) | {component}) == len(self.types)]
        if (clashes or (self.closed and new)) and completes:
            return  # TensorFlow loses what such an insert has completed
        feeds = {
            "keys": np.array([key.encode() for key in keys], object),
            f"value{component}": d.tensor(self.types[component], (len(keys),) + tuple(self.shapes[component])),
        }
        self.run(
            self.node(
                "BarrierInsertMany",
                f"insert{component}",
                handle=self.handle,
                keys=self.keys,
                values=self.values[component],
                component_index=component,
            ),
            feeds,
        )
        if self.cancelled or (self.closed and keys and not self.begun):
            return
        for key in keys:
            if component in self.begun.get(key, ()) or (self.closed and key not in self.begun):
                return
            there = self.begun.setdefault(key, set())
            there.add(component)
            if len(there) == len(self.types):
                self.ready += 1
                del self.begun[key]

    def take(self):
        d, fewer = self.d, self.d.chance(0.4)
        count = d.int(0, self.ready)
        if self.closed and d.chance(0.5):
            count = self.ready + len(self.begun) + 1
        node = self.node(
            "BarrierTakeMany",
            f"take_{fewer}",
            handle=self.handle,
            num_elements=self.n,
            component_types=self.types,
            allow_small_batch=fewer,
            wait_for_incomplete=False,
        )
        self.run(node, {"n": np.int32(count)})
        if count <= self.ready:
            self.ready -= count
        elif fewer:
            self.ready = 0

    def step(self, name):
        if name == "BarrierInsertMany":
            self.insert()
        elif name == "BarrierTakeMany":
            self.take()
        elif name == "BarrierClose":
            cancel = self.d.chance(0.4)
            if cancel and self.closed and not self.begun and not self.cancelled:
                return  # TensorFlow never ends it
            self.run(self.node(name, f"close_{cancel}", handle=self.handle, cancel_pending_enqueues=cancel), {})
            self.closed = True
            if cancel and not self.cancelled:
                self.cancelled, self.begun = True, {}
        else:
            self.run(self.node(name, name, handle=self.handle), {})


@op(*BARRIERS, count=3)
def barrier(d):
    one = Barrier(d)
    for _ in range(d.int(4, 16)):
        one.step(
            d.pick(
                ["BarrierInsertMany"] * 5
                + ["BarrierTakeMany", "BarrierTakeMany", "BarrierReadySize", "BarrierIncompleteSize"]
            )
            if d.chance(0.95)
            else "BarrierClose"
        )
    if d.op != "Barrier":
        one.step(d.op)
    one.step("BarrierReadySize")
    one.step("BarrierIncompleteSize")
    return one.program("barrier")
