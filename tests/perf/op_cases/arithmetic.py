# SPDX-License-Identifier: Apache-2.0
"""Element by element: arithmetic, comparisons, bits, angles, complex numbers, casts."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

cases(
    "Relu Sigmoid Tanh Exp Neg Abs Square Softplus Elu Erf Floor Sin Ceil Cos Erfc Expm1 Rint Round Selu Sign Softsign Sinh Cosh Tan Atan Asinh Relu6 LeakyRelu "
    "IsFinite IsInf IsNan",
    lambda i: [i.matrix()],
)
cases("Log Sqrt Rsqrt Reciprocal Log1p Inv", lambda i: [i.matrix(0.1, 2)])
cases("Acos Asin Atanh Erfinv", lambda i: [i.matrix(-0.9, 0.9)])
cases("Acosh", lambda i: [i.matrix(1.1, 3)])
cases("Ndtri", lambda i: [i.matrix(0.01, 0.99)])
cases(
    "AddV2 Sub Mul Maximum SquaredDifference Greater FloorDiv RealDiv Add Div Minimum Less LessEqual GreaterEqual Equal NotEqual FloorMod Mod TruncateMod "
    "DivNoNan MulNoNan Xdivy Atan2 NextAfter ApproximateEqual",
    lambda i: [i.matrix(), i.matrix(0.5, 2)],
)
cases("Xlogy Xlog1py", lambda i: [i.matrix(), i.matrix(0.5, 2)])
cases("TruncateDiv", lambda i: [i.ints(i.shape("matrix"), 1000), i.ints(i.shape("matrix"), 30, 1)])
case(
    "FloorDiv, int32; FloorMod, int32; AddV2, int32; Mul, int32",
    lambda i: [i.ints(i.shape("matrix"), 1000, -1000), i.ints(i.shape("matrix"), 30, 1)],
)
case(
    "AddV2, double; Mul, double; RealDiv, double", lambda i: [i.matrix(dtype=np.float64), i.matrix(0.5, 2, np.float64)]
)
case("Exp, double; Tanh, double; Erf, double", lambda i: [i.matrix(dtype=np.float64)])
case("AddV2, half; Mul, half", lambda i: [i.matrix(dtype=np.float16), i.matrix(0.5, 2, np.float16)])
case("Tanh, half; Exp, half", lambda i: [i.matrix(dtype=np.float16)])
cases("Pow", lambda i: [i.matrix(0.5, 2), i.matrix()])
case("AddV2, a row to each", lambda i: [i.matrix(), i.floats(i.shape("matrix")[1:])])
case("Mul, a column to each", lambda i: [i.matrix(), i.floats((i.shape("matrix")[0], 1))])
cases("BiasAdd BiasAddV1", lambda i: [i.picture(), i.floats(i.shape("picture")[3:])])
cases("BiasAddGrad", lambda i: [i.picture()])
cases("SelectV2 Select", lambda i: [i.ints(i.shape("matrix"), 2, dtype=np.bool_), i.matrix(), i.matrix()])
case("Select, rows", lambda i: [i.ints(i.shape("matrix")[:1], 2, dtype=np.bool_), i.matrix(), i.matrix()])
case("AddN, of 4", lambda i: [[i.matrix() for _ in range(4)]])
cases("AccumulateNV2", lambda i: [[i.matrix() for _ in range(4)]], shape=lambda i: i.shape("matrix"))
cases("ClipByValue", lambda i: [i.matrix(), -0.5, 0.5])
cases("CheckNumerics CheckNumericsV2", lambda i: [i.matrix()], message="of this tensor")
cases(
    "EluGrad SeluGrad ReluGrad Relu6Grad LeakyReluGrad SigmoidGrad TanhGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad SoftplusGrad SoftsignGrad",
    lambda i: [i.matrix(), i.matrix(0.1, 0.9)],
)

# Bits, truths.
cases(
    "BitwiseAnd BitwiseOr BitwiseXor",
    lambda i: [i.ints(i.shape("matrix"), 1 << 30), i.ints(i.shape("matrix"), 1 << 30)],
)
cases("LeftShift RightShift", lambda i: [i.ints(i.shape("matrix"), 1 << 30), i.ints(i.shape("matrix"), 31)])
cases("Invert PopulationCount", lambda i: [i.ints(i.shape("matrix"), 1 << 30)])
case("PopulationCount, int64", lambda i: [i.ints(i.shape("matrix"), 1 << 60, dtype=np.int64)])
cases(
    "LogicalAnd LogicalOr",
    lambda i: [i.ints(i.shape("matrix"), 2, dtype=np.bool_), i.ints(i.shape("matrix"), 2, dtype=np.bool_)],
)
cases("LogicalNot", lambda i: [i.ints(i.shape("matrix"), 2, dtype=np.bool_)])

# Complex numbers.
cases("Complex", lambda i: [i.matrix(), i.matrix()])
cases("Real Imag Angle ComplexAbs Conj", lambda i: [i.complexes(i.shape("matrix"))])
case(
    "AddV2, complex; Mul, complex; RealDiv, complex",
    lambda i: [i.complexes(i.shape("matrix")), i.complexes(i.shape("matrix"))],
)
case("Exp, complex; Sqrt, complex; Tanh, complex; Log, complex", lambda i: [i.complexes(i.shape("slow"))])

# Types.
case("Cast, int32 to float", lambda i: [i.ints(i.shape("matrix"), 99)], DstT=tf.float32)
case("Cast, float to half", lambda i: [i.matrix()], DstT=tf.float16)
case("Cast, half to float", lambda i: [i.matrix(dtype=np.float16)], DstT=tf.float32)
case("Cast, float to bfloat16", lambda i: [i.matrix()], DstT=tf.bfloat16)
case("Cast, float to double", lambda i: [i.matrix()], DstT=tf.float64)
case("Cast, float to int64", lambda i: [i.matrix(-99, 99)], DstT=tf.int64)
case("Cast, uint8 to float", lambda i: [i.ints(i.shape("matrix"), 255, dtype=np.uint8)], DstT=tf.float32)
case("Cast, bool to float", lambda i: [i.ints(i.shape("matrix"), 2, dtype=np.bool_)], DstT=tf.float32)
case("Cast, float to bool", lambda i: [i.matrix()], DstT=tf.bool)
case("Bitcast, float to int32", lambda i: [i.matrix()], type=tf.int32)
cases("ZerosLike OnesLike", lambda i: [i.matrix()])
cases("Bucketize", lambda i: [i.matrix(0, 100)], boundaries=[float(x) for x in range(0, 100, 7)])
