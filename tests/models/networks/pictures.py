# SPDX-License-Identifier: Apache-2.0
"""Networks that classify pictures: one chain of convolutions."""
import dataclasses

import tensorflow as tf

from .builder import batch_norm, conv, cross_entropy, dense, depthwise, dropout, flatten, max_pool, truncated
from .dense import digits
from .network import Network, network, v1


@dataclasses.dataclass
class Classifier(Network):
    """A network with `logits`."""
    side: int = 64
    channels: int = 3
    classes: int = 100
    width: float = 1.0  # of all layers

    def feeds(self, random):
        return digits(random, self.batch, (self.side, self.side, self.channels), self.classes)

    def of(self, channels):
        return max(1, int(channels * self.width))

    def infer(self, b, feeds):
        logits = self.logits(b, feeds["x"])
        best = tf.math.top_k(logits, min(5, self.classes))
        return {"logits": logits, "probabilities": tf.nn.softmax(logits), "best": best.indices}

    def loss(self, b, feeds):
        return cross_entropy(feeds["labels"], self.logits(b, feeds["x"]))

    rate = 0.01

    def optimizer(self):
        return v1.train.MomentumOptimizer(self.rate, 0.9)


@network("lenet")
@dataclasses.dataclass
class LeNet(Classifier):
    """LeNet-5 as of today: rectifiers and maxima."""
    batch: int = 16
    side: int = 28
    channels: int = 1
    classes: int = 10
    resource = False

    def logits(self, b, x):
        for name, channels, padding in (("conv1", 6, "SAME"), ("conv2", 16, "VALID")):
            with b.scope(name):
                x = max_pool(b.relu(conv(b, x, self.of(channels), 5, padding=padding)))
        x = flatten(x)
        for name, size in (("dense1", 120), ("dense2", 84)):
            with b.scope(name):
                x = dense(b, x, self.of(size), b.relu)
        with b.scope("logits"):
            return dense(b, x, self.classes)


@network("alexnet")
@dataclasses.dataclass
class AlexNet(Classifier):
    """Krizhevsky's, in one tower, with its normalisation, dropout and decay of weights."""
    batch: int = 4
    side: int = 99
    width: float = 0.25
    resource = False
    doubles = False  # LRN
    rate = 1e-3
    about = "99x99 pictures instead of 227, a quarter of the channels"

    def logits(self, b, x):
        layers = (
            (96, 11, 4, "VALID"),
            (256, 5, 1, "SAME"),
            (384, 3, 1, "SAME"),
            (384, 3, 1, "SAME"),
            (256, 3, 1, "SAME"),
        )
        for i, (channels, window, stride, padding) in enumerate(layers):
            with b.scope(f"conv{i + 1}"):
                x = b.relu(conv(b, x, self.of(channels), window, stride, padding))
                if i < 2:
                    x = tf.nn.local_response_normalization(x, 2, 2.0, 1e-4, 0.75)
                if i in (0, 1, 4):
                    x = max_pool(x, 3, 2)
        x = flatten(x)
        for i in (6, 7):
            with b.scope(f"dense{i}"):
                x = dropout(b, dense(b, x, self.of(4096), b.relu, truncated(0.05)), 0.5)
        with b.scope("logits"):
            return dense(b, x, self.classes, initial=truncated(0.01))

    def loss(self, b, feeds):
        weights = [variable for name, variable in b.made.items() if name.endswith("kernel")]
        return super().loss(b, feeds) + 5e-4 * tf.add_n([tf.nn.l2_loss(one) for one in weights])


@network("vgg_a")
@dataclasses.dataclass
class VggA(Classifier):
    batch: int = 4
    side: int = 64
    width: float = 0.25
    about = "64x64 pictures instead of 224, a quarter of the channels"

    def logits(self, b, x):
        number = 0
        for channels in (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"):
            if channels == "pool":
                x = max_pool(x)
                continue
            number += 1
            with b.scope(f"conv{number}"):
                x = b.relu(conv(b, x, self.of(channels), 3))
        x = flatten(x)
        for i in (1, 2):
            with b.scope(f"dense{i}"):
                x = dropout(b, dense(b, x, self.of(4096), b.relu, truncated(0.05)), 0.5)
        with b.scope("logits"):
            return dense(b, x, self.classes)


@network("resnet50")
@dataclasses.dataclass
class ResNet50(Classifier):
    """The first version: strides in the first 1x1 convolution of a block."""
    width: float = 0.5
    deep = True
    rate = 1e-4  # batches are small: with more, what rounding left grows tenfold in each step
    about = "64x64 pictures instead of 224, half the channels"

    def layer(self, b, name, x, channels, window, stride=1, rectified=True):
        with b.scope(name):
            y = batch_norm(b, conv(b, x, channels, window, stride, bias=False), epsilon=1e-5)
            return b.relu(y) if rectified else y

    def block(self, b, x, channels, stride):
        shortcut = x
        if x.shape[-1] != 4 * channels:
            shortcut = self.layer(b, "shortcut", x, 4 * channels, 1, stride, False)
        y = self.layer(b, "narrow", x, channels, 1, stride)
        y = self.layer(b, "window", y, channels, 3)
        return b.relu(self.layer(b, "wide", y, 4 * channels, 1, 1, False) + shortcut)

    def logits(self, b, x):
        x = tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]])
        with b.scope("first"):
            x = b.relu(batch_norm(b, conv(b, x, self.of(64), 7, 2, "VALID", bias=False), epsilon=1e-5))
        x = max_pool(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2)
        for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for i in range(blocks):
                with b.scope(f"stage{stage + 2}_{i}"):
                    x = self.block(b, x, self.of(channels), 2 if i == 0 and stage > 0 else 1)
        with b.scope("logits"):
            return dense(b, tf.reduce_mean(x, [1, 2]), self.classes)


@network("mobilenet_v2")
@dataclasses.dataclass
class MobileNetV2(Classifier):
    width: float = 0.5
    deep = True
    rate = 1e-4
    about = "64x64 pictures instead of 224, half the channels"

    def normal(self, b, x, rectified=True):
        y = batch_norm(b, x)
        return b.relu6(y) if rectified else y

    def block(self, b, x, channels, stride, expansion):
        y = x
        if expansion != 1:
            with b.scope("expand"):
                y = self.normal(b, conv(b, x, expansion * x.shape[-1], 1, bias=False))
        with b.scope("depthwise"):
            y = self.normal(b, depthwise(b, y, 3, stride))
        with b.scope("project"):
            y = self.normal(b, conv(b, y, channels, 1, bias=False), False)
        return x + y if stride == 1 and x.shape[-1] == channels else y

    def logits(self, b, x):
        with b.scope("first"):
            x = self.normal(b, conv(b, x, self.of(32), 3, 2, bias=False))
        number = 0
        for expansion, channels, blocks, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for i in range(blocks):
                with b.scope(f"block{number}"):
                    x = self.block(b, x, self.of(channels), stride if i == 0 else 1, expansion)
                number += 1
        with b.scope("last"):
            x = self.normal(b, conv(b, x, 1280, 1, bias=False))
        with b.scope("logits"):
            return dense(b, dropout(b, tf.reduce_mean(x, [1, 2]), 0.2), self.classes)

    def optimizer(self):
        return v1.train.RMSPropOptimizer(self.rate, 0.9, 0.9, epsilon=1.0)


@network("densenet121")
@dataclasses.dataclass
class DenseNet121(Classifier):
    batch: int = 4
    growth: int = 12
    deep = True
    rate = 1e-3
    about = "64x64 pictures instead of 224, growth 12 instead of 32"

    def layer(self, b, name, x, channels, window):
        with b.scope(name):
            return conv(b, b.relu(batch_norm(b, x)), channels, window, bias=False)

    def logits(self, b, x):
        with b.scope("first"):
            x = b.relu(batch_norm(b, conv(b, x, 2 * self.growth, 7, 2, bias=False)))
        x = max_pool(x, 3, 2, "SAME")
        for number, layers in enumerate((6, 12, 24, 16)):
            for i in range(layers):
                with b.scope(f"dense{number}_{i}"):
                    y = self.layer(b, "narrow", x, 4 * self.growth, 1)
                    x = tf.concat([x, self.layer(b, "window", y, self.growth, 3)], 3)
            if number < 3:
                x = tf.nn.avg_pool2d(self.layer(b, f"transition{number}", x, x.shape[-1] // 2, 1), 2, 2, "VALID")
        with b.scope("last"):
            x = b.relu(batch_norm(b, x))
        with b.scope("logits"):
            return dense(b, tf.reduce_mean(x, [1, 2]), self.classes)

    def optimizer(self):
        return v1.train.MomentumOptimizer(self.rate, 0.9, use_nesterov=True)
