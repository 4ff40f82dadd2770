# SPDX-License-Identifier: Apache-2.0
"""Inception-v3, with its second head, smoothed labels and RMSProp."""
import dataclasses

import tensorflow as tf

from .builder import batch_norm, conv, dense, dropout, flatten, max_pool
from .network import network, v1
from .pictures import Classifier


@network("inception_v3")
@dataclasses.dataclass
class InceptionV3(Classifier):
    batch: int = 8
    side: int = 139
    width: float = 0.25
    deep = True
    rate = 1e-4
    about = "139x139 pictures instead of 299, a quarter of the channels"

    def layer(self, b, name, x, channels, window, stride=1, padding="SAME"):
        with b.scope(name):
            return b.relu(batch_norm(b, conv(b, x, self.of(channels), window, stride, padding, bias=False)))

    def chain(self, b, name, x, *layers):
        """A branch: layers of (channels, window, ...), one after another."""
        with b.scope(name):
            for i, layer in enumerate(layers):
                x = self.layer(b, f"conv{i}", x, *layer)
        return x

    def mean(self, x):
        return tf.nn.avg_pool2d(x, 3, 1, "SAME")

    def stem(self, b, x):
        x = self.chain(b, "stem1", x, (32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3))
        x = self.chain(b, "stem2", max_pool(x, 3, 2), (80, 1), (192, 3, 1, "VALID"))
        return max_pool(x, 3, 2)

    def mixed5(self, b, x, last):
        return tf.concat(
            [
                self.chain(b, "one", x, (64, 1)),
                self.chain(b, "five", x, (48, 1), (64, 5)),
                self.chain(b, "three", x, (64, 1), (96, 3), (96, 3)),
                self.chain(b, "pool", self.mean(x), (last, 1)),
            ],
            3,
        )

    def reduce6(self, b, x):
        return tf.concat(
            [
                self.chain(b, "three", x, (384, 3, 2, "VALID")),
                self.chain(b, "twice", x, (64, 1), (96, 3), (96, 3, 2, "VALID")),
                max_pool(x, 3, 2),
            ],
            3,
        )

    def mixed6(self, b, x, c):
        row, column = (1, 7), (7, 1)
        return tf.concat([self.chain(b, "one", x, (192, 1)), self.chain(b, "seven", x, (c, 1), (c, row), (192, column)),
                          self.chain(b, "twice", x, (c, 1), (c, column), (c, row), (c, column), (192, row)),
                          self.chain(b, "pool", self.mean(x), (192, 1))], 3)

    def reduce7(self, b, x):
        return tf.concat(
            [
                self.chain(b, "three", x, (192, 1), (320, 3, 2, "VALID")),
                self.chain(b, "seven", x, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, "VALID")),
                max_pool(x, 3, 2),
            ],
            3,
        )

    def split(self, b, name, x):
        with b.scope(name):
            return tf.concat([self.layer(b, "row", x, 384, (1, 3)), self.layer(b, "column", x, 384, (3, 1))], 3)

    def mixed7(self, b, x):
        return tf.concat(
            [
                self.chain(b, "one", x, (320, 1)),
                self.split(b, "split1", self.chain(b, "three", x, (384, 1))),
                self.split(b, "split2", self.chain(b, "twice", x, (448, 1), (384, 3))),
                self.chain(b, "pool", self.mean(x), (192, 1)),
            ],
            3,
        )

    def second(self, b, x):
        with b.scope("second"):
            x = self.layer(b, "narrow", tf.nn.avg_pool2d(x, 5, 3, "VALID"), 128, 1)
            x = flatten(self.layer(b, "window", x, 768, tuple(x.shape[1:3]), padding="VALID"))
            with b.scope("logits"):
                return dense(b, x, self.classes)

    def both(self, b, x):
        x = self.stem(b, x)
        for i, last in enumerate((32, 64, 64)):
            with b.scope(f"mixed5_{i}"):
                x = self.mixed5(b, x, last)
        with b.scope("reduce6"):
            x = self.reduce6(b, x)
        for i, channels in enumerate((128, 160, 160, 192)):
            with b.scope(f"mixed6_{i}"):
                x = self.mixed6(b, x, channels)
        second = self.second(b, x)
        with b.scope("reduce7"):
            x = self.reduce7(b, x)
        for i in range(2):
            with b.scope(f"mixed7_{i}"):
                x = self.mixed7(b, x)
        with b.scope("logits"):
            return dense(b, dropout(b, tf.reduce_mean(x, [1, 2]), 0.2), self.classes), second

    def logits(self, b, x):
        return self.both(b, x)[0]

    def loss(self, b, feeds):
        wanted = tf.one_hot(feeds["labels"], self.classes, 0.9 + 0.1 / self.classes, 0.1 / self.classes, dtype=b.dtype)
        losses = [
            tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=wanted, logits=one))
            for one in self.both(b, feeds["x"])
        ]
        return losses[0] + 0.4 * losses[1]

    def optimizer(self):
        return v1.train.RMSPropOptimizer(self.rate, 0.9, 0.9, epsilon=1.0)
