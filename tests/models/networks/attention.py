# SPDX-License-Identifier: Apache-2.0
"""Networks of attention: an encoder as BERT's, and a decoder as GPT's that writes text in a loop."""
import dataclasses

import numpy as np
import tensorflow as tf

from .builder import adam, cross_entropy, dense, dropout, layer_norm, normal, truncated
from .network import Network, network


def merge_heads(x):
    batch, heads, steps, width = x.shape
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [-1, steps, heads * width])


def gelu(x):
    """Through tanh, as GPT-2 has it."""
    return tf.nn.gelu(x, approximate=True)


def gelu_erf(x):
    return tf.nn.gelu(x, approximate=False)


@dataclasses.dataclass
class Transformer(Network):
    words: int = 500
    width: int = 64
    heads: int = 4
    layers: int = 2
    steps: int = 24

    def heads_of(self, b, name, x):
        with b.scope(name):
            x = dense(b, x, self.width, initial=truncated(0.02))
        return tf.transpose(tf.reshape(x, [-1, x.shape[1], self.heads, self.width // self.heads]), [0, 2, 1, 3])

    def attend(self, b, query, key, value, mask):
        """mask: 0 where a place may be seen, else very negative."""
        scores = tf.matmul(query, key, transpose_b=True) * (self.width // self.heads) ** -0.5
        seen = merge_heads(tf.matmul(dropout(b, tf.nn.softmax(scores + mask), 0.1), value))
        with b.scope("output"):
            return dropout(b, dense(b, seen, self.width, initial=truncated(0.02)), 0.1)

    def forward(self, b, x, activation):
        with b.scope("inner"):
            x = dense(b, x, 4 * self.width, activation, truncated(0.02))
        with b.scope("outer"):
            return dropout(b, dense(b, x, self.width, initial=truncated(0.02)), 0.1)

    def normed(self, b, name, x):
        with b.scope(name):
            return layer_norm(b, x)


@network("bert_encoder")
@dataclasses.dataclass
class BertEncoder(Transformer):
    """Masked words and the next sentence; Adam with clipped gradients."""
    guesses: int = 4  # masked words of a text
    about = "2 layers of width 64 with 4 heads, 24 words of 500"

    def feeds(self, random):
        ids = random.integers(1, self.words, (self.batch, self.steps)).astype(np.int32)
        lengths = random.integers(self.steps // 2, self.steps + 1, self.batch)
        mask = (np.arange(self.steps) < lengths[:, None]).astype(np.int32)
        places = np.stack([random.choice(length, self.guesses, False) for length in lengths]).astype(np.int32)
        return {
            "ids": ids * mask,
            "mask": mask,
            "kinds": (np.arange(self.steps) >= lengths[:, None] // 2).astype(np.int32) * mask,
            "places": places,
            "masked_words": random.integers(1, self.words, places.shape).astype(np.int32),
            "next": random.integers(0, 2, self.batch).astype(np.int32),
        }

    def embedded(self, b, feeds):
        with b.scope("embedding"):
            words = b.variable("words", [self.words, self.width], truncated(0.02))
            kinds = b.variable("kinds", [2, self.width], truncated(0.02))
            places = b.variable("places", [self.steps, self.width], truncated(0.02))
            x = tf.gather(words, feeds["ids"]) + tf.einsum(
                "bsk,kw->bsw", tf.one_hot(feeds["kinds"], 2, dtype=b.dtype), kinds
            )
            return dropout(b, self.normed(b, "norm", x + places[: self.steps]), 0.1), words

    def encode(self, b, feeds):
        x, words = self.embedded(b, feeds)
        mask = (1.0 - tf.cast(feeds["mask"], b.dtype))[:, None, None, :] * -10000.0
        for i in range(self.layers):
            with b.scope(f"layer{i}"):
                query, key, value = (self.heads_of(b, name, x) for name in ("query", "key", "value"))
                x = self.normed(b, "norm1", x + self.attend(b, query, key, value, mask))
                x = self.normed(b, "norm2", x + self.forward(b, x, gelu_erf))
        return x, words

    def heads_on_top(self, b, feeds):
        x, words = self.encode(b, feeds)
        with b.scope("pooler"):
            pooled = dense(b, x[:, 0], self.width, tf.tanh, truncated(0.02))
        with b.scope("next"):
            following = dense(b, pooled, 2, initial=truncated(0.02))
        with b.scope("masked"):
            picked = tf.gather(
                tf.reshape(x, [-1, self.width]),
                tf.reshape(feeds["places"] + self.steps * tf.range(self.batch)[:, None], [-1]),
            )
            picked = self.normed(b, "norm", dense(b, picked, self.width, gelu_erf, truncated(0.02)))
            guesses = tf.matmul(picked, words, transpose_b=True) + b.variable("word_bias", [self.words], normal(0.02))
        return x, following, guesses

    def infer(self, b, feeds):
        x, following, guesses = self.heads_on_top(b, feeds)
        return {"encoded": x, "next": tf.nn.softmax(following), "guesses": tf.nn.log_softmax(guesses)}

    def loss(self, b, feeds):
        _, following, guesses = self.heads_on_top(b, feeds)
        return cross_entropy(feeds["next"], following) + cross_entropy(tf.reshape(feeds["masked_words"], [-1]), guesses)

    def gradients(self, pairs):
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 1.0)
        return list(zip(clipped, (variable for _, variable in pairs)))

    def optimizer(self):
        return adam(1e-3)


@network("gpt_decoder")
@dataclasses.dataclass
class GptDecoder(Transformer):
    """Trained on all places at once; writes in a loop that keeps keys and values."""
    prompt: int = 6
    loops = True
    about = "2 layers of width 64 with 4 heads, 24 words of 500"

    def feeds(self, random):
        return {"ids": random.integers(0, self.words, (self.batch, self.steps + 1)).astype(np.int32)}

    def tables(self, b):
        return (
            b.variable("words", [self.words, self.width], normal(0.1)),
            b.variable("places", [self.steps, self.width], normal(0.05)),
        )

    def layer(self, b, i, x, mask, past=None):
        """The layer's output, and all keys and values so far."""
        with b.scope(f"layer{i}"):
            y = self.normed(b, "norm1", x)
            query, key, value = (self.heads_of(b, name, y) for name in ("query", "key", "value"))
            if past is not None:
                key, value = tf.concat([past[0], key], 2), tf.concat([past[1], value], 2)
            x += self.attend(b, query, key, value, mask)
            return x + self.forward(b, self.normed(b, "norm2", x), gelu), (key, value)

    def blocks(self, b, ids, places, mask, past=None):
        words, all_places = self.tables(b)
        x = dropout(b, tf.gather(words, ids) + tf.gather(all_places, places), 0.1)
        kept = []
        for i in range(self.layers):
            x, pair = self.layer(b, i, x, mask, past and past[2 * i:2 * i + 2])
            kept.extend(pair)
        return tf.tensordot(self.normed(b, "norm", x), words, [[2], [1]]), kept

    def causal(self, b, steps):
        return (1 - tf.linalg.band_part(tf.ones([steps, steps], b.dtype), -1, 0)) * -1e9

    def infer(self, b, feeds):
        prompt = feeds["ids"][:, : self.prompt]
        logits, kept = self.blocks(b, prompt, tf.range(self.prompt), self.causal(b, self.prompt))
        last = tf.argmax(logits[:, -1], 1, output_type=tf.int32)
        invariants = [tf.TensorShape([self.batch, self.heads, None, self.width // self.heads])] * len(kept)
        written = tf.TensorArray(tf.int32, self.steps - self.prompt, element_shape=[self.batch])

        def turn(i, last, written, *past):
            written = written.write(i - self.prompt, last)
            logits, kept = self.blocks(b, last[:, None], tf.reshape(i, [1]), tf.zeros([], b.dtype), past)
            return (i + 1, tf.argmax(logits[:, -1], 1, output_type=tf.int32), written, *kept)

        end = tf.while_loop(lambda i, *_: i < self.steps, turn, (self.prompt, last, written, *kept),
                            (tf.TensorShape([]), tf.TensorShape([self.batch]), tf.TensorShape(None), *invariants))
        return {"logits": logits, "text": tf.transpose(end[2].stack()), "keys": end[3]}

    def loss(self, b, feeds):
        logits, _ = self.blocks(b, feeds["ids"][:, :-1], tf.range(self.steps), self.causal(b, self.steps))
        return cross_entropy(feeds["ids"][:, 1:], logits)

    def optimizer(self):
        return adam(1e-3)
