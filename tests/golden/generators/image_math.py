# SPDX-License-Identifier: Apache-2.0
"""Cases of the image package: resizing, crops, colours and windows."""
import numpy as np
import tensorflow as tf

from .draw import Case, op


def image(d, t, channels=None, low=1, special=0.0):
    shape = (d.int(1, 2) if d.chance(0.95) else 0, d.int(low, 6), d.int(low, 6), channels or d.int(1, 3))
    return d.tensor(t, shape, *(() if d.chance(0.2) else (0, 100)), special=special)


def size(d, most=7):
    return d.ints([d.int(1, most), d.int(1, most)])


def sampling(d):
    return d.pick([{}, {}, {"align_corners": True}, {"half_pixel_centers": True}, {"half_pixel_centers": True}])


@op("ResizeBicubic", count=40)
def bicubic(d):
    return Case([image(d, d.dtype()), size(d)], sampling(d))


@op("ResizeBicubicGrad")
def bicubic_grad(d):
    x = image(d, d.dtype())
    return Case([d.tensor(tf.float32, (x.shape[0], d.int(1, 7), d.int(1, 7), x.shape[3]), -2, 2), x], sampling(d))


@op("ResizeArea", count=40)
def area(d):
    return Case([image(d, d.dtype()), size(d)], {"align_corners": d.chance(0.3)})


def boxes_of(d, batch):
    count = d.int(0, 4)
    boxes = d.random.uniform(0, 1, (count, 4)).astype(np.float32)
    boxes += (d.random.random((count, 4)) < 0.2) * d.random.uniform(-0.7, 0.7, (count, 4)).astype(np.float32)
    if d.chance(0.2):
        boxes = np.round(boxes * 2).astype(np.float32) / 2
    indices = d.random.integers(0, max(batch, 1), count).astype(np.int32)
    if count and d.chance(0.05):
        indices[d.int(0, count - 1)] = d.pick([-1, batch])
    if count and d.chance(0.03):
        boxes[0, d.int(0, 3)] = d.pick([np.nan, np.inf])
    return boxes.reshape(count, 4), indices


def among(d, t):
    """TensorFlow registers kernels for types that its op does not take."""
    return d.dtype(among=t)


CROPPED = (tf.uint8, tf.uint16, tf.int8, tf.int16, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)


@op("CropAndResize", count=40)
def crop(d):
    x = image(d, among(d, CROPPED))
    boxes, indices = boxes_of(d, x.shape[0])
    attrs = {"method": d.pick(["bilinear", "bilinear", "nearest"]), "extrapolation_value": d.pick([0.0, -1.5])}
    return Case([x, boxes, indices, size(d, 5)], attrs)


@op("CropAndResizeGradImage", count=40)
def crop_grad_image(d):
    t = d.dtype()
    shape = [d.int(1, 2), d.int(1, 6), d.int(1, 6), d.int(1, 3)]
    boxes, indices = boxes_of(d, shape[0])
    grads = d.tensor(tf.float32, (len(boxes), d.int(1, 4), d.int(1, 4), shape[3]), -2, 2)
    return Case([grads, boxes, indices, d.ints(shape)], {"T": t, "method": d.pick(["bilinear", "nearest"])})


@op("CropAndResizeGradBoxes", count=40)
def crop_grad_boxes(d):
    x = image(d, among(d, CROPPED))
    boxes, indices = boxes_of(d, x.shape[0])
    return Case([d.tensor(tf.float32, (len(boxes), d.int(1, 4), d.int(1, 4), x.shape[3]), -2, 2), x, boxes, indices])


def colours(d, t, low=1):
    shape = d.shape(low - 1, 2, large=0.02) + (3,)
    if len(shape) < low:
        shape = (2,) * (low - len(shape)) + shape
    x = d.random.uniform(0, 1, shape)
    if d.chance(0.4):  # equal channels, the edges of the circle
        x = np.round(x * d.pick([1, 2, 6])) / 6
    return x.astype(t.as_numpy_dtype)


@op("RGBToHSV", count=30)
def rgb_to_hsv(d):
    # TensorFlow's gradient divides by squares of differences, which halves do not hold.
    return Case([colours(d, d.dtype())], gradients=lambda case: case.inputs[0].dtype != np.float16)


@op("HSVToRGB")
def hsv_to_rgb(d):
    return Case([colours(d, d.dtype())])


@op("AdjustHue")
def hue(d):
    return Case([colours(d, tf.float32, 3), np.float32(d.random.uniform(-1, 1))])


@op("AdjustSaturation")
def saturation(d):
    return Case([colours(d, tf.float32, 3), np.float32(d.random.uniform(0, 3))])


@op("AdjustContrastv2")
def contrast(d):
    shape = d.shape(3, 4, empty=0.03)
    return Case([d.tensor(tf.float32, shape, 0, 1), np.float32(d.random.uniform(-1, 3))])


@op("ExtractImagePatches", count=45)
def patches(d):
    x = image(d, d.dtype())
    one = lambda most: [1, d.int(1, most), d.int(1, most), 1]
    attrs = {"ksizes": one(3), "strides": one(3), "rates": one(2), "padding": d.pick(["SAME", "VALID"])}
    if d.chance(0.03):
        attrs[d.pick(["ksizes", "strides", "rates"])] = d.pick([[1, 0, 1, 1], [1, 1, 1], [2, 1, 1, 1]])
    return Case([x], attrs, gradients=lambda case: case.inputs[0].size > 0 and case.inputs[0].dtype.kind != "c")


KINDS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]


def resampling(d):
    scale = (
        d.random.uniform(0.2, 3, 2).astype(np.float32) if d.chance(0.97) else np.array([1, d.pick([0, -1])], np.float32)
    )
    attrs = {"kernel_type": d.turn(KINDS) if d.chance(0.97) else "none", "antialias": d.chance(0.6)}
    return [scale, d.random.uniform(-2, 2, 2).astype(np.float32)], attrs


@op("ScaleAndTranslate", count=40)
def scale_and_translate(d):
    inputs, attrs = resampling(d)
    return Case([image(d, d.dtype()), size(d), *inputs], attrs)


@op("ScaleAndTranslateGrad")
def scale_and_translate_grad(d):
    inputs, attrs = resampling(d)
    x = image(d, tf.float32)
    return Case([d.tensor(tf.float32, (x.shape[0], d.int(1, 7), d.int(1, 7), x.shape[3]), -2, 2), x, *inputs], attrs)
