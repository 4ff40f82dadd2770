# SPDX-License-Identifier: Apache-2.0
"""Networks with loops over time: TensorFlow 1's dynamic_rnn, and Keras' layers."""
import dataclasses

import numpy as np
import tensorflow as tf

from .builder import dense, uniform
from .network import Network, network, v1


@dataclasses.dataclass
class LanguageModel(Network):
    """Words in, the next words out; sentences have their own lengths."""
    words: int = 200
    width: int = 64
    steps: int = 12
    loops = True

    def feeds(self, random):
        ids = random.integers(0, self.words, (self.batch, self.steps + 1)).astype(np.int32)
        lengths = random.integers(self.steps // 2, self.steps + 1, self.batch).astype(np.int32)
        return {"ids": ids, "lengths": lengths}

    def embedded(self, b, ids):
        return tf.nn.embedding_lookup(b.variable("embedding", [self.words, self.width], uniform(0.1)), ids)

    def logits(self, b, ids, lengths):
        outputs, ends = self.recur(b, self.embedded(b, ids), lengths)
        with b.scope("logits"):
            return dense(b, outputs, self.words), ends

    def infer(self, b, feeds):
        logits, ends = self.logits(b, feeds["ids"][:, :-1], feeds["lengths"])
        return {"probabilities": tf.nn.softmax(logits), **{f"end{i}": end for i, end in enumerate(ends)}}

    def loss(self, b, feeds):
        logits, _ = self.logits(b, feeds["ids"][:, :-1], feeds["lengths"])
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=feeds["ids"][:, 1:], logits=logits)
        mask = tf.sequence_mask(feeds["lengths"], self.steps, b.dtype)
        return tf.reduce_sum(each * mask) / tf.reduce_sum(mask)

    def gradients(self, pairs):
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 5.0)
        return list(zip(clipped, (variable for _, variable in pairs)))


@network("dynamic_rnn_lstm")
@dataclasses.dataclass
class DynamicRnnLstm(LanguageModel):
    """Layers of TensorFlow 1's LSTMCell, the last with peepholes and a projection."""
    projection: int = 32
    layers: int = 2
    resource = False

    def cell(self):
        from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells  # where TensorFlow 2 keeps them

        def cell(i):
            more = {"use_peepholes": True, "num_proj": self.projection} if i == self.layers - 1 else {}
            return cells.LSTMCell(self.width, initializer=v1.random_uniform_initializer(-0.1, 0.1, seed=i + 1), **more)

        return cells.MultiRNNCell([cell(i) for i in range(self.layers)])

    def recur(self, b, x, lengths):
        with v1.variable_scope("rnn", reuse=v1.AUTO_REUSE, use_resource=self.resource):
            outputs, states = v1.nn.dynamic_rnn(b.keep("cell", self.cell), x, lengths, dtype=b.dtype)
        return outputs, [part for state in states for part in state]

    def optimizer(self):
        return v1.train.GradientDescentOptimizer(1.0)


@dataclasses.dataclass
class KerasModel(LanguageModel):
    """Two layers of Keras, the second backwards."""

    def layers(self, dtype):
        import keras
        kind = getattr(keras.layers, self.kind)
        return [
            kind(
                self.width,
                dtype=dtype,
                return_sequences=True,
                return_state=True,
                go_backwards=i == 1,
                kernel_initializer=keras.initializers.GlorotUniform(seed=2 * i),
                recurrent_initializer=keras.initializers.GlorotUniform(seed=2 * i + 1),
                name=f"recurrent{i}",
            )
            for i in range(2)
        ]

    def recur(self, b, x, lengths):
        mask, ends = tf.sequence_mask(lengths, self.steps), []
        for layer in b.keep("layers", lambda: self.layers(b.dtype.name)):
            x, *states = layer(x, mask=mask)
            ends.extend(states)
        return x, ends

    def optimizer(self):
        return v1.train.RMSPropOptimizer(1e-3, epsilon=1e-3)


@network("keras_lstm")
@dataclasses.dataclass
class KerasLstm(KerasModel):
    kind = "LSTM"


@network("keras_gru")
@dataclasses.dataclass
class KerasGru(KerasModel):
    kind = "GRU"
