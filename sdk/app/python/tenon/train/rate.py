# SPDX-License-Identifier: Apache-2.0
"""Learning rates that change with the step, by TensorFlow's formulas (tf.compat.v1.train); sdk/app/train's
learning_rate.h has them written out.

update = tenon.train.minimize(model, loss, tenon.train.warm_up(500, tenon.train.cosine_decay(0.1, 10000)))
"""

from typing import Sequence, Union

from .. import _core
from .._core import LearningRate


def constant_rate(rate: float) -> LearningRate:
    return _core._constant_rate(rate)


def exponential_decay(rate: float, decay_steps: int, decay_rate: float, *, staircase: bool = False) -> LearningRate:
    """rate * decay_rate ** (step / decay_steps)"""
    return _core._exponential_decay(rate, decay_steps, decay_rate, staircase)


def natural_exp_decay(rate: float, decay_steps: int, decay_rate: float, *, staircase: bool = False) -> LearningRate:
    """rate * exp(-decay_rate * step / decay_steps)"""
    return _core._natural_exp_decay(rate, decay_steps, decay_rate, staircase)


def inverse_time_decay(rate: float, decay_steps: int, decay_rate: float, *, staircase: bool = False) -> LearningRate:
    """rate / (1 + decay_rate * step / decay_steps)"""
    return _core._inverse_time_decay(rate, decay_steps, decay_rate, staircase)


def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> LearningRate:
    """values[i], where i boundaries are below the step; one value more than boundaries."""
    return _core._piecewise_constant(list(boundaries), list(values))


def polynomial_decay(
    rate: float, decay_steps: int, end: float = 0.0001, power: float = 1.0, *, cycle: bool = False
) -> LearningRate:
    """From rate to end; cycle: again and again, ever longer."""
    return _core._polynomial_decay(rate, decay_steps, end, power, cycle)


def cosine_decay(rate: float, decay_steps: int, alpha: float = 0.0) -> LearningRate:
    """Half a cosine, from rate to alpha * rate."""
    return _core._cosine_decay(rate, decay_steps, alpha)


def cosine_restarts(
    rate: float, first_steps: int, t_mul: float = 2.0, m_mul: float = 1.0, alpha: float = 0.0
) -> LearningRate:
    """Half cosines, each t_mul times as long as the one before, that begin m_mul times as high."""
    return _core._cosine_restarts(rate, first_steps, t_mul, m_mul, alpha)


def warm_up(steps: int, then: Union[LearningRate, float], start: float = 0.0) -> LearningRate:
    """From start in a line to what `then` begins with, and then that."""
    return _core._warm_up(steps, then if isinstance(then, LearningRate) else constant_rate(then), start)
