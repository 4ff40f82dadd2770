# SPDX-License-Identifier: Apache-2.0
"""Models as files: SavedModels, GraphDefs and MetaGraphs, read, run and written."""

import os
import warnings
from typing import Any, Dict, List, NamedTuple, Optional

from . import _core
from .errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, class_of
from .graph import Graph
from .runtime import Runtime, default_runtime
from .session import Session, _Fetches

DEFAULT_SIGNATURE = "serving_default"


class TensorSpec(NamedTuple):
    """An input or output of a signature."""

    name: str
    dtype: _core.DType
    shape: Optional[tuple]  # sizes and None; None: any rank
    optional: bool  # the file has a value for callers who give none
    tensor: str  # in the graph, "node:0"

    def __repr__(self):
        sizes = "..." if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]" + (" = default" if self.optional else "")


class Signature:
    """A function that the model's author named. Called with values by name it gives all outputs as a dict of arrays by
    name, also where there is but one. A single input may be given without its name."""

    def __init__(self, model, name, method, inputs, outputs):
        self._model, self.name, self.method = model, name, method
        self.inputs: List[TensorSpec] = [TensorSpec(*info) for info in inputs]
        self.outputs: List[TensorSpec] = [TensorSpec(*info) for info in outputs]

    def __call__(self, *values, timeout: Optional[float] = None, cancellation=None, **inputs) -> Dict[str, Any]:
        return self.run(self._named(values, inputs), timeout=timeout, cancellation=cancellation)

    def run(self, inputs: Dict[str, Any], *, timeout: Optional[float] = None, cancellation=None) -> Dict[str, Any]:
        """The same of a dict, for names that Python has not as keywords."""
        return self._model._run_signature(self.name, dict(inputs), timeout, cancellation)

    def _named(self, values, inputs):
        if not values:
            return inputs
        if len(values) > 1 or len(self.inputs) != 1 or inputs:
            raise InvalidArgumentError(
                f"signature '{self.name}' takes its inputs by name: {', '.join(map(repr, self.inputs)) or 'none'}"
            )
        return {self.inputs[0].name: values[0]}

    def __repr__(self):
        words = lambda specs: ", ".join(map(repr, specs))
        return f"<tenon.Signature {self.name}({words(self.inputs)}) -> ({words(self.outputs)})>"


class Model(_core.ModelBase):
    """A loaded model. `signatures` has what its author named, and the model itself, called, is the default one of them.
    run() takes any tensors of its graph by their names."""

    def __init__(self, path, runtime, tags, options, allow_files):
        super().__init__(runtime, path, tags, options, allow_files)
        self.runtime = runtime
        self.session = Session.__new__(Session)
        _core.SessionBase.__init__(self.session)
        self._session_of(self.session)
        self.session.graph, self.session.runtime, self.session._seen, self.session._types = None, runtime, 0, {}
        self._all = {name: Signature(self, name, *rest) for name, *rest in self._signatures()}

    @property
    def signatures(self) -> Dict[str, Signature]:
        return dict(self._all)

    def __call__(self, *values, **inputs):
        return self._default()(*values, **inputs)

    def _default(self):
        if DEFAULT_SIGNATURE in self._all:
            return self._all[DEFAULT_SIGNATURE]
        if len(self._all) == 1:
            return next(iter(self._all.values()))
        if not self._all:
            raise FailedPreconditionError(
                f"'{self.path}' is a {self.form} without signatures; Model.run takes tensors by their names"
            )
        raise NotFoundError(
            f"the model has no signature '{DEFAULT_SIGNATURE}'; it has: {', '.join(map(repr, self._all))}"
        )

    def run(
        self,
        fetches,
        feeds: Optional[dict] = None,
        *,
        targets=(),
        timeout: Optional[float] = None,
        cancellation=None,
        trace=None,
    ):
        """One step of the graph by names of tensors, as Session.run."""
        self._look_at(fetches, feeds, targets)
        return self.session.run(
            fetches, feeds, targets=targets, timeout=timeout, cancellation=cancellation, trace=trace
        )

    def prepare(self, fetches, feeds=(), *, targets=(), **options):
        """A function of the feeds, as Session.prepare."""
        self._look_at(fetches, feeds, targets)
        return self.session.prepare(fetches, feeds, targets=targets, **options)

    @property
    def queue_runners(self) -> list:
        """What fills the queues that its steps take from (tenon.train.QueueRunner); tenon.train.start_queue_runners
        runs them."""
        from .train.coordinator import QueueRunner

        return [
            QueueRunner(queue, tuple(enqueue), close, cancel, tuple(class_of(code) for code in closed))
            for queue, enqueue, close, cancel, closed in self._queue_runners()
        ]

    def graph(self) -> Graph:
        """The model's graph, to look at or to build on."""
        return Graph.from_graph_def(self.graph_def(), self.runtime)

    def _look_at(self, fetches, feeds, targets):
        wanted = _Fetches(fetches)
        self._check_run(list(feeds or ()), [*wanted.names, *targets])

    def __repr__(self):
        return (
            f"<tenon.Model '{self.path}' ({self.form}): {', '.join(map(repr, self._all.values())) or 'no signatures'}>"
        )


def load(
    path,
    *,
    tags=("serve",),
    runtime: Optional[Runtime] = None,
    allow_files: bool = False,
    freeze: bool = False,
    **options,
) -> Model:
    """Loads a SavedModel (a folder), a GraphDef or a MetaGraph (`.meta`), binary or text, with the values of its
    variables.

    tags: which graph of a SavedModel. options: the session's. A model touches no file but its own, unless allow_files.
    freeze: its variables are constants from then on (Session.freeze), for models that are run and not trained.
    """
    model = Model(
        os.fspath(path),
        runtime or default_runtime(),
        [tags] if isinstance(tags, str) else list(tags),
        options,
        allow_files,
    )
    if freeze:
        model.session.freeze()
    return model


def _names(tensors):
    return [(key, value if isinstance(value, str) else value.name) for key, value in tensors.items()]


def save(
    what,
    path,
    *,
    inputs: Optional[dict] = None,
    outputs: Optional[dict] = None,
    signatures: Optional[dict] = None,
    tags=("serve",),
    replace: bool = False,
):
    """Writes a Graph as a GraphDef file, or a Session as a SavedModel folder that TensorFlow loads, with the values
    that its variables have.

    A Model that was loaded is written as its file has it, with its own signatures, tags and assets and the values that
    its variables have now: a SavedModel as a folder, a MetaGraph or GraphDef as model.meta in the folder, with a
    checkpoint beside it.

    Another SavedModel has signatures: {name: (inputs, outputs)}, each a dict from names to Outputs or names of tensors;
    inputs and outputs alone are the default signature's. replace: a model that the folder has.
    """
    path = os.fspath(path)
    if isinstance(what, Graph):
        if inputs or outputs or signatures:
            raise InvalidArgumentError(
                "a Graph is written as a GraphDef, which has no signatures; give the Session for a SavedModel"
            )
        return _core._write_file(path, what.graph_def())
    if isinstance(what, Model):
        if inputs or outputs or signatures or tuple(tags) != ("serve",):
            raise InvalidArgumentError(
                "a loaded model keeps its own signatures and tags; leave inputs, outputs, signatures and tags out"
            )
        for note in what._write_trained(path, replace)[1]:
            warnings.warn(note, stacklevel=2)
        return
    if not isinstance(what, Session) or what.graph is None:
        raise InvalidArgumentError(
            f"save takes a Graph, a Session of a Graph, or a loaded Model (itself, not its session); found {what!r}"
        )
    wanted = dict(signatures or {})
    if outputs:
        wanted[DEFAULT_SIGNATURE] = (inputs or {}, outputs)
    if not wanted:
        raise InvalidArgumentError("a SavedModel has a signature at least: give outputs={...}, and inputs={...}")
    what._look_at_graph()
    specs = [(name, _names(ins), _names(outs), "tensorflow/serving/predict") for name, (ins, outs) in wanted.items()]
    return _core._write_saved_model(what.runtime, what, what.graph.graph_def(), path, specs, list(tags), replace)


def freeze(session: Session, outputs) -> bytes:
    """A GraphDef of what the outputs need, in which every variable is a constant of the value that it has in the
    session."""
    session._look_at_graph()
    names = [output if isinstance(output, str) else output.name for output in outputs]
    return _core._freeze(session, session.graph.graph_def(), [name.partition(":")[0] for name in names])
