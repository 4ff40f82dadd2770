# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, and matrices factored, inverted, solved; diagonals."""
import numpy as np

from .inputs import case, cases

cases("MatMul", lambda i: [i.square(), i.square()])
case("MatMul, transposed", lambda i: [i.square(), i.square()], transpose_b=True)
case("MatMul, a vector", lambda i: [i.floats((1, i.shape("matrix")[0])), i.matrix()])
case(
    "MatMul, double",
    lambda i: [
        i.floats((i.pick(4, 96, 384),) * 2, dtype=np.float64),
        i.floats((i.pick(4, 96, 384),) * 2, dtype=np.float64),
    ],
)
case("MatMul, int32", lambda i: [i.ints((i.pick(4, 64, 192),) * 2, 99), i.ints((i.pick(4, 64, 192),) * 2, 99)])
case("MatMul, complex", lambda i: [i.complexes((i.pick(4, 64, 192),) * 2), i.complexes((i.pick(4, 64, 192),) * 2)])
case(
    "MatMul, half",
    lambda i: [
        i.floats((i.pick(4, 96, 384),) * 2, dtype=np.float16),
        i.floats((i.pick(4, 96, 384),) * 2, dtype=np.float16),
    ],
)


def batches(i):
    return [i.floats((8, i.shape("square") // 4, i.shape("square") // 4)) for _ in range(2)]


cases("BatchMatMul BatchMatMulV2", batches)
cases("BatchMatMulV3", batches, Tout=np.float32)
case(
    "Einsum, bij,bkj->bik",
    lambda i: [[i.floats((4, i.shape("square") // 4, 16)), i.floats((4, i.shape("square") // 4, 16))]],
    equation="bij,bkj->bik",
)
case(
    "Einsum, abc,cd->abd",
    lambda i: [[i.floats((4, i.shape("square") // 4, 16)), i.floats((16, i.shape("square") // 4))]],
    equation="abc,cd->abd",
)
case("Einsum, ij->ji", lambda i: [[i.matrix()]], equation="ij->ji")
case("Einsum, ij->i", lambda i: [[i.matrix()]], equation="ij->i")


def matrix(i, dims=(), side=None, dtype=np.float32):
    """Led by its diagonal."""
    side = side or i.shape("side")
    values = i.reals((*dims, side, side), dtype=np.float64) / side + 2 * np.eye(side)
    return values.astype(dtype)


def positive(i, dims=(), dtype=np.float32):
    values = matrix(i, dims, dtype=np.float64)
    return (values @ np.swapaxes(values, -1, -2)).astype(dtype)


def many(i):
    """How many small matrices stand in for one large."""
    return (i.pick(2, 8, 64),)


def hand_side(i, dims=()):
    return i.floats((*dims, i.shape("side"), 8))


cases("MatrixInverse MatrixDeterminant LogMatrixDeterminant Lu Qr", lambda i: [i.read(matrix(i))])
cases("MatrixLogarithm", lambda i: [i.read(matrix(i, side=i.pick(4, 16, 64), dtype=np.complex64))])
cases("MatrixSquareRoot", lambda i: [i.read(matrix(i, side=i.pick(4, 32, 96)))])
case(
    "MatrixInverse, double; MatrixDeterminant, double; Qr, double; Lu, double",
    lambda i: [i.read(matrix(i, dtype=np.float64))],
)
case(
    "MatrixInverse, many of 16; MatrixDeterminant, many of 16; Qr, many of 16; Lu, many of 16",
    lambda i: [i.read(matrix(i, many(i), 16))],
)
case("Qr, tall", lambda i: [i.floats((4 * i.shape("side"), i.shape("side")))])
cases("Cholesky SelfAdjointEig", lambda i: [i.read(positive(i))])
case("Cholesky, double", lambda i: [i.read(positive(i, dtype=np.float64))])
cases("SelfAdjointEigV2", lambda i: [i.read(positive(i))])
case("SelfAdjointEigV2, values alone", lambda i: [i.read(positive(i))], compute_v=False)
cases("Eig", lambda i: [i.read(matrix(i, side=i.pick(4, 32, 96)))], Tout=np.complex64)
cases("Svd", lambda i: [i.read(matrix(i, side=i.pick(4, 32, 96)))])
case("Svd, values alone", lambda i: [i.read(matrix(i, side=i.pick(4, 32, 96)))], compute_uv=False)
case("Svd, tall", lambda i: [i.floats(i.pick((8, 4), (128, 32), (512, 64)))])
cases("CholeskyGrad", lambda i: [i.read(np.tril(matrix(i))), i.read(matrix(i))])
cases("MatrixSolve", lambda i: [i.read(matrix(i)), hand_side(i)])
cases("MatrixTriangularSolve", lambda i: [i.read(matrix(i)), hand_side(i)])
case("MatrixTriangularSolve, one matrix for many", lambda i: [i.read(matrix(i)), hand_side(i, (4,))])
case(
    "MatrixSolveLs",
    lambda i: [i.floats((2 * i.shape("side"), i.shape("side"))), i.floats((2 * i.shape("side"), 8)), np.float64(0.1)],
)
case(
    "MatrixSolveLs, orthogonal",
    lambda i: [i.floats((2 * i.shape("side"), i.shape("side"))), i.floats((2 * i.shape("side"), 8)), np.float64(0)],
    fast=False,
)


def bands(i, lower=True):
    values = i.reals((3, i.pick(4, 256, 4096)), -0.4, 0.4)
    values[0 if lower else -1] += 2
    return values


cases("BandedTriangularSolve", lambda i: [i.read(bands(i)), i.floats((i.pick(4, 256, 4096), 8))])
cases(
    "TridiagonalSolve",
    lambda i: [
        i.read(i.reals((3, i.pick(4, 256, 4096)), -0.4, 0.4) + np.array([[0], [2], [0]], np.float32)),
        i.floats((i.pick(4, 256, 4096), 8)),
    ],
)
cases(
    "TridiagonalMatMul",
    lambda i: [*(i.floats((1, i.pick(4, 256, 4096))) for _ in range(3)), i.floats((i.pick(4, 256, 4096), 64))],
)
cases("Cross", lambda i: [i.floats((i.pick(4, 8192, 262144), 3)), i.floats((i.pick(4, 8192, 262144), 3))])

# Diagonals.
cases("Diag MatrixDiag", lambda i: [i.floats((i.shape("square"),))])
cases("DiagPart MatrixDiagPart", lambda i: [i.square()])
case("MatrixDiag, many", lambda i: [i.floats((i.pick(2, 16, 256), i.pick(4, 64, 96)))])
cases("MatrixSetDiag", lambda i: [i.square(), i.floats((i.shape("square"),))])
cases(
    "MatrixDiagV2 MatrixDiagV3",
    lambda i: [
        i.floats((3, i.shape("square"))),
        np.array([-1, 1], np.int32),
        np.int32(-1),
        np.int32(-1),
        np.float32(0),
    ],
)
cases("MatrixDiagPartV2 MatrixDiagPartV3", lambda i: [i.square(), np.array([-1, 1], np.int32), np.float32(0)])
cases(
    "MatrixSetDiagV2 MatrixSetDiagV3",
    lambda i: [i.square(), i.floats((3, i.shape("square"))), np.array([-1, 1], np.int32)],
)
