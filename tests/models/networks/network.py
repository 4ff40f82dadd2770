# SPDX-License-Identifier: Apache-2.0
"""What a network has to say, and the graph that is made of it.

Nodes of the graph that the runner asks for: the placeholders; `infer/NAME` for each output; `init`; `step`, one step of
training; `loss`, of that step; `after/VARIABLE`, a variable's value after that step, slots of the optimizer and moving
averages too.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from . import builder

v1 = tf.compat.v1
NETWORKS = {}  # name -> class


def network(name):
    def register(kind):
        kind.name = name
        NETWORKS[name] = kind
        return kind
    return register


@dataclasses.dataclass
class Network:
    """A network's sizes are its fields. `about` says what differs from the published sizes."""
    batch: int = 8

    resource = True  # variables are resources, not references
    doubles = True  # TensorFlow has all its kernels for double
    loops = False
    deep = False  # so many rectifiers over normalised batches that some input lies on a kink: also made without kinks
    about = ""

    def feeds(self, random):
        """{placeholder: array}: the batch of every step."""
        raise NotImplementedError

    def infer(self, b, feeds):
        """{name: tensor}"""
        raise NotImplementedError

    def loss(self, b, feeds):
        raise NotImplementedError

    def optimizer(self):
        return v1.train.GradientDescentOptimizer(0.05)

    def gradients(self, pairs):
        """(gradient, variable) pairs, clipped or as they are."""
        return pairs

    def train(self, b, feeds):
        """(loss, operations of a step)"""
        loss = self.loss(b, feeds)
        optimizer = self.optimizer()
        pairs = [pair for pair in optimizer.compute_gradients(loss) if pair[0] is not None]
        return loss, [optimizer.apply_gradients(self.gradients(pairs)), *b.updates]


@dataclasses.dataclass
class Model:
    """A graph, what to feed, and what to ask for."""
    graph: tf.Graph
    feeds: dict
    outputs: list
    variables: list


def build(network, dtype=tf.float32, smooth=False, seed=7):
    random = np.random.default_rng(seed)
    values = {name: _cast(value, dtype) for name, value in network.feeds(random).items()}
    graph = tf.Graph()
    with graph.as_default():
        v1.set_random_seed(seed)
        feeds = {
            name: v1.placeholder(value.dtype if value.dtype != object else tf.string, value.shape, name)
            for name, value in values.items()
        }
        b = builder.Builder(network.resource, dtype, smooth)
        outputs = [tf.identity(value, name=f"infer/{name}") for name, value in network.infer(b, feeds).items()]
        b.training = True
        loss, operations = network.train(b, feeds)
        tf.identity(loss, name="loss")
        step = tf.group(*operations, name="step")
        variables = sorted(v1.global_variables(), key=lambda variable: variable.op.name)
        v1.variables_initializer(variables, name="init")
        with tf.control_dependencies([step]):
            after = [tf.identity(variable.read_value(), name=f"after/{variable.op.name}") for variable in variables]
    return Model(graph, values, [one.op.name for one in outputs], [one.op.name for one in after])


def _cast(value, dtype):
    return value.astype(dtype.as_numpy_dtype) if value.dtype.kind == "f" else value
