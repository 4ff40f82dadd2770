# SPDX-License-Identifier: Apache-2.0
"""What networks are made of: variables with names and seeds, and the layers that several networks use.

A network is built twice over the same variables, for inference and for training; a Builder remembers them. Variables
are references or resources, as the network asks: graphs of TensorFlow 1 have the former. Every stream of random numbers
has a seed.
"""

import contextlib
import math

import tensorflow as tf

v1 = tf.compat.v1


class Builder:
    def __init__(self, resource, dtype=tf.float32, smooth=False):
        self.resource = resource
        self.dtype = dtype
        self.smooth = smooth
        self.training = False
        self.updates = []  # of moving averages, in training
        self.made = {}  # name -> variable, or whatever a network keeps
        self._scopes = []
        self._seed = 1000

    @contextlib.contextmanager
    def scope(self, name):
        self._scopes.append(str(name))
        try:
            with tf.name_scope(str(name)):
                yield
        finally:
            self._scopes.pop()

    def name(self, last):
        return "/".join([*self._scopes, last])

    def seed(self):
        """Another one at each call."""
        self._seed += 1
        return self._seed

    # Rectifiers; a smooth network has no kink to fall on either side of.
    def relu(self, x):
        return tf.nn.softplus(x) if self.smooth else tf.nn.relu(x)

    def relu6(self, x):
        return tf.nn.softplus(x) if self.smooth else tf.nn.relu6(x)

    def leaky_relu(self, x, slope):
        return tf.nn.softplus(x) + slope * x if self.smooth else tf.nn.leaky_relu(x, slope)

    def keep(self, name, make):
        """What `make` makes, once."""
        name = self.name(name)
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def variable(self, name, shape, initial, trainable=True):
        def make():
            with v1.name_scope(None):
                seed = self.seed()
                return v1.Variable(
                    lambda: initial(shape, seed, self.dtype),
                    trainable=trainable,
                    use_resource=self.resource,
                    name=self.name(name),
                    dtype=self.dtype,
                )
        return self.keep(name, make)


# Initial values.
def zeros(shape, seed, dtype):
    return tf.zeros(shape, dtype)


def ones(shape, seed, dtype):
    return tf.ones(shape, dtype)


def normal(deviation):
    return lambda shape, seed, dtype: tf.random.normal(shape, 0.0, deviation, dtype, seed=seed)


def truncated(deviation):
    return lambda shape, seed, dtype: tf.random.truncated_normal(shape, 0.0, deviation, dtype, seed=seed)


def uniform(limit):
    return lambda shape, seed, dtype: tf.random.uniform(shape, -limit, limit, dtype, seed=seed)


def near(value):
    """Not all alike, so that a wrong order of elements shows."""
    return lambda shape, seed, dtype: value + tf.random.uniform(shape, -0.1, 0.1, dtype, seed=seed)


def he(shape, seed, dtype):
    return truncated(math.sqrt(2 / math.prod(shape[:-1])))(shape, seed, dtype)


def glorot(shape, seed, dtype):
    window = math.prod(shape[:-2])
    return uniform(math.sqrt(6 / (window * (shape[-2] + shape[-1]))))(shape, seed, dtype)


# Layers.
def dense(b, x, size, activation=None, initial=glorot, bias=True):
    """Over the last dimension, of any rank."""
    kernel = b.variable("kernel", [x.shape[-1], size], initial)
    y = tf.matmul(x, kernel) if x.shape.rank == 2 else tf.tensordot(x, kernel, 1)
    if bias:
        y = tf.nn.bias_add(y, b.variable("bias", [size], near(0.0)))
    return activation(y) if activation else y


def conv(b, x, channels, window, stride=1, padding="SAME", bias=True, initial=he):
    height, width = window if isinstance(window, tuple) else (window, window)
    kernel = b.variable("kernel", [height, width, x.shape[-1], channels], initial)
    y = tf.nn.conv2d(x, kernel, stride, padding)
    return tf.nn.bias_add(y, b.variable("bias", [channels], near(0.0))) if bias else y


def depthwise(b, x, window, stride=1):
    kernel = b.variable("kernel", [window, window, x.shape[-1], 1], lambda *a: normal(math.sqrt(2) / window)(*a))
    return tf.nn.depthwise_conv2d(x, kernel, [1, stride, stride, 1], "SAME")


def conv_transpose(b, x, channels, window, stride, padding="SAME", bias=True, initial=truncated(0.02)):
    kernel = b.variable("kernel", [window, window, channels, x.shape[-1]], initial)
    shape = tf.shape(x)
    size = [side * stride if padding == "SAME" else side * stride + max(window - stride, 0) for side in x.shape[1:3]]
    y = tf.nn.conv2d_transpose(x, kernel, tf.stack([shape[0], *size, channels]), stride, padding)
    y.set_shape([x.shape[0], *size, channels])
    return tf.nn.bias_add(y, b.variable("bias", [channels], near(0.0))) if bias else y


def batch_norm(b, x, decay=0.9, epsilon=1e-3):
    """Over the last dimension; fused where TensorFlow has the kernel."""
    size = [x.shape[-1]]
    scale, offset = b.variable("gamma", size, near(1.0)), b.variable("beta", size, near(0.0))
    mean, variance = b.variable("moving_mean", size, near(0.0), False), b.variable(
        "moving_variance", size, near(1.0), False
    )
    fused = x.shape.rank == 4 and b.dtype == tf.float32
    if not b.training:
        if fused:
            return v1.nn.fused_batch_norm(x, scale, offset, mean, variance, epsilon, is_training=False)[0]
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)
    if fused:
        y, now_mean, now_variance = v1.nn.fused_batch_norm(x, scale, offset, epsilon=epsilon)
    else:
        now_mean, now_variance = tf.nn.moments(x, list(range(x.shape.rank - 1)))
        y = tf.nn.batch_normalization(x, now_mean, now_variance, offset, scale, epsilon)
    for moving, now in ((mean, now_mean), (variance, now_variance)):
        b.updates.append(v1.assign_sub(moving, (moving - now) * (1 - decay)))
    return y


def layer_norm(b, x, epsilon=1e-5):
    size = [x.shape[-1]]
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(
        x, mean, variance, b.variable("beta", size, near(0.0)), b.variable("gamma", size, near(1.0)), epsilon
    )


def dropout(b, x, rate):
    return tf.nn.dropout(x, rate, seed=b.seed()) if b.training else x


def max_pool(x, window=2, stride=2, padding="VALID"):
    return tf.nn.max_pool2d(x, window, stride, padding)


def flatten(x):
    return tf.reshape(x, [-1, math.prod(x.shape[1:])])


def adam(rate, beta1=0.9, name="Adam"):
    """With a larger epsilon than usual: with 1e-8 what rounding left of a gradient that is zero becomes a step as large
    as any."""
    return v1.train.AdamOptimizer(rate, beta1, epsilon=1e-4, name=name)


def cross_entropy(labels, logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
