# SPDX-License-Identifier: Apache-2.0
"""Makes golden.index, golden.data-00000-of-00001 and golden.first with TensorFlow 2.21: python3 make_golden.py
[folder].

golden.first is of the first format, which TensorFlow writes no bfloat16 in. With `check PREFIX` it instead reads the
checkpoint PREFIX, of either format, with TensorFlow and compares it with the same tensors; so another program's
checkpoint can be proved.
"""

import os
import sys

import numpy
import tensorflow as tf

tf.config.set_visible_devices([], "GPU")


def tensors():
    out = {
        "scalar/int64": tf.constant(-7, tf.int64),
        "matrix": tf.reshape(tf.range(6, dtype=tf.float32) / 4, [2, 3]),
        "empty": tf.zeros([0, 4], tf.float64),
        "strings": tf.constant([[b"", b"one"], [b"\x00\xff bytes", "gr\u00fc\u00dfe".encode()]]),
        "string": tf.constant(b"x" * 300),
        "half": tf.constant([1.5, -2.0, 65504.0], tf.float16),
        "bfloat16": tf.constant([1.5, -2.0], tf.bfloat16),
        "complex": tf.constant([1 + 2j], tf.complex64),
        "bool": tf.constant([True, False, True]),
        "int8": tf.constant([-128, 127], tf.int8),
        "uint16": tf.constant([65535], tf.uint16),
    }
    # More than one restart interval of the index, with long shared prefixes.
    for i in range(20):
        out[f"layer/block_{i:02d}/kernel"] = tf.fill([i % 3, 2], float(i))
    return out


def main():
    values = tensors()
    names, specs = list(values), [""] * len(values)
    if len(sys.argv) > 2 and sys.argv[1] == "check":
        dtypes = [value.dtype for value in values.values()]
        found = tf.raw_ops.RestoreV2(prefix=sys.argv[2], tensor_names=names, shape_and_slices=specs, dtypes=dtypes)
        for name, want, got in zip(names, values.values(), found):
            numpy.testing.assert_array_equal(want.numpy(), got.numpy(), err_msg=name)
            assert want.shape == got.shape, name
        print(f"TensorFlow {tf.__version__} read {len(names)} tensors from {sys.argv[2]}: equal")
        return
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    tf.raw_ops.SaveV2(prefix=os.path.join(folder, "golden"), tensor_names=names, shape_and_slices=specs,
                      tensors=list(values.values()))
    whole, parts = [name for name in names if name not in ("matrix", "bfloat16")], [
        "2 3 0,1:-",
        "2 3 1,1:0,2",
        "2 3 1,1:2,1",
    ]
    matrix = values["matrix"]
    tf.raw_ops.SaveSlices(
        filename=os.path.join(folder, "golden.first"),
        tensor_names=whole + ["matrix"] * 3,
        shapes_and_slices=[""] * len(whole) + parts,
        data=[values[name] for name in whole] + [matrix[0:1], matrix[1:2, 0:2], matrix[1:2, 2:3]],
    )


main()
