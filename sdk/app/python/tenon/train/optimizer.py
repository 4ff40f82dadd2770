# SPDX-License-Identifier: Apache-2.0
"""Optimizers: gradients, clipping, and what changes the variables."""

from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from .. import _core
from .._core import LearningRate, Operation, Output
from ..errors import InvalidArgumentError
from .model import Model


class Optimizer(NamedTuple):
    kind: str
    settings: dict

    def __repr__(self):
        return f"<tenon.train.Optimizer {self.kind} {self.settings}>"


def SGD(**common) -> Optimizer:
    """var -= rate * gradient.

    Of all optimizers: fused=False makes it of primitive ops; loss_scale: a power of two, or "dynamic", for networks in
    float16 and sessions of that precision on GPUs; of the dynamic one loss_scale_first (32768), what it begins with,
    and loss_scale_growth (2000), after how many good steps it doubles; clip_value, clip_norm or clip_global_norm: the
    largest absolute value, norm of each gradient, or norm of all together, of what is applied; accumulate: so many
    steps' gradients are applied at once, their mean.
    """
    return Optimizer("sgd", common)


def Momentum(momentum: float = 0.9, *, nesterov: bool = False, **common) -> Optimizer:
    return Optimizer("momentum", {"momentum": momentum, "nesterov": nesterov, **common})


def Adam(beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **common) -> Optimizer:
    return Optimizer("adam", {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, **common})


def Adagrad(initial_accumulator: float = 0.1, **common) -> Optimizer:
    return Optimizer("adagrad", {"initial_accumulator": initial_accumulator, **common})


def RMSProp(
    rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-10, *, centered: bool = False, **common
) -> Optimizer:
    """By the mean of squared gradients; centered: by their variance."""
    return Optimizer(
        "rmsprop", {"rho": rho, "rms_momentum": momentum, "epsilon": epsilon, "centered": centered, **common}
    )


def Adadelta(rho: float = 0.95, epsilon: float = 1e-8, **common) -> Optimizer:
    return Optimizer("adadelta", {"rho": rho, "epsilon": epsilon, **common})


_KNOWN = (
    "accumulate",
    "beta1",
    "beta2",
    "centered",
    "clip_global_norm",
    "clip_norm",
    "clip_value",
    "epsilon",
    "fused",
    "initial_accumulator",
    "loss_scale",
    "loss_scale_first",
    "loss_scale_growth",
    "momentum",
    "nesterov",
    "rho",
    "rms_momentum",
)

Rate = Union[float, LearningRate, Output]


def _settings(optimizer):
    optimizer = optimizer or Adam()
    for name in optimizer.settings:
        if name not in _KNOWN:
            raise InvalidArgumentError(f"an optimizer has no setting '{name}'; there are: {', '.join(_KNOWN)}")
    return {"kind": optimizer.kind, **optimizer.settings}


def _rate(model, rate):
    if isinstance(rate, LearningRate):
        return rate(model.counter("global_step").value)
    return rate if isinstance(rate, Output) else model.graph.constant(rate, "float32", "learning_rate")


def minimize(model: Model, loss: Output, learning_rate: Rate, optimizer: Optional[Optimizer] = None) -> Operation:
    """Adds the gradients of the loss and what applies them to the model's trainable variables; running the node changes
    them all once. learning_rate: a number, a LearningRate, of the step that a Trainer counts ("global_step"), or a
    float32 scalar of the graph."""
    settings = _settings(optimizer)
    return model._minimize(loss, _rate(model, learning_rate), settings)


class Replica(NamedTuple):
    """One of several copies of a network, each of which sees its share of a batch."""

    loss: Output  # the mean over its share
    device: str = ""  # where it stands, its gradients too


def minimize_replicas(
    model: Model,
    replicas: Sequence[Replica],
    learning_rate: Rate,
    optimizer: Optional[Optimizer] = None,
    *,
    mirrored: bool = False,
) -> Operation:
    """Synchronous training: the mean of the replicas' gradients is applied once. mirrored: replica k's loss depends on
    the variables of model.begin_replica(k, device); the mean goes to all by a collective, and each applies it to its
    own."""
    settings = _settings(optimizer)
    return model._minimize_replicas(
        [tuple(replica) for replica in replicas], _rate(model, learning_rate), settings, mirrored
    )


def dense_gradients(model: Model, loss: Output) -> List[Optional[Output]]:
    """The gradients of the loss with respect to the trainable variables, in their order; None where it does not depend
    on one."""
    return model._dense_gradients(loss)


def apply_gradients(
    model: Model, gradients: Sequence[Optional[Output]], learning_rate: Rate, optimizer: Optional[Optimizer] = None
) -> Operation:
    """What changes the trainable variables by these gradients, in their order."""
    settings = _settings(optimizer)
    return model._apply_gradients(list(gradients), _rate(model, learning_rate), settings)


def _graph_of(gradients):
    for gradient in gradients:
        if gradient is not None:
            return gradient.graph
    raise InvalidArgumentError("there is no gradient to clip: all are None")


def clip_by_value(gradients: Sequence[Optional[Output]], low: float, high: float) -> list:
    """Each element between low and high."""
    return _core._clip(_graph_of(gradients), list(gradients), "value", low, high)


def clip_by_norm(gradients: Sequence[Optional[Output]], limit: float) -> list:
    """Each gradient made as much smaller as its norm is above the limit."""
    return _core._clip(_graph_of(gradients), list(gradients), "norm", 0.0, limit)


def clip_by_global_norm(gradients: Sequence[Optional[Output]], limit: float) -> Tuple[list, Output]:
    """All gradients made as much smaller as the norm of all together is above the limit; and that norm."""
    return _core._clip(_graph_of(gradients), list(gradients), "global_norm", 0.0, limit)


def global_norm(gradients: Sequence[Optional[Output]]) -> Output:
    """The norm of all gradients together."""
    return _core._global_norm(_graph_of(gradients), list(gradients))
