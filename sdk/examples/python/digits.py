# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network to read handwritten digits of 8x8 pixels, and says how many new ones it reads.

usage: digits.py [CHECKPOINT_FOLDER]
"""

import os
import sys

import numpy as np
import tenon
from tenon import ops, train

BATCH, STEPS = 32, 1200

data = np.load(os.path.join(tenon.share_dir(), "digits.npy"))  # uint8 [n, 65]: the pixels, 0 to 16, and the label
data = data[np.random.default_rng(20260101).permutation(len(data))]
images, labels = data[:, :64].reshape(-1, 8, 8, 1).astype(np.float32) / 16, data[:, 64].astype(np.int64)
held_out = len(data) // 5

graph = tenon.Graph()
with graph:
    pixels = tenon.placeholder("float32", [None, 8, 8, 1], name="pixels")
    wanted = tenon.placeholder("int64", [None], name="labels")
    model = train.Model(graph, seed=1)
    x = ops.Relu(model.conv2d("conv1", pixels, 16, 3))
    x = ops.Relu(model.conv2d("conv2", x, 32, 3))
    x = ops.Reshape(model.max_pool(x, 2), [-1, 4 * 4 * 32])
    x = ops.Relu(model.dense("dense1", x, 64))
    logits = model.dense("dense2", x, 10)
    loss = train.sparse_softmax_loss(logits, wanted)
    accuracy = train.accuracy(logits, wanted)
    done = ops.Cast(model.counter("global_step").value, DstT="float32") / STEPS
    update = train.minimize(model, loss, ops.Maximum(1.0 - done, 0.02) * 0.002, train.Adam())


def feed(step):
    """A batch that depends on the step alone, each image moved by up to a pixel."""
    random = np.random.default_rng([1, step])
    chosen = random.integers(held_out, len(data), BATCH)
    padded = np.pad(images[chosen], ((0, 0), (1, 1), (1, 1), (0, 0)))
    down, right = random.integers(0, 3, 2)
    return padded[:, down : down + 8, right : right + 8], labels[chosen]


def show(report):
    if report["step"] % 200 == 0:
        rate = f"{report['examples_per_second']:,.0f} examples/s"
        print(f"step {report['step']}  loss {report['loss']:.3f}  accuracy {report['accuracy']:.3f}  {rate}")


checkpoints = sys.argv[1] if len(sys.argv) > 1 else ""
trainer = train.Trainer(model, loss=loss, metrics={"accuracy": accuracy}, update=update, feeds=[pixels, wanted],
                        feed=feed, examples=BATCH, steps=STEPS, checkpoint_folder=checkpoints, on_step=show,
                        on_message=print)
session = tenon.Session(graph)
trainer.run(session)
share = session.run(accuracy, {pixels: images[:held_out], wanted: labels[:held_out]})
print(f"{share:.1%} of {held_out} digits that it has not seen")
