# SPDX-License-Identifier: Apache-2.0
"""Many numbers to few: sums and their like, counts, orders, what accumulates, Fourier transforms."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

for _axes, _words in (([0, 1], "all"), ([0], "columns"), ([1], "rows")):
    case(
        f"Sum, {_words}; Mean, {_words}; Max, {_words}; Min, {_words}; Prod, {_words}; EuclideanNorm, {_words}",
        lambda i, axes=_axes: [i.matrix(), axes],
    )
    case(f"All, {_words}; Any, {_words}", lambda i, axes=_axes: [i.ints(i.shape("matrix"), 2, dtype=np.bool_), axes])
case("Sum, double rows", lambda i: [i.matrix(dtype=np.float64), [1]])
case("Sum, int32 rows; Max, int32 rows", lambda i: [i.ints(i.shape("matrix"), 99), [1]])
case("Sum, the middle of a picture; Max, the middle of a picture", lambda i: [i.picture(), [1, 2]])
cases("ArgMax ArgMin", lambda i: [i.matrix(), 1])
case("ArgMax, of columns", lambda i: [i.matrix(), 0])
cases("L2Loss", lambda i: [i.matrix()])
cases("Cumsum Cumprod CumulativeLogsumexp", lambda i: [i.matrix(0.9, 1.1), 1])
case("Cumsum, of columns; Cumprod, of columns", lambda i: [i.matrix(0.9, 1.1), 0])
case("Cumsum, int32, reversed", lambda i: [i.ints(i.shape("matrix"), 9), 1], reverse=True)
cases("TopKV2", lambda i: [i.matrix(), 4], sorted=True)
case("TopKV2, of a vector", lambda i: [i.floats((np.prod(i.shape("matrix")),)), 4])
case("TopKV2, half of a row", lambda i: [i.matrix(), i.shape("matrix")[1] // 2])
cases("ApproxTopK", lambda i: [i.matrix()], k=4, is_max_k=True)
cases("NthElement", lambda i: [i.matrix(), 2])
cases("InTopKV2", lambda i: [i.matrix(), i.ints(i.shape("matrix")[:1], i.shape("matrix")[1]), 3])
cases("InTopK", lambda i: [i.matrix(), i.ints(i.shape("matrix")[:1], i.shape("matrix")[1])], k=3)
cases("Where", lambda i: [i.ints(i.shape("matrix"), 2, dtype=np.bool_)])
cases("Unique UniqueWithCounts", lambda i: [i.ints((np.prod(i.shape("matrix")),), 1000)])
case("UniqueV2; UniqueWithCountsV2", lambda i: [i.ints((np.prod(i.shape("matrix")),), 1000), np.array([0], np.int64)])
case("UniqueV2, rows", lambda i: [i.ints((i.shape("matrix")[0], 4), 3), np.array([0], np.int64)])
case("Unique, int64, mostly different", lambda i: [i.ints((np.prod(i.shape("slow")),), 1 << 40, dtype=np.int64)])
case("Unique, texts", lambda i: [i.read(i.words((i.shape("texts"),), 1, 3))])
cases(
    "ListDiff",
    lambda i: [i.ints((np.prod(i.shape("slow")),), 1 << 20), i.ints((np.prod(i.shape("slow")) // 2,), 1 << 20)],
)
cases("Bincount", lambda i: [i.ints((np.prod(i.shape("matrix")),), 1000), 1000, np.zeros(0, np.float32)])
case(
    "Bincount, weights",
    lambda i: [i.ints((np.prod(i.shape("matrix")),), 1000), 1000, i.floats((np.prod(i.shape("matrix")),))],
)
cases("DenseBincount", lambda i: [i.ints(i.shape("matrix"), 100), 100, np.zeros(0, np.float32)])
case(
    "DenseBincount, of a vector", lambda i: [i.ints((np.prod(i.shape("matrix")),), 1000), 1000, np.zeros(0, np.float32)]
)
cases("HistogramFixedWidth", lambda i: [i.matrix(), [-1.0, 1.0], 100])
cases("IsotonicRegression", lambda i: [i.slow()])
cases("Softmax LogSoftmax", lambda i: [i.matrix()])
cases("SoftmaxCrossEntropyWithLogits", lambda i: [i.matrix(), i.matrix(0, 1)])
cases(
    "SparseSoftmaxCrossEntropyWithLogits", lambda i: [i.matrix(), i.ints(i.shape("matrix")[:1], i.shape("matrix")[1])]
)


def lines(i):
    return i.complexes(i.pick((4, 8), (64, 256), (512, 1024)))


cases("FFT IFFT", lambda i: [lines(i)])
case("FFT, double", lambda i: [i.complexes(i.pick((4, 8), (64, 256), (512, 1024)), np.complex128)])
case("FFT, lines of a prime", lambda i: [i.complexes(i.pick((4, 7), (64, 251), (512, 1021)))])
case("FFT, lines of 2 3 5", lambda i: [i.complexes(i.pick((4, 6), (64, 240), (512, 960)))])
cases("FFT2D IFFT2D", lambda i: [i.complexes(i.pick((1, 4, 4), (1, 64, 64), (8, 256, 256)))])
cases("FFT3D IFFT3D", lambda i: [i.complexes(i.pick((1, 4, 4, 4), (1, 16, 16, 16), (1, 64, 64, 64)))])
cases("RFFT", lambda i: [i.floats(i.pick((4, 8), (64, 256), (512, 1024))), [i.pick(8, 256, 1024)]])
cases("RFFT2D", lambda i: [i.floats(i.pick((1, 4, 4), (1, 64, 64), (8, 256, 256))), [i.pick(4, 64, 256)] * 2])
cases("RFFT3D", lambda i: [i.floats(i.pick((1, 4, 4, 4), (1, 16, 16, 16), (1, 64, 64, 64))), [i.pick(4, 16, 64)] * 3])
cases("IRFFT", lambda i: [i.complexes(i.pick((4, 5), (64, 129), (512, 513))), [i.pick(8, 256, 1024)]])
cases("IRFFT2D", lambda i: [i.complexes(i.pick((1, 4, 3), (1, 64, 33), (8, 256, 129))), [i.pick(4, 64, 256)] * 2])
cases(
    "IRFFT3D", lambda i: [i.complexes(i.pick((1, 4, 4, 3), (1, 16, 16, 9), (1, 64, 64, 33))), [i.pick(4, 16, 64)] * 3]
)
