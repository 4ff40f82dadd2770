# SPDX-License-Identifier: Apache-2.0
"""Cases of the math package."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op

# What is drawn for the elements where any number would do too little: a range of reals.
RANGES = {"Log": (0.01, 20), "Sqrt": (0, 50), "Rsqrt": (0.01, 50), "Log1p": (-0.9, 20)}


@op(
    "Abs",
    "Ceil",
    "Cos",
    "Erf",
    "Exp",
    "Expm1",
    "Floor",
    "IsFinite",
    "IsNan",
    "Log",
    "Log1p",
    "LogicalNot",
    "Neg",
    "Reciprocal",
    "Round",
    "Rsqrt",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sqrt",
    "Square",
    "Tanh",
)
def unary(d):
    # Round of integers is zeros in TensorFlow, which no one can mean.
    t = tf.bool if d.op == "LogicalNot" else d.dtype(among=registry.FLOATS if d.op == "Round" else None)
    low, high = RANGES.get(d.op, (None, None)) if t.is_floating and d.chance(0.6) else (None, None)
    x = d.tensor(t, d.shape(), low, high)
    if d.op == "Erf" and t == tf.float64:
        x[np.isinf(x)] = 3  # of which TensorFlow makes NaN
    return Case([x])


@op(
    "Add",
    "AddV2",
    "Sub",
    "Mul",
    "Maximum",
    "Minimum",
    "SquaredDifference",
    "RealDiv",
    "Div",
    "FloorDiv",
    "FloorMod",
    "DivNoNan",
    "Less",
    "LessEqual",
    "Greater",
    "GreaterEqual",
    "LogicalAnd",
    "LogicalOr",
)
def binary(d):
    t = tf.bool if d.op.startswith("Logical") else d.dtype()
    x, y = d.broadcast()
    divisor = d.tensor(t, y)
    if "Div" in d.op or "Mod" in d.op:
        if t.is_integer and not d.chance(0.1):
            divisor[divisor == 0] = 3
    return Case([d.tensor(t, x), divisor])


@op("Equal", "NotEqual")
def equality(d):
    t = d.dtype()
    x, y = d.broadcast()
    attrs = {}
    if d.chance(0.2):
        attrs["incompatible_shape_error"] = False
        y = d.pick([y, d.shape()])
    first, second = d.tensor(t, x), d.tensor(t, y)
    if x == y and d.chance(0.5):
        second = first.copy()
    return Case([first, second], attrs)


@op("Pow")
def power(d):
    t = d.dtype()
    x, y = d.broadcast()
    if t.is_integer:
        return Case([d.tensor(t, x, -5, 6), d.tensor(t, y, -1 if d.chance(0.1) else 0, 6)])
    if d.chance(0.5):
        return Case([d.tensor(t, x, 0.01, 4), d.tensor(t, y, -3, 3)])
    return Case([d.tensor(t, x), d.tensor(t, y)])


@op("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad")
def gradient_of_unary(d):
    """(the function's value, the gradient), of one shape."""
    t = d.dtype()
    shape = d.shape()
    value = d.tensor(t, shape, 0.1, 2) if t.is_floating and d.chance(0.5) else d.tensor(t, shape)
    return Case([value, d.tensor(t, shape)])


@op("Conj")
def one_complex(d):
    return Case([d.tensor(d.dtype(), d.shape())])


@op("Sum", "Mean", "Prod", "Max", "Min", "All", "Any")
def reduction(d):
    types = d.types("Tidx") if d.op in ("All", "Any") else d.types()
    t = types.get("T", tf.bool)
    shape = d.shape(0, 5)
    axes = d.axes(len(shape), types["Tidx"])
    if len(axes) == 1 and d.chance(0.3):
        axes = axes[0]
    if len(shape) and d.chance(0.04):
        axes = np.array([0, 0 if d.chance(0.5) else -len(shape)], axes.dtype)
    low, high = (
        ((0.5, 1.5) if d.op == "Prod" and d.chance(0.7) else (None, None))
        if t not in registry.INTEGERS
        else (None, None)
    )
    x = d.tensor(t, shape, low, high)
    # Where an element is infinite the product of the others is not the product divided by it, as our gradient has it.
    finite = d.op != "Prod" or t in registry.INTEGERS or bool(np.isfinite(x.astype(np.complex128)).all())
    return Case([x, d.given(axes)], {"keep_dims": d.chance(0.4)}, gradients=finite)


@op("ArgMax", "ArgMin")
def arg(d):
    types = {**d.types()}
    if types["Tidx"] == tf.int16:
        types["Tidx"] = tf.int32  # of int16 TensorFlow reads two bytes too many
    shape = d.shape(1, 4)
    axis = d.int(-len(shape), len(shape) - 1)
    # Several largest elements: the first counts. NaN is passed over.
    x = d.tensor(types["T"], shape)
    return Case([x, d.given(np.array(axis, types["Tidx"].as_numpy_dtype))], {"output_type": types["output_type"]})


@op("AddN")
def add_n(d):
    t, shape = d.dtype(), d.shape()
    return Case([[d.tensor(t, shape, special=0.1) for _ in range(d.int(1, 9))]])


@op("Cast", count=420)
def cast(d):
    """From and to each type; numbers that the target does not hold have no one answer."""
    kinds = [t for t in registry.PLAIN if t != tf.string]
    if d.number >= 300:
        return cast_of_bytes(d, kinds)
    source, target = d.turn(kinds), d.turn(kinds, len(kinds))
    shape = d.shape()
    if target in registry.INTEGERS:
        most = min(int(target.max), 1000)
        low, high = (0 if target.is_unsigned else -most), most
        x = (
            d.tensor(source, shape, max(low, 0) if source.is_unsigned else low, high, special=0)
            if source != tf.bool
            else d.tensor(source, shape)
        )
    else:
        x = d.tensor(source, shape)
    return Case([x], {"DstT": target, "Truncate": target in registry.FLOATS and d.chance(0.3)})


def cast_of_bytes(d, kinds):
    """Quantized numbers are the integers that stand for them; eight-bit floats are rounded once."""
    quantized, floats = [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32], [
        tf.dtypes.experimental.float8_e5m2,
        tf.dtypes.experimental.float8_e4m3fn,
    ]
    shape = d.shape()
    if d.number % 2 == 0:
        source, target = d.pick(quantized), d.pick(kinds + quantized)
        limits = [
            np.iinfo(np.dtype(t.as_numpy_dtype)[0] if t.is_quantized else t.as_numpy_dtype)
            for t in (source, target)
            if t.is_quantized or t in registry.INTEGERS
        ]
        low, high = max(-1000, *(int(one.min) for one in limits), -1000), min(
            1000, *(int(one.max) for one in limits), 1000
        )
        x = d.quantized(source, shape, low, high)
    elif d.chance(0.7):
        source, target = d.pick(list(registry.FLOATS) + floats), d.pick(floats)
        x = d.tensor(source, shape)
    else:
        source, target = d.pick(floats), d.pick([t for t in kinds if t not in registry.INTEGERS])
        x = d.tensor(source, shape)
    return Case([x], {"DstT": target}, differentiated=())  # TensorFlow differentiates none of them


@op("CheckNumerics")
def check_numerics(d):
    return Case([d.tensor(d.dtype(), d.shape(), special=0.3)], {"message": d.pick(["bad", "", "two words"])})


@op("MatMul")
def matmul(d):
    t = d.dtype()
    m, k, n = (d.pick([0, 1, 2, 3, 5, 8, 17, 33]) if d.chance(0.9) else 64 for _ in range(3))
    attrs = {name: d.chance(0.4) for name in ("transpose_a", "transpose_b")}
    a = d.tensor(t, (k, m) if attrs["transpose_a"] else (m, k), special=0.1)
    return Case([a, d.tensor(t, (n, k) if attrs["transpose_b"] else (k, n), special=0)], attrs)


@op("BatchMatMulV2")
def batch_matmul(d):
    t = d.dtype()
    m, k, n = (d.pick([0, 1, 2, 3, 5, 9]) if d.chance(0.95) else 24 for _ in range(3))
    x, y = d.broadcast(high=3)
    attrs = {name: d.chance(0.4) for name in ("adj_x", "adj_y")}
    return Case([d.tensor(t, x + ((k, m) if attrs["adj_x"] else (m, k)), special=0.1),
                 d.tensor(t, y + ((n, k) if attrs["adj_y"] else (k, n)), special=0)], attrs)


@op("SegmentSum")
def segments(d):
    types = d.types()
    shape = d.shape(1, 3)
    ids = np.sort(d.tensor(types["Tindices"], shape[:1], 0, d.pick([1, 3, 6])))
    if d.chance(0.1):
        ids = ids[::-1].copy()
    return Case([d.tensor(types["T"], shape, special=0.1), ids])


@op("UnsortedSegmentSum")
def unsorted_segments(d):
    types = d.types()
    shape = d.shape(0, 3)
    count = d.pick([0, 1, 3, 6])
    ids = d.tensor(types["Tindices"], shape[:d.int(0, len(shape))], -1, max(1, count) + (1 if d.chance(0.1) else 0))
    return Case(
        [d.tensor(types["T"], shape, special=0.1), ids, d.given(np.array(count, types["Tnumsegments"].as_numpy_dtype))]
    )
