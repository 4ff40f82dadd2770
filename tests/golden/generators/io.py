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
    name = np.array(
        d.pick([b"", b"model", b"/a b/c.ckpt", "grün".encode()]), object
    )  # TensorFlow ends one at its first zero byte
    return Case(
        [
            name,
            np.array(d.pick([0, 1, 7, 123, 99999, 100000]), np.int32),
            np.array(d.pick([1, 8, 1000, 123456]), np.int32),
        ]
    )


@op("StringToHashBucketFast", count=60)
def hash_bucket(d):
    """Every length up to 130, and longer ones: lengths have formulas of their own."""
    longest = d.pick([9, 17, 33, 66, 130, 400])
    words = [bytes(d.random.integers(0, 256, d.int(0, longest)).astype(np.uint8)) for _ in range(d.int(0, 12))]
    return Case([np.array(words, object)], {"num_buckets": d.pick([1, 2, 10, 1000, 2**31, 2**62 + 1, 2**63 - 1])})
