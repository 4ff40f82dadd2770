# SPDX-License-Identifier: Apache-2.0
"""Writes training.json: what TensorFlow computes where sdk/app/train makes graphs of its own: optimizers, learning
rates, clipping, recurrent networks, losses over sampled classes; and sdk/app/host: folds and scans.

Run where TensorFlow 2.21 is installed: python3 make_training.py

A tensor is {"shape", "values"}; numbers that JSON has not are "nan", "inf" and "-inf".
"""

import json
import math
import os
import pathlib

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its plain kernels

import keras
import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).parent
v1 = tf.compat.v1
rng = np.random.default_rng(11)


def number(value):
    value = float(value)
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def tensor(value):
    value = np.asarray(value)
    return {"shape": list(value.shape), "values": [number(v) for v in value.ravel()]}


def draw(*shape):
    return np.round(rng.normal(size=shape), 3).astype(np.float32)


# ---- Optimizers: five steps of given gradients ----

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "momentum_nesterov": lambda: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(0.1),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.1, epsilon=1e-8),
    "rmsprop_momentum": lambda: v1.train.RMSPropOptimizer(0.1, decay=0.8, momentum=0.7, epsilon=1e-3),
    "rmsprop_centered": lambda: v1.train.RMSPropOptimizer(0.1, epsilon=1e-8, centered=True),
    "rmsprop_centered_momentum": lambda: v1.train.RMSPropOptimizer(
        0.1, decay=0.8, momentum=0.7, epsilon=1e-3, centered=True
    ),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(1.0),
    "adadelta_rho": lambda: v1.train.AdadeltaOptimizer(0.5, rho=0.8, epsilon=1e-4),
}


def train(make, first, gradients):
    """The variable after each step; a gradient is an array, or (rows, indices)."""
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=first, use_resource=True)
        optimizer = make()
        steps = []
        for g in gradients:
            dense = (
                tf.IndexedSlices(tf.constant(g[0]), tf.constant(g[1]), tf.constant(first.shape))
                if isinstance(g, tuple)
                else tf.constant(g)
            )
            steps.append(optimizer.apply_gradients([(dense, variable)]))
        session.run(v1.global_variables_initializer())
        values = []
        for step in steps:
            session.run(step)
            values.append(tensor(session.run(variable)))
        return values


def optimizers():
    first, gradients = draw(3), [draw(3) for _ in range(5)]
    table, ids = draw(4, 2), [[0, 2, 0], [1], [2, 2, 2], [0, 1], [2, 0]]
    rows = [draw(len(i), 2) for i in ids]
    return {"first": tensor(first), "gradients": [tensor(g) for g in gradients],
            "after": {name: train(make, first, gradients) for name, make in OPTIMIZERS.items()},
            "table": tensor(table), "ids": ids, "rows": [tensor(r) for r in rows],
            "after_rows": {name: train(make, table, list(zip(rows, ids))) for name, make in OPTIMIZERS.items()}}


# ---- Learning rates ----

LEARNING_RATES = {
    "exponential": lambda t: v1.train.exponential_decay(0.5, t, 10, 0.7),
    "exponential_staircase": lambda t: v1.train.exponential_decay(0.5, t, 10, 0.7, staircase=True),
    "natural_exp": lambda t: v1.train.natural_exp_decay(0.5, t, 10, 0.7),
    "natural_exp_staircase": lambda t: v1.train.natural_exp_decay(0.5, t, 10, 0.7, staircase=True),
    "inverse_time": lambda t: v1.train.inverse_time_decay(0.5, t, 10, 0.7),
    "inverse_time_staircase": lambda t: v1.train.inverse_time_decay(0.5, t, 10, 0.7, staircase=True),
    "piecewise": lambda t: v1.train.piecewise_constant(t, [np.int64(7), np.int64(20)], [0.5, 0.25, 0.125]),
    "polynomial": lambda t: v1.train.polynomial_decay(0.5, t, 20),
    "polynomial_power": lambda t: v1.train.polynomial_decay(0.5, t, 20, 0.01, power=2),
    "polynomial_cycle": lambda t: v1.train.polynomial_decay(0.5, t, 10, 0.01, power=0.5, cycle=True),
    "cosine": lambda t: v1.train.cosine_decay(0.5, t, 20),
    "cosine_alpha": lambda t: v1.train.cosine_decay(0.5, t, 20, alpha=0.1),
    "cosine_restarts": lambda t: v1.train.cosine_decay_restarts(0.5, t, 7, t_mul=2.0, m_mul=0.8, alpha=0.1),
    "cosine_restarts_even": lambda t: v1.train.cosine_decay_restarts(0.5, t, 7, t_mul=1.0, m_mul=0.5),
    # Keras's cosine has a warm-up of its own.
    "warm_up_cosine": lambda t: keras.optimizers.schedules.CosineDecay(0.1, 20, warmup_target=0.5, warmup_steps=5)(t),
}
STEPS = (0, 1, 4, 5, 6, 7, 8, 10, 11, 15, 19, 20, 21, 25, 30, 50)


def learning_rates():
    values = {}
    for name, make in LEARNING_RATES.items():
        values[name] = []
        for step in STEPS:
            rate = make(tf.constant(step, tf.int64))
            values[name].append(number(rate() if callable(rate) else rate))
    return {"steps": list(STEPS), "rates": values}


# ---- Clipping ----

def clipping():
    small, large, none = (
        [draw(2, 2) * 0.1, draw(3) * 0.1],
        [draw(2, 2) * 10, draw(3)],
        [np.zeros((2, 2), np.float32), np.zeros(3, np.float32)],
    )
    infinite = [np.array([[1, np.inf], [0, -2]], np.float32), draw(3)]
    no_number = [np.array([[1, np.nan], [0, -2]], np.float32), draw(3)]
    cases = []
    for gradients in (small, large, none, infinite, no_number):
        clipped, norm = tf.clip_by_global_norm([tf.constant(g) for g in gradients], 1.5)
        cases.append({"gradients": [tensor(g) for g in gradients],
                      "by_value": [tensor(tf.clip_by_value(g, -0.5, 1.5)) for g in gradients],
                      "by_norm": [tensor(tf.clip_by_norm(g, 1.5)) for g in gradients],
                      "by_global_norm": [tensor(c) for c in clipped], "global_norm": number(norm)})
    return cases


# ---- Recurrent networks ----

class Cell:
    """A Keras cell as dynamic_rnn takes it."""

    def __init__(self, cell):
        self.cell = cell
        self.state_size, self.output_size = cell.state_size, cell.output_size
        self.is_tuple = isinstance(cell.state_size, (list, tuple))

    def __call__(self, x, state, scope=None):
        y, next_state = self.cell(x, list(state) if self.is_tuple else [state])
        return y, tuple(next_state) if self.is_tuple else next_state[0]

    def zero_state(self, batch, dtype):
        raise NotImplementedError  # asked for, never called: the states are given


CELLS = {
    "tanh": (lambda: keras.layers.SimpleRNNCell(3), 1),
    "lstm": (lambda: keras.layers.LSTMCell(3, unit_forget_bias=False), 2),
    "gru": (lambda: keras.layers.GRUCell(3), 1),
    "gru_reset_before": (lambda: keras.layers.GRUCell(3, reset_after=False), 1),
}


def recurrent():
    """Keras's LSTM has no forget bias but the one in its bias, to which "lstm_forget_bias" adds 1 that the golden's
    weights do not show."""
    x, weight = draw(3, 5, 2), draw(3, 5, 3)
    cases = {}
    for name, (make, states) in list(CELLS.items()) + [("lstm_forget_bias", CELLS["lstm"])]:
        first = [draw(3, 3) for _ in range(states)]
        cell = make()
        cell.build((3, 2))
        weights = [draw(*w.shape) * np.float32(0.5) for w in cell.weights]
        cell.set_weights(weights)
        if name == "lstm_forget_bias":
            moved = weights[2].copy()
            moved[3:6] += 1
            cell.set_weights([weights[0], weights[1], moved])
        runs = []
        for lengths in (None, [5, 2, 0]):
            @tf.function(autograph=False)
            def run(x, *first):
                with tf.GradientTape() as tape:
                    tape.watch([x, *first])
                    y, last = v1.nn.dynamic_rnn(
                        Cell(cell),
                        x,
                        sequence_length=None if lengths is None else tf.constant(lengths),
                        initial_state=tuple(first) if states > 1 else first[0],
                    )
                    last = list(last) if states > 1 else [last]
                    loss = tf.reduce_sum(y * weight) + sum(tf.reduce_sum(s * s) for s in last)
                return y, last, tape.gradient(loss, [x, *first] + [w.value for w in cell.trainable_weights])

            y, last, gradients = run(tf.constant(x), *map(tf.constant, first))
            runs.append(
                {
                    "lengths": lengths,
                    "outputs": tensor(y),
                    "last": [tensor(s) for s in last],
                    "gradients": [tensor(g) for g in gradients],
                }
            )
        cases[name] = {"first": [tensor(s) for s in first], "weights": [tensor(w) for w in weights], "runs": runs}
    return {"x": tensor(x), "loss_weight": tensor(weight), "cells": cases}


# ---- Losses over sampled classes ----

def sampled():
    classes, width, batch = 9, 4, 3
    weights, biases, inputs = draw(classes, width), draw(classes), draw(batch, width)
    cases = []
    for labels in ([[1], [4], [0]], [[1, 2], [4, 4], [0, 8]]):
        count = len(labels[0])
        candidates = [
            np.array([0, 4, 2, 7], np.int64),
            np.abs(draw(batch, count)) + np.float32(0.1),
            np.abs(draw(4)) + np.float32(0.1),
        ]
        case = {
            "labels": labels,
            "sampled": candidates[0].tolist(),
            "true_expected": tensor(candidates[1]),
            "sampled_expected": tensor(candidates[2]),
        }
        for name, loss_of, more in (("softmax", tf.nn.sampled_softmax_loss, {}), ("nce", tf.nn.nce_loss, {}),
                                    ("nce_without_hits", tf.nn.nce_loss, {"remove_accidental_hits": True})):
            w, b, h = tf.constant(weights), tf.constant(biases), tf.constant(inputs)
            with tf.GradientTape() as tape:
                tape.watch([w, b, h])
                loss = loss_of(w, b, tf.constant(labels, tf.int64), h, 4, classes, num_true=count,
                               sampled_values=tuple(map(tf.constant, candidates)), **more)
            gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, [w, b, h])]
            case[name] = {"loss": tensor(loss), "gradients": [tensor(g) for g in gradients]}
        cases.append(case)
    return {"weights": tensor(weights), "biases": tensor(biases), "inputs": tensor(inputs), "cases": cases}


# ---- Folds and scans ----

def elements():
    """States a and b, sequences x and y, a weight w: a' = a tanh(w x) + b, b' = b + x y; without first states: a' = a
    tanh(x) + x."""
    x, y, first, w = draw(4, 2), draw(4, 2), [draw(2), draw(2)], draw(2)
    cases = []
    for reverse in (False, True):
        for stacked in (False, True):
            go = tf.scan if stacked else tf.foldr if reverse else tf.foldl
            more = {"reverse": reverse} if stacked else {}
            for given in (True, False):
                xs = [tf.constant(v) for v in ([x, y, *first, w] if given else [x])]
                with tf.GradientTape() as tape:
                    tape.watch(xs)
                    if given:
                        states = go(
                            lambda s, e: (s[0] * tf.tanh(xs[4] * e[0]) + s[1], s[1] + e[0] * e[1]),
                            (xs[0], xs[1]),
                            initializer=(xs[2], xs[3]),
                            **more,
                        )
                    else:
                        states = (go(lambda s, e: s * tf.tanh(e) + e, xs[0], **more),)
                    loss = sum(tf.reduce_sum(s * s) for s in states)
                cases.append(
                    {
                        "reverse": reverse,
                        "stacked": stacked,
                        "given": given,
                        "states": [tensor(s) for s in states],
                        "gradients": [tensor(g) for g in tape.gradient(loss, xs)],
                    }
                )
    return {"x": tensor(x), "y": tensor(y), "first": [tensor(f) for f in first], "weight": tensor(w), "cases": cases}


def main():
    golden = {
        "optimizers": optimizers(),
        "learning_rates": learning_rates(),
        "clipping": clipping(),
        "recurrent": recurrent(),
        "sampled": sampled(),
        "elements": elements(),
    }
    lines = ",\n".join(f'"{name}": {json.dumps(part, separators=(",", ":"))}' for name, part in golden.items())
    (HERE / "training.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
