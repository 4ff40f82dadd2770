# SPDX-License-Identifier: Apache-2.0
"""Functions, conditionals, loops and maps of Python functions that build a part of a graph.

A body is called once, when the graph is built, with Outputs for its arguments; nodes that it makes go to the body. It
may use Outputs of the graphs around, which become arguments by themselves. It gives an Output, or a list or tuple of
Outputs; an Operation among them runs with each call and gives nothing. Python's numbers and arrays that it gives become
constants. Gradients go through all of these.
"""

import functools
import itertools
import re
from typing import Callable, NamedTuple, Optional

from . import ops
from ._core import DType, Operation, Output
from .errors import InvalidArgumentError, NotFoundError
from .graph import Body, Graph, graph_for


class _Traced:
    """A body that was built: what it takes, gives and captures."""

    def __init__(self, graph: Graph, what: str, body: Callable, arguments, result_types=()):
        self.graph, self.what = graph, what
        self.inside = Body(graph)
        self.inside._lock_around(1)
        try:
            with self.inside:
                self.inputs = [self.inside.argument(name, dtype, shape) for name, dtype, shape in arguments]
                given = body(*self.inputs)
                self.single = not isinstance(given, (list, tuple))
                self.kind = type(given) if type(given) in (list, tuple) else list
                results = [] if given is None else [given] if self.single else list(given)
                self.effects = [result for result in results if isinstance(result, Operation)]
                values = [result for result in results if not isinstance(result, Operation)]
                if result_types and len(values) != len(result_types):
                    raise InvalidArgumentError(f"{what} gives {len(values)} values for {len(result_types)}")
                self.outputs = [
                    self._result(value, result_types[i] if result_types else None) for i, value in enumerate(values)
                ]
        finally:
            self.inside._lock_around(-1)

    def _result(self, value, dtype):
        if not isinstance(value, Output):
            return self.inside.constant(value, dtype)
        if dtype is not None and value.dtype != dtype:
            raise InvalidArgumentError(f"{self.what} gives {value!r} where {dtype} is wanted")
        return self.inside.lift(value)

    @property
    def captures(self):
        return list(self.inside.captures)

    def define(self, name, captures, *, extra_outputs=(), output_names=None, description="", gradient=""):
        """Makes a function of it that takes these captures behind its arguments; gives the name that it got."""
        name = _free_name(self.graph, name)
        with self.inside:
            taken = [self.inside.lift(value) for value in captures]
        outputs = self.outputs + [self.inside.lift(value) for value in extra_outputs]
        names = list(output_names or (f"y{i}" for i in range(len(outputs))))
        if len(names) != len(outputs):
            raise InvalidArgumentError(f"{self.what}: {len(names)} names for {len(outputs)} outputs")
        inputs = self.inputs + taken
        self.graph._add_function(
            name,
            self.inside,
            inputs,
            [value.name for value in inputs],
            outputs,
            names,
            self.effects,
            description,
            gradient,
        )
        return name

    def results(self, graph, node, count=None):
        """What a call gives: its outputs, which wait for its effects; the node where there are none."""
        outputs = node.outputs[:count]
        if not outputs:
            return node
        if self.effects:
            with graph, graph.control_dependencies([node]):
                outputs = [ops.Identity(output) for output in outputs]
        return self.pack(outputs)

    def pack(self, outputs):
        if self.single:
            return outputs[0] if outputs else None
        return self.kind(outputs)


def _free_name(graph, wish):
    """Of no function of the graph, nor of one that a body inside the outermost graph has: they meet when the bodies
    become functions."""
    outermost = graph
    while outermost.around is not None:
        outermost = outermost.around
    wish = re.sub(r"\W+", "_", wish).strip("_") or "function"
    for number in itertools.count():
        name = f"{wish}_{number}" if number else wish
        if name not in outermost._taken_names and not _has_function(graph, name):
            outermost._taken_names.add(name)
            return name


def _has_function(graph, name):
    try:
        graph._function(name)
        return True
    except NotFoundError:
        return False


def _as_outputs(graph, values, types=None):
    return [
        (
            graph.lift(value)
            if isinstance(value, (Output, Operation))
            else graph.constant(value, types[i] if types else None)
        )
        for i, value in enumerate(values)
    ]


def _words(types):
    return ", ".join(str(dtype) for dtype in types)


def _union(*captures):
    return list(dict.fromkeys(value for each in captures for value in each))


class Function:
    """A function of graphs; see tenon.function."""

    def __init__(self, body, types=None, name=None, description="", output_names=None, gradient=None):
        self.body, self.types = body, None if types is None else [DType(dtype) for dtype in types]
        self.name = name or getattr(body, "__name__", "function")
        self.description = description or (body.__doc__ or "").strip()
        self.output_names, self.gradient = output_names, gradient
        functools.update_wrapper(self, body)

    def __call__(self, *inputs, name: Optional[str] = None):
        """A call of it, in the graph of the inputs: defines the function there where it is not yet."""
        if self.types is not None and len(inputs) != len(self.types):
            raise InvalidArgumentError(f"function '{self.name}' takes {len(self.types)} values; found {len(inputs)}")
        graph = graph_for(inputs)
        values = _as_outputs(graph, inputs, self.types)
        defined, traced = self._define(graph, [value.dtype for value in values], [value.shape for value in values])
        call = graph.add_node(defined, values + [graph.lift(value) for value in traced.captures], None, name or "")
        return traced.results(graph, call)

    def name_in(self, graph: Graph) -> str:
        """Its name in a graph, for attributes that take a function. It must have types, and capture nothing."""
        if self.types is None:
            raise InvalidArgumentError(
                f"function '{self.name}' is named in an attribute; say the types of its arguments: @tenon.function(\"float32\")"
            )
        defined, traced = self._define(graph, self.types, [None] * len(self.types))
        if traced.captures:
            raise InvalidArgumentError(
                f"function '{self.name}' uses '{traced.captures[0].name}' of the graph around; an attribute can name only a function that does not"
            )
        return defined

    def _define(self, graph, types, shapes):
        for dtype, wanted in zip(types, self.types or types):
            if dtype != wanted:
                raise InvalidArgumentError(f"function '{self.name}' takes {_words(self.types)}; found {_words(types)}")
        if self.types is not None:
            shapes = [None] * len(types)  # one function for all
        key = (self, tuple(str(dtype) for dtype in types), tuple(shapes))
        if key not in graph._definitions:
            arguments = [(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(zip(types, shapes))]
            traced = _Traced(graph, f"function '{self.name}'", self.body, arguments)
            gradient = self.gradient.name_in(graph) if isinstance(self.gradient, Function) else self.gradient or ""
            name = traced.define(
                self.name,
                traced.captures,
                output_names=self.output_names,
                description=self.description,
                gradient=gradient,
            )
            graph._definitions[key] = (name, traced)
        return graph._definitions[key]

    def __repr__(self):
        types = "..." if self.types is None else _words(self.types)
        return f"<tenon.Function {self.name}({types})>"


def function(*types, name: Optional[str] = None, description: str = "", output_names=None, gradient=None):
    """A decorator: calls of the function become calls of one function of the graph, that is defined once for each graph
    and kind of arguments: their types and, where the decorator names no types, their shapes, which the body then knows.

        @tenon.function                          # or @tenon.function("float32", "float32")
        def layer(x, w):
            return tenon.ops.Tanh(tenon.ops.MatMul(x, w))

    gradient: a Function that computes the gradient, where it is not to be made of the body; it takes the inputs, then a
    gradient of each output.
    """
    if len(types) == 1 and callable(types[0]) and not isinstance(types[0], type):
        return Function(types[0])
    return lambda body: Function(body, types or None, name, description, output_names, gradient)


def _stateful(graph, *names):
    return any(graph._function(name)["stateful"] for name in names)


def cond(predicate, when_true: Callable, when_false: Callable, inputs=(), *, name: str = "cond"):
    """when_true(*inputs) where the predicate, one bool, holds, else when_false(*inputs): the branch that is taken runs
    alone. Both give as many values, of the same types."""
    graph = graph_for([predicate, *inputs])
    predicate, *values = _as_outputs(graph, [predicate, *inputs])
    arguments = [(f"x{i}", value.dtype, value.shape) for i, value in enumerate(values)]
    yes = _Traced(graph, f"when_true of '{name}'", when_true, arguments)
    no = _Traced(graph, f"when_false of '{name}'", when_false, arguments)
    types = lambda traced: [str(output.dtype) for output in traced.outputs]
    if types(yes) != types(no):
        raise InvalidArgumentError(
            f"cond '{name}': when_true gives ({', '.join(types(yes))}), when_false ({', '.join(types(no))}); both give the same types"
        )
    captures = _union(yes.captures, no.captures)
    branches = {
        "then_branch": yes.define(f"{name}_true", captures),
        "else_branch": no.define(f"{name}_false", captures),
    }
    op = "If" if _stateful(graph, *branches.values()) else "StatelessIf"
    attrs = {
        **branches,
        "Tcond": predicate.dtype,
        "Tin": [v.dtype for v in values + captures],
        "Tout": [output.dtype for output in yes.outputs],
        "output_shapes": [_merged(a.shape, b.shape) for a, b in zip(yes.outputs, no.outputs)],
    }
    node = graph.add_node(op, [predicate, *values, *(graph.lift(value) for value in captures)], attrs, name)
    yes.effects = yes.effects + no.effects
    return yes.results(graph, node)


class _Variable(NamedTuple):
    dtype: DType
    shape: Optional[tuple]


def _merged(shape, other):
    """What is true of both shapes."""
    if shape is None or other is None or len(shape) != len(other):
        return None
    return tuple(size if size == same else None for size, same in zip(shape, other))


def while_loop(condition: Callable, body: Callable, variables, *, name: str = "while", parallel_iterations: int = 10):
    """The last values of the variables: while condition(*variables) holds, variables = body(*variables). A single
    variable need not stand in a list.

    The body gives as many values, of the same types; where their shapes differ from turn to turn it is built again with
    what stays the same.
    """
    single = not isinstance(variables, (list, tuple))
    first = [variables] if single else list(variables)
    if not first:
        raise InvalidArgumentError(f"while_loop '{name}' needs a variable at least")
    graph = graph_for(first)
    values = _as_outputs(graph, first)
    types, shapes = [value.dtype for value in values], [value.shape for value in values]
    while True:
        arguments = [(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(zip(types, shapes))]
        turn = _Traced(graph, f"the body of '{name}'", body, arguments, types)
        merged = [_merged(shape, output.shape) for shape, output in zip(shapes, turn.outputs)]
        if merged == shapes:
            break
        shapes = merged
    test = _Traced(graph, f"the condition of '{name}'", condition, arguments, [DType("bool")])
    captures = _union(test.captures, turn.captures)
    names = {
        "cond": test.define(f"{name}_condition", captures),
        "body": turn.define(f"{name}_body", captures, extra_outputs=captures),
    }
    op = "While" if _stateful(graph, *names.values()) else "StatelessWhile"
    node = graph.add_node(
        op,
        values + [graph.lift(value) for value in captures],
        {
            **names,
            "parallel_iterations": parallel_iterations,
            "output_shapes": shapes + [value.shape for value in captures],
        },
        name,
    )
    turn.single, turn.kind = single, type(variables)
    return turn.results(graph, node, len(values))
