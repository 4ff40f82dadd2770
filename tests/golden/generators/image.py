# SPDX-License-Identifier: Apache-2.0
"""Cases of the image package: files of pictures, read and written."""
import numpy as np
import tensorflow as tf

from . import pictures
from .draw import Case, op


def scalar(data):
    out = np.empty((), object)
    out[()] = data
    return out


def pixels(d, channels, most=256, high=14):
    """Smooth in part, so that it becomes a small file, and of any size."""
    height, width = d.int(1, high), d.int(1, high)
    y, x = np.mgrid[0:height, 0:width]
    smooth = [(x * d.int(-9, 9) + y * d.int(-9, 9) + d.int(0, most - 1)) % most for _ in range(channels)]
    out = np.stack(smooth, -1)
    if d.chance(0.3):
        out = np.where(d.random.random((height, width, 1)) < 0.2, d.random.integers(0, most, out.shape), out)
    return out


def jpeg(d):
    if d.chance(0.6):
        return d.pick(list(pictures.JPEGS.values()))
    image = pixels(d, d.pick([1, 3, 3])).astype(np.uint8)
    return tf.raw_ops.EncodeJpeg(
        image=image, quality=d.pick([5, 50, 90, 100]), progressive=d.chance(0.3), chroma_downsampling=d.chance(0.6)
    ).numpy()


def png(d):
    kind = d.pick(list(pictures.SAMPLES))
    depth = d.pick(pictures.DEPTHS[kind])
    samples = pixels(d, pictures.SAMPLES[kind], 1 << depth, high=12)
    palette = transparent = None
    if kind == pictures.PALETTE:
        palette = d.random.integers(0, 256, (1 << depth, 3))
        transparent = bytes(d.random.integers(0, 256, d.int(1, 1 << depth)).astype(np.uint8)) if d.chance(0.5) else None
    elif kind in (pictures.GREY, pictures.RGB) and d.chance(0.3):
        transparent = b"".join(int(each).to_bytes(2, "big") for each in samples[0, 0])
    extra = (
        [(b"gAMA", (45455).to_bytes(4, "big"))]
        if d.chance(0.1)
        else [(b"tEXt", b"Comment\0text")] if d.chance(0.1) else []
    )
    return pictures.png(
        samples, kind, depth, d.chance(0.4), palette, transparent, lambda: d.int(0, 4), d.pick([1, 6, 9]), extra
    )


def gif(d, most=3):
    width, height, colours = d.int(1, 10), d.int(1, 10), d.pick([2, 4, 7, 16, 200])
    table = lambda: d.random.integers(0, 256, (colours, 3)).astype(np.uint8)
    frames = []
    for i in range(d.int(1, most) if d.chance(0.97) else 0):
        whole = i == 0 and d.chance(0.8)
        w, h = (width, height) if whole else (d.int(1, width + 1), d.int(1, height + 1))
        frame = {
            "pixels": d.random.integers(0, colours if d.chance(0.97) else colours + 1, (h, w)),
            "interlaced": d.chance(0.3),
        }
        if not whole:
            frame.update(left=d.int(0, width), top=d.int(0, height))
        if d.chance(0.4):
            frame.update(transparent=d.int(0, colours - 1), disposal=d.int(0, 3))
        if d.chance(0.3):
            frame["palette"] = table()
        frames.append(frame)
    return pictures.gif(
        width,
        height,
        frames,
        table() if d.chance(0.95) else None,
        d.int(0, colours - 1),
        d.pick([b"GIF89a", b"GIF87a"]),
    )


def bmp(d):
    return pictures.bmp(pixels(d, d.pick([1, 3, 4])), d.chance(0.4), d.pick([40, 108, 124]))


def file(d, *kinds):
    """A file of one of the formats, now and then cut off, or of none."""
    if d.chance(0.04):
        return d.pick([b"", b"\xff\xd8", b"no picture", b"RIFF\x10\0\0\0WEBPVP8 ", b"\x89PNG", b"GIF89a", b"BM"])
    data = d.pick(kinds)(d)
    # libjpeg says of itself what it does with a file that ends within its headers.
    return data[: d.int(len(data) * 3 // 4, len(data) - 2)] if d.chance(0.08) else data


def jpeg_attrs(d):
    attrs = {
        "fancy_upscaling": d.chance(0.7),
        "dct_method": d.pick(["", "INTEGER_FAST", "INTEGER_ACCURATE"]) if d.chance(0.97) else "FLOAT",
    }
    if d.chance(0.3):
        attrs["ratio"] = d.pick([1, 2, 4, 8]) if d.chance(0.95) else 3
    return attrs


def channels(d, *kinds):
    return {"channels": d.pick(kinds) if d.chance(0.96) else 2}


@op("DecodeJpeg", count=60)
def decode_jpeg(d):
    attrs = {**jpeg_attrs(d), **channels(d, 0, 0, 1, 3)}
    data = file(d, jpeg, jpeg, jpeg, jpeg, jpeg, jpeg, png, lambda d: gif(d, 1), gif, bmp)
    if data.endswith(b"\xff\xd9") and d.chance(0.15):
        # Of a file that ends earlier TensorFlow reads the last bytes once more, as often as it needs some.
        data = data[: len(data) - d.pick([0, 2])]
        attrs.update(try_recover_truncated=True, acceptable_fraction=d.pick([0.0, 0.5, 1.0]))
    return Case([scalar(data)], attrs)


@op("DecodePng", count=90)
def decode_png(d):
    data = file(d, *[png] * 12, jpeg, lambda d: gif(d, 1), bmp)
    return Case([scalar(data)], {**channels(d, 0, 0, 1, 3, 4), "dtype": d.turn([tf.uint8, tf.uint16])})


@op("DecodeGif", count=50)
def decode_gif(d):
    return Case([scalar(file(d, *[gif] * 10, jpeg, png, bmp))])


@op("DecodeBmp", count=40)
def decode_bmp(d):
    data = file(d, *[bmp] * 10, jpeg, png, gif)
    if data.startswith(b"BM") and len(data) > 54 and d.chance(0.2):  # another number somewhere in the header
        at = d.pick([10, 14, 18, 22, 26, 28, 30])
        data = data[:at] + d.int(0, 40).to_bytes(2, "little") + data[at + 2:]
    return Case([scalar(data)], channels(d, 0, 0, 1, 3, 4))


@op("DecodeImage", count=60)
def decode_image(d):
    attrs = {
        **channels(d, 0, 0, 0, 3, 1, 4),
        "dtype": d.turn([tf.uint8, tf.uint16, tf.float32]),
        "expand_animations": d.chance(0.7),
    }
    return Case([scalar(file(d, jpeg, png, gif, bmp))], attrs)


@op("DecodeAndCropJpeg", count=40)
def decode_and_crop(d):
    data = file(d, *[jpeg] * 12, png, gif, bmp)
    height, width = 13, 19
    top, left = d.int(0, height - 1), d.int(0, width - 1)
    window = [top, left, d.int(1, height - top), d.int(1, width - left)]
    if d.chance(0.1):
        window[d.int(0, 3)] = d.pick([-1, 0, 14, 20])
    return Case([scalar(data), d.ints(window)], {**jpeg_attrs(d), **channels(d, 0, 0, 1, 3)})


@op("ExtractJpegShape", count=25)
def extract_shape(d):
    return Case([scalar(file(d, *[jpeg] * 8, png))], {"output_type": d.turn([tf.int32, tf.int64])})


@op("EncodeJpeg", count=40)
def encode_jpeg(d):
    image = (
        pixels(d, d.pick([1, 3, 3]) if d.chance(0.96) else d.pick([2, 4])).astype(np.uint8)
        if d.chance(0.97)
        else np.zeros((0, 3, 3), np.uint8)
    )
    attrs = {
        "quality": d.pick([0, 1, 50, 95, 100]) if d.chance(0.95) else d.pick([-1, 101]),
        "progressive": d.chance(0.3),
        "optimize_size": d.chance(0.3),
        "chroma_downsampling": d.chance(0.6),
        "density_unit": d.pick(["in", "cm"]),
        "x_density": d.pick([300, 72, 0, 70000]),
        "y_density": d.pick([300, 1]),
    }
    if d.chance(0.2):
        attrs["format"] = d.pick(["grayscale", "rgb"])
    if d.chance(0.2):
        attrs["xmp_metadata"] = "<x:xmpmeta/>"
    return Case([image], attrs)


@op("EncodeJpegVariableQuality")
def encode_jpeg_of_quality(d):
    return Case(
        [
            pixels(d, d.pick([1, 3, 3, 2]), high=15).astype(np.uint8),
            np.array(d.pick([0, 20, 75, 100, -1, 101]), np.int32),
        ]
    )


@op("EncodePng", count=50)
def encode_png(d):
    t = d.dtype()
    count = d.pick([1, 2, 3, 4]) if d.chance(0.95) else d.pick([0, 5])
    images = (
        pixels(d, max(count, 1), 256 if t == tf.uint8 else 65536, high=10).astype(t.as_numpy_dtype)[..., :count]
        if count
        else np.zeros((2, 2, 0), t.as_numpy_dtype)
    )
    if d.chance(0.3):
        images = np.stack([images, 255 - images])
    return Case([images], {"compression": d.int(-1, 9) if d.chance(0.95) else d.pick([-2, 10])})
