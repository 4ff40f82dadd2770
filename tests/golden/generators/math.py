# SPDX-License-Identifier: Apache-2.0
"""Cases of the math package."""
import tensorflow as tf

from .draw import Case, op

# What is drawn for the elements where any number would do too little: a range of reals.
RANGES = {"Log": (0.01, 20), "Sqrt": (0, 50), "Rsqrt": (0.01, 50), "Log1p": (-0.9, 20)}


@op("Abs", "Ceil", "Cos", "Erf", "Exp", "Expm1", "Floor", "IsFinite", "IsNan", "Log", "Log1p", "LogicalNot", "Neg", "Reciprocal",
    "Round", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sqrt", "Square", "Tanh")
def unary(d):
    t = tf.bool if d.op == "LogicalNot" else d.dtype()
    low, high = RANGES.get(d.op, (None, None)) if t.is_floating and d.chance(0.6) else (None, None)
    return Case([d.tensor(t, d.shape(), low, high)])


@op("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "RealDiv", "Div", "FloorDiv", "FloorMod", "DivNoNan",
    "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr")
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
