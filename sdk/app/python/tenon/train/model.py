# SPDX-License-Identifier: Apache-2.0
"""The variables of a graph, layers that make them, and losses."""

from typing import NamedTuple, Optional, Sequence

from .. import _core, ops
from .._core import DType, Initializer, Operation, Output
from ..errors import InvalidArgumentError
from ..graph import Graph, default_graph


class Variable(NamedTuple):
    """A variable: `value` reads it, `initial` gives it its first value, `handle` is for ops that change it or read it
    where they stand (in a loop's body, rows of it)."""

    name: str
    dtype: DType
    shape: tuple
    trainable: bool
    handle: Output
    value: Output
    initial: Operation


def _initializer(value):
    return Initializer.constant(value) if isinstance(value, (int, float)) else value


def _last_size(x, what):
    if x.shape is None or not x.shape or x.shape[-1] is None:
        raise InvalidArgumentError(f"{what}: the last size of {x!r} is not known; give inputs=...")
    return x.shape[-1]


class Model(_core.TrainModelBase):
    """The variables of a graph, and layers that make them. A name that is asked for again gives the same variable, so
    that layers that are built twice make two towers over one set of weights. seed: of random first values."""

    def __init__(self, graph: Optional[Graph] = None, seed: int = 1):
        super().__init__(graph or default_graph(), seed)

    def weight(self, name: str, shape, initializer=0.0, device: str = "") -> Variable:
        """A variable that training changes; initializer: an Initializer or a number. device, here and below: where it
        stands; "": as others do."""
        return Variable(*self._variable("weight", name, shape, _initializer(initializer), device))

    def state(self, name: str, shape=(), initial: float = 0.0, device: str = "") -> Variable:
        """A variable that training does not change by itself."""
        return Variable(*self._variable("state", name, shape, Initializer.constant(initial), device))

    def rows(self, name: str, shape, initializer=0.0, device: str = "") -> Variable:
        """A weight [rows, width] of which training changes the rows alone that a step gathered."""
        return Variable(*self._variable("rows", name, shape, _initializer(initializer), device))

    def counter(self, name: str) -> Variable:
        """A scalar int64 that begins at 0."""
        return Variable(*self._variable("counter", name, (), Initializer.constant(0), ""))

    @property
    def variables(self) -> list:
        return [Variable(*parts) for parts in self._variables()]

    def set_variable_devices(self, devices: Sequence[str]):
        """Variables made from now on stand on these devices by turns."""
        self._set_variable_devices(list(devices))

    def dense(self, name: str, x: Output, units: int, *, inputs: Optional[int] = None, initializer=None) -> Output:
        """x [batch, inputs] times a weight, plus a bias: [batch, units]."""
        inputs = inputs or _last_size(x, f"dense '{name}'")
        return self._dense(
            name, x, inputs, units, _initializer(initializer if initializer is not None else Initializer.he(inputs))
        )

    def conv2d(
        self, name: str, x: Output, filters: int, size: int, *, inputs: Optional[int] = None, initializer=None
    ) -> Output:
        """x [batch, height, width, inputs] with filters of size x size, plus a bias; padded so that height and width
        stay."""
        inputs = inputs or _last_size(x, f"conv2d '{name}'")
        initializer = initializer if initializer is not None else Initializer.he(size * size * inputs)
        return self._conv2d(name, x, size, inputs, filters, _initializer(initializer))

    def __repr__(self):
        return f"<tenon.train.Model of {len(self.variables)} variables, {self.parameter_count} trainable numbers>"


def sparse_softmax_loss(logits: Output, labels: Output) -> Output:
    """The mean over the batch of the cross entropy between logits [batch, classes] and labels [batch] (integers)."""
    return _core._sparse_softmax_loss(logits, labels)


def accuracy(logits: Output, labels: Output) -> Output:
    """The share of rows whose largest logit is at the label."""
    return _core._accuracy(logits, labels)


def group(operations: Sequence, name: str = "group") -> Operation:
    """A node that has run when all of these have."""
    graph = operations[0].graph
    with graph, graph.control_dependencies(operations):
        return ops.NoOp(name=name)
