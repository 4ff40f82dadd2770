# SPDX-License-Identifier: Apache-2.0
"""Cases of the io package: strings. What goes through files is tested with TensorFlow's own files beside the ops."""
import numpy as np
import tensorflow as tf

from .draw import Case, op


@op("StringJoin")
def join(d):
    shape = d.shape(0, 3)
    parts = [d.tensor(tf.string, () if d.chance(0.3) else shape) for _ in range(d.int(1, 4))]
    return Case([parts], {"separator": d.pick(["", ",", " and "])})


@op("ShardedFilename")
def sharded(d):
    name = np.array(d.pick([b"", b"model", b"/a b/c.ckpt", "grün".encode()]), object)  # TensorFlow ends one at its first zero byte
    return Case([name, np.array(d.pick([0, 1, 7, 123, 99999, 100000]), np.int32), np.array(d.pick([1, 8, 1000, 123456]), np.int32)])
