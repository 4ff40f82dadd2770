#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single ops beside TensorFlow's own, on the same graphs and inputs in the same run.

A case is a graph with some copies of one op, each on variables of its own, so that neither side has anything to fold or to merge;
a step runs all copies and fetches nothing. It is timed by `tenon run --time` and by a prepared callable of TensorFlow (with its fast
kernels, without Grappler, which would drop what nobody reads), in turn; the least median of the rounds counts (or, on a machine with
other work, the least step of all: --least). What a step takes
besides its ops (a client's call, reading the variables) is part of both sides: the graph without the op is timed as well, as
`(a step)`.

Run with a Python that has TensorFlow 2.21. Writes ops.md (worst ratio first, and the geometric means) and ops.tsv into the folder --out.
"""
import argparse
import math
import os
import pathlib
import re
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

raw = tf.raw_ops
SIZES = ("tiny", "medium", "large")
COPIES = {"tiny": 8, "medium": 8, "large": 2}
LONGEST = 120  # seconds that one run of a program may take

# Shapes by size: a matrix, a picture (batch, height, width, channels), a square matrix for products, rows of a table.
MATRIX = {"tiny": (4, 4), "medium": (256, 256), "large": (2048, 1024)}
PICTURE = {"tiny": (1, 4, 4, 4), "medium": (1, 28, 28, 64), "large": (8, 56, 56, 64)}
SQUARE = {"tiny": 4, "medium": 192, "large": 768}
OPS = {}


def case(name):
    def keep(build):
        OPS[name] = build
        return build
    return keep


class Inputs:
    """The inputs of one copy: variables with values drawn from a seed."""

    def __init__(self, size, seed):
        self.size, self.random = size, np.random.default_rng(seed)

    def variable(self, value):
        return tf.compat.v1.get_variable(f"v{self.random.integers(1 << 60)}", initializer=tf.constant(value), use_resource=True)

    def floats(self, shape, low=-1.0, high=1.0):
        return self.variable(self.random.uniform(low, high, shape).astype(np.float32)).read_value()

    def ints(self, shape, high, dtype=np.int32):
        return self.variable(self.random.integers(0, high, shape).astype(dtype)).read_value()

    def matrix(self, **more):
        return self.floats(MATRIX[self.size], **more)

    def picture(self, **more):
        return self.floats(PICTURE[self.size], **more)

    def square(self):
        return self.floats((SQUARE[self.size],) * 2)


def unary(*names, **more):
    for name in names:
        OPS[name] = lambda i, op=getattr(raw, name): op(**{first_argument(op): i.matrix(**more)})


def first_argument(op):
    return op.__signature__.parameters.__iter__().__next__() if hasattr(op, "__signature__") else op.__wrapped__.__code__.co_varnames[0]


unary("Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Square", "Softplus", "Elu", "Erf", "Floor", "Sin")
unary("Log", "Sqrt", "Rsqrt", "Reciprocal", low=0.1, high=2.0)
for _name in ("AddV2", "Sub", "Mul", "Maximum", "SquaredDifference", "Greater", "FloorDiv"):
    OPS[_name] = lambda i, op=getattr(raw, _name): op(x=i.matrix(), y=i.matrix(low=0.5, high=2.0))
OPS["RealDiv"] = lambda i: raw.RealDiv(x=i.matrix(), y=i.matrix(low=0.5, high=2.0))
OPS["Pow"] = lambda i: raw.Pow(x=i.matrix(low=0.5, high=2.0), y=i.matrix())
OPS["AddV2, a row to each"] = lambda i: raw.AddV2(x=i.matrix(), y=i.floats(MATRIX[i.size][1:]))
OPS["Mul, a column to each"] = lambda i: raw.Mul(x=i.matrix(), y=i.floats((MATRIX[i.size][0], 1)))
OPS["BiasAdd"] = lambda i: raw.BiasAdd(value=i.picture(), bias=i.floats(PICTURE[i.size][3:]))
OPS["SelectV2"] = lambda i: raw.SelectV2(condition=i.ints(MATRIX[i.size], 2, np.bool_), t=i.matrix(), e=i.matrix())
OPS["Cast, int32 to float"] = lambda i: raw.Cast(x=i.ints(MATRIX[i.size], 99), DstT=tf.float32)
OPS["Cast, float to half"] = lambda i: raw.Cast(x=i.matrix(), DstT=tf.float16)
OPS["AddN of 4"] = lambda i: raw.AddN(inputs=[i.matrix() for _ in range(4)])
for _name in ("Sum", "Mean", "Max"):
    for _axes, _words in (((0, 1), "all"), ((0,), "columns"), ((1,), "rows")):
        OPS[f"{_name}, {_words}"] = lambda i, op=getattr(raw, _name), axes=_axes: op(input=i.matrix(), axis=list(axes))
OPS["ArgMax"] = lambda i: raw.ArgMax(input=i.matrix(), dimension=1)
OPS["L2Loss"] = lambda i: raw.L2Loss(t=i.matrix())
OPS["Softmax"] = lambda i: raw.Softmax(logits=i.matrix())
OPS["LogSoftmax"] = lambda i: raw.LogSoftmax(logits=i.matrix())
OPS["SoftmaxCrossEntropyWithLogits"] = lambda i: raw.SoftmaxCrossEntropyWithLogits(features=i.matrix(), labels=i.matrix(low=0, high=1))[0]
OPS["SparseSoftmaxCrossEntropyWithLogits"] = lambda i: raw.SparseSoftmaxCrossEntropyWithLogits(features=i.matrix(), labels=i.ints(MATRIX[i.size][:1], MATRIX[i.size][1]))[0]
OPS["MatMul"] = lambda i: raw.MatMul(a=i.square(), b=i.square())
OPS["MatMul, transposed"] = lambda i: raw.MatMul(a=i.square(), b=i.square(), transpose_b=True)
OPS["MatMul, a vector"] = lambda i: raw.MatMul(a=i.floats((1, MATRIX[i.size][0])), b=i.matrix())
OPS["BatchMatMulV2"] = lambda i: raw.BatchMatMulV2(x=i.floats((8, SQUARE[i.size] // 4, SQUARE[i.size] // 4)), y=i.floats((8, SQUARE[i.size] // 4, SQUARE[i.size] // 4)))
OPS["Einsum, bij,bkj->bik"] = lambda i: raw.Einsum(inputs=[i.floats((4, SQUARE[i.size] // 4, 16)), i.floats((4, SQUARE[i.size] // 4, 16))], equation="bij,bkj->bik")


def filters(i, window, channels=None):
    c = PICTURE[i.size][3]
    return i.floats((window, window, c, channels or c))


CONV = {"strides": [1, 1, 1, 1], "padding": "SAME"}
OPS["Conv2D, 3x3"] = lambda i: raw.Conv2D(input=i.picture(), filter=filters(i, 3), **CONV)
OPS["Conv2D, 1x1"] = lambda i: raw.Conv2D(input=i.picture(), filter=filters(i, 1), **CONV)
OPS["Conv2D, 3x3, stride 2"] = lambda i: raw.Conv2D(input=i.picture(), filter=filters(i, 3), strides=[1, 2, 2, 1], padding="SAME")
OPS["Conv2DBackpropInput"] = lambda i: raw.Conv2DBackpropInput(input_sizes=list(PICTURE[i.size]), filter=filters(i, 3), out_backprop=i.picture(), **CONV)
OPS["Conv2DBackpropFilter"] = lambda i: raw.Conv2DBackpropFilter(input=i.picture(), filter_sizes=[3, 3] + [PICTURE[i.size][3]] * 2, out_backprop=i.picture(), **CONV)
OPS["DepthwiseConv2dNative"] = lambda i: raw.DepthwiseConv2dNative(input=i.picture(), filter=filters(i, 3, 1), **CONV)
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
OPS["MaxPool"] = lambda i: raw.MaxPool(input=i.picture(), **POOL)
OPS["AvgPool"] = lambda i: raw.AvgPool(value=i.picture(), **POOL)
OPS["MaxPoolGrad"] = lambda i: raw.MaxPoolGrad(orig_input=i.picture(), orig_output=i.floats(pooled(i)), grad=i.floats(pooled(i)), **POOL)


def pooled(i):
    n, h, w, c = PICTURE[i.size]
    return n, h // 2, w // 2, c


@case("FusedBatchNormV3, training")
def _(i):
    c = PICTURE[i.size][3:]
    return raw.FusedBatchNormV3(x=i.picture(), scale=i.floats(c), offset=i.floats(c), mean=tf.zeros([0]), variance=tf.zeros([0]), is_training=True)[0]


@case("FusedBatchNormV3, inference")
def _(i):
    c = PICTURE[i.size][3:]
    return raw.FusedBatchNormV3(x=i.picture(), scale=i.floats(c), offset=i.floats(c), mean=i.floats(c), variance=i.floats(c, 0.5, 1), is_training=False)[0]


OPS["LRN"] = lambda i: raw.LRN(input=i.picture())
OPS["ResizeBilinear"] = lambda i: raw.ResizeBilinear(images=i.picture(), size=[2 * d for d in PICTURE[i.size][1:3]])
OPS["Transpose"] = lambda i: raw.Transpose(x=i.matrix(), perm=[1, 0])
OPS["Transpose, NHWC to NCHW"] = lambda i: raw.Transpose(x=i.picture(), perm=[0, 3, 1, 2])
OPS["ConcatV2, rows"] = lambda i: raw.ConcatV2(values=[i.matrix(), i.matrix()], axis=0)
OPS["ConcatV2, columns"] = lambda i: raw.ConcatV2(values=[i.matrix(), i.matrix()], axis=1)
OPS["Split"] = lambda i: raw.Split(axis=1, value=i.matrix(), num_split=2)[0]
OPS["Pack"] = lambda i: raw.Pack(values=[i.matrix(), i.matrix()])
OPS["Unpack"] = lambda i: raw.Unpack(value=i.matrix(), num=MATRIX[i.size][0])[0] if i.size == "tiny" else raw.Unpack(value=i.floats((4,) + MATRIX[i.size]), num=4)[0]
OPS["Slice"] = lambda i: raw.Slice(input=i.matrix(), begin=[1, 1], size=[d - 2 for d in MATRIX[i.size]])
OPS["StridedSlice, every second"] = lambda i: raw.StridedSlice(input=i.matrix(), begin=[0, 0], end=list(MATRIX[i.size]), strides=[1, 2])
OPS["Pad"] = lambda i: raw.Pad(input=i.matrix(), paddings=[[1, 1], [1, 1]])
OPS["Tile"] = lambda i: raw.Tile(input=i.matrix(), multiples=[2, 1])
OPS["ReverseV2"] = lambda i: raw.ReverseV2(tensor=i.matrix(), axis=[1])
OPS["GatherV2"] = lambda i: raw.GatherV2(params=i.matrix(), indices=i.ints(MATRIX[i.size][:1], MATRIX[i.size][0]), axis=0)
OPS["UnsortedSegmentSum"] = lambda i: raw.UnsortedSegmentSum(data=i.matrix(), segment_ids=i.ints(MATRIX[i.size][:1], 4), num_segments=4)
OPS["OneHot"] = lambda i: raw.OneHot(indices=i.ints(MATRIX[i.size][:1], MATRIX[i.size][1]), depth=MATRIX[i.size][1], on_value=1.0, off_value=0.0)
OPS["TopKV2"] = lambda i: raw.TopKV2(input=i.matrix(), k=4)[0]
OPS["Cumsum"] = lambda i: raw.Cumsum(x=i.matrix(), axis=1)
OPS["Where"] = lambda i: raw.Where(condition=i.ints(MATRIX[i.size], 2, np.bool_))
OPS["Unique"] = lambda i: raw.Unique(x=i.ints((MATRIX[i.size][0] * MATRIX[i.size][1],), 1000))[0]
OPS["RandomUniform"] = lambda i: raw.RandomUniform(shape=list(MATRIX[i.size]), dtype=tf.float32, seed=1, seed2=2)
OPS["RandomStandardNormal"] = lambda i: raw.RandomStandardNormal(shape=list(MATRIX[i.size]), dtype=tf.float32, seed=1, seed2=2)


def handles(i, count):
    return [i.variable(i.random.uniform(0, 1, MATRIX[i.size]).astype(np.float32)).handle for _ in range(count)]


@case("ResourceApplyGradientDescent")
def _(i):
    return raw.ResourceApplyGradientDescent(var=handles(i, 1)[0], alpha=1e-9, delta=i.matrix())


@case("ResourceApplyAdam")
def _(i):
    var, m, v = handles(i, 3)
    return raw.ResourceApplyAdam(var=var, m=m, v=v, beta1_power=0.9, beta2_power=0.9, lr=1e-9, beta1=0.9, beta2=0.9, epsilon=1e-7, grad=i.matrix())


@case("AssignAddVariableOp")
def _(i):
    return raw.AssignAddVariableOp(resource=handles(i, 1)[0], value=i.matrix())


@case("ResourceGather")
def _(i):
    return raw.ResourceGather(resource=handles(i, 1)[0], indices=i.ints(MATRIX[i.size][:1], MATRIX[i.size][0]), dtype=tf.float32)


OPS["(a step)"] = lambda i: i.matrix()


# --- Timing ---


def build(name, size):
    graph = tf.Graph()
    with graph.as_default():
        made = [OPS[name](Inputs(size, copy)) for copy in range(COPIES[size])]
        tf.group(*[getattr(one, "op", one) for one in made], name="step")
        tf.compat.v1.global_variables_initializer()
    return graph


class TensorFlow:
    def __init__(self, graph, threads):
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        self.session = tf.compat.v1.Session(graph=graph, config=config)
        self.session.run("init")
        self.step = self.session.make_callable(graph.get_operation_by_name("step"))
        self.step()

    def time(self, seconds, least):
        """The median of a step, or the least, in us."""
        took, end = [], time.perf_counter() + seconds
        while not took or time.perf_counter() < end:
            begin = time.perf_counter()
            self.step()
            took.append(time.perf_counter() - begin)
        return 1e6 * sorted(took)[0 if least else len(took) // 2]


def ours(options, path, threads, seconds, guess):
    repeat = max(3, int(seconds * 1e6 / guess))
    command = [options.build / "bin" / "tenon", "run", path, "--init", "init", "--target", "step", "--repeat", str(repeat), "--time", "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    found = re.search(("min" if options.least else "median") + r" ([0-9.]+) (ns|us|ms|s)", done.stdout)
    if done.returncode != 0 or not found:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return float(found[1]) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[found[2]]


def measure(options, name, size, threads):
    graph = build(name, size)
    path = options.out / "case.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    theirs = TensorFlow(graph, threads)
    mine = math.inf
    least = theirs.time(0, options.least)
    try:
        guess = ours(options, path, threads, 0, 1)
        for _ in range(options.rounds):
            least = min(least, theirs.time(options.seconds, options.least))
            mine = min(mine, ours(options, path, threads, options.seconds, guess))
    finally:
        theirs.session.close()
    return mine / COPIES[size], least / COPIES[size]


def write(options, rows, failed):
    rows = sorted(rows, key=lambda row: row[4] / row[3])
    ops = [row for row in rows if row[0] != "(a step)"]
    lines = [f"us for each op, and TensorFlow's time over ours: the least {'step' if options.least else 'median'} of {options.rounds} turns of {options.seconds} s. "
             f"TensorFlow {tf.__version__}, {os.cpu_count()} cores. {options.note}", "",
             "| threads | size | ops | geometric mean | slower than TensorFlow |", "| --- | --- | --- | --- | --- |"]
    for threads in options.threads:
        for size in options.sizes:
            ratios = [theirs / mine for _, s, t, mine, theirs in ops if (s, t) == (size, threads)]
            if ratios:
                lines.append(f"| {threads} | {size} | {len(ratios)} | {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} | {sum(r < 1 for r in ratios)} |")
    ratios = [theirs / mine for *_, mine, theirs in ops]
    if ratios:
        lines.append(f"| all | all | {len(ratios)} | {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} | {sum(r < 1 for r in ratios)} |")
    lines += ["", "| op | size | threads | Tenon | TensorFlow | ratio |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [f"| {name} | {size} | {threads} | {mine:.3g} | {theirs:.3g} | {theirs / mine:.2f} |" for name, size, threads, mine, theirs in rows]
    lines += [f"\n{name}, {size}: {why}" for name, size, why in failed]
    (options.out / "ops.md").write_text("\n".join(lines) + "\n")
    (options.out / "ops.tsv").write_text("".join(f"{name}\t{size}\t{threads}\t{mine:.4g}\t{theirs:.4g}\n" for name, size, threads, mine, theirs in rows))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="build folder (default: %(default)s)")
    parser.add_argument("--only", default="", help="ops whose names match this regular expression")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn (default: %(default)s)")
    parser.add_argument("--least", action="store_true", help="compare the least steps, not medians")
    parser.add_argument("--note", default="", help="what else the machine did, for the table")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tf.compat.v1.disable_eager_execution()
    rows, failed = [], []
    for name in OPS:
        if not re.search(options.only, name):
            continue
        for size in options.sizes:
            for threads in options.threads:
                try:
                    rows.append((name, size, threads, *measure(options, name, size, threads)))
                except (RuntimeError, subprocess.TimeoutExpired, tf.errors.OpError, ValueError) as error:
                    failed.append((name, size, str(error)[:300]))
                    break
                print(f"{name}, {size}, {threads}: {rows[-1][4] / rows[-1][3]:.2f}", file=sys.stderr, flush=True)
    print("\n".join(write(options, rows, failed)))


if __name__ == "__main__":
    main()
