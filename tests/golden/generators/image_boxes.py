# SPDX-License-Identifier: Apache-2.0
"""Cases of the image package: boxes, what draws, samples and suppresses them, and glimpses."""
import numpy as np
import tensorflow as tf

from .draw import Case, Program, op
from .image_math import image


@op("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def draw_boxes(d):
    x = image(d, d.dtype(), d.pick([1, 3, 3, 4]) if d.chance(0.95) else 2)
    boxes = d.random.uniform(-0.3, 1.3, (x.shape[0], d.int(0, 12), 4)).astype(np.float32)
    if d.chance(0.7):
        boxes[..., 2:] = boxes[..., :2] + np.abs(boxes[..., 2:])
    inputs = [x, boxes]
    if d.op.endswith("V2"):
        colours = d.random.uniform(0, 1, (d.int(0, 3), x.shape[3] if d.chance(0.5) else 4)).astype(np.float32)
        inputs.append(colours)
    return Case(inputs)


def scored_boxes(d, t, count):
    """Boxes in a few heaps, and scores all unlike: how halves of one size are ordered is the queue's."""
    centres = d.random.uniform(0, 1, (3, 2))
    at = centres[d.random.integers(0, 3, count)] + d.random.uniform(-0.1, 0.1, (count, 2))
    half = d.random.uniform(0.05, 0.3, (count, 2))
    boxes = np.concatenate([at - half, at + half], 1)
    flip = d.random.random(count) < 0.2
    boxes[flip] = boxes[flip][:, [2, 1, 0, 3]]
    if count and d.chance(0.1):
        boxes[0, 2] = boxes[0, 0]
    scores = d.random.permutation(count) / max(count, 1) + 0.01
    return boxes.astype(t.as_numpy_dtype), scores.astype(t.as_numpy_dtype)


@op(
    "NonMaxSuppression",
    "NonMaxSuppressionV2",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
    count=30,
)
def suppression(d):
    t = tf.float32 if d.op == "NonMaxSuppression" else d.pick([tf.float32, tf.float32, tf.float16])
    boxes, scores = scored_boxes(d, t, d.int(0, 12))
    inputs, attrs = [boxes, scores, np.array(d.int(0, 14), np.int32)], {}
    threshold = d.random.uniform(0, 1) if d.chance(0.95) else d.pick([-0.5, 1.5])
    if d.op == "NonMaxSuppression":
        attrs["iou_threshold"] = float(np.float32(threshold))
    else:
        inputs.append(np.array(threshold, t.as_numpy_dtype))
    if d.op[-1] in "345":
        inputs.append(np.array(d.pick([0, -1, 0.3, 0.5]), t.as_numpy_dtype))
    if d.op[-1] == "5":
        inputs.append(np.array(d.pick([0, 0, 0.5, 1.0, 0.1]), t.as_numpy_dtype))
    if d.op[-1] in "45":
        attrs["pad_to_max_output_size"] = d.chance(0.5)
    return Case(inputs, attrs)


@op("NonMaxSuppressionWithOverlaps")
def suppression_by_overlaps(d):
    count = d.int(0, 10)
    overlaps = d.random.uniform(0, 1, (count, count)).astype(np.float32)
    scores = (d.random.permutation(count) / max(count, 1)).astype(np.float32)
    return Case(
        [
            overlaps,
            scores,
            np.array(d.int(0, 12), np.int32),
            np.float32(d.random.uniform(0, 1.2)),
            np.float32(d.pick([0, -1, 0.4])),
        ]
    )


@op("CombinedNonMaxSuppression", count=30)
def combined(d):
    batch, count, classes = d.int(0, 2), d.int(0, 8), d.int(1, 3)
    kinds = d.pick([1, classes]) if d.chance(0.95) else 2
    boxes = np.empty((batch, count, kinds, 4), np.float32)
    for at in np.ndindex(batch, kinds):
        boxes[at[0], :, at[1]] = scored_boxes(d, tf.float32, count)[0]
    scores = d.random.permutation(batch * count * classes).reshape(batch, count, classes) / max(
        1, batch * count * classes
    )
    most = np.array(d.int(1, 5) if d.chance(0.95) else 0, np.int32)
    total = np.array(d.int(1, 12) if d.chance(0.95) else -1, np.int32)
    return Case(
        [
            boxes,
            scores.astype(np.float32),
            d.given(most),
            d.given(total),
            np.float32(d.random.uniform(0, 1)),
            np.float32(d.pick([0, -1, 0.3])),
        ],
        {"pad_per_class": d.chance(0.4), "clip_boxes": d.chance(0.6)},
    )


@op("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2")
def sample_box(d):
    t = d.dtype(among=(tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64))
    sides = np.array([d.int(1, 120), d.int(1, 120), 3]).astype(t.as_numpy_dtype)
    boxes = d.random.uniform(0, 1, (1, d.int(0, 3), 4)).astype(np.float32)
    boxes = np.concatenate([np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], -1)
    aspects, areas = sorted(d.random.uniform(0.3, 3, 2)), sorted(d.random.uniform(0.01, 1, 2))
    attrs = {
        "seed": d.int(1, 1000),
        "seed2": d.int(0, 1000),
        "max_attempts": d.pick([1, 10, 100]),
        "use_image_if_no_bounding_boxes": d.chance(0.8),
        "aspect_ratio_range": [float(np.float32(x)) for x in aspects],
        "area_range": [float(np.float32(x)) for x in areas],
    }
    covered = np.float32(d.pick([0, 0.1, 0.5, 1.0]))
    inputs = [sides, boxes]
    if d.op.endswith("V2"):
        inputs.append(covered)
    else:
        attrs["min_object_covered"] = float(covered)
    if d.chance(0.3):
        return in_a_row(d, inputs, attrs)
    return Case(inputs, attrs, disturb=False)


def in_a_row(d, inputs, attrs):
    """Several steps of one session: each goes on in the stream where the last one stopped."""
    names = ("image_size", "bounding_boxes", "min_object_covered")
    with tf.Graph().as_default() as graph:
        given = {name: tf.constant(value) for name, value in zip(names, inputs)}
        getattr(tf.raw_ops, d.op)(**given, **attrs, name="node")
    return Program(graph, [({}, ["node:0", "node:1", "node:2"], [])] * 3, f"{d.op} three times")


@op("ExtractGlimpse", "ExtractGlimpseV2", count=30)
def glimpse(d):
    x = image(d, tf.float32)
    attrs = {
        "centered": d.chance(0.5),
        "normalized": d.chance(0.5),
        "uniform_noise": False,
        "noise": "zero" if d.chance(0.96) else "pink",
    }
    most = 1.5 if attrs["normalized"] else 6
    offsets = d.random.uniform(-most, most, (x.shape[0], 2)).astype(np.float32)
    return Case([x, d.ints([d.int(0, 5), d.int(1, 5)]), offsets], attrs)
