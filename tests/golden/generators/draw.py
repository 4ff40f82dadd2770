# SPDX-License-Identifier: Apache-2.0
"""What generators draw with: dtypes, shapes, tensors, from one random stream for each case.

    @op("AddV2", "Sub")
    def arithmetic(d):
        x, y = d.broadcast()
        t = d.dtype()
        return Case([d.tensor(t, x), d.tensor(t, y)])

A generator draws one case a call. Case number `d.number` takes the dtypes in turn, so that a few cases have them all.
"""
import dataclasses
import math
import zlib

import numpy as np
import tensorflow as tf

from . import registry

GENERATORS = {}  # op -> Generator
SPECIALS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-3, 100.0]


@dataclasses.dataclass
class Generator:
    package: str
    draw: object
    count: int  # of committed cases


def op(*names, count=None):
    """Registers a generator for ops; the package is the name of its file."""
    def register(function):
        package = function.__module__.rsplit(".", 1)[-1]
        for name in names:
            if name in GENERATORS:
                raise ValueError(f"two generators for {name}")
            GENERATORS[name] = Generator(package, function, count)
        return function
    return register


@dataclasses.dataclass
class Const:
    """An input that is a constant of the graph, not fed."""
    value: np.ndarray


@dataclasses.dataclass
class Variable:
    """An input that is a variable with this value; not yet assigned when `unset`."""
    value: np.ndarray
    unset: bool = False


@dataclasses.dataclass
class Case:
    """One node. inputs: arrays, in the order of the op's arguments, lists of arrays for lists of tensors."""
    inputs: list
    attrs: dict = dataclasses.field(default_factory=dict)
    gradients: object = (
        # ask for them where there are any; or a function that says so of the case, when it may have been disturbed
        True
    )
    differentiated: tuple | None = None  # the outputs that have a gradient; None: all
    answered: object = True  # whether TensorFlow writes all outputs; or such a function
    disturb: bool = True  # now and then; not where the input of another op's output would be no such output
    blind: bool | None = None  # feeds of unknown shape; None: sometimes
    op: str = ""
    seed: int = 0

    def says(self, which):
        return which(self) if callable(which) else which

    def flat(self):
        return [one for given in self.inputs for one in (given if isinstance(given, list) else [given])]


FOLDER = object()  # a value of a program's feed: the path of an empty folder, of the program's alone


@dataclasses.dataclass
class Program:
    """A graph of several nodes, run by run in one session. A run: (feeds, fetches, targets), by names."""
    graph: tf.Graph
    runs: list
    about: str = ""
    gradients: tuple | None = None  # (ys, xs), names of nodes; their values are asked in every run that fetches
    op: str = ""


def of_producer(name, producer, inputs, attrs, kinds):
    """A GraphDef of that producer, in which a node `y` of an op that newer graphs may not have takes placeholders x0,
    x1, ...; kinds: its types."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.producer = producer
    for i, value in enumerate(inputs):
        node = graph_def.node.add(name=f"x{i}", op="Placeholder")
        node.attr["dtype"].type = tf.as_dtype(tf.string if value.dtype == object else value.dtype).as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(value.shape).as_proto())
    node = graph_def.node.add(name="y", op=name, input=[f"x{i}" for i in range(len(inputs))])
    for attr, kind in kinds.items():
        node.attr[attr].type = tf.as_dtype(kind).as_datatype_enum
    for attr, value in attrs.items():
        setattr(node.attr[attr], {bool: "b", int: "i", float: "f"}[type(value)], value)
    return graph_def


class Draw:
    """The choices of one case."""

    def __init__(self, name, seed, number):
        self.op = name
        self.number = number
        self.random = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode()), number]))

    # Choices.
    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def int(self, low, high):
        """From low to high, both possible."""
        return int(self.random.integers(low, high + 1))

    def turn(self, choices, every=1):
        """In turn, case by case."""
        return choices[self.number // every % len(choices)]

    # Types.
    def dtype(self, attr="T", among=None):
        kinds = [t for t in registry.dtypes(self.op, attr) if among is None or t in among]
        return self.turn(kinds)

    def types(self, first="T"):
        """Types for all type attributes, such that TensorFlow has a kernel; `first` goes in turn."""
        combinations = registry.combinations(self.op)
        wanted = self.dtype(first)
        return self.pick([c for c in combinations if c[first] == wanted])

    # Shapes.
    def shape(self, low=0, high=4, empty=0.08, large=0.04):
        """A shape of low to high dimensions, sometimes empty or larger."""
        rank = self.int(low, high)
        dims = [self.int(1, 5 if rank < 3 else 4 if rank < 4 else 3) for _ in range(rank)]
        if rank and self.chance(empty):
            dims[self.int(0, rank - 1)] = 0
        elif rank and self.chance(large):
            dims = [1] * rank
            dims[self.int(0, rank - 1)] = self.pick([7, 13, 17])
            dims[self.int(0, rank - 1)] *= self.pick([9, 31, 33])
        return tuple(dims)

    def broadcast(self, count=2, high=4):
        """Shapes that broadcast against each other."""
        full = self.shape(0, high)
        shapes = []
        for _ in range(count):
            dims = [1 if self.chance(0.2) else dim for dim in full]
            shapes.append(tuple(dims[self.int(0, len(dims)) if self.chance(0.3) else 0:]))
        return shapes

    # Values.
    def tensor(self, dtype, shape=(), low=None, high=None, special=0.3):
        """Random elements: in [low, high) where given, else of several sizes; floats with special values among them."""
        dtype = tf.as_dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if dtype == tf.string:
            return self._strings(count).reshape(shape)
        if dtype == tf.bool:
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.is_quantized:
            return self.quantized(dtype, shape)
        if dtype.is_integer:
            return self._integers(dtype, shape, low, high)
        values = self._reals(shape, low, high, special)
        if dtype.is_complex:
            with np.errstate(all="ignore"):
                values = values + 1j * self._reals(shape, low, high, special)
        with np.errstate(all="ignore"):
            return np.asarray(values).astype(dtype.as_numpy_dtype)

    def quantized(self, dtype, shape, low=None, high=None):
        """Random integers as quantized numbers: all of the type's, or those in [low, high]."""
        plain = np.dtype(dtype.as_numpy_dtype)[0]
        limits = np.iinfo(plain)
        low, high = (limits.min if low is None else low), (limits.max if high is None else high)
        return np.asarray(self.random.integers(low, high, shape, dtype=plain, endpoint=True)).view(dtype.as_numpy_dtype)

    def _strings(self, count):
        words = [
            b"",
            b"a",
            b"tensor",
            b"\x00\xff",
            "gr\u00fc\u00df \u4e16".encode(),
            b"a longer text, longer than any cell that keeps it inside",
        ]
        values = np.empty(count, dtype=object)
        for i in range(count):
            values[i] = self.pick(words) + (bytes([self.int(97, 122)]) if self.chance(0.5) else b"")
        return values

    def _integers(self, dtype, shape, low, high):
        least, most = int(dtype.min), int(dtype.max)
        if low is not None:
            return self.random.integers(max(low, least), min(high, most + 1), shape, dtype=np.int64).astype(
                dtype.as_numpy_dtype
            )
        if self.chance(0.15):
            return self.random.integers(least, most, shape, dtype=dtype.as_numpy_dtype, endpoint=True)
        size = self.pick([3, 10, 100])
        return self.random.integers(max(-size, least), min(size, most) + 1, shape).astype(dtype.as_numpy_dtype)

    def _reals(self, shape, low, high, special):
        if low is not None:
            return self.random.uniform(low, high, shape)
        values = self.random.normal(size=shape) * self.pick([0.1, 1, 1, 1, 3, 30])
        if self.chance(0.15):
            values = np.round(values * 2) / 2
        if self.chance(special):
            odd = self.random.choice(SPECIALS, shape)
            values = np.where(self.random.random(shape) < self.pick([0.1, 0.5]), odd, values)
        return values

    def given(self, value):
        """The value as it is fed, or as a constant of the graph: what an op looks at before it runs."""
        return Const(np.asarray(value)) if self.chance(0.5) else np.asarray(value)

    def ints(self, values, dtype=tf.int32):
        """A list of numbers, fed or constant."""
        return self.given(np.array(values, tf.as_dtype(dtype).as_numpy_dtype))

    def axes(self, rank, dtype=tf.int32):
        """Some axes, each at most once, some counted from behind."""
        chosen = self.random.permutation(rank)[: self.int(0, rank)]
        return np.array([a - rank if self.chance(0.3) else a for a in chosen], dtype.as_numpy_dtype)


def draw(name, seed, number):
    """Case `number` of an op. About one in eight is disturbed, and mostly refused."""
    d = Draw(name, seed, number)
    case = GENERATORS[name].draw(d)
    case.op = name
    if isinstance(case, Case):
        case.seed = d.int(0, 2**31)
        if case.blind is None:
            case.blind = d.chance(0.15)
        if d.chance(0.12) and case.disturb:
            _disturb(d, case)
    return case


def _disturb(d, case):
    """Another dimension, one too many or one too few, or a number that is no index."""
    places = [(i, None) for i, one in enumerate(case.inputs) if not isinstance(one, list)]
    places += [(i, k) for i, one in enumerate(case.inputs) if isinstance(one, list) for k in range(len(one))]
    if not places:
        return
    i, k = d.pick(places)
    holder = case.inputs[i] if k is None else case.inputs[i][k]
    value = holder.value if isinstance(holder, (Const, Variable)) else holder
    if value.dtype in (np.int32, np.int64) and value.size and d.chance(0.6):
        value = value.copy()
        value.flat[d.int(0, value.size - 1)] = d.pick([-1, -2, 0, 1, 2, 3, 5, 7, 100, -100])
    else:
        value = _reshaped(d, value)
    if isinstance(holder, Variable) and not value.size:
        return  # which TensorFlow takes for assigned
    if isinstance(holder, (Const, Variable)):
        value = dataclasses.replace(holder, value=value)
    if k is None:
        case.inputs[i] = value
    else:
        case.inputs[i][k] = value


def _reshaped(d, value):
    dims = list(value.shape)
    how = d.int(0, 3)
    if how == 0 or not dims:
        dims.insert(d.int(0, len(dims)), d.pick([1, 2]))
    elif how == 1:
        dims.pop(d.int(0, len(dims) - 1))
    else:
        place = d.int(0, len(dims) - 1)
        dims[place] = max(0, dims[place] + d.pick([-1, 1, 2])) if how == 2 else 0
    return np.resize(value, dims) if value.size else d.tensor(tf.as_dtype(value.dtype), dims, special=0)
