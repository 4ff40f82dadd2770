# SPDX-License-Identifier: Apache-2.0
"""Sessions run parts of a graph."""

import json
from typing import Any, NamedTuple, Optional

from . import _core
from ._core import DType, Operation, Output
from .errors import FailedPreconditionError, InvalidArgumentError
from .graph import Graph, default_graph
from .runtime import Runtime, default_runtime


class Trace:
    """What ran when, in a step that was given it: `text` is Chrome's JSON, for chrome://tracing and Perfetto."""

    text: str = ""

    def events(self) -> list:
        events = json.loads(self.text)
        return events["traceEvents"] if isinstance(events, dict) else events

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __repr__(self):
        spans = [event for event in self.events() if event.get("ph") == "X"] if self.text else []
        if not spans:
            return "<tenon.Trace, empty>"
        begin, end = min(span["ts"] for span in spans), max(span["ts"] + span["dur"] for span in spans)
        longest = max(spans, key=lambda span: span["dur"])
        return f"<tenon.Trace of {len(spans)} spans in {end - begin:.0f} us; the longest is {longest['name']} with {longest['dur']:.0f} us>"


class Placement(NamedTuple):
    """Where the nodes of a step would run."""

    explanation: Any  # why, what else was possible, the predicted time line
    svg: str  # a picture of it
    file: str  # a placement file that says the same again

    def _repr_svg_(self):
        return self.svg


_ONE, _LIST, _TUPLE, _DICT = range(4)


class _Fetches:
    """Fetches as they were given, and their names one after the other; nodes without outputs are targets."""

    def __init__(self, fetches):
        self.keys = list(fetches) if isinstance(fetches, dict) else None
        if isinstance(fetches, dict):
            self.kind, entries = _DICT, list(fetches.values())
        elif isinstance(fetches, (list, tuple)):
            self.kind, entries = (_LIST if isinstance(fetches, list) else _TUPLE), list(fetches)
        else:
            self.kind, entries = _ONE, [fetches]
        self.names, self.targets, self.positions = [], [], []
        for entry in entries:
            if not isinstance(entry, (str, Output, Operation)):
                raise InvalidArgumentError(f"a fetch is an Output, an Operation or a name; found {entry!r}")
            if isinstance(entry, Operation):
                self.targets.append(entry)
                self.positions.append(-1)
            else:
                self.positions.append(len(self.names))
                self.names.append(entry)

    def pack(self, values):
        found = [None if position < 0 else values[position] for position in self.positions]
        if self.kind == _ONE:
            return found[0]
        if self.kind == _DICT:
            return dict(zip(self.keys, found))
        return found if self.kind == _LIST else tuple(found)


class Session(_core.SessionBase):
    """Runs parts of a graph, and holds the values of its variables. It sees what the graph has when a step begins.

    options: those of `tenon_session_options` by their names: device, placement, soft_placement, seed, memory_limit,
    executor ("auto", "dynamic"), precision ("strict", "bfloat16", ..., "int8"), calibration (the text of what `tenon
    run --calibrate` wrote, for "int8"), optimize, compile, check_numerics (the first NaN or infinity that a node makes
    is an error that names it), watch, master, ... Variables whose nodes name no container are the session's own; with
    share_state=True they are the runtime's, and outlive the session.

    Fetches are Outputs, names ("node:1") or Operations, which are run and give None; alone, in a list, a tuple or a
    dict, and the results come in the same form. A result is a read-only NumPy array over the tensor's own memory;
    strings are arrays of bytes objects; what NumPy cannot hold (variants, what stays on a device) is a tenon.Tensor.
    """

    def __init__(self, graph: Optional[Graph] = None, *, runtime: Optional[Runtime] = None, **options):
        super().__init__()
        if graph is None and runtime is None:
            graph = default_graph()
        self.graph = graph
        self.runtime = runtime or (graph.runtime if graph is not None else default_runtime())
        self._begin(self.runtime, options)
        self._seen = 0
        self._types = {}

    def run(
        self,
        fetches=(),
        feeds: Optional[dict] = None,
        *,
        targets=(),
        timeout: Optional[float] = None,
        cancellation=None,
        trace: Optional[Trace] = None,
        watch=None,
    ):
        """One step. feeds: values by Outputs or names. targets: nodes to run besides. timeout: seconds. trace: a Trace
        that is filled. watch(node, op, device, output, value): called for each value that a kernel makes, from any
        thread; what it raises ends the step. For sessions with the option watch=True."""
        self._look_at_graph()
        wanted = _Fetches(fetches)
        names = list(feeds or ())
        values, text = self._run(
            names,
            list((feeds or {}).values()),
            [self._type_of(name) for name in names],
            wanted.names,
            wanted.targets + _nodes(targets),
            timeout,
            cancellation,
            trace is not None,
            watch,
        )
        if trace is not None:
            trace.text = text
        return wanted.pack(values)

    def prepare(
        self, fetches=(), feeds=(), *, targets=(), feed_devices=(), fetch_devices=(), timeout: Optional[float] = None
    ) -> "_core.Callable":
        """A function of the feeds that runs this part of the graph, planned once. feed_devices, fetch_devices: where
        each lies or stays, "" for the host's memory."""
        self._look_at_graph()
        wanted = _Fetches(fetches)
        names = list(feeds) if isinstance(feeds, (list, tuple)) else [feeds]
        return _core._prepare(
            self,
            names,
            [self._type_of(name) for name in names],
            wanted.names,
            wanted.targets + _nodes(targets),
            wanted.kind,
            wanted.positions,
            wanted.keys,
            list(feed_devices),
            list(fetch_devices),
            timeout,
        )

    def partial_run(self, fetches, feeds, *, targets=()) -> "PartialRun":
        """One step whose feeds arrive in several calls; says all that will be fed, fetched and run. Nothing runs
        yet."""
        self._look_at_graph()
        return PartialRun(self, _Fetches(list(fetches)), list(feeds), targets)

    def place(self, fetches=(), feeds=(), *, targets=()) -> Placement:
        """Where the nodes of a step would run and why; nothing runs."""
        self._look_at_graph()
        wanted = _Fetches(fetches)
        explanation, svg, file = self._place(list(feeds), wanted.names, wanted.targets + _nodes(targets))
        return Placement(json.loads(explanation), svg, file)

    def costs(self) -> str:
        """What nodes took in traced steps with record_costs=True: a text for the option `costs` of later sessions."""
        return self._costs()

    def tasks(self) -> list:
        """The tasks of the cluster that the steps run on; none: this process."""
        return self._tasks()

    def extend(self, graph_def: bytes):
        """Adds the nodes of a serialized GraphDef."""
        self._extend(bytes(graph_def))

    def close(self):
        """Ends the steps that run, whose callers get a CancelledError, and lets go of the session's variables when the
        last of them has ended. What was prepared before goes on being of use, and keeps the session's variables, until
        it is let go of."""
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def _look_at_graph(self):
        if self.graph is None:
            return
        count = self.graph.node_count
        if count != self._seen:
            self._extend_graph(self.graph)
            self._seen = count

    def _type_of(self, feed):
        if isinstance(feed, Output):
            return _plain(feed.dtype)
        if self.graph is None or not isinstance(feed, str):
            return None
        if feed not in self._types:
            self._types[feed] = _plain(self.graph[feed].dtype)
        return self._types[feed]

    def __repr__(self):
        try:
            metrics = self.metrics()
        except RuntimeError:
            return "<tenon.Session, closed>"
        of = "a loaded model" if self.graph is None else repr(self.graph)
        return f"<tenon.Session of {of}: {metrics['steps']} steps, {metrics['bytes_in_use']} bytes in use>"


class PartialRun:
    """A step that goes on where it was: `with session.partial_run([first, second], [a, b]) as step: x = step.run(first,
    {a: 1}); y = step.run(second, {b: x})`.

    Each feed and each fetch is given once. A fetch whose feeds are not all there is a FailedPreconditionError, which
    loses nothing.
    """

    def __init__(self, session, wanted, feeds, targets):
        self._session = session
        self._box = _core._partial_run(session, feeds, wanted.names, wanted.targets + _nodes(targets))

    def run(self, fetches=(), feeds: Optional[dict] = None, *, timeout: Optional[float] = None, cancellation=None):
        if self._box is None:
            raise FailedPreconditionError("the partial run is closed")
        wanted = _Fetches(fetches)
        if wanted.targets:
            raise InvalidArgumentError(
                f"a call of a partial run fetches values; '{wanted.targets[0].name}' runs as soon as what it needs is fed"
            )
        names = list(feeds or ())
        return wanted.pack(
            self._box._run(
                names,
                list((feeds or {}).values()),
                [self._session._type_of(name) for name in names],
                wanted.names,
                timeout,
                cancellation,
            )
        )

    def close(self):
        """Lets go of what the step has computed."""
        self._box = None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def _plain(dtype):
    return DType(dtype.name[: -len("_ref")]) if dtype.name.endswith("_ref") else dtype


def _nodes(targets):
    return list(targets) if isinstance(targets, (list, tuple)) else [targets]


def _explain(self):
    """For each node that the callable runs: its device, its kernel and how it runs."""
    return json.loads(self._explain())


_core.Callable.explain = _explain
