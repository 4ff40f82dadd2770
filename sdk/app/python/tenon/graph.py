# SPDX-License-Identifier: Apache-2.0
"""Graphs: nodes, and the graph that new ones go to.

An op's node goes to the graph of the innermost `with graph:` of this thread; without one to the graph of its first
input; and without inputs to the default graph of the process.
"""

import re
import threading
from typing import NamedTuple, Optional, Sequence

from . import _core
from ._core import DType, Operation, Output
from .errors import InvalidArgumentError
from .runtime import Runtime, default_runtime

_local = threading.local()
_default = None
_default_lock = threading.Lock()


def _stack():
    if not hasattr(_local, "graphs"):
        _local.graphs = []
    return _local.graphs


def default_graph() -> "Graph":
    """The graph of the innermost `with graph:`, else the process's own."""
    global _default
    if _stack():
        return _stack()[-1]
    with _default_lock:
        if _default is None:
            _default = Graph()
        return _default


def graph_for(values) -> "Graph":
    """Where a node with these inputs goes."""
    if _stack():
        return _stack()[-1]
    for value in values:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, (Output, Operation)):
                return each.graph
    return default_graph()


class Graph(_core.GraphBase):
    """A graph that grows by tenon.ops. `with graph:` sends new nodes to it.

    A failure is an exception, and leaves the graph as it was. graph["x"] is the output of that name,
    graph.operation("x") the node.
    """

    around: Optional["Graph"] = None  # of a function's body

    def __init__(self, runtime: Optional[Runtime] = None):
        super().__init__()
        self.runtime = runtime or default_runtime()
        self._begin(self.runtime)
        self._taken_names = set()  # of functions, in bodies too
        self._definitions = {}  # of tenon.function: what was defined here, by function and types

    @classmethod
    def from_graph_def(cls, graph_def: bytes, runtime: Optional[Runtime] = None) -> "Graph":
        """Of a serialized GraphDef."""
        graph = cls(runtime)
        graph.import_graph_def(graph_def)
        return graph

    def import_graph_def(self, graph_def: bytes):
        """Adds the nodes of a serialized GraphDef, all of them or none."""
        self._import(bytes(graph_def))

    def graph_def(self) -> bytes:
        """The graph as a serialized GraphDef."""
        return self._export()

    def operation(self, name: str) -> Operation:
        """A node by its whole name; the error names near misses."""
        return self._find(name)

    def __getitem__(self, name: str) -> Output:
        """An output by its name: "node", "node:1"."""
        node, _, index = name.partition(":")
        operation = self._find(node)
        number = int(index or 0)
        outputs = operation.outputs
        if not 0 <= number < len(outputs):
            raise InvalidArgumentError(
                f"node '{node}' ({operation.type}) has {len(outputs)} outputs; there is no '{name}'"
            )
        return outputs[number]

    def __contains__(self, name) -> bool:
        try:
            self._find(name.partition(":")[0])
            return True
        except LookupError:
            return False

    def register_gradient(self, op_type: str, function) -> None:
        """Makes a function (@tenon.function with the types of its arguments) the gradient of an op, or of the nodes
        that ask for it by any other name: under override_gradient, or with an attribute `_gradient_op_type`. It takes
        the node's inputs, then a gradient of each output, and gives one of each input."""
        self._register_gradient(op_type, function if isinstance(function, str) else function.name_in(self))

    def add_node(
        self, op: str, inputs: Sequence[Output] = (), attrs: Optional[dict] = None, name: str = ""
    ) -> Operation:
        """Adds a node of any op, or a call of a function by its name. Attributes that the inputs determine may be left
        out."""
        kinds = {}
        if attrs:
            kinds = self.runtime.op(op).attr_kinds
        triples = [(key, kinds.get(key) or _kind_of(key, value), value) for key, value in (attrs or {}).items()]
        return self._add_node(op, [self.lift(value) for value in inputs], triples, name or "")

    def lift(self, value: Output) -> Output:
        """The value in this graph: itself, unless this is a function's body that captures it from around."""
        if isinstance(value, Operation):
            value = value.outputs[0] if value.outputs else value
        if not isinstance(value, Output):
            raise InvalidArgumentError(f"an output of a node is wanted; found {value!r}")
        if value.graph is not self:
            raise InvalidArgumentError(f"'{value.name}' belongs to another graph")
        return value

    def constant(self, value, dtype=None, name: str = "Const") -> Output:
        """A constant; see tenon.constant."""
        return self._constant(value, None if dtype is None else DType(dtype), name)

    def functions(self) -> list:
        """The functions of the graph, as dictionaries: name, inputs, outputs, ..."""
        return [self._function(name) for name in self._function_names()]

    def __enter__(self):
        _stack().append(self)
        return self

    def __exit__(self, *unused):
        _stack().pop()

    def _repr_svg_(self):
        """In notebooks: a picture of a small graph."""
        from .picture import svg_of  # here: it is rarely asked for

        return svg_of(self)

    def __repr__(self):
        count = self.node_count
        names = ", ".join(operation.name for operation in self.operations[:5])
        what = "body" if self.around is not None else "Graph"
        return f"<tenon.{what} of {count} nodes{': ' + names if count else ''}{', ...' if count > 5 else ''}>"


class Body(Graph):
    """The graph of a function's body. What it uses of the graphs around becomes an argument: `captures` has them, outer
    to inner, `captured` inner to outer."""

    def __init__(self, around: Graph):
        _core.GraphBase.__init__(self)
        self.runtime, self.around = around.runtime, around
        self._begin_body(around)
        self._definitions = {}
        self.captures, self.captured = {}, {}

    def lift(self, value):
        if not isinstance(value, Output) or value.graph is self:
            return super().lift(value)
        graph = self.around
        while graph is not None and graph is not value.graph:
            graph = graph.around
        if graph is None:
            return super().lift(value)
        outer = value  # of a graph further out, too: whoever calls this body lifts it
        if outer not in self.captures:
            inner = self.argument(f"capture{len(self.captures)}", outer.dtype, outer.shape)
            self.captures[outer], self.captured[inner] = inner, outer
        return self.captures[outer]

    def argument(self, name, dtype, shape):
        return self.add_node("Placeholder", (), {"dtype": dtype, "shape": shape}, name).outputs[0]


def _kind_of(name, value):
    """Of an attribute that no op declares, by its value."""
    if isinstance(value, (list, tuple)):
        return f"list({_kind_of(name, value[0])})" if value else "list(int)"
    for kind, types in (("bool", bool), ("int", int), ("float", float), ("string", (str, bytes)), ("type", DType)):
        if isinstance(value, types):
            return kind
    return "tensor"


def placeholder(dtype, shape=None, name: str = "Placeholder") -> Output:
    """A value that every step is fed, of this type and a shape that fits: None, or sizes and None."""
    return default_graph().add_node("Placeholder", (), {"dtype": DType(dtype), "shape": shape}, name).outputs[0]


def constant(value, dtype=None, name: str = "Const") -> Output:
    """A constant of an array, a number, a string or nested lists. Without a dtype Python's floats are float32 and its
    integers int32 where they fit; arrays keep theirs."""
    return default_graph().constant(value, dtype, name)


def scope(name: str):
    """A `with` block in which new names of the current graph begin with "name/"."""
    return default_graph().scope(name)


def device(name: str):
    """A `with` block in which new nodes of the current graph ask for a device, whole or in part ("GPU:0")."""
    return default_graph().device(name)


def control_dependencies(on: Sequence, *, only: bool = False):
    """A `with` block in which new nodes wait for these nodes; only: and for none of the blocks around."""
    on = list(on)
    return graph_for(on).control_dependencies(on, only=only)


class Slices(NamedTuple):
    """A gradient of rows: rows `indices` of a tensor of shape `dense_shape` get the rows of `values`; what stands twice
    is added."""

    values: Output
    indices: Output
    dense_shape: Output


def grad(ys, xs, initial=None) -> list:
    """The gradients of the sum of the ys, one for each x: an Output, Slices, or None where the ys do not depend on it.

    initial: the gradients to begin with, one for each y; ones where it is None. A single y or x need not stand in a
    list; the answer is a list.
    """
    as_list = lambda value: list(value) if isinstance(value, (list, tuple)) else [value]
    ys, xs = as_list(ys), as_list(xs)
    if not ys or not xs:
        raise InvalidArgumentError("grad needs a y and an x at least")
    graph = graph_for(ys)
    begin = [] if initial is None else [
        value if isinstance(value, Output) else graph.constant(value, y.dtype) for value, y in zip(as_list(initial), ys)
    ]
    if initial is not None and len(begin) != len(ys):
        raise InvalidArgumentError(f"grad: {len(as_list(initial))} initial gradients for {len(ys)} ys")
    lift = lambda values: [graph.lift(value) for value in values]
    found = graph._gradients(lift(ys), lift(xs), lift(begin))
    return [Slices(*gradient) if isinstance(gradient, tuple) else gradient for gradient in found]


# ---- Operators of Output ----


def _op(name, *values, **attrs):
    from . import ops

    return getattr(ops, name)(*values, **attrs)


def _is_integer(value):
    return bool(re.match(r"u?int\d", value.dtype.name))


def _divide(x, y):
    """As Python divides: integers give float64."""
    if _is_integer(x):
        x = _op("Cast", x, DstT="float64")
    if isinstance(y, Output) and _is_integer(y):
        y = _op("Cast", y, DstT="float64")
    return _op("RealDiv", x, y)


def _multiply_matrices(x, y):
    shapes = [value.shape for value in (x, y) if isinstance(value, Output)]
    plain = all(shape is not None and len(shape) == 2 for shape in shapes)
    return _op("MatMul" if plain else "BatchMatMulV2", x, y)


def _logical(for_bool, for_integers):
    def apply(x, y):
        kind = x if isinstance(x, Output) else y
        return _op(for_bool if kind.dtype == "bool" else for_integers, x, y)

    return apply


def _index(x, key):
    """x[key] as NumPy has it for integers, slices, None and `...`: one StridedSlice."""
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for place, part in enumerate(key if isinstance(key, tuple) else (key,)):
        bit = 1 << place
        first, last, step = 0, 0, 1
        if part is Ellipsis:
            masks["ellipsis_mask"] |= bit
        elif part is None:
            masks["new_axis_mask"] |= bit
        elif isinstance(part, slice):
            step = 1 if part.step is None else part.step
            first, last = part.start or 0, part.stop or 0
            masks["begin_mask"] |= bit if part.start is None else 0
            masks["end_mask"] |= bit if part.stop is None else 0
        elif hasattr(part, "__index__"):
            first = part.__index__()
            last = first + 1
            masks["shrink_axis_mask"] |= bit
        else:
            raise TypeError(
                f"an Output is indexed by integers, slices, None and ...; found {part!r}; tenon.ops.GatherV2 takes an Output"
            )
        begin.append(first), end.append(last), strides.append(step)
    return _op("StridedSlice", x, begin, end, strides, **masks)


def _install():
    both = {
        "add": "AddV2",
        "sub": "Sub",
        "mul": "Mul",
        "floordiv": "FloorDiv",
        "mod": "FloorMod",
        "pow": "Pow",
        "truediv": _divide,
        "matmul": _multiply_matrices,
        "and": _logical("LogicalAnd", "BitwiseAnd"),
        "or": _logical("LogicalOr", "BitwiseOr"),
        "xor": _logical("NotEqual", "BitwiseXor"),
    }
    one_way = {"lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}
    for name, what in {**both, **one_way}.items():
        apply = what if callable(what) else (lambda op: lambda x, y: _op(op, x, y))(what)
        setattr(Output, f"__{name}__", apply)
        if name in both:
            setattr(Output, f"__r{name}__", (lambda apply: lambda x, y: apply(_like(y, x), x))(apply))
    Output.__neg__ = lambda x: _op("Neg", x)
    Output.__abs__ = lambda x: _op("Abs", x)
    Output.__invert__ = lambda x: _op("LogicalNot" if x.dtype == "bool" else "Invert", x)
    Output.__getitem__ = _index
    Output.__array_ufunc__ = None  # so that an array on the left asks the Output on the right


def _like(value, output):
    return (
        value
        if isinstance(value, Output)
        else graph_for([output]).constant(value, None if _integers_with_integers(value, output) else output.dtype)
    )


def _integers_with_integers(value, output):
    return isinstance(value, float) and _is_integer(output)


_install()
