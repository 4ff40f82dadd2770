# SPDX-License-Identifier: Apache-2.0
"""A function of each element along the first axis: map, and with states that go from element to element fold, scan and
map_with_state."""

from typing import Callable

from . import ops
from .errors import InvalidArgumentError
from .function import _as_outputs, _Traced, _words, while_loop
from .graph import graph_for


def _shape_value(graph, shape):
    """As the ops of lists take it."""
    return graph.constant(-1 if shape is None else [-1 if size is None else size for size in shape], "int32")


def _element_shape(value):
    return None if value.shape is None else value.shape[1:]


def _fits(shape, other):
    return (
        shape is None
        or other is None
        or (len(shape) == len(other) and all(a is None or b is None or a == b for a, b in zip(shape, other)))
    )


class _Elements:
    """The loop over the elements of xs: one While, which carries a list for each result, and the states."""

    def __init__(
        self,
        what,
        name,
        function,
        xs,
        states,
        *,
        reverse=False,
        begins_with_elements=False,
        stacks_states=False,
        parallel_iterations=10,
    ):
        self.what, self.name, self.reverse, self.begins, self.stacks, self.parallel_iterations = (
            what,
            name,
            reverse,
            begins_with_elements,
            stacks_states,
            parallel_iterations,
        )
        xs = list(xs) if isinstance(xs, (list, tuple)) else [xs]
        single_state = not isinstance(states, (list, tuple))
        state_kind = list if single_state else type(states)
        states = [states] if single_state else list(states)
        self.graph = graph_for(xs + states)
        self.xs = _as_outputs(self.graph, xs)
        self.check_xs()
        self.states = _as_outputs(self.graph, states)
        shapes = [value.shape for value in self.states]
        if begins_with_elements:
            single_state, state_kind = len(self.xs) == 1, list
            shapes = [_element_shape(value) for value in self.xs]
        types = [value.dtype for value in (self.xs if begins_with_elements else self.states)]
        self.count = count = len(types)
        arguments = [(f"state{i}", dtype, shape) for i, (dtype, shape) in enumerate(zip(types, shapes))]
        arguments += [(f"x{i}", value.dtype, _element_shape(value)) for i, value in enumerate(self.xs)]
        state_of = lambda values: values[0] if single_state else state_kind(values)
        body = (
            function
            if count == 0
            else lambda *values: self.flat(function(state_of(values[:count]), *values[count:]), single_state)
        )
        self.each = _Traced(self.graph, f"the function of '{name}'", body, arguments)
        self.check_states(types, shapes)
        self.state_of = state_of

    def flat(self, given, single_state):
        """The states' next values, then the results: of f(state, x) -> state, or f(state, x) -> (state, results)."""
        if self.what != "map_with_state":
            return list(given) if isinstance(given, (list, tuple)) and not single_state else [given]
        if not isinstance(given, tuple) or len(given) != 2:
            raise InvalidArgumentError(
                f"map_with_state '{self.name}': the function gives a pair, the next state and what is stacked; found {given!r}"
            )
        state, results = given
        self.result_kind = type(results) if isinstance(results, (list, tuple)) else None
        return ([state] if single_state else list(state)) + (list(results) if self.result_kind else [results])

    def fail(self, why):
        raise InvalidArgumentError(f"{self.what} '{self.name}': {why}")

    def check_xs(self):
        if not self.xs:
            self.fail("there is nothing to go over")
        lengths = set()
        for i, value in enumerate(self.xs):
            if value.shape == ():
                self.fail(f"x {i} is a scalar, which has no elements")
            if value.shape and value.shape[0] is not None:
                lengths.add(value.shape[0])
        if len(lengths) > 1:
            self.fail(
                f"xs of {' and '.join(str(length) for length in sorted(lengths))} elements cannot be gone over together"
            )

    def check_states(self, types, shapes):
        found = [output.dtype for output in self.each.outputs][: self.count]
        if found != types or (self.stacks and len(self.each.outputs) != self.count):
            self.fail(
                f"the states are ({_words(types)}); the function gives ({_words(output.dtype for output in self.each.outputs)})"
            )
        for i, (shape, output) in enumerate(zip(shapes, self.each.outputs)):
            if not _fits(shape, output.shape):
                self.fail(
                    f"state {i} begins with the shape {shape} and would go on with {output.shape}; a state keeps its shape"
                )

    @property
    def results(self):
        return self.each.outputs if self.stacks else self.each.outputs[self.count :]

    def place(self, i, count):
        return count - 1 - i if self.reverse else i

    def checks(self, lengths):
        checks = [
            ops.Assert(
                ops.Equal(lengths[0], length),
                [f"{self.what} '{self.name}': x 0 and x {i + 1} have differently many elements", lengths[0], length],
            )
            for i, length in enumerate(lengths[1:])
        ]
        if self.begins:
            checks.append(
                ops.Assert(
                    lengths[0] > 0,
                    [
                        f"{self.what} '{self.name}': there is no first element to begin with; give the first state",
                        lengths[0],
                    ],
                )
            )
        return checks

    def run(self):
        """The last states, and the stacked results."""
        graph = self.graph
        with graph, graph.scope(self.name):
            called = self.each.define(f"{self.name}_function", self.each.captures)
            self.lists = [ops.TensorListFromTensor(value, _shape_value(graph, None)) for value in self.xs]
            lengths = [ops.TensorListLength(one) for one in self.lists]
            with graph.control_dependencies(self.checks(lengths)):
                count = ops.Identity(lengths[0])
                stacked = [
                    ops.TensorListReserve(_shape_value(graph, None), count, element_dtype=output.dtype)
                    for output in self.results
                ]
            first, states = 0, self.states
            if self.begins:
                first, at = 1, self.place(graph.constant(0, "int32"), count)
                states = self.elements(graph, at)
                stacked = (
                    [ops.TensorListSetItem(one, at, state) for one, state in zip(stacked, states)]
                    if self.stacks
                    else stacked
                )

            def turn(i, *carried):
                inside = graph_for([i])
                at = self.place(i, inside.lift(count))
                inputs = list(carried[len(stacked) :]) + self.elements(inside, at)
                call = inside.add_node(called, inputs + [inside.lift(value) for value in self.each.captures]).outputs
                new = call if self.stacks else call[self.count :]
                return [
                    i + 1,
                    *(ops.TensorListSetItem(one, at, value) for one, value in zip(carried, new)),
                    *call[: self.count],
                ]

            last = while_loop(
                lambda i, *unused: i < count,
                turn,
                [graph.constant(first, "int32"), *stacked, *states],
                name="loop",
                parallel_iterations=self.parallel_iterations,
            )
            lists, states = last[1 : 1 + len(stacked)], last[1 + len(stacked) :]
            return states, [
                ops.TensorListStack(one, _shape_value(graph, output.shape), element_dtype=output.dtype)
                for one, output in zip(lists, self.results)
            ]

    def elements(self, graph, at):
        return [
            ops.TensorListGetItem(one, at, _shape_value(graph, _element_shape(value)), element_dtype=value.dtype)
            for one, value in zip(self.lists, self.xs)
        ]


def map(function: Callable, xs, *, name: str = "map", parallel_iterations: int = 10):
    """function(x[i]) for each i along the first axis of x, stacked; of several xs function(x[i], y[i], ...). What it
    gives has one shape for all i; the answer has the form of what it gives."""
    loop = _Elements("map", name, function, xs, [], parallel_iterations=parallel_iterations)
    return loop.each.pack(loop.run()[1])


def fold(
    function: Callable, xs, initial=None, *, reverse: bool = False, name: str = "fold", parallel_iterations: int = 10
):
    """state = function(state, x[i]) for each i along the first axis; the last state (tf.foldl; reverse: tf.foldr).
    Several xs: function(state, x[i], y[i], ...).

    initial: the first state, one value or a list or tuple of values, which the function gets and gives in the same
    form. None: the first element of each x, of which there must be one. A state keeps its type and shape.
    """
    loop = _Elements(
        "fold",
        name,
        function,
        xs,
        [] if initial is None else initial,
        reverse=reverse,
        begins_with_elements=initial is None,
        parallel_iterations=parallel_iterations,
    )
    return loop.state_of(loop.run()[0])


def scan(
    function: Callable, xs, initial=None, *, reverse: bool = False, name: str = "scan", parallel_iterations: int = 10
):
    """As fold; the states after each element, stacked: result[i] is the state after element i (tf.scan)."""
    loop = _Elements(
        "scan",
        name,
        function,
        xs,
        [] if initial is None else initial,
        reverse=reverse,
        begins_with_elements=initial is None,
        stacks_states=True,
        parallel_iterations=parallel_iterations,
    )
    return loop.state_of(loop.run()[1])


def map_with_state(
    function: Callable,
    xs,
    initial,
    *,
    reverse: bool = False,
    name: str = "map_with_state",
    parallel_iterations: int = 10,
):
    """(state, y[i]) = function(state, x[i]) for each i: the last state, and the ys stacked (jax.lax.scan)."""
    loop = _Elements(
        "map_with_state", name, function, xs, initial, reverse=reverse, parallel_iterations=parallel_iterations
    )
    states, results = loop.run()
    return loop.state_of(states), loop.result_kind(results) if loop.result_kind else results[0]
