# SPDX-License-Identifier: Apache-2.0
"""Pipelines of input, as nodes of a graph, by tf.data's names.

    sentences = (tenon.data.text_lines(["a.txt", "b.txt"])
                 .shuffle(10_000, seed=1)
                 .map(words, num_parallel_calls=tenon.data.AUTOTUNE)
                 .bucket_by_sequence_length(lambda w: tenon.ops.Size(w), [16, 32], [64, 32, 16])
                 .prefetch())
    for batch in sentences: ...                        # NumPy arrays, in a session of their own

    batch = sentences.make_iterator()                  # or within a graph: nodes that read batch.next
    trainer = tenon.train.Trainer(model, ..., input=batch, prefetch_device="GPU:0")

An element is a tensor, or a tuple or dict of elements, which functions of elements get and give; of a tuple they get
each part as an argument. Functions build a part of the graph, once, as those of tenon.function, and may use Outputs of
the graph around. All runs in the engine, where the nodes are placed. A dataset within an element, as `window` gives, is
a Dataset in functions.
"""

from typing import Any, Callable, NamedTuple, Optional, Sequence

from . import ops
from ._core import DType, Operation, Output
from .errors import InvalidArgumentError, OutOfRangeError
from .function import _as_outputs, _merged, _Traced
from .graph import Graph, default_graph, graph_for
from .session import Session

AUTOTUNE = -1  # the engine chooses how many

_DEPTH = 32  # of elements in one another
_SEED = 87654321  # TensorFlow's, where a graph has none


class ElementSpec(NamedTuple):
    """What is known of a tensor of each element."""

    dtype: DType
    shape: Optional[tuple] = None


class DatasetSpec(NamedTuple):
    """Of a dataset that lies in each element."""

    element: Any


class Iterator(NamedTuple):
    """Of a dataset, in a graph: run `begin` before the first step, and again for the next pass; behind the last element
    steps raise OutOfRangeError."""

    begin: Operation
    get_next: Operation
    next: Any  # the element: Outputs


def _flatten(value, depth=0):
    """The leaves of an element; of a dict by its keys' order, as TensorFlow has it."""
    if depth > _DEPTH:
        raise InvalidArgumentError(f"an element has parts in one another, more than {_DEPTH} deep")
    if isinstance(value, tuple) and not isinstance(value, (ElementSpec, DatasetSpec)):
        return [leaf for each in value for leaf in _flatten(each, depth + 1)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _flatten(value[key], depth + 1)]
    return [value]


def _pack(like, leaves):
    """An element of the same form from an iterator of leaves."""
    if isinstance(like, tuple) and not isinstance(like, (ElementSpec, DatasetSpec)):
        parts = [_pack(each, leaves) for each in like]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    if isinstance(like, dict):
        found = {key: _pack(like[key], leaves) for key in sorted(like)}
        return {key: found[key] for key in like}
    return next(leaves)


def _types(spec):
    return [DType("variant") if isinstance(leaf, DatasetSpec) else leaf.dtype for leaf in _flatten(spec)]


def _shapes(spec):
    return [() if isinstance(leaf, DatasetSpec) else leaf.shape for leaf in _flatten(spec)]


def _with_first(size, shape):
    return None if shape is None else (size, *shape)


def _without_first(shape):
    return shape[1:] if shape else None


class Dataset:
    """A pipeline; see tenon.data. Each method gives a new one. `element_spec` is what is known of an element, `variant`
    its node's output."""

    def __init__(self, variant: Output, element_spec):
        self.variant, self.element_spec = variant, element_spec
        self._own_iterator = None

    @property
    def graph(self) -> Graph:
        """Where nodes that read it go: into the body of a function while that is built."""
        return graph_for([self.variant])

    # ---- Of elements ----

    @property
    def _leaves(self):
        return _flatten(self.element_spec)

    @property
    def _types(self):
        return _types(self.element_spec)

    @property
    def _shapes(self):
        return _shapes(self.element_spec)

    def _element(self, outputs):
        """Outputs as an element of this form."""
        return _pack(
            self.element_spec,
            iter(
                [
                    Dataset(value, leaf.element) if isinstance(leaf, DatasetSpec) else value
                    for leaf, value in zip(self._leaves, outputs)
                ]
            ),
        )

    def _call(self, function, outputs):
        element = self._element(outputs)
        return function(*element) if isinstance(element, tuple) else function(element)

    def _trace(self, what, body, arguments=None):
        """The function that body(*Outputs) builds of an element, and the form of what it gives."""
        given = []

        def flat(*values):
            given[:] = [body(*values)]
            leaves = _flatten(given[0])
            return [leaf.variant if isinstance(leaf, Dataset) else leaf for leaf in leaves]

        arguments = arguments or list(zip(self._types, self._shapes))
        traced = _Traced(
            self.graph, what, flat, [(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(arguments)]
        )
        if traced.effects:
            raise InvalidArgumentError(
                f"{what} gives an Operation; give a value that waits for it (tenon.control_dependencies)"
            )
        leaves = iter(_flatten(given[0]))
        spec = _pack(
            given[0],
            iter(
                [
                    (
                        DatasetSpec(leaf.element_spec)
                        if isinstance(leaf, Dataset)
                        else ElementSpec(value.dtype, value.shape)
                    )
                    for leaf, value in zip(leaves, traced.outputs)
                ]
            ),
        )
        return traced, spec

    def _function(self, what, body, arguments=None, name=None):
        """Its name, the Outputs that it captures, and the form of what it gives."""
        traced, spec = self._trace(what, body, arguments)
        return traced.define(name or what, traced.captures), [self.graph.lift(value) for value in traced.captures], spec

    def _then(self, op, more=(), attrs=None, spec=None, types="output_types"):
        spec = self.element_spec if spec is None else spec
        return _dataset(self.graph, op, [self.variant, *more], spec, attrs, types)

    def _numbers(self, *values):
        return _as_outputs(self.graph, values, [DType("int64")] * len(values))

    # ---- Functions of elements ----

    def map(
        self,
        map_func: Callable,
        num_parallel_calls: Optional[int] = None,
        deterministic: bool = True,
        name: Optional[str] = None,
    ) -> "Dataset":
        """map_func of each element; num_parallel_calls of them beside one another (None: one after the other).
        deterministic: in the elements' order."""
        defined, captures, spec = self._function(
            "dataset_map", lambda *x: self._call(map_func, x), name=name or getattr(map_func, "__name__", None)
        )
        attrs = {"f": defined, "Targuments": [value.dtype for value in captures]}
        if num_parallel_calls is None:
            return self._then("MapDataset", captures, attrs, spec)
        attrs["deterministic"] = "true" if deterministic else "false"
        return self._then("ParallelMapDatasetV2", captures + self._numbers(num_parallel_calls), attrs, spec)

    def _where(self, op, what, predicate):
        defined, captures, _ = self._function(what, lambda *x: self._call(predicate, x))
        return self._then(op, captures, {"predicate": defined, "Targuments": [value.dtype for value in captures]})

    def filter(self, predicate: Callable) -> "Dataset":
        """The elements of which predicate, one bool, holds."""
        return self._where("FilterDataset", "dataset_filter", predicate)

    def take_while(self, predicate: Callable) -> "Dataset":
        """The elements up to the first of which predicate does not hold."""
        return self._where("TakeWhileDataset", "dataset_take_while", predicate)

    def _expand(self, op, what, map_func, more, attrs):
        defined, captures, spec = self._function(what, lambda *x: self._call(map_func, x))
        if not isinstance(spec, DatasetSpec):
            raise InvalidArgumentError(
                f"{what.removeprefix('dataset_')}: the function gives a Dataset of each element; found {spec!r}"
            )
        return self._then(
            op,
            captures + more,
            {"f": defined, "Targuments": [value.dtype for value in captures], **attrs},
            spec.element,
        )

    def flat_map(self, map_func: Callable) -> "Dataset":
        """The elements of the Dataset that map_func gives of each element, one after the other."""
        return self._expand("FlatMapDataset", "dataset_flat_map", map_func, [], {})

    def interleave(
        self,
        map_func: Callable,
        cycle_length: Optional[int] = None,
        block_length: int = 1,
        num_parallel_calls: Optional[int] = None,
        deterministic: bool = True,
    ) -> "Dataset":
        """The same, from cycle_length datasets in turn, block_length elements each; num_parallel_calls of them read
        beside one another."""
        if num_parallel_calls is None:
            return self._expand(
                "InterleaveDataset",
                "dataset_interleave",
                map_func,
                self._numbers(1 if cycle_length is None else cycle_length, block_length),
                {},
            )
        more = self._numbers(
            AUTOTUNE if cycle_length is None else cycle_length, block_length, AUTOTUNE, AUTOTUNE, num_parallel_calls
        )
        return self._expand(
            "ParallelInterleaveDatasetV4",
            "dataset_interleave",
            map_func,
            more,
            {"deterministic": "true" if deterministic else "false"},
        )

    def scan(self, initial_state, scan_func: Callable) -> "Dataset":
        """scan_func(state, element) -> (next state, element), of each element in turn."""
        states = _as_outputs(self.graph, _flatten(initial_state))
        shapes = [value.shape for value in states]
        state_of = lambda values: _pack(initial_state, iter(values))
        count = len(states)

        def body(*x):
            given = scan_func(state_of(x[:count]), self._element(x[count:]))
            if not isinstance(given, tuple) or len(given) != 2:
                raise InvalidArgumentError(
                    f"scan: the function gives a pair, the next state and an element; found {given!r}"
                )
            return given

        while True:
            arguments = list(zip([value.dtype for value in states], shapes)) + list(zip(self._types, self._shapes))
            traced, (state_spec, spec) = self._trace("dataset_scan", body, arguments)
            merged = [_merged(shape, leaf.shape) for shape, leaf in zip(shapes, _flatten(state_spec))]
            if merged == shapes:
                break
            shapes = merged
        captures = [self.graph.lift(value) for value in traced.captures]
        attrs = {
            "f": traced.define("dataset_scan", traced.captures),
            "Tstate": [value.dtype for value in states],
            "Targuments": [value.dtype for value in captures],
        }
        return self._then("ScanDataset", states + captures, attrs, spec)

    def group_by_window(
        self,
        key_func: Callable,
        reduce_func: Callable,
        window_size: Optional[int] = None,
        window_size_func: Optional[Callable] = None,
    ) -> "Dataset":
        """Elements of the same key, an int64, come together: window_size of them (or window_size_func(key)), or what is
        left at the end, become the Dataset reduce_func(key, dataset of them)."""
        if (window_size is None) == (window_size_func is None):
            raise InvalidArgumentError("group_by_window takes window_size or window_size_func")
        integer = [(DType("int64"), ())]
        as_number = lambda value: (
            ops.Cast(value, DstT="int64") if isinstance(value, Output) and value.dtype != "int64" else value
        )
        size = window_size_func or (lambda key: default_graph().constant(window_size, "int64"))
        key, of_key, _ = self._function("dataset_key", lambda *x: as_number(self._call(key_func, x)))
        reduced, of_reduced, spec = self._function(
            "dataset_reduce",
            lambda k, window: reduce_func(k, Dataset(window, self.element_spec)),
            integer + [(DType("variant"), ())],
        )
        sizes, of_sizes, _ = self._function("dataset_window_size", lambda k: as_number(size(k)), integer)
        if not isinstance(spec, DatasetSpec):
            raise InvalidArgumentError(f"group_by_window: reduce_func gives a Dataset; found {spec!r}")
        attrs = {"key_func": key, "reduce_func": reduced, "window_size_func": sizes}
        for what, values in (("key_func", of_key), ("reduce_func", of_reduced), ("window_size_func", of_sizes)):
            attrs[f"T{what}_other_arguments"] = [value.dtype for value in values]
        return self._then("GroupByWindowDataset", of_key + of_reduced + of_sizes, attrs, spec.element)

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable,
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes=None,
        padding_values=None,
        pad_to_bucket_boundary: bool = False,
        drop_remainder: bool = False,
    ) -> "Dataset":
        """Batches of sequences of about the same length, padded. Bucket i holds lengths below bucket_boundaries[i], the
        last one all others; its batches have bucket_batch_sizes[i] elements."""
        boundaries, sizes = [int(n) for n in bucket_boundaries], [int(n) for n in bucket_batch_sizes]
        if len(sizes) != len(boundaries) + 1 or min(sizes + boundaries) < 1 or sorted(set(boundaries)) != boundaries:
            raise InvalidArgumentError(
                f"bucket_by_sequence_length: boundaries are positive and ascend, and there is one positive batch size more than boundaries; found {boundaries} and {sizes}"
            )
        shapes = self._padded_shapes(padded_shapes)
        as_number = lambda value: ops.Cast(value, DstT="int64") if value.dtype != "int64" else value

        def bucket_of(*element):
            length = as_number(element_length_func(*element))
            bucket = ops.Sum(
                ops.Cast(ops.GreaterEqual(length, default_graph().constant(boundaries, "int64")), DstT="int64"), [0]
            )
            if not pad_to_bucket_boundary:
                return bucket
            why = (
                "elements are padded to their bucket's boundary, and this one's length is not below the last boundary:"
            )
            fits = ops.Assert(
                ops.Less(bucket, default_graph().constant(len(boundaries), "int64")),
                [default_graph().constant(why), length],
            )
            with default_graph().control_dependencies([fits]):
                return ops.Identity(bucket)

        size_of = lambda bucket: ops.GatherV2(default_graph().constant(sizes, "int64"), bucket, 0)

        def batch(bucket, window):
            if not pad_to_bucket_boundary:
                return window.padded_batch(size_of(bucket), padded_shapes, padding_values, drop_remainder)
            boundary = ops.Sub(
                ops.GatherV2(default_graph().constant(boundaries, "int64"), bucket, 0),
                default_graph().constant(1, "int64"),
            )
            given = [default_graph().constant([-1 if n is None else n for n in shape], "int64") for shape in shapes]
            padded = [ops.SelectV2(ops.Less(one, default_graph().constant(0, "int64")), boundary, one) for one in given]
            return window._padded(size_of(bucket), padded, shapes, padding_values, drop_remainder)

        return self.group_by_window(bucket_of, batch, window_size_func=size_of)

    # ---- The order and number of elements ----

    def shuffle(self, buffer_size: int, seed: Optional[int] = None, reshuffle_each_iteration: bool = True) -> "Dataset":
        """By a buffer of so many elements; with the same seed in TensorFlow's order. None: another order in each
        session."""
        seeds = self._numbers(buffer_size, *((0, 0) if seed is None else (_SEED, seed)))
        return self._then("ShuffleDataset", seeds, {"reshuffle_each_iteration": reshuffle_each_iteration})

    def repeat(self, count: Optional[int] = None) -> "Dataset":
        """count passes, one after the other; None: without end."""
        return self._then("RepeatDataset", self._numbers(-1 if count is None else count))

    def take(self, count) -> "Dataset":
        return self._then("TakeDataset", self._numbers(count))

    def skip(self, count) -> "Dataset":
        return self._then("SkipDataset", self._numbers(count))

    def shard(self, num_shards: int, index: int) -> "Dataset":
        """Element n where n % num_shards == index."""
        return self._then("ShardDataset", self._numbers(num_shards, index))

    def concatenate(self, dataset: "Dataset") -> "Dataset":
        """This one's elements, then the other's."""
        if [str(dtype) for dtype in self._types] != [str(dtype) for dtype in dataset._types]:
            raise InvalidArgumentError(
                f"concatenate: the elements are {self.element_spec!r} and {dataset.element_spec!r}"
            )
        merged = [
            mine if isinstance(mine, DatasetSpec) else ElementSpec(mine.dtype, _merged(mine.shape, other.shape))
            for mine, other in zip(self._leaves, dataset._leaves)
        ]
        return self._then("ConcatenateDataset", [dataset.variant], spec=_pack(self.element_spec, iter(merged)))

    def enumerate(self, start: int = 0) -> "Dataset":
        """(number, element)."""
        with self.graph:
            return zip_datasets((range(start, 2**63 - 1), self))

    def unique(self) -> "Dataset":
        """Without the elements that came before."""
        return self._then("UniqueDataset")

    def ignore_errors(self, log_warning: bool = False) -> "Dataset":
        """Without the elements whose making fails."""
        return self._then("IgnoreErrorsDataset", attrs={"log_warning": log_warning})

    # ---- Batches ----

    def _batched(self, size):
        for leaf in self._leaves:
            if isinstance(leaf, DatasetSpec):
                raise InvalidArgumentError(
                    "datasets in elements cannot be put into batches; make them elements first (flat_map)"
                )
        return _pack(
            self.element_spec, iter([ElementSpec(leaf.dtype, _with_first(size, leaf.shape)) for leaf in self._leaves])
        )

    def batch(self, batch_size, drop_remainder: bool = False) -> "Dataset":
        spec = self._batched(batch_size if drop_remainder and isinstance(batch_size, int) else None)
        return self._then(
            "BatchDatasetV2", self._numbers(batch_size) + [self.graph.constant(drop_remainder)], spec=spec
        )

    def _padded_shapes(self, given):
        """A shape for each leaf, None for what is as long as the longest."""
        shapes = self._shapes if given is None else []
        if given is not None:
            for shape in self._along(given, self.element_spec):
                if not isinstance(shape, (list, tuple)) or not all(
                    size is None or isinstance(size, int) for size in shape
                ):
                    raise InvalidArgumentError(
                        f"a padded shape is a list of sizes, None for what is as long as the longest; found {shape!r}"
                    )
                shapes.append(tuple(None if size == -1 else size for size in shape))
        for i, shape in enumerate(shapes):
            if shape is None:
                raise InvalidArgumentError(
                    f"nothing is known of the shape of part {i} of the elements; say it in padded_shapes, with None for what is to be as long as the longest"
                )
        return shapes

    def _along(self, given, like):
        """The values of `given` for each leaf of a form."""
        if isinstance(like, (ElementSpec, DatasetSpec)):
            return [given]
        if isinstance(like, dict):
            if not isinstance(given, dict) or set(given) != set(like):
                raise InvalidArgumentError(f"{given!r} is not of the form of the elements, {self.element_spec!r}")
            return [leaf for key in sorted(like) for leaf in self._along(given[key], like[key])]
        if not isinstance(given, (tuple, list)) or len(given) != len(like):
            raise InvalidArgumentError(f"{given!r} is not of the form of the elements, {self.element_spec!r}")
        return [leaf for one, part in zip(given, like) for leaf in self._along(one, part)]

    def padded_batch(
        self, batch_size, padded_shapes=None, padding_values=None, drop_remainder: bool = False
    ) -> "Dataset":
        """Batches of elements of different sizes, padded to the longest, or to padded_shapes, with padding_values (0,
        "", False), both of the elements' form."""
        shapes = self._padded_shapes(padded_shapes)
        values = [self.graph.constant([-1 if size is None else size for size in shape], "int64") for shape in shapes]
        return self._padded(batch_size, values, shapes, padding_values, drop_remainder)

    def _padded(self, batch_size, shapes, known, padding_values, drop_remainder):
        first = batch_size if drop_remainder and isinstance(batch_size, int) else None
        self._batched(None)
        spec = _pack(
            self.element_spec,
            iter([ElementSpec(leaf.dtype, (first, *shape)) for leaf, shape in zip(self._leaves, known)]),
        )
        given = [None] * len(known) if padding_values is None else self._along(padding_values, self.element_spec)
        zeros = {"string": "", "bool": False}
        fill = [
            (
                self.graph.lift(value)
                if isinstance(value, Output)
                else self.graph.constant(zeros.get(str(leaf.dtype), 0) if value is None else value, leaf.dtype)
            )
            for leaf, value in zip(self._leaves, given)
        ]
        more = (
            self._numbers(batch_size)
            + [self.graph.lift(shape) for shape in shapes]
            + fill
            + [self.graph.constant(drop_remainder)]
        )
        return self._then("PaddedBatchDatasetV2", more, {"N": len(shapes)}, spec, types="Toutput_types")

    def unbatch(self) -> "Dataset":
        """An element for each index of the first axis."""
        return self._then(
            "UnbatchDataset",
            spec=_pack(
                self.element_spec, iter([ElementSpec(leaf.dtype, _without_first(leaf.shape)) for leaf in self._leaves])
            ),
        )

    def window(
        self, size: int, shift: Optional[int] = None, stride: int = 1, drop_remainder: bool = False
    ) -> "Dataset":
        """Elements whose parts are Datasets of `size` elements each."""
        more = self._numbers(size, size if shift is None else shift, stride) + [self.graph.constant(drop_remainder)]
        return self._then(
            "WindowDataset", more, spec=_pack(self.element_spec, iter([DatasetSpec(leaf) for leaf in self._leaves]))
        )

    # ---- Speed ----

    def cache(self, filename: str = "") -> "Dataset":
        """The elements of the first pass for all others, in memory or in files of that name."""
        return self._then("CacheDataset", [self.graph.constant(filename)])

    def prefetch(self, buffer_size: int = AUTOTUNE) -> "Dataset":
        """Elements are made ahead."""
        return self._then("PrefetchDataset", self._numbers(buffer_size))

    # ---- Use ----

    def cardinality(self) -> Output:
        """How many elements there are, int64: -1 without end, -2 where it is not known."""
        return self.graph.add_node("DatasetCardinality", [self.variant]).outputs[0]

    def reduce(self, initial_state, reduce_func: Callable):
        """The last state: state = reduce_func(state, element), of each element in turn; Outputs of the state's form."""
        states = _as_outputs(self.graph, _flatten(initial_state))
        count = len(states)
        body = lambda *x: reduce_func(_pack(initial_state, iter(x[:count])), self._element(x[count:]))
        arguments = [(value.dtype, value.shape) for value in states] + list(zip(self._types, self._shapes))
        defined, captures, spec = self._function("dataset_reduce", body, arguments)
        attrs = {
            "f": defined,
            "Tstate": [value.dtype for value in states],
            "Targuments": [value.dtype for value in captures],
            "output_types": [value.dtype for value in states],
            "output_shapes": [_merged(value.shape, leaf.shape) for value, leaf in zip(states, _flatten(spec))],
        }
        node = self.graph.add_node("ReduceDataset", [self.variant, *states, *captures], attrs)
        return _pack(initial_state, iter(node.outputs))

    def make_iterator(self, name: str = "iterator") -> Iterator:
        """An iterator in the graph. It lives in a session under its name, so a graph needs one for each."""
        spec = {"output_types": self._types, "output_shapes": self._shapes}
        resource = self.graph.add_node(
            "IteratorV2", [], {"shared_name": name, "container": "", **spec}, f"{name}/iterator"
        ).outputs[0]
        begin = self.graph.add_node("MakeIterator", [self.variant, resource], None, f"{name}/begin")
        get_next = self.graph.add_node("IteratorGetNext", [resource], spec, f"{name}/next")
        return Iterator(begin, get_next, self._element(get_next.outputs))

    def __iter__(self):
        """One pass in a session of its own: elements as Session.run gives values."""
        if any(isinstance(leaf, DatasetSpec) for leaf in self._leaves):
            raise InvalidArgumentError(
                "the elements hold datasets, which only functions of elements can look into (flat_map)"
            )
        if self._own_iterator is None:
            self._own_iterator = self.make_iterator("dataset_iterator")
        return self._pass(self._own_iterator)

    def _pass(self, iterator):
        with Session(self.variant.graph) as session:
            session.run(targets=[iterator.begin])
            step = session.prepare(iterator.get_next.outputs)
            while True:
                try:
                    values = step()
                except OutOfRangeError:
                    return
                yield _pack(self.element_spec, iter(values))

    def __repr__(self):
        return f"<tenon.data.Dataset of {self.element_spec!r}>"


def _dataset(graph, op, inputs, spec, attrs=None, types="output_types"):
    """The node of a dataset of such elements."""
    node = graph.add_node(op, inputs, {**(attrs or {}), types: _types(spec), "output_shapes": _shapes(spec)})
    return Dataset(node.outputs[0], spec)


# ---- Sources ----

def _tensors(tensors):
    leaves = _flatten(tensors)
    graph = graph_for([leaf for leaf in leaves if isinstance(leaf, (Output, Operation))])
    return graph, _as_outputs(graph, leaves)


def from_tensors(tensors) -> Dataset:
    """One element: a tensor, or a tuple or dict of them; Outputs or arrays."""
    graph, values = _tensors(tensors)
    spec = _pack(tensors, iter([ElementSpec(value.dtype, value.shape) for value in values]))
    return _dataset(graph, "TensorDataset", values, spec, types="Toutput_types")


def from_tensor_slices(tensors) -> Dataset:
    """An element for each index of the first axis, which is as long for all."""
    graph, values = _tensors(tensors)
    spec = _pack(tensors, iter([ElementSpec(value.dtype, _without_first(value.shape)) for value in values]))
    return _dataset(graph, "TensorSliceDataset", values, spec, types="Toutput_types")


def range(*args: int) -> Dataset:
    """int64, as Python's range: range(end), range(begin, end), range(begin, end, step)."""
    if not 1 <= len(args) <= 3:
        raise InvalidArgumentError(f"range takes one to three numbers; found {len(args)}")
    begin, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    graph = graph_for([value for value in args if isinstance(value, Output)])
    return _dataset(
        graph,
        "RangeDataset",
        _as_outputs(graph, [begin, end, step], [DType("int64")] * 3),
        ElementSpec(DType("int64"), ()),
    )


def _of_files(op, files, *more):
    graph = graph_for([files] if isinstance(files, Output) else [])
    inputs = _as_outputs(
        graph,
        [files, *more],
        [DType("string")] + [DType("string") if isinstance(value, str) else DType("int64") for value in more],
    )
    return Dataset(graph.add_node(op, inputs).outputs[0], ElementSpec(DType("string"), ()))


def list_files(file_pattern) -> Dataset:
    """Names of the files that a pattern matches, or several, in alphabetical order."""
    return _of_files("MatchingFilesDataset", file_pattern)


def text_lines(filenames, compression_type: str = "") -> Dataset:
    """The lines of files; compression_type: "", "GZIP" or "ZLIB"."""
    return _of_files("TextLineDataset", filenames, compression_type, 0)


def tfrecords(filenames, compression_type: str = "") -> Dataset:
    """The records of TFRecord files."""
    return _of_files("TFRecordDataset", filenames, compression_type, 0)


def fixed_length_records(
    filenames, record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0, compression_type: str = ""
) -> Dataset:
    """Records of so many bytes each."""
    return _of_files(
        "FixedLengthRecordDatasetV2", filenames, header_bytes, record_bytes, footer_bytes, 0, compression_type
    )


def zip_datasets(datasets) -> Dataset:
    """Elements of datasets beside one another: a tuple or dict (of tuples, ...) of Datasets gives elements of that
    form. Ends with the shortest."""
    leaves = _flatten(datasets)
    for leaf in leaves:
        if not isinstance(leaf, Dataset):
            raise InvalidArgumentError(f"zip_datasets takes Datasets; found {leaf!r}")
    graph = graph_for([leaf.variant for leaf in leaves])
    spec = _pack(datasets, iter([leaf.element_spec for leaf in leaves]))
    return _dataset(graph, "ZipDataset", [leaf.variant for leaf in leaves], spec, {"N": len(leaves)})
