# SPDX-License-Identifier: Apache-2.0
"""Tensors out of bytes, texts and serialized messages."""
import json

import numpy as np
import tensorflow as tf

from .inputs import case, cases


def of_bytes(i, values):
    texts = np.empty(len(values), object)
    texts[:] = values
    return i.read(texts)


def records(i, size):
    return of_bytes(i, [i.random.bytes(size) for _ in range(i.pick(2, 64, 4096))])


case("DecodeRaw, uint8", lambda i: [records(i, 256)], out_type=tf.uint8)
case("DecodeRaw, float", lambda i: [records(i, 256)], out_type=tf.float32)
case("DecodeRaw, float of the other order", lambda i: [records(i, 256)], out_type=tf.float32, little_endian=False)
cases("DecodePaddedRaw", lambda i: [records(i, 200), np.int32(256)], out_type=tf.float32)


def numbers(i, pattern="%.5f"):
    return of_bytes(i, [(pattern % one).encode() for one in i.reals((i.shape("texts"),), -999, 999)])


case("StringToNumber, float", lambda i: [numbers(i)], out_type=tf.float32)
case("StringToNumber, double", lambda i: [numbers(i)], out_type=tf.float64)
case("StringToNumber, int32", lambda i: [numbers(i, "%d")], out_type=tf.int32)
case("StringToNumber, int64", lambda i: [numbers(i, "%d")], out_type=tf.int64)


def lines(i):
    return of_bytes(
        i, [b"%f,%d,word %d,%f" % (one, 7 * one, one, 2 * one) for one in i.reals((i.pick(4, 256, 8192),), -999, 999)]
    )


cases("DecodeCSV", lambda i: [lines(i), [tf.zeros([1]), tf.zeros([1], tf.int64), tf.constant([""]), tf.zeros([1])]])
cases("SerializeTensor", lambda i: [i.matrix()])
case("SerializeTensor, texts", lambda i: [i.texts()])


def message(value):
    return np.array(tf.make_tensor_proto(value).SerializeToString(), object)


cases("ParseTensor", lambda i: [i.read(message(i.reals(i.shape("matrix"))))], out_type=tf.float32)
case("ParseTensor, texts", lambda i: [i.read(message(i.words((i.shape("texts"),))))], out_type=tf.string)

# Examples.


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def features(i):
    return {
        "label": feature([int(i.random.integers(10))]),
        "weights": feature(i.random.uniform(0, 1, 32).tolist()),
        "words": feature([b"one", b"two words"]),
        "numbers": feature(i.random.integers(0, 1 << 40, i.random.integers(1, 20)).tolist()),
    }


def examples(i):
    return of_bytes(
        i,
        [
            tf.train.Example(features=tf.train.Features(feature=features(i))).SerializeToString()
            for _ in range(i.pick(2, 64, 2048))
        ],
    )


def keys(*names):
    return np.array([name.encode() for name in names], object)


DENSE = {"Tdense": [tf.int64, tf.float32], "dense_shapes": [[], [32]]}
DEFAULTS = [np.zeros(0, np.int64), np.zeros(0, np.float32)]
cases(
    "ParseExample",
    lambda i: [examples(i), np.zeros(0, object), [b"words", b"numbers"], [b"label", b"weights"], DEFAULTS],
    sparse_types=[tf.string, tf.int64],
    dense_shapes=DENSE["dense_shapes"],
)
cases(
    "ParseExampleV2",
    lambda i: [examples(i), np.zeros(0, object), keys("words"), keys("label", "weights"), keys("numbers"), DEFAULTS],
    num_sparse=1,
    sparse_types=[tf.string],
    ragged_value_types=[tf.int64],
    ragged_split_types=[tf.int64],
    dense_shapes=DENSE["dense_shapes"],
)
cases(
    "ParseSingleExample",
    lambda i: [
        i.read(np.array(tf.train.Example(features=tf.train.Features(feature=features(i))).SerializeToString(), object)),
        DEFAULTS,
    ],
    num_sparse=2,
    sparse_keys=["words", "numbers"],
    sparse_types=[tf.string, tf.int64],
    dense_keys=["label", "weights"],
    dense_shapes=DENSE["dense_shapes"],
)


def sequence(i):
    steps = int(i.random.integers(4, 16))
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={"label": feature([3])}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                "frames": tf.train.FeatureList(
                    feature=[feature(i.random.uniform(0, 1, 8).tolist()) for _ in range(steps)]
                )
            }
        ),
    )


def sequences(i):
    return of_bytes(i, [sequence(i).SerializeToString() for _ in range(i.pick(2, 32, 512))])


NONE = np.zeros(0, object)
cases(
    "ParseSequenceExampleV2",
    lambda i: [
        sequences(i),
        NONE,
        NONE,
        keys("label"),
        NONE,
        NONE,
        keys("frames"),
        NONE,
        np.array([False]),
        [np.zeros(0, np.int64)],
    ],
    context_dense_shapes=[[]],
    feature_list_dense_types=[tf.float32],
    feature_list_dense_shapes=[[8]],
    Nfeature_list_dense=1,
)
cases(
    "ParseSequenceExample",
    lambda i: [sequences(i), NONE, [np.zeros(0, np.int64)]],
    feature_list_dense_missing_assumed_empty=[],
    context_sparse_keys=[],
    context_dense_keys=["label"],
    feature_list_sparse_keys=[],
    feature_list_dense_keys=["frames"],
    context_dense_shapes=[[]],
    feature_list_dense_types=[tf.float32],
    feature_list_dense_shapes=[[8]],
    Ncontext_dense=1,
    Nfeature_list_dense=1,
)
cases(
    "ParseSingleSequenceExample",
    lambda i: [
        i.read(np.array(sequence(i).SerializeToString(), object)),
        NONE,
        [],
        [b"label"],
        [],
        [b"frames"],
        [np.zeros(0, np.int64)],
        b"",
    ],
    context_dense_shapes=[[]],
    feature_list_dense_types=[tf.float32],
    feature_list_dense_shapes=[[8]],
)


def in_json(i):
    made = {
        "features": {
            "feature": {
                "label": {"int64List": {"value": ["3"]}},
                "weights": {"floatList": {"value": [0.5] * 16}},
                "words": {"bytesList": {"value": ["b25l"]}},
            }
        }
    }
    return of_bytes(i, [json.dumps(made).encode()] * i.pick(2, 32, 1024))


cases("DecodeJSONExample", lambda i: [in_json(i)])
