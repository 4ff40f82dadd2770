# SPDX-License-Identifier: Apache-2.0
"""Ops of one's own: a Python function, or one of apache-tvm-ffi, as the kernel of an op. For experiments: an op that
stays is written as a plugin."""

import inspect
import re
import threading

import numpy

from . import _core, ops
from .errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnimplementedError
from .graph import graph_for
from .op_definition import OpDefinition
from .runtime import default_runtime, live_runtimes

_lock = threading.Lock()
_latest = {}  # by name


class DefinedOp:
    """An op that Python defined; see tenon.op. A call adds a node of it, as tenon.ops does."""

    def __init__(self, function, name, plugin, definition, boxes):
        self.function, self.name, self.plugin, self.definition, self._boxes = function, name, plugin, definition, boxes
        self.__doc__ = definition.doc

    def add_to(self, runtime):
        """Makes the op known to a runtime, for graphs that are read. The default runtime of the moment of the
        definition knows it already."""
        for box in reversed(self._boxes):  # the gradient's first
            box.add_to(runtime)

    def __call__(self, *args, **kwargs):
        runtime = graph_for([*args, *kwargs.values()]).runtime
        if _latest.get(self.name) is not self:
            raise FailedPreconditionError(f"op '{self.name}' was defined again; this is the former one")
        try:
            definition = runtime.op(self.name)
        except NotFoundError:
            _add(self, runtime)
            definition = runtime.op(self.name)
        return ops._function_of(definition)(*args, **kwargs)

    def __repr__(self):
        return f"<tenon.DefinedOp {self.definition.signature_text}>"


def op(
    function=None,
    *,
    inputs,
    outputs,
    attrs="",
    name=None,
    shape=None,
    constraints="",
    stateful=False,
    gradient=None,
    doc=None,
    properties="",
):
    """Makes an op of a function. As a decorator:

        @tenon.op(inputs="x: T, y: T", outputs="z: T", attrs="T: {float, double}; power: int = 2", shape="x")
        def power_sum(x, y, power):
            return x**power + y**power

    inputs, outputs, attrs, constraints: in the language of tenon/op.h, which is TensorFlow's.
    name: of the op, "Vendor>Op"; without it "Python>" and the function's name. Who defines a name again puts the new op
    in the old one's place, unless a
        session still uses that.
    function: gets NumPy arrays that it may not write (a list of them for an input that is a list), then by name those
    attributes that it has parameters for,
        and gives one value, or one for each output. It runs in threads of the engine, with the interpreter's lock. What
        it raises is the step's error, and its __cause__; SystemExit and KeyboardInterrupt come out of the call as what
        they are. Or a function of apache-tvm-ffi: it gets DLPack tensors, the inputs and behind them the outputs, which
        it writes, then the attributes but for types; no Python is on the way, and `shape` must say the outputs' sizes.
    shape: what is known of the outputs' shapes before a step: the name of an input whose shape they have, a list of
    such names, or a function that gets the
        inputs' shapes (None: unknown; tuples with None for unknown sizes) and attributes as `function` does and gives a
        shape, or one for each output.
    stateful: two runs may differ, or do something; else nodes may be merged, and computed before the step.
    properties: what it does to elements, in the language of tenon/op.h ("elementwise"): by it passes and compilers take
        the op as they take Tenon's own. With "computes(mul(x, sigmoid(x)))" (tenon/formula.h) they may make code of the
        formula instead of calling the function.
    gradient: a function that gets the inputs, then the gradients of the outputs, and attributes, and gives gradients of
    the inputs (None: zero); both but for
        inputs and outputs that are integers, truth values or strings. False: no gradient flows through the op, which is
        no error.

    The op lives in this process: a task of a cluster, or another program that reads the graph, needs its own:
    op.add_to(worker.runtime).
    """
    if function is None:
        return lambda given: op(
            given,
            inputs=inputs,
            outputs=outputs,
            attrs=attrs,
            name=name,
            shape=shape,
            constraints=constraints,
            stateful=stateful,
            gradient=gradient,
            doc=doc,
            properties=properties,
        )
    if not callable(function):
        raise InvalidArgumentError(f"tenon.op makes an op of a function; found {function!r}")
    if name is None:
        if not hasattr(function, "__name__"):
            raise InvalidArgumentError(f"{function!r} has no name of its own; say name=\"Mine>Op\"")
        name = "Python>" + re.sub(r"\W", "_", function.__name__)
    if doc is None:
        doc = inspect.cleandoc(function.__doc__) if isinstance(getattr(function, "__doc__", None), str) else ""
    text = dict(attrs=attrs, constraints=constraints)
    definition = OpDefinition(name, "", inputs, outputs, attrs, doc, stateful, bool(gradient))
    plugin = "python." + name
    boxes = []
    of, to, gradient_name = [], [], ""
    if gradient:
        of, to = _differentiable(definition, definition.outputs), _differentiable(definition, definition.inputs)
        gradient_name = name + "Grad"
        grad_inputs = ", ".join(
            [inputs, *(f"gradient_of_{definition.outputs[i].name}: {definition.outputs[i].text}" for i in of)]
        )
        grad_outputs = ", ".join(f"gradient_to_{definition.inputs[i].name}: {definition.inputs[i].text}" for i in to)
        grad_definition = OpDefinition(gradient_name, "", grad_inputs, grad_outputs, attrs, "", stateful, False)
        sources = [definition.inputs[i].name for i in to]
        run = _Call(gradient, grad_definition, "gradient of " + name, gradient_to=to)
        boxes.append(
            _box(grad_definition, plugin + ".gradient", run, _shape_function(sources, grad_definition), **text)
        )
    foreign = _foreign(function)
    if foreign and shape is None:
        raise InvalidArgumentError(
            f"{name}: a function of apache-tvm-ffi writes outputs that are there: say their shapes, shape=\"{_first_name(definition)}\""
        )
    run = function if foreign else _Call(function, definition, name)
    boxes.insert(
        0,
        _box(
            definition,
            plugin,
            run,
            _shape_function(shape, definition),
            foreign=foreign,
            gradient=gradient_name,
            gradient_of=of,
            gradient_to=to,
            differentiable=gradient is not False,
            properties=properties,
            **text,
        ),
    )
    made = DefinedOp(function, name, plugin, definition, boxes)
    with _lock:
        former = _latest.get(name)
        if former is not None:
            _remove(former)
        try:
            _add(made, default_runtime())
        except Exception:
            if former is not None:
                _add(former, default_runtime())
            raise
        _latest[name] = made
    return made


def _add(made, runtime):
    """Adds the op, or nothing of it."""
    try:
        made.add_to(runtime)
        found = runtime.op(made.name)
        if found.plugin != made.plugin:
            raise InvalidArgumentError(
                f"there is an op '{made.name}' already, of the plugin '{found.plugin}'; give this one a name of its own, name=\"Mine>Op\""
            )
    except Exception:
        _remove(made)
        raise


def _box(
    definition,
    plugin,
    run,
    shape,
    *,
    attrs,
    constraints,
    foreign=(),
    gradient="",
    gradient_of=(),
    gradient_to=(),
    differentiable=True,
    properties="",
):
    arguments = lambda them: ", ".join(f"{argument.name}: {argument.text}" for argument in them)
    return _core._DefinedOp(
        dict(
            plugin=plugin,
            name=definition.name,
            inputs=arguments(definition.inputs),
            outputs=arguments(definition.outputs),
            attrs=attrs,
            constraints=constraints,
            doc=definition.doc,
            properties=properties,
            attr_names=[attr.name for attr in definition.attrs],
            stateful=definition.stateful,
            run=run,
            shape=shape,
            foreign=list(foreign),
            gradient=gradient,
            gradient_of=list(gradient_of),
            gradient_to=list(gradient_to),
            differentiable=differentiable,
        )
    )


def _remove(former):
    """Takes an op out of the runtimes that have it."""
    for runtime in live_runtimes():
        for plugin in (former.plugin, former.plugin + ".gradient"):
            if any(report.id == plugin for report in runtime.reports()):
                _unload(runtime, plugin, former.name)


def _unload(runtime, plugin, name):
    try:
        runtime.unload_plugin(plugin)
    except FailedPreconditionError as error:
        if "in use" in error.message:
            raise FailedPreconditionError(
                f"op '{name}' cannot be defined again: a session uses it. Let go of that (the traceback of an error may keep it too), or "
                "give the new op another name"
            ) from None


def _first_name(definition):
    return definition.inputs[0].name if definition.inputs else "..."


_SMOOTH = re.compile(r"(b?float|half|double|complex)")


def _differentiable(definition, arguments):
    """The indices of those that may be of floating type."""
    found = []
    for i, argument in enumerate(arguments):
        if argument.is_list:
            raise UnimplementedError(
                f"{definition.name}: '{argument.name}' is a list; the gradient of an op that Python defines takes single values"
            )
        allowed = [argument.dtype] if argument.dtype else definition.attr(argument.type_attr).allowed
        if allowed is None or any(_SMOOTH.match(name) for name in allowed):
            found.append(i)
    return found


class _Call:
    """Calls a function as its op's definition says: flat lists of the engine's become arguments, and results flat
    lists."""

    def __init__(self, function, definition, what, gradient_to=None):
        self.function, self.definition, self.what, self.gradient_to = function, definition, what, gradient_to
        self.names = _attribute_names(function, definition)

    def __call__(self, values, attributes):
        given = self.function(
            *_grouped(self.definition.inputs, values, attributes), **{name: attributes[name] for name in self.names}
        )
        outputs = self.definition.outputs
        single = len(outputs) == 1 and not (self.gradient_to is not None and isinstance(given, tuple))
        parts = [given] if single else [] if not outputs and given is None else given
        if not isinstance(parts, (list, tuple)) or len(parts) != len(outputs):
            found = f"{len(parts)} values" if isinstance(parts, (list, tuple)) else f"one {type(parts).__name__}"
            raise InvalidArgumentError(f"{self.what}: its function gave {found} for {len(outputs)} outputs")
        if self.gradient_to is not None:
            return [numpy.zeros_like(values[i]) if part is None else part for i, part in zip(self.gradient_to, parts)]
        flat = []
        for argument, part in zip(outputs, parts):
            flat += list(part) if argument.is_list else [part]
        return flat


def _attribute_names(function, definition):
    """The attributes that the function has parameters for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    names = [attr.name for attr in definition.attrs]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return names
    inputs = {argument.name for argument in definition.inputs}
    named = {parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_POSITIONAL}
    return [name for name in names if name in named and name not in inputs]


def _grouped(arguments, values, attributes):
    values, grouped = list(values), []
    for argument in arguments:
        if not argument.is_list:
            grouped.append(values.pop(0))
            continue
        count = attributes[argument.number_attr] if argument.number_attr else len(attributes[argument.type_list_attr])
        grouped.append([values.pop(0) for _ in range(count)])
    return grouped


def _shape_function(shape, definition):
    """shapes of the inputs, attributes -> shapes of the outputs, both flat; None where nothing is known."""
    if shape is None:
        return None
    if callable(shape):
        return _Call(shape, definition, "shape of " + definition.name)
    names = [shape] * len(definition.outputs) if isinstance(shape, str) else list(shape)
    inputs = [argument.name for argument in definition.inputs]
    for each in names:
        if each not in inputs:
            raise InvalidArgumentError(
                f"{definition.name}: shape names '{each}', which is none of its inputs: {', '.join(inputs)}"
            )
    if len(names) != len(definition.outputs):
        raise InvalidArgumentError(
            f"{definition.name}: shape names {len(names)} inputs for {len(definition.outputs)} outputs"
        )
    if any(argument.is_list for argument in (*definition.inputs, *definition.outputs)):
        raise UnimplementedError(f"{definition.name} has lists; give `shape` a function of the inputs' shapes")
    indices = [inputs.index(each) for each in names]
    return lambda shapes, attributes: [shapes[i] for i in indices]


def _foreign(function):
    """Addresses of a function of apache-tvm-ffi and of what calls it; nothing for any other."""
    if not (type(function).__module__ or "").startswith("tvm_ffi") or not hasattr(function, "__chandle__"):
        return []
    import ctypes

    import tvm_ffi

    if not tvm_ffi.__version__.startswith("0.1."):
        raise UnimplementedError(
            f"apache-tvm-ffi {tvm_ffi.__version__} is installed; its C ABI is known here as of 0.1"
        )
    address = lambda symbol: ctypes.cast(getattr(tvm_ffi.LIB, symbol), ctypes.c_void_p).value
    return [
        function.__chandle__(),
        address("TVMFFIFunctionCall"),
        address("TVMFFIErrorMoveFromRaised"),
        address("TVMFFIObjectDecRef"),
    ]
