# SPDX-License-Identifier: Apache-2.0
"""Cases of the math package: bits, angles, complex parts, rarer arithmetic, special functions."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op

# What is drawn for the elements where any number would do too little.
RANGES = {"Asin": (-1, 1), "Acos": (-1, 1), "Acosh": (1, 30), "Atanh": (-1, 1)}


@op(
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Cosh",
    "Inv",
    "Invert",
    "PopulationCount",
    "Rint",
    "Selu",
    "Sinh",
    "Softsign",
    "Tan",
)
def unary(d):
    t = d.dtype()
    low, high = RANGES.get(d.op, (None, None)) if t.is_floating and d.chance(0.7) else (None, None)
    # Of small halves TensorFlow's Selu is 0, where its gradient jumps.
    return Case([d.tensor(t, d.shape(), low, high)], gradients=d.op != "Selu" or t.size > 2)


@op("SeluGrad", "SoftsignGrad", "InvGrad")
def gradient_of_unary(d):
    t, shape = d.dtype(), d.shape()
    return Case([d.tensor(t, shape), d.tensor(t, shape)])


@op("Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "NextAfter", "Xlog1py")
def binary(d):
    t = d.dtype()
    x, y = d.broadcast()
    first, second = d.tensor(t, x), d.tensor(t, y)
    if d.op == "Xlog1py" and d.chance(0.6):
        second = d.tensor(t, y, -0.9, 20)
    return Case([first, second])


@op("Mod", "TruncateMod", count=60)
def remainder(d):
    t = d.dtype()
    x, y = d.broadcast()
    divisor = d.tensor(t, y)
    if t.is_integer and not d.chance(0.1):
        divisor[divisor == 0] = 3
    if not t.is_integer and divisor.size and d.chance(0.2):
        divisor.flat[0] = d.pick([np.inf, -np.inf])
    return Case([d.tensor(t, x), divisor])


@op("LeftShift", "RightShift")
def shift(d):
    t = d.dtype()
    x, y = d.broadcast()
    return Case([d.tensor(t, x), d.tensor(t, y, -3, 8 * t.size + 3) if d.chance(0.8) else d.tensor(t, y)])


@op("Real", "Imag", "Angle", "ComplexAbs")
def part(d):
    t = d.dtype()
    return Case([d.tensor(t, d.shape())], {"Tout": tf.float32 if t == tf.complex64 else tf.float64})


@op("Complex")
def of_parts(d):
    t = d.dtype()
    x, y = d.broadcast()
    return Case([d.tensor(t, x), d.tensor(t, y)], {"Tout": tf.complex64 if t == tf.float32 else tf.complex128})


@op("ConjugateTranspose")
def transpose(d):
    """TensorFlow dies of strings."""
    t = d.dtype(among=[t for t in registry.PLAIN if t != tf.string])
    types = d.pick([c for c in registry.combinations(d.op) if c["T"] == t])
    shape = d.shape(0, 5)
    perm = d.random.permutation(len(shape)).astype(types["Tperm"].as_numpy_dtype)
    return Case([d.tensor(types["T"], shape, special=0.1), d.given(perm)])


@op("ApproximateEqual")
def nearly(d):
    t, shape = d.dtype(), d.shape()
    x = d.tensor(t, shape)
    y = x + d.tensor(t, shape, -0.02, 0.02) if d.chance(0.7) else d.tensor(t, shape)
    return Case([x, y.astype(x.dtype)], {"tolerance": d.pick([1e-5, 0.011, 0.3])})


@op("EuclideanNorm")
def norm(d):
    types = d.types()
    t, shape = types["T"], d.shape(0, 5)
    axes = d.axes(len(shape), types["Tidx"])
    low, high = (0, 5) if t in registry.INTEGERS else (None, None)
    return Case([d.tensor(t, shape, low, high, special=0.1), d.given(axes)], {"keep_dims": d.chance(0.4)})


@op("ClipByValue")
def clip(d):
    t = d.dtype(among=[t for t in registry.PLAIN if t not in registry.COMPLEX])
    shape = d.shape()
    bounds = [d.tensor(t, shape if d.chance(0.4) else (), special=0.1) for _ in range(2)]
    if shape == bounds[0].shape == bounds[1].shape and d.chance(0.7):
        bounds = [np.minimum(*bounds), np.maximum(*bounds)]
    return Case([d.tensor(t, shape, special=0.15), *bounds])


FUNCTIONS = {
    "Lgamma": (0.01, 40),
    "Digamma": (0.01, 40),
    "Ndtri": (0, 1),
    "Erfinv": (-0.97, 0.97),
    "Dawsn": (-15, 15),
    "Expint": (0, 60),
    "Spence": (0, 30),
    "FresnelSin": (-8, 8),
    "FresnelCos": (-8, 8),
    "BesselI0": (-10, 10),
    "BesselI0e": (-30, 30),
    "BesselI1": (-10, 10),
    "BesselI1e": (-30, 30),
    "BesselJ0": (-10, 10),
    "BesselJ1": (-10, 10),
    "BesselY0": (0, 20),
    "BesselY1": (0, 20),
    "BesselK0": (0, 20),
    "BesselK0e": (0, 30),
    "BesselK1": (0, 20),
    "BesselK1e": (0, 30),
}
# Of infinity TensorFlow makes NaN, where there is an answer.
NO_INFINITY = {
    "Expint",
    "Spence",
    "Digamma",
    "BesselI0",
    "BesselI0e",
    "BesselI1",
    "BesselI1e",
    "BesselJ0",
    "BesselJ1",
    "BesselY0",
    "BesselY1",
    "BesselK0",
    "BesselK0e",
    "BesselK1",
    "BesselK1e",
    "FresnelSin",
    "FresnelCos",
}


@op(*FUNCTIONS)
def special(d):
    t = d.dtype()
    low, high = FUNCTIONS[d.op] if d.chance(0.8) else (None, None)
    x = d.tensor(t, d.shape(), low, high)
    if d.op in NO_INFINITY:
        x[np.isinf(x)] = 3
    return Case([x])


@op("Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad", "Polygamma", "Zeta")
def special_of_two(d):
    t = d.dtype()
    x, y = d.broadcast()
    first, second = d.tensor(t, x, 0.05, d.pick([2, 20])), d.tensor(t, y, 0.05, d.pick([2, 20]))
    if d.op == "RandomGammaGrad":  # of samples that are very unlikely TensorFlow's float says 0
        first, second = d.tensor(t, x, 0.5, 6), d.tensor(t, y, 0.5, 6)
    if d.op == "Polygamma":
        first = np.floor(first).clip(0, 5)
    if d.op == "Zeta":
        first = first + np.asarray(1.05, first.dtype)
    if d.chance(0.1) and d.op != "RandomGammaGrad":
        second = d.tensor(t, y)
    return Case([first, second])


@op("Betainc")
def beta(d):
    t, shape = d.dtype(), d.shape()
    shapes = [() if d.chance(0.25) else shape for _ in range(3)]
    return Case(
        [
            d.tensor(t, shapes[0], 0.1, 8),
            d.tensor(t, shapes[1], 0.1, 8),
            d.tensor(t, shapes[2], 0, 1 if d.chance(0.9) else 1.3),
        ]
    )


@op("CumulativeLogsumexp")
def cumulative(d):
    """Of infinities that meet TensorFlow makes NaN, and it passes NaN over."""
    types = d.types()
    shape = d.shape(1, 4)
    axis = d.int(-len(shape), len(shape) - 1)
    x = d.tensor(types["T"], shape, special=0)
    return Case(
        [x, d.given(np.array(axis, types["Tidx"].as_numpy_dtype))],
        {"exclusive": d.chance(0.3), "reverse": d.chance(0.3)},
    )


@op("Bucketize")
def buckets(d):
    bounds = [float(np.float32(b)) for b in d.tensor(tf.float32, (d.int(0, 6),), -5, 5)]
    if not d.chance(0.1):
        bounds = sorted(bounds)
    if bounds and d.chance(0.3):
        bounds = sorted(float(np.round(b)) for b in bounds)
    return Case([d.tensor(d.dtype(), d.shape())], {"boundaries": bounds})


@op("HistogramFixedWidth")
def histogram(d):
    """Widths that are exact: to which side of an edge TensorFlow rounds depends on where a number stands in a
    vector."""
    types = d.types()
    t = types["T"]
    low, high = sorted(float(v) for v in d.tensor(tf.int32, (2,), -6, 7))
    if not d.chance(0.1):
        high += 1
    values = d.tensor(t, d.shape())
    if t.is_integer and d.chance(0.8):
        values = d.tensor(t, values.shape, -9, 10)
    if t.is_floating:
        values[np.isinf(values)] = 2
        if d.chance(0.8):
            values[np.isnan(values)] = 1
    bins = d.pick([1, 2, 4, 8])
    if t.is_floating and d.chance(0.4):
        values, bins = d.tensor(t, values.shape, -9, 9), d.int(1, 9)
    return Case(
        [values, np.array([low, high], t.as_numpy_dtype), d.ints(0 if d.chance(0.05) else bins)],
        {"dtype": types["dtype"]},
        disturb=False,
    )


@op("IsotonicRegression")
def isotonic(d):
    types = d.types()
    shape = d.shape(1, 3)
    t = types["T"]
    x = d.tensor(t, shape, -9, 10) if t.is_integer else d.tensor(t, shape, special=0)
    return Case(
        [x],
        {"output_dtype": types["output_dtype"]},
        gradients=lambda case: case.inputs[0].ndim == 2 and case.inputs[0].size > 0,
        differentiated=(0,),
    )


@op("AccumulateNV2")
def accumulate(d):
    t, shape = d.turn([tf.float32, tf.float64, tf.int32, tf.complex64]), d.shape()
    return Case(
        [[d.tensor(t, shape, special=0.1) for _ in range(d.int(1, 5))]], {"shape": tf.TensorShape(shape)}, disturb=False
    )
