# SPDX-License-Identifier: Apache-2.0
"""Cases of the dataset package: whole pipelines as tf.data writes them, element by element to the end and one step
beyond."""

import numpy as np
import tensorflow as tf

from .draw import Program, op

raw = tf.raw_ops
MOST = 14  # elements that are asked for


# ---- Where elements come from: datasets of (int64,), of (int64, string), of (float32 [2]) ----
def numbers(d, most=9):
    kind = d.pick(["range", "range", "slices", "steps"])
    if kind == "range":
        return tf.data.Dataset.range(d.int(0, most))
    if kind == "steps":
        return tf.data.Dataset.range(d.int(-3, 3), d.int(4, 14), d.int(1, 3))
    return tf.data.Dataset.from_tensor_slices(d.random.integers(-5, 6, d.int(1, most)).astype(np.int64))


def pairs(d):
    n = d.int(1, 7)
    words = [b"a", b"", b"longer words", "grün".encode(), b"\0\xff"]
    return tf.data.Dataset.from_tensor_slices(
        (np.arange(n, dtype=np.int64), np.array([d.pick(words) for _ in range(n)], object))
    )


def vectors(d):
    return tf.data.Dataset.from_tensor_slices(d.random.normal(size=(d.int(1, 7), 2)).astype(np.float32))


def any_of(d):
    return d.pick([numbers, numbers, pairs, vectors])(d)


def first(*components):
    return tf.cast(tf.reshape(components[0], [-1])[0], tf.int64)


# ---- What pipelines do ----
def mapped(d, ds, parallel=None, deterministic=None):
    shift = d.int(1, 4)
    functions = [
        lambda *x: tuple(
            tf.cast(v, tf.int64) * shift if v.dtype != tf.string else tf.strings.join([v, "!"]) for v in x
        ),
        lambda *x: (first(*x) + shift, tf.cast(x[0], tf.float32)),
        lambda *x: tf.stack([first(*x), first(*x) - shift]),
    ]
    return ds.map(d.pick(functions), num_parallel_calls=parallel, deterministic=deterministic)


def ragged(d):
    """Vectors of unlike length."""
    return tf.data.Dataset.from_tensor_slices(d.random.integers(0, 5, d.int(1, 7)).astype(np.int64)).map(
        lambda n: tf.range(n)
    )


def seeds(d):
    return {"seed": d.int(1, 1000)}


def inner(d):
    """A function from an element to a dataset."""
    n = d.int(1, 3)
    return d.pick([lambda *x: tf.data.Dataset.range(tf.abs(first(*x)) % 4),
                   lambda *x: tf.data.Dataset.from_tensors(first(*x)).repeat(n),
                   lambda *x: tf.data.Dataset.range(5).skip(tf.abs(first(*x)) % 6).map(lambda y: y * 100 + first(*x))])


def shuffled(d, ds):
    return ds.shuffle(d.pick([1, 2, 3, 5, 20]), reshuffle_each_iteration=d.pick([None, True, False]), **seeds(d))


def batched(d, ds):
    return ds.batch(d.int(1, 4), drop_remainder=d.chance(0.4))


def padded(d, ds):
    return ds.padded_batch(
        d.int(1, 4),
        padded_shapes=d.pick([[None], [5], [None]]),
        padding_values=tf.constant(d.int(-1, 1), tf.int64),
        drop_remainder=d.chance(0.3),
    )


def windows(d, ds):
    ds = ds.window(d.int(1, 4), shift=d.pick([None, 1, 2, 5]), stride=d.int(1, 2), drop_remainder=d.chance(0.5))
    return ds.flat_map(lambda *w: w[0].batch(8))


def grouped(d):
    key, size = d.int(2, 3), d.int(1, 3)
    return numbers(d, 12).group_by_window(
        key_func=lambda x: tf.math.floormod(x, key),
        reduce_func=lambda k, w: w.batch(4).map(lambda b: (k, b)),
        window_size=size,
    )


def chosen(d):
    datasets = [tf.data.Dataset.range(i * 10, i * 10 + d.int(0, 4)) for i in range(3)]
    choice = tf.data.Dataset.from_tensor_slices(d.random.integers(0, 3, 12).astype(np.int64))
    return tf.data.Dataset.choose_from_datasets(datasets, choice, stop_on_empty_dataset=d.chance(0.4))


def failing(d, ds):
    """Some elements fail, and are left out."""
    bad = d.int(0, 4)
    return ds.map(
        lambda *x: tf.debugging.check_numerics(
            tf.where(first(*x) % 5 == bad, np.nan, 1.0) * tf.cast(first(*x), tf.float32), "bad"
        )
    ).ignore_errors()


def variant(d, ds, name, spec=None, **inputs):
    """A dataset by its op's name, for those that tf.data writes no more. spec: of its elements, where they are others
    than the input's."""
    spec = spec or ds.element_spec
    made = getattr(raw, name)(
        input_dataset=ds._variant_tensor,
        **inputs,
        output_types=[part.dtype for part in tf.nest.flatten(spec)],
        output_shapes=[part.shape for part in tf.nest.flatten(spec)],
    )
    return tf.data.experimental.from_variant(made, spec)


def int64(value):
    return tf.constant(value, tf.int64)


def repeating(d):
    """Elements of which some are equal: numbers, strings or vectors."""
    kind = d.int(0, 2)
    if kind == 0:
        return numbers(d).map(lambda x: x % 3)
    if kind == 1:
        return pairs(d).map(lambda x, s: s)
    return numbers(d).map(lambda x: tf.cast([x % 2, 1], tf.int32))


PIPELINES = {
    "RangeDataset": lambda d: d.pick(
        [
            numbers,
            lambda d: tf.data.Dataset.range(
                d.int(-9, 9),
                d.int(-9, 9),
                d.pick([1, 2, -1, -3, 7]),
                output_type=d.pick([tf.int64, tf.int32, tf.float32, tf.uint8]),
            ),
        ]
    )(d),
    "TensorDataset": lambda d: tf.data.Dataset.from_tensors(
        (d.tensor(tf.float32, d.shape(0, 2)), d.tensor(tf.string, ()))
    ).repeat(d.int(0, 3)),
    "TensorSliceDataset": any_of,
    "RandomDataset": lambda d: tf.data.Dataset.random(seed=d.int(1, 99), rerandomize_each_iteration=False)
    .take(d.int(0, 6))
    .repeat(2),
    "MapDataset": lambda d: mapped(d, any_of(d)),
    "ParallelMapDatasetV2": lambda d: mapped(
        d, any_of(d), parallel=d.pick([1, 2, 4, tf.data.AUTOTUNE]), deterministic=d.pick([None, True])
    ),
    "FlatMapDataset": lambda d: any_of(d).flat_map(inner(d)),
    "InterleaveDataset": lambda d: any_of(d).interleave(inner(d), cycle_length=d.int(1, 4), block_length=d.int(1, 3)),
    "ParallelInterleaveDatasetV4": lambda d: any_of(d).interleave(
        inner(d), cycle_length=d.int(1, 4), block_length=d.int(1, 3), num_parallel_calls=d.pick([1, 2, 3])
    ),
    "FilterDataset": lambda d: any_of(d).filter(lambda *x: first(*x) % 3 != 1),
    "TakeWhileDataset": lambda d: any_of(d).take_while(lambda *x: first(*x) < 3),
    "ScanDataset": lambda d: any_of(d).scan(int64(d.int(0, 5)), lambda s, x: (s * 2 + first(*tf.nest.flatten(x)), s)),
    "ShuffleDataset": lambda d: variant(
        d,
        any_of(d),
        "ShuffleDataset",
        buffer_size=int64(d.pick([1, 2, 4, 50])),
        seed=int64(d.int(1, 99)),
        seed2=int64(d.int(0, 99)),
        reshuffle_each_iteration=d.chance(0.5),
    ).repeat(d.int(1, 2)),
    "ShuffleAndRepeatDataset": lambda d: variant(
        d,
        any_of(d),
        "ShuffleAndRepeatDataset",
        buffer_size=int64(d.pick([1, 2, 4, 50])),
        seed=int64(d.int(1, 99)),
        seed2=int64(d.int(0, 99)),
        count=int64(d.pick([1, 2, 3, -1])),
        reshuffle_each_iteration=d.chance(0.5),
    ),
    "RepeatDataset": lambda d: any_of(d).repeat(d.pick([-1, 0, 1, 2, 3])),
    "TakeDataset": lambda d: any_of(d).take(d.pick([-1, 0, 2, 5])),
    "SkipDataset": lambda d: any_of(d).skip(d.pick([-1, 0, 2, 5])),
    "ShardDataset": lambda d: variant(
        d,
        any_of(d),
        "ShardDataset",
        num_shards=int64(d.pick([0, 1, 2, 3])),
        index=int64(d.int(0, 2)),
        require_non_empty=d.chance(0.3),
    ),
    "ConcatenateDataset": lambda d: numbers(d, 4).concatenate(numbers(d, 4)),
    "ZipDataset": lambda d: tf.data.Dataset.zip((any_of(d), numbers(d), any_of(d))),
    "BatchDatasetV2": lambda d: batched(d, d.pick([any_of, any_of, any_of, ragged])(d)),
    "ParallelBatchDataset": lambda d: any_of(d).batch(
        d.int(1, 4), drop_remainder=d.chance(0.4), num_parallel_calls=d.int(1, 3)
    ),
    "MapAndBatchDataset": lambda d: numbers(d).apply(
        tf.data.experimental.map_and_batch(
            lambda x: (x * 2, x + 1), d.int(1, 4), drop_remainder=d.chance(0.4), num_parallel_calls=d.int(1, 3)
        )
    ),
    "PaddedBatchDatasetV2": lambda d: padded(d, ragged(d)),
    "UnbatchDataset": lambda d: d.pick([lambda: batched(d, any_of(d)).unbatch(), lambda: ragged(d).unbatch()])(),
    "CacheDataset": lambda d: variant(d, shuffled(d, any_of(d)), "CacheDataset", filename="").repeat(2),
    "PrefetchDataset": lambda d: mapped(d, any_of(d)).prefetch(d.pick([0, 1, 2, 5, tf.data.AUTOTUNE])),
    "WindowDataset": lambda d: windows(d, any_of(d)),
    "GroupByWindowDataset": grouped,
    "UniqueDataset": lambda d: repeating(d).unique(),
    "DirectedInterleaveDataset": chosen,
    "IgnoreErrorsDataset": lambda d: failing(d, any_of(d)),
    "AssertCardinalityDataset": lambda d: numbers(d, 5).apply(tf.data.experimental.assert_cardinality(d.int(0, 5))),
    "OptionsDataset": lambda d: any_of(d).with_options(tf.data.Options()),
}


def tail(d, ds):
    """What else people write behind it."""
    if any(spec.dtype == tf.variant for spec in tf.nest.flatten(ds.element_spec)):
        return ds
    return d.pick(
        [
            lambda: ds,
            lambda: ds,
            lambda: ds.prefetch(2),
            lambda: ds.take(5),
            lambda: ds.repeat(2),
            lambda: shuffled(d, ds),
            lambda: ds.skip(1),
            lambda: ds.enumerate(),
            lambda: mapped(d, ds, parallel=2),
            lambda: tf.data.Dataset.zip((ds, numbers(d))),
        ]
    )()


def steps(iterator, about):
    fetches = [tensor.name for tensor in tf.nest.flatten(iterator.get_next())]
    return [({}, [], [iterator.initializer.name])] + [({}, fetches, [])] * MOST, about


@op(*PIPELINES, count=4)
def pipeline(d):
    """The pipeline in turn, to its end and beyond."""
    with tf.Graph().as_default() as graph:
        ds = PIPELINES[d.op](d)
        ds = tail(d, ds)
        runs, about = steps(tf.compat.v1.data.make_initializable_iterator(ds), f"{d.op} in a pipeline")
    return Program(graph, runs, about)


@op("SparseTensorSliceDataset", count=3)
def sparse_rows(d):
    with tf.Graph().as_default() as graph:
        rows, width = d.int(0, 5), d.int(1, 3)
        at = sorted({(d.int(0, max(rows - 1, 0)), d.int(0, width - 1)) for _ in range(d.int(0, 6) if rows else 0)})
        kind = d.pick([tf.float32, tf.string, tf.int64])
        values = tf.constant(d.tensor(kind, (len(at),)), kind)
        made = raw.SparseTensorSliceDataset(
            indices=tf.constant(np.array(at, np.int64).reshape(-1, 2)), values=values, dense_shape=int64([rows, width])
        )
        ds = tf.data.experimental.from_variant(
            made, (tf.TensorSpec([None, 1], tf.int64), tf.TensorSpec([None], kind), tf.TensorSpec([1], tf.int64))
        )
        runs, about = steps(tf.compat.v1.data.make_initializable_iterator(ds), "rows of a sparse tensor")
    return Program(graph, runs, about)


@op("OneShotIterator", count=3)
def one_shot(d):
    with tf.Graph().as_default() as graph:
        get = tf.compat.v1.data.make_one_shot_iterator(tail(d, mapped(d, numbers(d)))).get_next()
    return Program(
        graph, [({}, [tensor.name for tensor in tf.nest.flatten(get)], [])] * MOST, "an iterator of a function"
    )


@op("IteratorFromStringHandleV2", count=3)
def string_handle(d):
    with tf.Graph().as_default() as graph:
        ds = numbers(d)
        made = tf.compat.v1.data.make_initializable_iterator(ds)
        again = tf.compat.v1.data.Iterator.from_string_handle(
            made.string_handle(), tf.compat.v1.data.get_output_types(ds), tf.compat.v1.data.get_output_shapes(ds)
        )
        both = [made.get_next().name, again.get_next().name]
    return Program(
        graph,
        [({}, [], [made.initializer.name])] + [({}, [both[i % 2]], []) for i in range(MOST)],
        "one iterator by two handles",
    )


@op("IteratorGetNextAsOptional", count=3)
def as_optional(d):
    with tf.Graph().as_default() as graph:
        iterator = tf.compat.v1.data.make_initializable_iterator(tail(d, numbers(d, 5)))
        optional = iterator.get_next_as_optional()
        names = [optional.has_value().name] + [tensor.name for tensor in tf.nest.flatten(optional.get_value())]
    return Program(
        graph,
        [({}, [], [iterator.initializer.name])] + [({}, names[:1] if i % 2 else names, []) for i in range(MOST)],
        "optionals, to the end and beyond",
    )


@op("ReduceDataset", count=6)
def reduced(d):
    with tf.Graph().as_default() as graph:
        ds = tail(d, any_of(d)).take(6)
        names = [ds.reduce(int64(d.int(0, 3)), lambda s, *x: s * 3 + first(*tf.nest.flatten(x))).name]
    return Program(graph, [({}, names, [])] * 2, "a dataset reduced within a step")


@op("DatasetCardinality", count=30)
def cardinality(d):
    with tf.Graph().as_default() as graph:
        ds = PIPELINES[d.turn([name for name in PIPELINES if not name.startswith("AssertCardinality")])](d)
        names = [tail(d, ds).cardinality().name]
    return Program(graph, [({}, names, [])], "how many elements")


@op("DatasetToSingleElement", count=4)
def single(d):
    with tf.Graph().as_default() as graph:
        got = numbers(d, 3).take(d.int(0, 2)).batch(d.int(1, 2)).get_single_element()
        names = [tensor.name for tensor in tf.nest.flatten(got)]
    return Program(graph, [({}, names, [])], "a dataset of one element, or not")


@op("MakeIterator", count=3)
def made_again(d):
    """A pass that is begun anew, also where it was begun by nobody."""
    with tf.Graph().as_default() as graph:
        iterator = tf.compat.v1.data.make_initializable_iterator(shuffled(d, numbers(d)))
        fetches = [tensor.name for tensor in tf.nest.flatten(iterator.get_next())]
    next_, begin = ({}, fetches, []), ({}, [], [iterator.initializer.name])
    return Program(graph, [next_, begin, next_, next_, begin] + [next_] * MOST, "an iterator that begins again")


# Whose ops tf.data writes in functions alone.
IN_FUNCTIONS = {
    "AnonymousIteratorV3": lambda d: tail(d, mapped(d, any_of(d))),
    "ShuffleDatasetV3": lambda d: shuffled(d, any_of(d)).repeat(d.int(1, 2)),
    "CacheDatasetV2": lambda d: shuffled(d, any_of(d)).cache().repeat(2),
    "RandomDatasetV2": lambda d: tf.data.Dataset.random(seed=d.int(1, 99), rerandomize_each_iteration=d.chance(0.5))
    .take(d.int(1, 4))
    .repeat(3),
}


@op(*IN_FUNCTIONS, count=5)
def in_function(d):
    """A step that makes a dataset, and takes from it with an iterator of its own."""
    count = d.int(1, 8)
    with tf.Graph().as_default() as graph:

        @tf.function(autograph=False)
        def taken():
            iterator = iter(IN_FUNCTIONS[d.op](d))
            return [value for _ in range(count) for value in tf.nest.flatten(next(iterator))]

        names = [tensor.name for tensor in taken()]
    return Program(graph, [({}, names, [])] * 2, "a dataset within a function")


@op("IteratorGetNext", count=3)
def loop(d):
    """A for loop over a dataset, as AutoGraph writes it."""
    with tf.Graph().as_default() as graph:
        ds = tail(d, numbers(d))

        @tf.function
        def total():
            s = int64(0)
            for x in ds.take(7):
                s = s * 2 + first(*tf.nest.flatten(x))
            return s

        names = [total().name]
    return Program(graph, [({}, names, [])] * 2, "a loop over a dataset")
