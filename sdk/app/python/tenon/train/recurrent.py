# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells, with Keras's formulas and weights, and a loop of one over sequences of different lengths."""

from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from .. import _core
from .._core import Initializer, Output
from ..errors import InvalidArgumentError
from ..function import _Traced
from ..graph import graph_for
from .model import Model


class RnnCell(_core.RnnCellBase):
    """Made by basic_rnn_cell, lstm_cell, gru_cell and rnn_cell."""

    def step(self, x: Output, state: Sequence[Output]) -> Tuple[Output, List[Output]]:
        """One step: the output [batch, size] and the next state, of x [batch, inputs]. In the body of a function,
        too."""
        graph = graph_for([x, *state])
        return self._step(
            graph,
            graph.lift(x),
            [graph.lift(value) for value in state],
            [graph.lift(weight) for weight in self.weights],
        )

    def zero_state(self, batch: Output) -> List[Output]:
        """States of zeros; batch: an int32 scalar."""
        return self._zero_state(batch)

    def __repr__(self):
        return f"<tenon.train.RnnCell '{self.name}' of {self.inputs} inputs, states of {', '.join(map(str, self.state_sizes))}>"


def basic_rnn_cell(
    model: Model, name: str, inputs: int, units: int, *, initializer: Optional[Initializer] = None
) -> RnnCell:
    """h' = tanh(x K + h R + b) (keras.layers.SimpleRNNCell)."""
    return RnnCell(model, "basic", name, inputs, units, initializer, 1.0, True)


def lstm_cell(
    model: Model,
    name: str,
    inputs: int,
    units: int,
    *,
    initializer: Optional[Initializer] = None,
    forget_bias: float = 1.0,
) -> RnnCell:
    """States h and c (keras.layers.LSTMCell). forget_bias is added to the forget gate; Keras has it in the bias: 0 for
    weights that Keras trained."""
    return RnnCell(model, "lstm", name, inputs, units, initializer, forget_bias, True)


def gru_cell(
    model: Model,
    name: str,
    inputs: int,
    units: int,
    *,
    initializer: Optional[Initializer] = None,
    reset_after: bool = True,
) -> RnnCell:
    """State h (keras.layers.GRUCell)."""
    return RnnCell(model, "gru", name, inputs, units, initializer, 1.0, reset_after)


def rnn_cell(model: Model, name: str, inputs: int, state_sizes: Sequence[int], step: Callable) -> RnnCell:
    """A cell of one's own: step(x, *states), of x [batch, inputs] and float32 states [batch, size], gives an output and
    then the next states, as a list or tuple:

        h = model.weight("h", [8, 8], 0.1)
        cell = tenon.train.rnn_cell(model, "mine", 8, [8], lambda x, state: [y := tenon.ops.Tanh(x + state @ h.value),
        y])

    It is called once, now, to build a function. What it uses of the graph around, such as values of the model's
    variables, are the cell's weights.
    """
    sizes = list(state_sizes)
    arguments = [("x", _core.DType("float32"), (None, inputs))] + [
        (f"state{i}", _core.DType("float32"), (None, size)) for i, size in enumerate(sizes)
    ]
    traced = _Traced(model.graph, f"the step of cell '{name}'", step, arguments)
    if len(traced.outputs) != 1 + len(sizes):
        raise InvalidArgumentError(
            f"the step of cell '{name}' gives {len(traced.outputs)} values; it gives the output and {len(sizes)} states"
        )
    weights = traced.captures
    return RnnCell(model, traced.define(f"{name}_step", weights), name, inputs, sizes, weights)


class Rnn(NamedTuple):
    outputs: Output  # as the inputs, with the cell's output size last; zeros from a sequence's length on
    state: List[Output]  # after each sequence's last step


def dynamic_rnn(
    cell: RnnCell,
    inputs: Output,
    *,
    sequence_length: Optional[Output] = None,
    initial_state: Sequence[Output] = (),
    time_major: bool = False,
    reverse: bool = False,
    parallel_iterations: int = 10,
    name: str = "rnn",
) -> Rnn:
    """The cell over sequences, inputs [batch, time, features] ([time, batch, features] if time_major), as
    tf.compat.v1.nn.dynamic_rnn. sequence_length: [batch], how many steps of each there are; None: all. initial_state:
    one for each of the cell's; (): zeros. reverse: from each sequence's last step to its first.
    """
    return Rnn(
        *cell._over(inputs, sequence_length, list(initial_state), time_major, reverse, parallel_iterations, name)
    )
