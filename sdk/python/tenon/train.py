# SPDX-License-Identifier: Apache-2.0
"""Training: variables and layers, optimizers, checkpoints, event files, the loop.

    model = tenon.train.Model(graph)
    logits = model.dense("out", x, 10)
    loss = tenon.train.sparse_softmax_loss(logits, labels)
    update = tenon.train.minimize(model, loss, 0.001, tenon.train.Adam())
    trainer = tenon.train.Trainer(model, loss=loss, update=update, feeds=[x, labels], feed=lambda step: ..., steps=1000)
    report = trainer.run(tenon.Session(graph))
"""

import os
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

from . import _core, ops
from ._core import DType, Initializer, Operation, Output
from .errors import InvalidArgumentError
from .graph import Graph, default_graph
from .session import Session


class Variable(NamedTuple):
    """A variable: `value` reads it, `initial` gives it its first value, `handle` is for ops that change it."""

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
    """The variables of a graph, and layers that make them. A name that is asked for again gives the same variable, so that layers that are built twice make two towers
    over one set of weights. seed: of random first values."""

    def __init__(self, graph: Optional[Graph] = None, seed: int = 1):
        super().__init__(graph or default_graph(), seed)

    def weight(self, name: str, shape, initializer=0.0) -> Variable:
        """A variable that training changes; initializer: an Initializer or a number."""
        return Variable(*self._variable("weight", name, shape, _initializer(initializer), ""))

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
        return self._dense(name, x, inputs, units, _initializer(initializer if initializer is not None else Initializer.he(inputs)))

    def conv2d(self, name: str, x: Output, filters: int, size: int, *, inputs: Optional[int] = None, initializer=None) -> Output:
        """x [batch, height, width, inputs] with filters of size x size, plus a bias; padded so that height and width stay."""
        inputs = inputs or _last_size(x, f"conv2d '{name}'")
        initializer = initializer if initializer is not None else Initializer.he(size * size * inputs)
        return self._conv2d(name, x, size, inputs, filters, _initializer(initializer))

    def __repr__(self):
        return f"<tenon.train.Model of {len(self.variables)} variables, {self.parameter_count} trainable numbers>"


# ---- Optimizers ----


class Optimizer(NamedTuple):
    kind: str
    settings: dict

    def __repr__(self):
        return f"<tenon.train.Optimizer {self.kind} {self.settings}>"


def SGD(**common) -> Optimizer:
    """var -= rate * gradient. Of all: fused=False makes it of primitive ops; loss_scale: a power of two, or "dynamic", for networks in float16."""
    return Optimizer("sgd", common)


def Momentum(momentum: float = 0.9, *, nesterov: bool = False, **common) -> Optimizer:
    return Optimizer("momentum", {"momentum": momentum, "nesterov": nesterov, **common})


def Adam(beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **common) -> Optimizer:
    return Optimizer("adam", {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, **common})


def Adagrad(initial_accumulator: float = 0.1, **common) -> Optimizer:
    return Optimizer("adagrad", {"initial_accumulator": initial_accumulator, **common})


_COMMON = ("fused", "loss_scale")


def minimize(model: Model, loss: Output, learning_rate, optimizer: Optional[Optimizer] = None) -> Operation:
    """Adds the gradients of the loss and what applies them to the model's trainable variables; running the node changes them all once. learning_rate: a number, or a
    float32 scalar of the graph."""
    optimizer = optimizer or Adam()
    known = {"momentum", "nesterov", "beta1", "beta2", "epsilon", "initial_accumulator", *_COMMON}
    for name in optimizer.settings:
        if name not in known:
            raise InvalidArgumentError(f"an optimizer has no setting '{name}'; there are: {', '.join(sorted(known))}")
    rate = learning_rate if isinstance(learning_rate, Output) else model.graph.constant(learning_rate, "float32", "learning_rate")
    return model._minimize(loss, rate, {"kind": optimizer.kind, **optimizer.settings})


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


# ---- Checkpoints and event files ----


class Restored(NamedTuple):
    prefix: str  # "": the folder has no checkpoint
    step: int
    warnings: list  # what was passed over, and why


class Saver(_core.SaverBase):
    """A model's variables in checkpoints of a folder, that survive a kill at any instruction. Make it after the variables.

    keep: the last so many; keep_every_hours: besides, one in so many hours; keep_best: besides, so many with the best metric. variables: those to save, a list of
    names or a dict to their names in checkpoints; none: all.
    """

    def __init__(self, model: Model, folder, *, keep: int = 5, keep_every_hours: float = 0, keep_best: int = 0, higher_is_better: bool = False,
                 variables=(), step_variable: str = "global_step"):
        names = variables if isinstance(variables, dict) else {name: "" for name in variables}
        super().__init__(model, os.fspath(folder), {
            "keep": keep, "keep_every_hours": keep_every_hours, "keep_best": keep_best, "higher_is_better": higher_is_better,
            "variables": names, "step_variable": step_variable,
        })

    def save(self, session: Session, step: int, metric: Optional[float] = None) -> str:
        """Writes the checkpoint of a step; gives its prefix."""
        session._look_at_graph()
        return self._save(session, step, metric)

    def restore(self, session: Session, prefix: Optional[str] = None) -> Restored:
        """Restores the newest checkpoint of the folder that can be read, or the one of that prefix, from any folder."""
        session._look_at_graph()
        if prefix is None:
            return Restored(*self._restore_newest(session))
        self._restore_from(session, os.fspath(prefix))
        return Restored(os.fspath(prefix), -1, [])


class EventWriter(_core.EventWriterBase):
    """TensorBoard's event files: a new one in the folder."""

    def __init__(self, folder):
        super().__init__(os.fspath(folder))

    def add_scalars(self, step: int, **values: float):
        self.add_scalar_dict(step, values)

    def add_scalar_dict(self, step: int, values: Dict[str, float]):
        """The same, for tags that Python has not as keywords."""
        self._add_scalars(step, [(tag, float(value)) for tag, value in values.items()])

    def add_graph(self, graph: Graph):
        self._add_graph(graph.graph_def())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.flush()


# ---- The loop ----


class Trainer(_core.TrainerBase):
    """Runs a training step again and again, with checkpoints, event files and a guard against numbers that are none. Make it after everything else of the graph.

    feed(step) gives the feeds' values, in their order; it should depend on the step alone, so that a run that was killed goes on exactly. on_step gets a dict (step, loss,
    the metrics, examples_per_second, seconds_left), on_message what happens besides. What they raise ends the loop and comes out of run(); KeyboardInterrupt, and what on_step
    raises, after a last checkpoint.
    """

    def __init__(self, model: Model, *, loss: Output, update: Operation, feeds: Sequence[Output] = (), feed: Callable[[int], Sequence[Any]] = lambda step: (),
                 metrics: Optional[Dict[str, Output]] = None, examples: int = 0, steps: int = 1000, checkpoint_folder="", checkpoint_steps: int = 0,
                 checkpoint_seconds: float = 0, keep: int = 5, keep_every_hours: float = 0, keep_best: int = 0, best_metric: str = "",
                 higher_is_better: bool = False, resume: bool = True, warm_start="", event_folder="", event_steps: int = 10, on_step=None, on_message=None):
        super().__init__(model, loss, metrics or {}, update, list(feeds), feed, examples, {
            "steps": steps, "checkpoint_folder": os.fspath(checkpoint_folder), "checkpoint_steps": checkpoint_steps, "checkpoint_seconds": checkpoint_seconds,
            "keep": keep, "keep_every_hours": keep_every_hours, "keep_best": keep_best, "best_metric": best_metric, "higher_is_better": higher_is_better,
            "resume": resume, "warm_start": os.fspath(warm_start), "event_folder": os.fspath(event_folder), "event_steps": event_steps,
        }, on_step, on_message)

    def run(self, session: Session) -> dict:
        """Begins (the newest checkpoint, or first values) and trains up to `steps`; gives first_step, last_step, stopped, seconds, checkpoint, ..."""
        self._begin(session)
        return self._run()


__all__ = ["Adagrad", "Adam", "EventWriter", "Initializer", "Model", "Momentum", "Optimizer", "Restored", "SGD", "Saver", "Trainer", "Variable", "accuracy",
           "group", "minimize", "sparse_softmax_loss"]
