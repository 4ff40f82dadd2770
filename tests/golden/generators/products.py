# SPDX-License-Identifier: Apache-2.0
"""Cases of the math package: Einsum, running sums, batches of products, and elementwise functions."""
import tensorflow as tf

from .draw import Case, op


@op("Erfc", "IsInf")
def unary(d):
    return Case([d.tensor(d.dtype(), d.shape())])


@op("MulNoNan", "Xdivy", "TruncateDiv")
def binary(d):
    x, y = d.broadcast()
    t = d.dtype()
    return Case([d.tensor(t, x), d.tensor(t, y)])


@op("Xlogy")
def xlogy(d):
    x, y = d.broadcast()
    t = d.dtype()
    positive = d.chance(0.7)
    return Case([d.tensor(t, x, special=0.1), d.tensor(t, y, 0.1, 5) if positive else d.tensor(t, y)])


@op("Cumsum", "Cumprod")
def cumulative(d):
    types, shape = d.types(), d.shape(1, 4)
    axis = d.int(-len(shape), len(shape) - 1)
    attrs = {"exclusive": d.chance(0.5), "reverse": d.chance(0.5)}
    return Case([d.tensor(types["T"], shape, -2, 3), d.ints(axis, types["Tidx"])], attrs)


def _matrices(d, broadcast):
    x_batch, y_batch = d.broadcast(high=2) if broadcast else [d.shape(0, 2)] * 2
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    adj_x, adj_y = d.chance(0.4), d.chance(0.4)
    x = x_batch + ((k, m) if adj_x else (m, k))
    y = y_batch + ((n, k) if adj_y else (k, n))
    return x, y, {"adj_x": adj_x, "adj_y": adj_y}


@op("BatchMatMul")
def batch_matmul(d):
    t = d.dtype()
    x, y, attrs = _matrices(d, False)
    return Case([d.tensor(t, x, special=0.05), d.tensor(t, y, special=0.05)], attrs)


@op("BatchMatMulV3")
def batch_matmul_v3(d):
    types = d.types("Ta")
    x, y, attrs = _matrices(d, True)
    return Case(
        [d.tensor(types["Ta"], x, -20, 20), d.tensor(types["Tb"], y, -20, 20)], {**attrs, "Tout": types["Tout"]}
    )


def _subscripts(d, labels):
    chosen = (
        [d.pick(labels) for _ in range(d.int(0, 3))]
        if d.chance(0.2)
        else list(d.random.permutation(list(labels)))[: d.int(0, 3)]
    )
    text = "".join(chosen)
    return text


@op("Einsum", count=80)
def einsum(d):
    t = d.dtype()
    sizes = {label: d.int(1, 4) for label in "abcd"}
    batch = [d.int(1, 3) for _ in range(d.int(0, 2))]
    operands, tensors = [], []
    for _ in range(d.int(1, 2)):
        labels = _subscripts(d, "abcd")
        shape = [sizes[label] for label in labels]
        if d.chance(0.4):
            place = d.int(0, len(labels))
            own = [1 if d.chance(0.2) else dim for dim in batch[d.int(0, len(batch)):]]
            labels = labels[:place] + "..." + labels[place:]
            shape[place:place] = own
        operands.append(labels)
        tensors.append(d.tensor(t, shape, -3, 3))
    used = sorted({label for labels in operands for label in labels if label != "."})
    out = [label for label in d.random.permutation(used)] if used else []
    out = out[: d.int(0, len(out))] + ([d.pick(used)] if used and d.chance(0.1) else [])
    if any("..." in labels for labels in operands):
        out.insert(d.int(0, len(out)), "...")
    return Case([tensors], {"equation": ",".join(operands) + "->" + "".join(out)})
