# SPDX-License-Identifier: Apache-2.0
"""Pictures as such: colours, crops, boxes, files."""
import functools

import numpy as np
import tensorflow as tf

from .inputs import case, cases

raw = tf.raw_ops


def photo(i, low=0, high=1):
    return i.floats(i.pick((1, 8, 8, 3), (1, 64, 64, 3), (4, 256, 256, 3)), low, high)


cases("RGBToHSV HSVToRGB", lambda i: [photo(i)])
cases("AdjustContrastv2 AdjustSaturation", lambda i: [photo(i), i.read(np.float32(1.3))])
cases("AdjustHue", lambda i: [photo(i), i.read(np.float32(0.2))])


def boxes(i, many):
    low = i.reals((many, 2), 0, 0.6)
    return np.concatenate([low, low + i.reals((many, 2), 0.05, 0.4)], 1)


def crops(i):
    """Boxes and which picture each is of."""
    many = i.pick(2, 16, 64)
    return [i.read(boxes(i, many)), i.ints((many,), i.shape("picture")[0])]


SIZE = np.array([14, 14], np.int32)
cases("CropAndResize", lambda i: [i.picture(), *crops(i), SIZE])
case("CropAndResize, nearest", lambda i: [i.picture(), *crops(i), SIZE], method="nearest")


def cropped(i):
    return i.floats((i.pick(2, 16, 64), 14, 14, i.shape("picture")[3]))


cases("CropAndResizeGradImage", lambda i: [cropped(i), *crops(i), np.array(i.shape("picture"), np.int32)], T=tf.float32)
cases("CropAndResizeGradBoxes", lambda i: [cropped(i), i.picture(), *crops(i)])
cases("DrawBoundingBoxes", lambda i: [photo(i), i.read(np.stack([boxes(i, 8) for _ in range(i.pick(1, 1, 4))]))])
cases(
    "DrawBoundingBoxesV2",
    lambda i: [photo(i), i.read(np.stack([boxes(i, 8) for _ in range(i.pick(1, 1, 4))])), i.floats((2, 3), 0, 1)],
)
cases(
    "ExtractGlimpse ExtractGlimpseV2",
    lambda i: [i.picture(), np.array([i.pick(2, 14, 28)] * 2, np.int32), i.floats((i.shape("picture")[0], 2))],
)


def scored(i):
    many = i.pick(8, 128, 1024)
    return [
        i.read(boxes(i, many)),
        i.read((i.random.permutation(many) / many).astype(np.float32)),
        np.int32(i.pick(4, 32, 100)),
    ]


THRESHOLD = np.float32(0.5)
cases("NonMaxSuppression", scored)
cases("NonMaxSuppressionV2", lambda i: [*scored(i), THRESHOLD])
cases("NonMaxSuppressionV3 NonMaxSuppressionV4", lambda i: [*scored(i), THRESHOLD, np.float32(0.1)])
cases("NonMaxSuppressionV5", lambda i: [*scored(i), THRESHOLD, np.float32(0.1), np.float32(0)])
case("NonMaxSuppressionV5, soft", lambda i: [*scored(i), THRESHOLD, np.float32(0.1), np.float32(0.5)])


def overlaps(i):
    many = i.pick(8, 128, 512)
    return [
        i.floats((many, many), 0, 1),
        i.floats((many,), 0, 1),
        np.int32(i.pick(4, 32, 100)),
        np.float32(0.9),
        np.float32(0.1),
    ]


cases("NonMaxSuppressionWithOverlaps", overlaps)


def combined(i):
    batch, many, classes = i.pick((1, 8, 2), (2, 64, 4), (4, 256, 16))
    return [
        i.read(np.stack([boxes(i, many)[:, None] for _ in range(batch)])),
        i.floats((batch, many, classes), 0, 1),
        np.int32(10),
        np.int32(50),
        THRESHOLD,
        np.float32(0.1),
    ]


cases("CombinedNonMaxSuppression", combined)
SAMPLE = {"seed": 1, "seed2": 2, "aspect_ratio_range": [0.75, 1.33], "area_range": [0.1, 1.0]}
cases(
    "SampleDistortedBoundingBoxV2",
    lambda i: [i.read(np.array([256, 256, 3], np.int32)), i.read(boxes(i, 2)[None]), np.float32(0.3)],
    **SAMPLE
)
cases(
    "SampleDistortedBoundingBox",
    lambda i: [i.read(np.array([256, 256, 3], np.int32)), i.read(boxes(i, 2)[None])],
    **SAMPLE
)

# Files.


def pixels(side):
    """A picture with edges and shades."""
    y, x = np.mgrid[0:side, 0:side]
    shade = np.stack([127 + 120 * np.sin(x / 9), 127 + 120 * np.cos(y / 7), (x * y) % 256], -1)
    return shade.astype(np.uint8)


@functools.cache
def file(kind, side):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(tf.io.encode_jpeg(pixels(side)) if kind == "jpeg" else tf.io.encode_png(pixels(side)))


def encoded(i, kind):
    return i.read(np.array(file(kind, i.pick(8, 64, 512)), object))


def bitmap(i):
    side = i.pick(8, 64, 512)
    data = pixels(side).tobytes()
    head = (
        b"BM"
        + (54 + len(data)).to_bytes(4, "little")
        + bytes(4)
        + (54).to_bytes(4, "little")
        + (40).to_bytes(4, "little")
        + side.to_bytes(4, "little") * 2
        + b"\x01\x00\x18\x00"
        + bytes(24)
    )
    return i.read(np.array(head + data, object))


case("DecodeJpeg; DecodeImage, JPEG; ExtractJpegShape", lambda i: [encoded(i, "jpeg")])
case("DecodeJpeg, by the exact transform", lambda i: [encoded(i, "jpeg")], dct_method="INTEGER_ACCURATE")
case("DecodePng; DecodeImage, PNG", lambda i: [encoded(i, "png")])
cases("DecodeBmp", lambda i: [bitmap(i)], channels=3)
cases(
    "DecodeAndCropJpeg",
    lambda i: [encoded(i, "jpeg"), np.array([2, 2, i.pick(4, 32, 256), i.pick(4, 32, 256)], np.int32)],
)
cases("EncodeJpeg", lambda i: [i.read(pixels(i.pick(8, 64, 512)))])
cases("EncodeJpegVariableQuality", lambda i: [i.read(pixels(i.pick(8, 64, 512))), i.read(np.int32(90))])
cases("EncodePng", lambda i: [i.read(pixels(i.pick(8, 64, 256)))])


def sound(i):
    return i.floats((i.pick(16, 4096, 131072), 2))


cases("EncodeWav", lambda i: [sound(i), np.int32(44100)])
case("DecodeWav, with EncodeWav", lambda i: [raw.EncodeWav(audio=sound(i), sample_rate=np.int32(44100))])
