# SPDX-License-Identifier: Apache-2.0
"""Cases of the summary package: the bytes that event files hold."""
import struct

import numpy as np
import tensorflow as tf

from .draw import Case, op

Value = tf.compat.v1.Summary.Value


def tags(d, shape):
    words = np.empty(shape, object)
    for at in np.ndindex(*shape):
        words[at] = d.pick([b"loss", b"a/b", b"a tag of some length that is no small one", b"", b"x%d" % d.int(0, 99)])
    return words


@op("ScalarSummary")
def scalars(d):
    shape = d.shape(0, 2, large=0)
    return Case([tags(d, shape), d.tensor(d.dtype(), shape)])


@op("HistogramSummary")
def histogram(d):
    values = d.tensor(d.dtype(), d.shape(0, 3, large=0.3))
    if d.chance(0.9) and values.dtype.kind not in "iu":
        values = np.where(np.isfinite(values), values, np.zeros_like(values)).astype(values.dtype)
        if values.dtype == np.float64 and d.chance(0.3):
            values = values * 10.0 ** d.int(-14, 22)
    return Case([tags(d, ()), values])


@op("MergeSummary")
def merge(d):
    def one():
        values = [Value(tag=tags(d, ())[()].decode(), simple_value=d.int(0, 9)) for _ in range(d.int(0, 3))]
        return tf.compat.v1.Summary(value=values).SerializeToString() if d.chance(0.95) else b"no summary"

    def some():
        shape = d.shape(0, 1, empty=0.1, large=0)[:1]
        words = np.empty(shape, object)
        for at in np.ndindex(*shape):
            words[at] = one()
        return words

    return Case([[some() for _ in range(d.int(1, 3))]])


@op("ImageSummary", count=60)
def image(d):
    t = d.dtype()
    depth = d.pick([1, 3, 4]) if d.chance(0.95) else 2
    shape = (d.int(0, 4), d.int(1, 9), d.int(1, 9), depth)
    values = d.tensor(
        t, shape, *(() if d.chance(0.3) else (0, 255) if t == tf.uint8 else (-2 if d.chance(0.5) else 0, 3))
    )
    attrs = {"max_images": d.int(1, 3)}
    if d.chance(0.3):
        attrs["bad_color"] = np.array(d.pick([[1, 2, 3, 4], [9], [9, 8, 7]]), np.uint8)
    return Case([tags(d, ()), values], attrs)


@op("AudioSummaryV2", count=30)
def audio(d):
    shape = (d.int(0, 4), d.int(0, 9)) + ((d.int(1, 3),) if d.chance(0.5) else ())
    values = d.tensor(tf.float32, shape, *(() if d.chance(0.3) else (-1.2, 1.2)))
    return Case(
        [tags(d, ()), values, np.float32(d.pick([8000, 44100, 1.7, 0.3]) if d.chance(0.95) else -1)],
        {"max_outputs": d.int(1, 3)},
    )


def wav(d):
    """The bytes of a file, not always as they should be."""
    channels, rate, bits = d.int(1, 3), d.pick([8000, 44100]), 16 if d.chance(0.95) else 8
    data = d.random.integers(-2**15, 2**15, d.int(0, 6) * channels).astype("<i2").tobytes()
    extra = d.pick([b"", b"", b"LIST\x04\0\0\0abcd", b"LIST\x03\0\0\0abc"])
    head = struct.pack(
        "<HHIIHH", 1 if d.chance(0.97) else 3, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits
    )
    long = d.chance(0.2)
    body = (
        b"WAVEfmt "
        + struct.pack("<I", 16 + 2 * long)
        + head
        + b"\0\0" * long
        + extra
        + b"data"
        + struct.pack("<I", len(data))
        + data
    )
    out = b"RIFF" + struct.pack("<I", len(body)) + body
    return out[: d.int(0, len(out))] if d.chance(0.1) else out


@op("DecodeWav", count=40)
def decode_wav(d):
    contents = np.empty((), object)
    contents[()] = wav(d)
    return Case(
        [contents], {"desired_channels": d.pick([-1, -1, 1, 2, 4]), "desired_samples": d.pick([-1, -1, 0, 3, 9])}
    )


@op("EncodeWav")
def encode_wav(d):
    audio = d.tensor(
        tf.float32, (d.int(0, 6), d.int(1, 3) if d.chance(0.95) else 0), *(() if d.chance(0.3) else (-1.2, 1.2))
    )
    return Case([audio, np.array(d.pick([8000, 44100, 1]) if d.chance(0.95) else 0, np.int32)])
