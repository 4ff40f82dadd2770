# SPDX-License-Identifier: Apache-2.0
"""Cases of the math package: Fourier transforms."""
import numpy as np
import tensorflow as tf

from .draw import Case, op

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 25, 31]


def dims(d, rank):
    """Lengths that 2, 3 and 5 divide, and others; few elements where there are several dims."""
    return tuple(d.pick(LENGTHS if rank == 1 else LENGTHS[:7] if rank == 2 else LENGTHS[:4]) for _ in range(rank))


@op("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D", count=25)
def of_complex(d):
    rank = int(d.op[-2]) if d.op.endswith("D") else 1
    outer = d.shape(0, 1 if rank > 1 else 2, empty=0.05, large=0)
    lengths = (d.pick([97, 101, 128, 202, 243]),) if rank == 1 and d.chance(0.15) else dims(d, rank)
    return Case([d.tensor(d.dtype("Tcomplex"), outer + lengths, special=0)])


@op("RFFT", "IRFFT", "RFFT2D", "IRFFT2D", "RFFT3D", "IRFFT3D", count=25)
def of_real(d):
    rank = int(d.op[-2]) if d.op.endswith("D") else 1
    outer = d.shape(0, 1 if rank > 1 else 2, empty=0.05, large=0)
    lengths = list(dims(d, rank))
    backward = d.op.startswith("I")
    wide = d.number % 2 == 1
    given = list(lengths)
    if backward:
        given[-1] = given[-1] // 2 + 1
    cut = d.chance(0.25)
    if cut:  # what is longer is cut
        given = [n + d.int(0, 2) for n in given]
    t = (tf.complex128 if wide else tf.complex64) if backward else (tf.float64 if wide else tf.float32)
    return Case([d.tensor(t, outer + tuple(given), special=0), d.ints(lengths)],
                {"Treal": tf.float64 if wide else tf.float32, "Tcomplex": tf.complex128 if wide else tf.complex64},
                # TensorFlow has no gradient of what is cut.
                gradients=not cut, disturb=False)
