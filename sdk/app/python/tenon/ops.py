# SPDX-License-Identifier: Apache-2.0
"""A function for each op that a plugin brought: tenon.ops.MatMul(a, b, transpose_a=True), or by its other name
tenon.ops.mat_mul.

They are made when they are asked for, from the op's definition, those of strangers' plugins too; dir(tenon.ops) lists
all, help(tenon.ops.MatMul) shows one. Inputs come first, then attributes; `name` is the node's. Attributes that the
inputs determine (their types, how many there are) may be left out.

Inputs are Outputs, or arrays, numbers, strings and lists, which become constants of the type that the other inputs ask
for. What an op gives is what its definition says: one Output, a list where it has a list of them, a named tuple of
several, or the node itself where it has none.
"""

import collections
import difflib
import inspect
import keyword
import re

import numpy

from ._core import DType, Operation, Output, Tensor, _natural_type
from .errors import InvalidArgumentError, NotFoundError
from .graph import default_graph, graph_for
from .op_definition import REQUIRED
from .runtime import live_runtimes

_WEIGHT = {
    name: i for i, name in enumerate(("bool", "int32", "int64", "float32", "float64", "complex64", "complex128"))
}


def snake_case(name):
    """MatMul: mat_mul, Conv2D: conv2d, AddV2: add_v2, Vendor>Op: vendor_op."""
    name = re.sub(r"\W+", "_", name)
    name = re.sub(r"(?<=[a-z])(\d)D", r"\1d", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", name).lower()


def _parameter(name):
    return name + "_" if keyword.iskeyword(name) else name


def _constant_type(definition, attr_name, values):
    """The type of an attribute that no Output says: an array's, else the one that Python's values have or can have."""
    arrays = [
        value
        for value in values
        if isinstance(value, (numpy.ndarray, numpy.generic, Tensor)) or hasattr(value, "__dlpack__")
    ]
    if arrays:
        return _natural_type(arrays[0])
    attr = definition.attr(attr_name)
    allowed = None if attr.allowed is None else [DType(name) for name in attr.allowed]
    if not values:
        return None
    found = max((_natural_type(value) for value in values), key=lambda dtype: _WEIGHT.get(dtype.name, -1))
    if allowed is None or found in allowed:
        return found
    heavier = [dtype for dtype in allowed if _WEIGHT.get(dtype.name, -1) > _WEIGHT.get(found.name, 99)]
    if heavier:
        return min(heavier, key=lambda dtype: _WEIGHT[dtype.name])
    return found  # the engine says what is allowed


def _base(dtype):
    return DType(dtype.name[: -len("_ref")]) if dtype.name.endswith("_ref") else dtype


class _Call:
    """One call of an op: its inputs as Outputs, its attributes as the engine takes them."""

    def __init__(self, definition, given):
        self.definition = definition
        self.given = given
        self.graph = graph_for([given[argument.name] for argument in definition.inputs])
        self.types = {}  # of type attributes

    def values_of(self, argument):
        value = self.given[argument.name]
        if not argument.is_list:
            return [value]
        if isinstance(value, (list, tuple)):
            return list(value)
        if isinstance(value, numpy.ndarray) and value.ndim > 0:
            return list(value)
        raise InvalidArgumentError(
            f"{self.definition.name}: input '{argument.name}' ({argument.text}) is a list of values; found {value!r}"
        )

    def find_types(self):
        constants = {}
        for attr in self.definition.attrs:
            if attr.kind == "type" and self.given.get(attr.name) is not None:
                self.types[attr.name] = DType(self.given[attr.name])
        for argument in self.definition.inputs:
            for value in self.values_of(argument) if argument.type_attr else ():
                if isinstance(value, Output):
                    self.types.setdefault(argument.type_attr, _base(value.dtype))
                elif not isinstance(value, Operation):
                    constants.setdefault(argument.type_attr, []).append(value)
        for attr, values in constants.items():
            if attr not in self.types:
                self.types[attr] = self.type_of_variable(attr)
            if self.types[attr] is None:
                self.types[attr] = _constant_type(self.definition, attr, values)

    def type_of_variable(self, attr_name):
        """What a variable whose handle is an input holds, where the op calls it by the name that the variable does:
        `dtype`."""
        if attr_name != "dtype":
            return None
        for argument in self.definition.inputs:
            handle = self.given[argument.name]
            if argument.dtype == "resource" and isinstance(handle, Output):
                while handle.op.type == "Placeholder" and handle in getattr(handle.graph, "captured", {}):
                    handle = handle.graph.captured[handle]
                try:
                    found = handle.op.attr("dtype")
                    return None if found == "resource" else found
                except NotFoundError:
                    return None
        return None

    def input(self, argument, value):
        if isinstance(value, (Output, Operation)):
            return self.graph.lift(value)
        dtype = (
            self.types.get(argument.type_attr)
            if argument.type_attr
            else (DType(argument.dtype) if argument.dtype else None)
        )
        if dtype is not None and dtype.name in ("resource", "variant"):
            raise InvalidArgumentError(
                f"{self.definition.name}: input '{argument.name}' is an Output of {dtype}; found {value!r}"
            )
        try:
            return self.graph.constant(value, dtype)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{self.definition.signature_text}: input '{argument.name}': {error.message}"
            ) from None

    def lists(self, inputs):
        """What the engine cannot tell where inputs are several lists: which inputs are of which."""
        lists = [argument for argument in self.definition.inputs if argument.is_list]
        if len(lists) < 2:
            return []
        triples, inputs = {}, iter(inputs)
        for argument in self.definition.inputs:
            mine = [next(inputs) for _ in self.values_of(argument)]
            if argument.number_attr:
                triples[argument.number_attr] = "int", len(mine)
            elif argument.type_list_attr:
                triples[argument.type_list_attr] = "list(type)", [value.dtype for value in mine]
        return [(name, kind, value) for name, (kind, value) in triples.items() if self.given.get(name) is None]

    def attributes(self):
        triples = []
        for attr in self.definition.attrs:
            value = self.given.get(attr.name)
            if attr.name in self.given and not (value is None and attr.kind != "shape"):
                triples.append((attr.name, attr.kind, _function_names(self.graph, attr.kind, value)))
        return triples

    def add(self, name):
        self.find_types()
        inputs = [
            self.input(argument, value) for argument in self.definition.inputs for value in self.values_of(argument)
        ]
        return self.graph._add_node(self.definition.name, inputs, self.attributes() + self.lists(inputs), name or "")


def _function_names(graph, kind, value):
    if kind == "func":
        return value if isinstance(value, str) else value.name_in(graph)
    if kind == "list(func)":
        return [_function_names(graph, "func", each) for each in value]
    return value


def _results(definition, operation, result_type):
    outputs = operation.outputs
    if not definition.outputs:
        return operation
    values = []
    for argument in definition.outputs:
        if not argument.is_list:
            values.append(outputs.pop(0))
            continue
        count = (
            operation.attr(argument.number_attr)
            if argument.number_attr
            else len(operation.attr(argument.type_list_attr))
        )
        values.append([outputs.pop(0) for _ in range(count)])
    return values[0] if len(values) == 1 else result_type(*values)


def _signature(definition, name_parameter):
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(_parameter(argument.name), kind, annotation=argument.text) for argument in definition.inputs
    ]
    taken = {argument.name for argument in definition.inputs}
    free = [attr for attr in definition.attrs if attr.name not in definition.inferred and attr.name not in taken]
    needed = [attr for attr in free if attr.default is REQUIRED]
    parameters += [inspect.Parameter(_parameter(attr.name), kind, annotation=attr.text) for attr in needed]
    only = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(_parameter(attr.name), kind, default=attr.default, annotation=attr.text)
        for attr in free
        if attr.default is not REQUIRED
    ]
    parameters += [
        inspect.Parameter(_parameter(attr.name), only, default=None, annotation=attr.text)
        for attr in definition.attrs
        if attr.name in definition.inferred
    ]
    parameters.append(inspect.Parameter(name_parameter, only, default=None, annotation="str"))
    return inspect.Signature(parameters)


def _doc(definition):
    lines = [definition.doc or "", "", definition.signature_text, ""]
    lines += [f"  {argument.name}: {argument.text}" for argument in definition.inputs]
    lines += [
        f"  {attr.name}: {attr.text}" + ("  (the inputs say it)" if attr.name in definition.inferred else "")
        for attr in definition.attrs
    ]
    lines += ["", f"Of the plugin {definition.plugin}" + (" and differentiable." if definition.has_gradient else ".")]
    return "\n".join(lines).strip()


def _fault(definition, signature, args, kwargs):
    """What is wrong with a call that does not bind."""
    names = list(signature.parameters)
    for key in kwargs:
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            return (
                f"{definition.name} has no parameter '{key}'"
                + (f"; did you mean '{near[0]}'?" if near else "")
                + f": {definition.signature_text}"
            )
    positional = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(positional):
        return f"{definition.name} takes {len(positional)} arguments in their order, found {len(args)}: {definition.signature_text}"
    missing = [p.name for p in positional[len(args) :] if p.default is inspect.Parameter.empty and p.name not in kwargs]
    return (
        f"{definition.name} misses {', '.join(repr(name) for name in missing)}: {definition.signature_text}"
        if missing
        else None
    )


def make_function(definition):
    """The function of an op's definition."""
    own = {argument.name for argument in definition.inputs} | {attr.name for attr in definition.attrs}
    name_parameter = "name" if "name" not in own else "node_name"
    signature = _signature(definition, name_parameter)
    fields = [_parameter(argument.name) for argument in definition.outputs]
    result_type = collections.namedtuple(re.sub(r"\W", "_", definition.name), fields, rename=True)
    originals = {_parameter(name): name for name in own}
    order = [originals[p.name] for p in signature.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    needed = {originals[p.name] for p in signature.parameters.values() if p.default is inspect.Parameter.empty}

    def bound(args, kwargs):
        """The arguments by the definition's names; None where they do not fit. As signature.bind, which is a third of
        what a node takes."""
        if len(args) > len(order):
            return None
        given = dict(zip(order, args))
        for key, value in kwargs.items():
            original = originals.get(key)
            if original is None or original in given:
                return None
            given[original] = value
        return given if needed <= given.keys() else None

    def op(*args, **kwargs):
        name = kwargs.pop(name_parameter, None)
        given = bound(args, kwargs)
        if given is None:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(_fault(definition, signature, args, kwargs) or str(error)) from None
        return _results(definition, _Call(definition, given).add(name), result_type)

    op.__name__ = op.__qualname__ = re.sub(r"\W", "_", definition.name)
    op.__doc__, op.__signature__, op.__module__ = _doc(definition), signature, __name__
    op.definition = definition
    return op


_functions = {}  # by definition


def _function_of(definition):
    if definition not in _functions:
        _functions[definition] = make_function(definition)
    return _functions[definition]


def _runtimes():
    here = default_graph().runtime
    return [here, *(runtime for runtime in live_runtimes() if runtime is not here)]


def _find(name):
    """The definition of an op by either of its names, of the current graph's runtime first; None where there is
    none."""
    known = default_graph().runtime._definitions.get(name)
    if known is not None:
        return known
    runtimes = _runtimes()
    guess = "".join(part.capitalize() for part in name.split("_"))
    for runtime in runtimes:
        for candidate in (name, guess) if name.islower() else (name,):
            try:
                return runtime.op(candidate)
            except NotFoundError:
                pass
    for runtime in runtimes:
        for definition in runtime.ops():
            if name in (re.sub(r"\W", "_", definition.name), snake_case(definition.name)):
                return definition
    return None


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    definition = _find(name)
    if definition is None:
        names = {word for runtime in _runtimes() for op in runtime.ops() for word in (op.name, snake_case(op.name))}
        near = difflib.get_close_matches(name, names, 3, 0.6)
        raise AttributeError(
            f"no plugin has an op '{name}'" + (f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else "")
        )
    return _function_of(definition)


def __dir__():
    names = {"snake_case"}
    for runtime in _runtimes():
        for definition in runtime.ops():
            names.update((re.sub(r"\W", "_", definition.name), snake_case(definition.name)))
    return sorted(names)
