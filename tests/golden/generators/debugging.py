# SPDX-License-Identifier: Apache-2.0
"""Cases of what debuggers put into graphs, of counts of sparse values, and of summaries of tensors."""
import numpy as np
import tensorflow as tf

from .draw import Case, op

NAMED = {"tensor_name": "node:0"}  # TensorFlow parses it


@op("Copy", "CopyHost", "DebugIdentity", "DebugIdentityV2", "DeepCopy", count=20)
def copies(d):
    t = d.pick([tf.float32, tf.float64, tf.int32, tf.string, tf.bool, tf.half, tf.complex64, tf.int8])
    return Case([d.tensor(t, d.shape(large=0))], NAMED if d.op in ("Copy", "CopyHost", "DebugIdentity") else {})


@op("DebugNanCount", count=36)
def nan_count(d):
    return Case([d.tensor(d.dtype(), d.shape(), special=0.6)], NAMED)


@op("DebugNumericSummaryV2", count=60)
def numeric_summary(d):
    types = d.types("T")
    mode = d.turn([2, 3, 4, 5, 8]) if d.chance(0.95) else d.pick([-1, 1, 6, 7, 9])
    tensor_id = d.pick([-1, 0, 7, 2**24]) if d.chance(0.95) else d.pick([2**24 + 1, 2**40, 2**53 + 1])
    shape = d.shape() if d.chance(0.8) else tuple(d.int(1, 2) for _ in range(8))
    return Case(
        [d.tensor(types["T"], shape, special=0.4)],
        {"output_dtype": types["output_dtype"], "tensor_debug_mode": mode, "tensor_id": tensor_id},
    )


@op("SparseBincount", count=60)
def sparse_bincount(d):
    types = d.types("T")
    t = types["T"] if types["T"] in (tf.int32, tf.int64, tf.float32, tf.float64) else tf.float32
    dense = d.shape(1, 2, empty=0, large=0)
    count = d.int(0, 8)
    indices = np.stack([d.random.integers(0, dim + (1 if d.chance(0.05) else 0), count) for dim in dense], 1).astype(
        np.int64
    )
    values = d.tensor(types["Tidx"], (count,), -1 if d.chance(0.1) and len(dense) == 2 else 0, 7)
    weights = d.tensor(t, (count if d.chance(0.5) else 0,), -9, 9)
    return Case(
        [
            indices,
            values,
            d.given(np.array(dense, np.int64)),
            d.given(np.array(d.int(0, 8) if d.chance(0.97) else -1, types["Tidx"].as_numpy_dtype)),
            weights,
        ],
        {"binary_output": d.chance(0.3)},
        disturb=False,
    )  # TensorFlow reads weights that are not there


@op("TensorSummaryV2", count=36)
def tensor_summary(d):
    metadata = tf.compat.v1.SummaryMetadata(
        display_name=d.pick(["", "a name"]), summary_description=d.pick(["", "grün"])
    )
    if d.chance(0.5):
        metadata.plugin_data.plugin_name = d.pick(["scalars", "mine"])
        metadata.plugin_data.content = d.pick([b"", b"\x00\xff"])
    texts = [np.array(text, object) for text in (d.pick([b"", b"loss", b"a/b"]), metadata.SerializeToString())]
    t = d.dtype(
        among=[
            t for t in (tf.float32, tf.float64, tf.int32, tf.int64, tf.string, tf.bool, tf.half, tf.complex64, tf.uint8)
        ]
    )
    return Case([texts[0], d.tensor(t, d.shape(large=0)), texts[1]])


@op("TensorSummary", count=20)
def old_tensor_summary(d):
    return Case(
        [d.tensor(d.pick([tf.float32, tf.int64, tf.string]), d.shape(large=0))],
        {"description": d.pick(["", "what it is"]), "display_name": d.pick(["", "its name"])},
    )


@op("CheckNumericsV2", count=30)
def check_numerics_v2(d):
    return Case([d.tensor(d.dtype(), d.shape(), special=0.3)], {"message": d.pick(["bad", "", "two words"])})
