# SPDX-License-Identifier: Apache-2.0
"""Cases of the linalg package. Matrices are drawn so that what is asked of them is no matter of their last digits: near
the identity, with eigenvalues apart.

Where a factor is unique but for signs or phases, a program multiplies the factors together again, by a function of the
values that lie between them.
"""

import numpy as np
import tensorflow as tf

from .draw import Case, Program, of_producer, op

raw = tf.raw_ops


def batch(d):
    return d.pick([(), (), (2,), (3,), (2, 2), (1,), (0,)])


def side(d):
    return d.pick([0, 1, 1, 2, 2, 3, 3, 4, 5]) if d.chance(0.97) else 12


def near_identity(d, dtype, shape):
    """Rows that each are led by their diagonal."""
    values = d.tensor(dtype, shape, -1, 1) / max(shape[-1], 1)
    values = values + d.pick([1, -1, 2]) * np.eye(shape[-2], shape[-1])
    return values.astype(tf.as_dtype(dtype).as_numpy_dtype)


def square(d, dtype, dims=None):
    n = side(d)
    matrix = near_identity(d, dtype, ((*(batch(d) if dims is None else dims), n, n)))
    if n and matrix.size and d.chance(0.08):
        matrix[..., d.int(0, n - 1), :] = 0  # of which there is no inverse
    return matrix


def hermitian(d, dtype, shape):
    """Eigenvalues apart from each other, from 1 on, and vectors that lie anywhere."""
    n = shape[-1]
    values = d.tensor(dtype, shape, -1, 1)
    vectors = (
        np.linalg.qr(values.astype(np.complex128 if np.iscomplexobj(values) else np.float64))[0]
        if values.size
        else values
    )
    between = np.arange(1, n + 1) + d.tensor(tf.float64, (*shape[:-2], n), 0, 0.4)
    return (vectors * between[..., None, :] @ np.conj(np.swapaxes(vectors, -1, -2))).astype(values.dtype)


def rectangle(d, dtype, shape):
    """Singular values apart from each other, from 1 on."""
    values = d.tensor(dtype, shape, -1, 1)
    if not values.size:
        return values
    u, s, v = np.linalg.svd(
        values.astype(np.complex128 if np.iscomplexobj(values) else np.float64), full_matrices=False
    )
    between = np.arange(s.shape[-1], 0, -1) + d.tensor(tf.float64, s.shape, 0, 0.4)
    return ((u * between[..., None, :]) @ v).astype(values.dtype)


def rhs_of(d, dtype, dims, rows):
    return d.tensor(dtype, (*dims, rows, d.int(0 if d.chance(0.1) else 1, 3)), -2, 2)


# ---- One node ----

@op("MatrixInverse", count=50)
def inverse(d):
    return Case([square(d, d.dtype())], {"adjoint": d.chance(0.4)})


@op("MatrixDeterminant", "LogMatrixDeterminant", count=50)
def determinant(d):
    return Case([square(d, d.dtype())])


@op("Lu", count=40)
def lu(d):
    return Case([square(d, d.dtype())], {"output_idx_type": d.turn([tf.int32, tf.int64], 4)})


@op("MatrixSolve", count=50)
def solve(d):
    matrix = square(d, d.dtype())
    return Case([matrix, rhs_of(d, matrix.dtype, matrix.shape[:-2], matrix.shape[-1])], {"adjoint": d.chance(0.4)})


def _has_factor(case):
    """Else TensorFlow fills the lower triangle, of complex numbers with 0, and leaves what is above the diagonal
    unwritten."""
    matrix = case.inputs[0]
    if (
        matrix.ndim < 2
        or matrix.shape[-1] != matrix.shape[-2]
        or (matrix.shape[-1] == 1 and not np.iscomplexobj(matrix))
    ):
        return True
    try:
        np.linalg.cholesky(matrix.astype(np.complex128 if np.iscomplexobj(matrix) else np.float64))
    except np.linalg.LinAlgError:
        return False
    return True


@op("Cholesky", count=50)
def cholesky(d):
    n = side(d)
    matrix = hermitian(d, d.dtype(), (*batch(d), n, n))
    if n == 1 and not np.iscomplexobj(matrix) and d.chance(0.6):
        matrix[...] = d.pick([-1, -10, 0])
    if d.chance(0.2):
        matrix = np.tril(matrix)  # all that is read
    return Case([matrix], answered=_has_factor)


@op("CholeskyGrad", count=40)
def cholesky_grad(d):
    n = side(d)
    factor = near_identity(d, d.dtype(), (*batch(d), n, n))
    return Case(
        [np.tril(factor) if d.chance(0.5) else factor, d.tensor(factor.dtype, factor.shape, -2, 2)], disturb=False
    )


@op("MatrixTriangularSolve", count=60)
def triangular_solve(d):
    dtype, n, dims = d.dtype(), side(d), batch(d)
    matrix = near_identity(d, dtype, (*dims, n, n))
    if n and matrix.size and d.chance(0.06):
        matrix[..., d.int(0, n - 1), :] = 0
    others = dims[d.int(0, len(dims)):] if d.chance(0.3) else tuple(1 if d.chance(0.3) else dim for dim in dims)
    return Case([matrix, rhs_of(d, dtype, others, n)], {"lower": d.chance(0.5), "adjoint": d.chance(0.5)})


@op("BandedTriangularSolve", count=60)
def banded_solve(d):
    dtype, n, dims = d.dtype(), max(side(d), 1), batch(d)
    bands = d.tensor(dtype, (*dims, d.int(1, n), n), -0.5, 0.5)
    lower = d.chance(0.5)
    if bands.size:
        bands[..., 0 if lower else -1, :] += d.pick([1, -1, 2])
        if d.chance(0.06):
            bands[..., :, d.int(0, n - 1)] = 0
    others = dims[d.int(0, len(dims)):] if d.chance(0.2) else dims
    return Case([bands, rhs_of(d, dtype, others, n)], {"lower": lower, "adjoint": d.chance(0.5)}, disturb=d.chance(0.3))


@op("MatrixSolveLs", count=60)
def solve_ls(d):
    dtype, dims = d.dtype(), batch(d)
    matrix = rectangle(d, dtype, (*dims, side(d), side(d)))
    regularizer = np.float64(d.pick([0, 0, 0.1, 1, -1 if d.chance(0.2) else 0.5]))
    fast = d.chance(0.7)
    # TensorFlow's gradients are those of real numbers, and it writes nothing where there are no equations.
    return Case(
        [matrix, rhs_of(d, dtype, dims, matrix.shape[-2]), regularizer],
        {"fast": fast},
        gradients=fast and not dtype.is_complex,
        answered=lambda case: case.inputs[0].ndim < 2 or case.inputs[0].shape[-2] > 0,
    )


@op("MatrixLogarithm", count=30)
def logarithm(d):
    n = side(d)
    return Case([near_identity(d, d.dtype(), (*batch(d), n, n))])


@op("MatrixSquareRoot", count=40)
def square_root(d):
    n = min(side(d), 5)
    matrix = near_identity(d, d.dtype(), (*batch(d), n, n))
    return Case(
        [matrix @ matrix], gradients=not d.dtype().is_complex
    )  # TensorFlow's gradients are those of real numbers


def diagonals_of(d, dtype, dims, n):
    values = d.tensor(dtype, (*dims, 3, n), -1, 1)
    if values.size:
        values[..., 1, :] += d.pick([3, -3, 0])
    return values


@op("TridiagonalSolve", count=60)
def tridiagonal_solve(d):
    dtype, dims, n = d.dtype(), batch(d), side(d)
    values = diagonals_of(d, dtype, dims, n)
    if values.size and not dtype.is_complex and d.chance(0.06):
        values[..., :, d.int(0, n - 1)] = 0  # NaN, for which complex numbers of TensorFlow's have 0
    return Case(
        [values, rhs_of(d, dtype, dims, n)],
        {"partial_pivoting": d.chance(0.6), "perturb_singular": d.chance(0.1)},
        gradients=not dtype.is_complex,
    )  # TensorFlow's are those of real numbers


@op("TridiagonalMatMul", count=40)
def tridiagonal_product(d):
    dtype, dims, n = d.dtype(), batch(d), side(d)
    rows = [d.tensor(dtype, (*dims, 1, n), -2, 2) for _ in range(3)]
    return Case([*rows, rhs_of(d, dtype, dims, n)])


@op("Cross")
def cross(d):
    dtype, shape = d.dtype(), (*d.shape(0, 3), 3)
    return Case([d.tensor(dtype, shape), d.tensor(dtype, shape)])


# ---- Diagonals ----

def align(d):
    return {"align": d.pick(["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])} if d.op.endswith("V3") else {}


def band(d, rows, columns, inside=True):
    """lower and upper; now and then outside of the matrix, or the wrong way round."""
    lower, upper = (
        sorted((d.int(-rows + 1, columns - 1), d.int(-rows + 1, columns - 1))) if rows and columns else (0, 0)
    )
    if d.chance(0.04):
        lower, upper = d.pick([(-rows - 1, upper), (lower, columns), (upper + 1, lower)])
    if d.chance(0.35):
        upper = lower
    one = lower == upper and d.chance(0.7)
    return lower, upper, d.given(np.int32(lower) if one else np.array([lower, upper], np.int32))


def longest(rows, columns, lower, upper):
    return max(0, min(rows + min(upper, 0), columns - max(lower, 0)))


@op("MatrixDiag", "MatrixDiagPart")
def simple_diagonal(d):
    return Case([d.tensor(d.dtype(), d.shape(2 if d.op.endswith("Part") else 1, 4))])


@op("MatrixSetDiag")
def set_simple_diagonal(d):
    dtype, shape = d.dtype(), d.shape(2, 4)
    return Case([d.tensor(dtype, shape), d.tensor(dtype, (*shape[:-2], min(shape[-2:])))])


def packed_shape(dims, rows, columns, lower, upper):
    length = longest(rows, columns, lower, upper)
    return (*dims, length) if lower == upper else (*dims, max(upper - lower + 1, 0), length)


@op("MatrixDiagV2", "MatrixDiagV3", count=60)
def matrix_diag(d):
    dtype, (rows, columns) = d.dtype(), (d.int(1, 5), d.int(1, 5))
    lower, upper, k = band(d, rows, columns)
    shape = packed_shape(batch(d), rows, columns, lower, upper)
    sizes = [
        d.given(np.int32(size if d.chance(0.6) else -1 if d.chance(0.9) else d.int(0, 6))) for size in (rows, columns)
    ]
    # Where the second version is aligned LEFT_LEFT, TensorFlow's gradient of it is not.
    return Case(
        [d.tensor(dtype, shape), k, *sizes, d.tensor(dtype)],
        align(d),
        gradients=d.op.endswith("V3"),
        disturb=d.chance(0.4),
    )


@op("MatrixDiagPartV2", "MatrixDiagPartV3", count=60)
def matrix_diag_part(d):
    dtype, shape = d.dtype(), d.shape(2, 4)
    _, _, k = band(d, *shape[-2:])
    return Case(
        [d.tensor(dtype, shape), k, d.tensor(dtype)], align(d), gradients=d.op.endswith("V3"), disturb=d.chance(0.4)
    )


@op("MatrixSetDiagV2", "MatrixSetDiagV3", count=60)
def matrix_set_diag(d):
    dtype, shape = d.dtype(), d.shape(2, 4)
    lower, upper, k = band(d, *shape[-2:])
    return Case(
        [d.tensor(dtype, shape), d.tensor(dtype, packed_shape(shape[:-2], *shape[-2:], lower, upper)), k],
        align(d),
        gradients=d.op.endswith("V3"),
        disturb=d.chance(0.4),
    )


@op("Diag")
def diag(d):
    return Case([d.tensor(d.dtype(), d.shape(1, 3))])


@op("DiagPart")
def diag_part(d):
    shape = d.shape(1, 3, large=0)
    return Case([d.tensor(d.dtype(), (*shape, *shape))])


# ---- Factors multiplied together ----

def program(d, dtype, make, matrix, about, differentiable=True):
    """make(x) gives what is fetched, of this type; its gradients in x are asked for where there are any."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(matrix.dtype, matrix.shape, name="x")
        y = tf.identity(make(x), "y")
        if differentiable:
            weighted = tf.reduce_sum(y * tf.constant(d.tensor(dtype, y.shape, -1, 1)))
            tf.cast(weighted, dtype.real_dtype, "loss") if dtype.is_complex else tf.identity(weighted, "loss")
    return Program(graph, [({"x:0": matrix}, ["y:0"], [])], about, (["loss"], ["x"]) if differentiable else None)


def together(left, values, right):
    """Of values that are real, whatever their type."""
    squares = tf.square(tf.cast(values, values.dtype.real_dtype) if values.dtype.is_complex else values)
    return tf.matmul(left * tf.expand_dims(tf.cast(squares, left.dtype), -2), right, adjoint_b=True)


@op("Qr", count=60)
def qr(d):
    dtype, shape, full = d.dtype(), (*batch(d), side(d), side(d)), d.chance(0.4)
    matrix = rectangle(d, dtype, shape)
    if (
        dtype.is_complex and shape[-2] <= shape[-1]
    ):  # where it is for rounding to say whether the last element is real already
        return program(
            d,
            dtype,
            lambda x: tf.matmul(*raw.Qr(input=x, full_matrices=full)),
            matrix,
            f"factors of {shape[-2]} x {shape[-1]}, full: {full}",
        )
    # TensorFlow has gradients where it knows the shape, and where nothing completes q.
    return Case(
        [matrix],
        {"full_matrices": full},
        gradients=lambda case: not case.blind
        and case.inputs[0].ndim >= 2
        and not (full and case.inputs[0].shape[-2] > case.inputs[0].shape[-1]),
    )


@op("Svd", count=80)
def svd(d):
    dtype = d.dtype()
    matrix = rectangle(d, dtype, (*batch(d), side(d), side(d)))
    rows, columns = matrix.shape[-2:]
    values, full = d.chance(0.3), d.chance(0.3)

    def make(x):
        s, u, v = raw.Svd(input=x, compute_uv=not values, full_matrices=full)
        return s if values else together(u[..., :min(rows, columns)], s, v[..., :min(rows, columns)])
    return program(
        d,
        dtype,
        make,
        matrix,
        f"{rows} x {columns}, values alone: {values}, full: {full}",
        differentiable=values or not full or abs(rows - columns) <= 1,
    )


@op("SelfAdjointEigV2", count=60)
def self_adjoint(d):
    dtype, n = d.dtype(), side(d)
    matrix, values = hermitian(d, dtype, (*batch(d), n, n)), d.chance(0.3)

    def make(x):
        e, v = raw.SelfAdjointEigV2(input=x, compute_v=not values)
        return e if values else together(v, e, v)
    return program(d, dtype, make, matrix, f"{n} x {n}, values alone: {values}")


@op("Eig", count=60)
def eig(d):
    types = d.pick(
        [
            (tf.float32, tf.complex64),
            (tf.float64, tf.complex128),
            (tf.complex64, tf.complex64),
            (tf.complex128, tf.complex128),
        ]
    )
    n = min(side(d), 5)
    matrix = near_identity(d, types[0], (*batch(d), n, n))
    if matrix.size:
        matrix = matrix + np.diag(np.arange(1, n + 1)).astype(matrix.dtype)  # eigenvalues apart
    values = d.chance(0.3)

    def make(x):
        e, v = raw.Eig(input=x, compute_v=not values, Tout=types[1])
        if values:  # in no order
            return tf.stack([tf.reduce_sum(e, -1), tf.reduce_sum(tf.square(e), -1)])
        return tf.matmul(v * tf.expand_dims(tf.square(e), -2), raw.MatrixInverse(input=v))
    return program(d, types[1], make, matrix, f"{n} x {n}, values alone: {values}")


# ---- Ops of older graphs, which newer ones may not have ----

def old(d, producer, inputs, attrs, kinds):
    """One node `y` of d.op over placeholders, in a graph of that producer."""
    graph_def = of_producer(d.op, producer, inputs, attrs, kinds)
    fetch = "y:0"
    if d.op == "SelfAdjointEig":  # the first row: the vectors below it have any sign
        rank = inputs[0].ndim
        for name, numbers in (("begin", [0] * rank), ("size", [-1] * (rank - 2) + [1, -1])):
            node = graph_def.node.add(name=name, op="Const")
            node.attr["dtype"].type = tf.int32.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(numbers, tf.int32))
        node = graph_def.node.add(name="first", op="Slice", input=["y", "begin", "size"])
        node.attr["T"].type, node.attr["Index"].type, fetch = (
            tf.as_dtype(kinds["T"]).as_datatype_enum,
            tf.int32.as_datatype_enum,
            "first:0",
        )
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    return Program(
        graph,
        [({f"x{i}:0": value for i, value in enumerate(inputs)}, [fetch], [])],
        f"in a graph of producer {producer}",
    )


@op("MatrixExponential", count=40)
def exponential(d):
    dtype, n = d.dtype(), side(d)
    matrix = near_identity(d, dtype, (*batch(d), n, n)) * d.pick([0.1, 1, 3])
    return old(d, 20, [matrix.astype(tf.as_dtype(dtype).as_numpy_dtype)], {}, {"T": dtype})


@op("SelfAdjointEig", count=25)
def old_self_adjoint(d):
    dtype, n = d.dtype(), max(side(d), 1)
    return old(d, 10, [hermitian(d, dtype, (*batch(d), n, n))], {}, {"T": dtype})
