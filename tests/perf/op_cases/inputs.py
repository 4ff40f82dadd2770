# SPDX-License-Identifier: Apache-2.0
"""What cases of ops are made of: their inputs, by size, and the list that they are entered in."""
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

SIZES = ("tiny", "medium", "large")
COPIES = {"tiny": 8, "medium": 8, "large": 1}
CASES = {}  # "Op" or "Op, words" -> a function of Inputs that adds the op to the graph and gives back its outputs

# Shapes by size: a matrix, one for functions that take a hundred times as long, a picture (batch, height, width,
# channels), a volume, the side of a square matrix for products, that of one for what takes the cube of it many times,
# the number of texts.
SHAPES = {
    "matrix": ((4, 4), (256, 256), (2048, 1024)),
    "slow": ((4, 4), (64, 64), (512, 256)),
    "picture": ((1, 4, 4, 4), (1, 28, 28, 64), (8, 56, 56, 64)),
    "volume": ((1, 4, 4, 4, 4), (1, 8, 16, 16, 16), (2, 16, 28, 28, 32)),
    "square": (4, 192, 768),
    "side": (4, 32, 192),
    "texts": (4, 1024, 32768),
}


class Inputs:
    """The inputs of one copy of an op: variables with values drawn from a seed, so that neither side folds them, and
    what is made of them."""

    def __init__(self, size, seed):
        self.size, self.random, self.before = size, np.random.default_rng(seed), []  # before: what runs once

    def pick(self, *by_size):
        return by_size[SIZES.index(self.size)]

    def shape(self, name):
        return self.pick(*SHAPES[name])

    # Variables.
    def made(self, value):
        variable = tf.compat.v1.get_variable(
            f"v{self.random.integers(1 << 60)}", initializer=tf.constant(value), use_resource=True
        )
        self.before.append(variable.initializer)
        return variable

    def handle(self, value):
        return self.made(value).handle

    def reference(self, value):
        variable = tf.compat.v1.get_variable(
            f"v{self.random.integers(1 << 60)}", initializer=tf.constant(value), use_resource=False
        )
        self.before.append(variable.initializer)
        return variable._ref()

    def read(self, value):
        return self.made(value).read_value()

    # Values.
    def reals(self, shape, low=-1.0, high=1.0, dtype=np.float32):
        return self.random.uniform(low, high, shape).astype(dtype)

    def rows(self, many, below):
        """Indices of rows, each once."""
        return np.sort(self.random.permutation(below)[:many])

    # Inputs.
    def floats(self, shape, low=-1.0, high=1.0, dtype=np.float32):
        return self.read(self.reals(shape, low, high, dtype))

    def ints(self, shape, high, low=0, dtype=np.int32):
        return self.read(self.random.integers(low, high, shape).astype(dtype))

    def complexes(self, shape, dtype=np.complex64):
        return self.read((self.reals(shape) + 1j * self.reals(shape)).astype(dtype))

    def quantized(self, shape, kind=tf.quint8):
        plain = {tf.quint8: np.uint8, tf.qint8: np.int8, tf.qint32: np.int32}[kind]
        info = np.iinfo(plain)
        return tf.raw_ops.Bitcast(
            input=self.ints(shape, min(info.max, 1 << 20), max(info.min, -(1 << 20)), plain), type=kind
        )

    def matrix(self, low=-1.0, high=1.0, dtype=np.float32):
        return self.floats(self.shape("matrix"), low, high, dtype)

    def slow(self, low=-1.0, high=1.0, dtype=np.float32):
        return self.floats(self.shape("slow"), low, high, dtype)

    def picture(self, low=-1.0, high=1.0):
        return self.floats(self.shape("picture"), low, high)

    def volume(self):
        return self.floats(self.shape("volume"))

    def square(self):
        return self.floats((self.shape("square"),) * 2)

    def words(self, shape, low=3, high=24, alphabet="abcdefghij ,0123456789"):
        """Texts of some letters."""
        letters = np.array([one.encode() for one in alphabet], object)
        count = int(np.prod(shape))
        texts = np.empty(count, object)
        texts[:] = [
            b"".join(letters[self.random.integers(0, len(letters), self.random.integers(low, high))])
            for _ in range(count)
        ]
        return texts.reshape(shape)

    def texts(self, **more):
        return self.read(self.words((self.shape("texts"),), **more))

    def sparse(self, shape=None, density=0.05, values=None):
        """Places, values and the shape of a sparse tensor: a matrix, if nothing is said."""
        shape = shape or self.shape("matrix")
        count = max(2, int(np.prod(shape) * density))
        places = np.stack(np.unravel_index(self.rows(count, int(np.prod(shape))), shape), -1).astype(np.int64)
        return [
            self.read(places),
            self.read(self.reals((count,)) if values is None else values(count)),
            np.array(shape, np.int64),
        ]


# Where raw_ops has newer names than the op.
RENAMED = {
    "Select": ["condition", "x", "y"],
    "Where": ["condition"],
    "Split": ["axis", "value"],
    "SplitV": ["value", "size_splits", "axis"],
}


def call(name, inputs, attrs):
    """An op by its inputs in order."""
    arguments = [argument.name for argument in op_def_registry.get(name).input_arg]
    arguments = RENAMED.get(name, ["axis" if one == "reduction_indices" else one for one in arguments])
    given = dict(zip(arguments, inputs, strict=True))
    if not hasattr(tf.raw_ops, name):
        return op_def_library.apply_op(name, **given, **attrs)
    return getattr(tf.raw_ops, name)(**given, **attrs)


def case(names, inputs, **attrs):
    """Enters ops (names with words behind a comma, parted by semicolons) by a function of Inputs that gives their
    inputs in order; attributes that are functions are asked with the Inputs too."""
    for name in names.split("; "):
        def build(i, op=name.split(",")[0]):
            given = inputs(i)
            return call(op, given, {key: value(i) if callable(value) else value for key, value in attrs.items()})
        if name in CASES:
            raise ValueError(f"{name} is there twice")
        CASES[name] = build


def cases(names, inputs, **attrs):
    """The same with the ops' names parted by spaces."""
    case("; ".join(names.split()), inputs, **attrs)


CASES["(a step)"] = lambda i: i.matrix()
