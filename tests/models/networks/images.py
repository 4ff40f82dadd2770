# SPDX-License-Identifier: Apache-2.0
"""Networks that give pictures: U-Net and DCGAN."""
import dataclasses

import numpy as np
import tensorflow as tf

from .builder import adam, batch_norm, conv, conv_transpose, dense, dropout, flatten, max_pool, normal, truncated
from .network import Network, network, v1


@network("unet")
@dataclasses.dataclass
class UNet(Network):
    """Ronneberger's: unpadded convolutions, cropped shortcuts, a weighted loss a pixel."""
    batch: int = 1
    side: int = 204
    base: int = 8
    about = "204x204 pictures instead of 572, 8 channels in the first layer instead of 64"

    def feeds(self, random):
        out = self.side - 184
        return {
            "x": random.uniform(0, 1, (self.batch, self.side, self.side, 1)),
            "labels": random.integers(0, 2, (self.batch, out, out)).astype(np.int32),
            "weights": random.uniform(0.5, 2, (self.batch, out, out)),
        }

    def pair(self, b, name, x, channels):
        with b.scope(name):
            for i in range(2):
                with b.scope(f"conv{i}"):
                    x = b.relu(conv(b, x, channels, 3, padding="VALID"))
        return x

    def logits(self, b, x):
        kept = []
        for depth in range(4):
            x = self.pair(b, f"down{depth}", x, self.base << depth)
            kept.append(x)
            x = max_pool(x)
        x = dropout(b, self.pair(b, "bottom", x, self.base << 4), 0.5)
        for depth in (3, 2, 1, 0):
            with b.scope(f"up{depth}"):
                x = b.relu(conv_transpose(b, x, self.base << depth, 2, 2, "VALID", initial=truncated(0.1)))
            side = kept[depth].shape[1]
            edge = (side - x.shape[1]) // 2
            x = tf.concat([kept[depth][:, edge:edge + x.shape[1], edge:edge + x.shape[2], :], x], 3)
            x = self.pair(b, f"merge{depth}", x, self.base << depth)
        with b.scope("logits"):
            return conv(b, x, 2, 1)

    def infer(self, b, feeds):
        logits = self.logits(b, feeds["x"])
        return {"probabilities": tf.nn.softmax(logits), "mask": tf.argmax(logits, 3)}

    def loss(self, b, feeds):
        pixels = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=feeds["labels"], logits=self.logits(b, feeds["x"])
        )
        return tf.reduce_sum(pixels * feeds["weights"]) / tf.reduce_sum(feeds["weights"])

    def optimizer(self):
        return adam(1e-3)


@network("dcgan")
@dataclasses.dataclass
class DcGan(Network):
    """Radford's: both players step at once, each with an Adam of its own."""
    batch: int = 8
    side: int = 64
    base: int = 16
    noise: int = 100
    deep = True
    about = "16 channels in the narrowest layer instead of 64"

    def feeds(self, random):
        return {"x": np.tanh(random.normal(0, 1, (self.batch, self.side, self.side, 3)))}

    def generate(self, b, z):
        with b.scope("generator"):
            with b.scope("project"):
                x = tf.reshape(
                    dense(b, z, 4 * 4 * self.base * 8, initial=normal(0.02), bias=False), [-1, 4, 4, self.base * 8]
                )
                x = b.relu(batch_norm(b, x))
            for i, channels in enumerate((4, 2, 1)):
                with b.scope(f"up{i}"):
                    x = b.relu(batch_norm(b, conv_transpose(b, x, self.base * channels, 5, 2, bias=False)))
            with b.scope("picture"):
                return tf.tanh(conv_transpose(b, x, 3, 5, 2))

    def judge(self, b, x):
        with b.scope("judge"):
            for i, channels in enumerate((1, 2, 4, 8)):
                with b.scope(f"down{i}"):
                    x = conv(b, x, self.base * channels, 5, 2, bias=i == 0, initial=truncated(0.02))
                    x = b.leaky_relu(batch_norm(b, x) if i else x, 0.2)
            with b.scope("logit"):
                return dense(b, flatten(x), 1, initial=normal(0.02))

    def infer(self, b, feeds):
        z = tf.random.uniform([self.batch, self.noise], -1, 1, b.dtype, seed=b.seed())
        return {"picture": self.generate(b, z), "real": tf.sigmoid(self.judge(b, feeds["x"]))}

    def train(self, b, feeds):
        z = tf.random.uniform([self.batch, self.noise], -1, 1, b.dtype, seed=b.seed())
        real, picture = self.judge(b, feeds["x"]), self.generate(b, z)
        averages = list(b.updates)
        fake = self.judge(b, picture)
        b.updates = (
            averages  # the judge's are of the real pictures alone: two updates of one variable would have no order
        )

        def cost(logits, truth):
            return tf.reduce_mean(
                tf.nn.sigmoid_cross_entropy_with_logits(
                    labels=tf.fill(tf.shape(logits), tf.constant(truth, b.dtype)), logits=logits
                )
            )

        losses = {"judge": cost(real, 1.0) + cost(fake, 0.0), "generator": cost(fake, 1.0)}
        pairs = []
        for player, loss in losses.items():
            mine = [one for one in v1.trainable_variables() if one.op.name.startswith(player)]
            optimizer = adam(2e-4, 0.5, f"adam_{player}")
            pairs.append((optimizer, optimizer.compute_gradients(loss, mine)))
        gradients = [gradient for _, found in pairs for gradient, _ in found]
        with tf.control_dependencies([*gradients, *losses.values()]):  # neither player sees the other's step
            steps = [optimizer.apply_gradients(found) for optimizer, found in pairs]
        return losses["judge"] + losses["generator"], [*steps, *b.updates]
