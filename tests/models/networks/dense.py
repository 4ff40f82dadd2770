# SPDX-License-Identifier: Apache-2.0
"""Networks of dense layers, and k-means."""
import dataclasses

import numpy as np
import tensorflow as tf

from .builder import adam, cross_entropy, dense, near, normal
from .network import Network, network, v1


def digits(random, batch, pixels, classes):
    """Pictures that have to do with their labels."""
    labels = random.integers(0, classes, batch).astype(np.int32)
    prototypes = random.uniform(0, 1, (classes, *pixels))
    return {"x": np.clip(prototypes[labels] + random.normal(0, 0.2, (batch, *pixels)), 0, 1), "labels": labels}


@network("mlp")
@dataclasses.dataclass
class Mlp(Network):
    batch: int = 32
    pixels: int = 784
    sizes: tuple = (256, 128)
    classes: int = 10
    resource = False

    def feeds(self, random):
        return digits(random, self.batch, (self.pixels,), self.classes)

    def logits(self, b, x):
        for i, size in enumerate(self.sizes):
            with b.scope(f"layer{i}"):
                x = dense(b, x, size, b.relu)
        with b.scope("logits"):
            return dense(b, x, self.classes)

    def infer(self, b, feeds):
        logits = self.logits(b, feeds["x"])
        return {"probabilities": tf.nn.softmax(logits), "classes": tf.argmax(logits, 1)}

    def loss(self, b, feeds):
        return cross_entropy(feeds["labels"], self.logits(b, feeds["x"]))


@network("vae")
@dataclasses.dataclass
class VariationalAutoencoder(Network):
    """Kingma and Welling: one hidden layer on either side, Bernoulli pixels."""
    batch: int = 16
    pixels: int = 784
    hidden: int = 200
    latent: int = 20

    def feeds(self, random):
        return {"x": digits(random, self.batch, (self.pixels,), 10)["x"]}

    def encode(self, b, x):
        with b.scope("encoder"):
            with b.scope("hidden"):
                hidden = dense(b, x, self.hidden, tf.nn.tanh)
            with b.scope("mean"):
                mean = dense(b, hidden, self.latent)
            with b.scope("log_variance"):
                return mean, dense(b, hidden, self.latent)

    def decode(self, b, z):
        with b.scope("decoder"):
            with b.scope("hidden"):
                hidden = dense(b, z, self.hidden, tf.nn.tanh)
            with b.scope("pixels"):
                return dense(b, hidden, self.pixels)

    def infer(self, b, feeds):
        mean, log_variance = self.encode(b, feeds["x"])
        picture = tf.sigmoid(self.decode(b, tf.random.normal([4, self.latent], dtype=b.dtype, seed=b.seed())))
        return {"mean": mean, "deviation": tf.exp(0.5 * log_variance), "picture": picture}

    def loss(self, b, feeds):
        mean, log_variance = self.encode(b, feeds["x"])
        z = mean + tf.exp(0.5 * log_variance) * tf.random.normal(tf.shape(mean), dtype=b.dtype, seed=b.seed())
        pixels = tf.nn.sigmoid_cross_entropy_with_logits(labels=feeds["x"], logits=self.decode(b, z))
        divergence = -0.5 * tf.reduce_sum(1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
        return tf.reduce_mean(tf.reduce_sum(pixels, 1) + divergence)

    def optimizer(self):
        return adam(1e-3)


@network("kmeans")
@dataclasses.dataclass
class KMeans(Network):
    """Centres drawn among the points with k-means++, then mini-batches: a centre moves by one over how many points it
    has seen."""
    batch: int = 64
    width: int = 16
    centres: int = 8
    resource = False
    loops = True

    def feeds(self, random):
        places = random.uniform(-4, 4, (self.centres, self.width))
        return {
            "points": places[random.integers(0, self.centres, self.batch)]
            + random.normal(0, 0.5, (self.batch, self.width))
        }

    @staticmethod
    def distances(points, centres):
        squares = tf.reduce_sum(tf.square(points), 1, keepdims=True)
        return squares - 2 * tf.matmul(points, centres, transpose_b=True) + tf.reduce_sum(tf.square(centres), 1)

    def centres_of(self, b):
        return b.variable("centres", [self.centres, self.width], normal(2.0)), b.variable(
            "counts", [self.centres], near(1.0)
        )

    def infer(self, b, feeds):
        centres, _ = self.centres_of(b)
        distances = self.distances(feeds["points"], centres)
        return {
            "nearest": tf.argmin(distances, 1),
            "distance": tf.reduce_min(distances, 1),
            "seeds": self.spread(b, feeds["points"]),
        }

    def spread(self, b, points):
        """k-means++: each next centre with a probability that grows with its distance from those before."""
        first = tf.random.uniform([1], 0, self.batch, tf.int32, seed=b.seed())
        draws = tf.random.uniform(
            [self.centres], dtype=b.dtype, seed=b.seed()
        )  # not in the loop: its turns run ahead of one another

        def turn(i, chosen):
            near_ones = tf.reduce_min(tf.maximum(self.distances(points, tf.gather(points, chosen)), 0), 1)
            cumulative = tf.cumsum(near_ones)
            at = draws[i] * cumulative[-1]
            following = tf.reduce_sum(tf.cast(cumulative < at, tf.int32))
            return i + 1, tf.concat([chosen, [tf.minimum(following, self.batch - 1)]], 0)

        return tf.while_loop(
            lambda i, chosen: i < self.centres, turn, (1, first), (tf.TensorShape([]), tf.TensorShape([None]))
        )[1]

    def train(self, b, feeds):
        points = feeds["points"]
        centres, counts = self.centres_of(b)
        distances = self.distances(points, centres)
        nearest = tf.argmin(distances, 1, output_type=tf.int32)
        seen, at, times = tf.unique_with_counts(nearest)
        sums = tf.math.unsorted_segment_sum(points, at, tf.size(seen))
        times = tf.cast(times, b.dtype)
        loss = tf.reduce_mean(tf.reduce_min(distances, 1))
        with tf.control_dependencies([loss, sums]):
            counted = v1.scatter_add(counts, seen, times)
        with tf.control_dependencies([counted]):
            total = tf.gather(counts.read_value(), seen)
            change = (sums - tf.expand_dims(times, 1) * tf.gather(centres.read_value(), seen)) / tf.expand_dims(
                total, 1
            )
        return loss, [v1.scatter_add(centres, seen, change)]
