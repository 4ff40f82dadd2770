# SPDX-License-Identifier: Apache-2.0
"""Networks of sparse features: word2vec with sampled classes, wide-and-deep."""
import dataclasses

import numpy as np
import tensorflow as tf

from .builder import dense, near, normal, truncated, uniform, zeros
from .network import Network, network, v1


@network("word2vec")
@dataclasses.dataclass
class Word2Vec(Network):
    """Skip-grams; a softmax over classes that are sampled anew in each step."""
    batch: int = 64
    words: int = 1000
    width: int = 32
    sampled: int = 16
    resource = False
    doubles = False  # what the sampler expects is float

    def feeds(self, random):
        # Frequent words have small numbers, as the sampler takes it.
        ids = np.minimum(random.zipf(1.3, (2, self.batch)) - 1, self.words - 1)
        return {
            "ids": ids[0].astype(np.int32),
            "context": ids[1][:, None].astype(np.int64),
            "asked": random.integers(0, 50, 8).astype(np.int32),
        }

    def infer(self, b, feeds):
        vectors = tf.math.l2_normalize(self.vectors(b), 1)
        likeness = tf.matmul(tf.gather(vectors, feeds["asked"]), vectors, transpose_b=True)
        values, places = tf.math.top_k(likeness, 8)
        return {"likeness": values, "nearest": places}

    def vectors(self, b):
        return b.variable("vectors", [self.words, self.width], uniform(1.0))

    def loss(self, b, feeds):
        weights = b.variable("weights", [self.words, self.width], truncated(self.width ** -0.5))
        biases = b.variable("biases", [self.words], near(0.0))
        seen = tf.nn.embedding_lookup(self.vectors(b), feeds["ids"])
        return tf.reduce_mean(
            tf.nn.sampled_softmax_loss(weights, biases, feeds["context"], seen, self.sampled, self.words, seed=b.seed())
        )

    def optimizer(self):
        return v1.train.GradientDescentOptimizer(0.5)


@network("wide_and_deep")
@dataclasses.dataclass
class WideAndDeep(Network):
    """Strings hashed into buckets, any number in an example: a wide part stepped by Ftrl, embeddings and dense layers
    by Adagrad."""
    batch: int = 32
    buckets: int = 100
    columns: int = 3
    width: int = 8
    numbers: int = 5
    sizes: tuple = (32, 16)
    resource = False

    def feeds(self, random):
        feeds = {
            "numbers": random.normal(0, 1, (self.batch, self.numbers)),
            "labels": random.integers(0, 2, (self.batch, 1)).astype(np.float32),
        }
        for i in range(self.columns):
            counts = random.integers(1 if i else 0, 4, self.batch)  # the first column may be empty
            at = [(row, place) for row, count in enumerate(counts) for place in range(count)]
            words = [b"word%d" % word for word in random.integers(0, 60, len(at))]
            feeds.update(
                {
                    f"at{i}": np.array(at, np.int64),
                    f"words{i}": np.array(words, object),
                    f"dims{i}": np.array([self.batch, 4], np.int64),
                }
            )
        return feeds

    def hashed(self, feeds, i):
        return tf.SparseTensor(
            feeds[f"at{i}"], tf.strings.to_hash_bucket_fast(feeds[f"words{i}"], self.buckets), feeds[f"dims{i}"]
        )

    def logits(self, b, feeds):
        wide = b.variable("wide/bias", [1], zeros)
        parts = [feeds["numbers"]]
        for i in range(self.columns):
            ids = self.hashed(feeds, i)
            table = b.variable(f"wide/column{i}", [self.buckets, 1], near(0.0))
            wide = wide + tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="sum")
            table = b.variable(f"deep/column{i}", [self.buckets, self.width], normal(0.3))
            parts.append(tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="sqrtn" if i == 1 else "mean"))
        x = tf.concat(parts, 1)
        with b.scope("deep"):
            for i, size in enumerate(self.sizes):
                with b.scope(f"layer{i}"):
                    x = dense(b, x, size, b.relu)
            with b.scope("logits"):
                return wide + dense(b, x, 1)

    def infer(self, b, feeds):
        return {"probability": tf.sigmoid(self.logits(b, feeds))}

    def train(self, b, feeds):
        loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=feeds["labels"], logits=self.logits(b, feeds))
        )
        optimizers = {
            "wide": v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.001),
            "deep": v1.train.AdagradOptimizer(0.1),
        }
        parts = {part: [one for one in v1.trainable_variables() if one.op.name.startswith(part)] for part in optimizers}
        return loss, [optimizers[part].minimize(loss, var_list=mine) for part, mine in parts.items()]
