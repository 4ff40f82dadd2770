# SPDX-License-Identifier: Apache-2.0
"""Cases of datasets and iterators by names that tf.data wrote once, or writes no more: what they do others do too,
whose cases stand in dataset.py.

TensorFlow itself runs these no more: BatchDataset, PaddedBatchDataset, ParallelFilterDataset and
ExperimentalRandomDataset, whose passes begin with a graph of the dataset that it cannot write;
AnonymousRandomSeedGenerator, which looks for an input that it does not have; DeleteMemoryCache and DeleteSeedGenerator,
for what others own.
"""

import numpy as np
import tensorflow as tf

from .dataset import MOST, any_of, first, inner, int64, numbers, pairs, repeating, steps, tail, variant
from .dataset_others import flat_specs, function_of, plain
from .draw import Program, op

raw = tf.raw_ops
SCALAR = tf.TensorSpec([], tf.int64)


def datasets_of(d, ds):
    """A function that gives a dataset for an element, as a function of the graph, and the size of blocks: no dataset
    ends within a block (see legacy_interleaved)."""
    f, block = inner(d), d.int(1, 2)
    return function_of(
        lambda *x: (f(*x) if block == 1 else f(*x).concatenate(f(*x)))._variant_tensor, *flat_specs(ds)
    ), int64(block)


def interleaved(name):
    def make(d):
        ds, cycle = any_of(d), d.int(1, 3)
        f, block = datasets_of(d, ds)
        if name.endswith(("V2", "V3")):
            more = {"num_parallel_calls": int64(d.int(1, cycle))}
        else:
            more = {
                "sloppy": tf.constant(False),
                "buffer_output_elements": int64(d.int(1, 3)),
                "prefetch_input_elements": int64(d.int(0, 2)),
            }
        return variant(
            d, ds, name, SCALAR, other_arguments=[], cycle_length=int64(cycle), block_length=block, f=f, **more
        )
    return make


def mapped(d):
    ds, shift = any_of(d), d.int(1, 4)
    f = function_of(lambda *x: first(*x) * shift - 1, *flat_specs(ds))
    return variant(
        d,
        ds,
        "ParallelMapDataset",
        SCALAR,
        other_arguments=[],
        num_parallel_calls=tf.constant(d.int(1, 3), tf.int32),
        f=f,
    )


def taken_while(d):
    ds = any_of(d)
    return variant(
        d,
        ds,
        "ExperimentalTakeWhileDataset",
        other_arguments=[],
        predicate=function_of(lambda *x: first(*x) < 3, *flat_specs(ds)),
    )


def mapped_and_batched(d):
    ds = numbers(d)
    f = function_of(lambda x: (x * 2, x + 1), *flat_specs(ds))
    spec = (tf.TensorSpec([None], tf.int64),) * 2
    return variant(
        d,
        ds,
        "ExperimentalMapAndBatchDataset",
        spec,
        other_arguments=[],
        batch_size=int64(d.int(1, 4)),
        num_parallel_calls=int64(d.int(1, 3)),
        drop_remainder=d.chance(0.4),
        f=f,
    )


def scanned(d):
    ds = numbers(d)
    f = function_of(lambda s, x: (s * 2 + x, s), SCALAR, *flat_specs(ds))
    return variant(
        d, ds, "ExperimentalScanDataset", SCALAR, initial_state=[int64(d.int(0, 5))], other_arguments=[], f=f
    )


def grouped(d):
    ds, key, size = numbers(d, 12), d.int(2, 3), d.int(1, 3)
    functions = {
        "key_func": function_of(lambda x: tf.math.floormod(x, key), *flat_specs(ds)),
        "reduce_func": function_of(
            lambda k, w: tf.data.experimental.from_variant(w, ds.element_spec)
            .batch(4)
            .map(lambda b: tf.concat([[k], b], 0))
            ._variant_tensor,
            SCALAR,
            tf.TensorSpec([], tf.variant),
        ),
        "window_size_func": function_of(lambda k: int64(size), SCALAR),
    }
    others = {f"{role}_func_other_arguments": [] for role in ("key", "reduce", "window_size")}
    return variant(d, ds, "ExperimentalGroupByWindowDataset", tf.TensorSpec([None], tf.int64), **functions, **others)


def chosen(d):
    datasets = [tf.data.Dataset.range(i * 10, i * 10 + d.int(0, 4)) for i in range(3)]
    choice = tf.data.Dataset.from_tensor_slices(d.random.integers(0, 3, 12).astype(np.int64))
    return plain(
        "ExperimentalDirectedInterleaveDataset",
        SCALAR,
        selector_input_dataset=choice._variant_tensor,
        data_input_datasets=[ds._variant_tensor for ds in datasets],
    )


def unbatched(d):
    ds = any_of(d).batch(d.int(1, 3))
    spec = tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape.as_list()[1:], part.dtype), ds.element_spec)
    return variant(d, ds, "ExperimentalUnbatchDataset", spec)


def generated(d):
    """Numbers from a state that its functions have no way to change, so that who takes them ends it."""
    low = d.int(0, 3)
    functions = {
        "init_func": function_of(lambda: int64(low)),
        "next_func": function_of(lambda s: s * 3 + 1, SCALAR),
        "finalize_func": function_of(lambda s: s + 0, SCALAR),
    }
    others = {f"{role}_func_other_args": [] for role in ("init", "next", "finalize")}
    return plain("GeneratorDataset", SCALAR, **functions, **others).take(d.int(0, 4))


def wrapped(d):
    ds = any_of(d)
    return tf.data.experimental.from_variant(
        raw.UnwrapDatasetVariant(input_handle=raw.WrapDatasetVariant(input_handle=ds._variant_tensor)), ds.element_spec
    )


def failing_before(d):
    """Elements of which some fail."""
    ds, bad = any_of(d), d.int(0, 4)
    return ds.map(
        lambda *x: tf.debugging.check_numerics(
            tf.where(first(*x) % 5 == bad, np.nan, 1.0) * tf.cast(first(*x), tf.float32), "bad"
        )
    )


def same(name, of=any_of, **inputs):
    return lambda d: variant(d, of(d), name, **inputs)


NAMES = {
    **{
        name: interleaved(name)
        for name in (
            "ParallelInterleaveDataset",
            "ExperimentalParallelInterleaveDataset",
            "ParallelInterleaveDatasetV2",
            "ParallelInterleaveDatasetV3",
        )
    },
    "ParallelMapDataset": mapped,
    "ExperimentalTakeWhileDataset": taken_while,
    "ExperimentalMapAndBatchDataset": mapped_and_batched,
    "ExperimentalScanDataset": scanned,
    "ExperimentalGroupByWindowDataset": grouped,
    "ExperimentalDirectedInterleaveDataset": chosen,
    "ExperimentalUnbatchDataset": unbatched,
    "ExperimentalUniqueDataset": same("ExperimentalUniqueDataset", repeating),
    "ExperimentalIgnoreErrorsDataset": same("ExperimentalIgnoreErrorsDataset", failing_before),
    "GeneratorDataset": generated,
    "WrapDatasetVariant": wrapped,
    "UnwrapDatasetVariant": wrapped,
    "ModelDataset": same("ModelDataset"),
    "OptimizeDataset": same("OptimizeDataset", optimizations=[]),
    "OptimizeDatasetV2": same(
        "OptimizeDatasetV2", optimizations_enabled=[], optimizations_disabled=[], optimizations_default=[]
    ),
    "FinalizeDataset": same("FinalizeDataset"),
    "AssertNextDataset": same("AssertNextDataset", transformations=[]),
    "MaxIntraOpParallelismDataset": same("MaxIntraOpParallelismDataset", max_intra_op_parallelism=2),
    "PrivateThreadPoolDataset": same("PrivateThreadPoolDataset", num_threads=2),
    "NonSerializableDataset": same("NonSerializableDataset"),
    "LatencyStatsDataset": same("LatencyStatsDataset", tag="t"),
    "BytesProducedStatsDataset": same("BytesProducedStatsDataset", tag="t"),
}


@op(*NAMES, count=4)
def named(d):
    """The pipeline in turn, to its end and beyond."""
    with tf.Graph().as_default() as graph:
        runs, about = steps(
            tf.compat.v1.data.make_initializable_iterator(tail(d, NAMES[d.op](d))), f"{d.op} in a pipeline"
        )
    return Program(graph, runs, about)


@op("ExperimentalDatasetCardinality", count=6)
def cardinality(d):
    with tf.Graph().as_default() as graph:
        names = [
            raw.ExperimentalDatasetCardinality(
                input_dataset=tail(d, NAMES[d.pick(list(NAMES))](d))._variant_tensor
            ).name
        ]
    return Program(graph, [({}, names, [])], "how many elements")


@op("Iterator", "IteratorGetNextSync", "IteratorFromStringHandle", count=3)
def iterated(d):
    """One iterator, by itself and by its handle."""
    with tf.Graph().as_default() as graph:
        ds = tail(d, any_of(d))
        spec = {
            "output_types": [part.dtype for part in tf.nest.flatten(ds.element_spec)],
            "output_shapes": [part.shape for part in tf.nest.flatten(ds.element_spec)],
        }
        made = raw.Iterator(shared_name="", container="", **spec)
        again = raw.IteratorFromStringHandle(string_handle=raw.IteratorToStringHandle(resource_handle=made), **spec)
        begin = raw.MakeIterator(dataset=ds._variant_tensor, iterator=made).name
        both = [
            [tensor.name for tensor in next_(iterator=handle, **spec)]
            for next_ in (raw.IteratorGetNextSync, raw.IteratorGetNext)
            for handle in (made, again)
        ]
    return Program(
        graph, [({}, [], [begin])] + [({}, d.pick(both), []) for _ in range(MOST)], "an iterator by its first name"
    )


def own_iterator(d, name, ds):
    spec = {
        "output_types": [part.dtype for part in tf.nest.flatten(ds.element_spec)],
        "output_shapes": [part.shape for part in tf.nest.flatten(ds.element_spec)],
    }
    made = getattr(raw, name)(**spec)
    handle, deleter = made if name.endswith("V2") else (made, None)
    with tf.control_dependencies([raw.MakeIterator(dataset=ds._variant_tensor, iterator=handle)]):
        got = []
        for _ in range(d.int(1, 5)):
            with tf.control_dependencies(got[-1:]):
                got += raw.IteratorGetNext(iterator=handle, **spec)
    if deleter is not None:
        with tf.control_dependencies(got):
            gone = raw.DeleteIterator(handle=handle, deleter=deleter)
        with tf.control_dependencies([gone]):
            got = [tf.identity(one) for one in got]
    return got


def seeds(d):
    return raw.AnonymousSeedGenerator(
        seed=int64(d.int(1, 99)), seed2=int64(d.int(0, 99)), reshuffle=tf.constant(d.chance(0.5))
    ).handle


def shuffled(d):
    ds = variant(d, any_of(d), "ShuffleDatasetV2", buffer_size=int64(d.pick([1, 2, 4, 50])), seed_generator=seeds(d))
    return own_iterator(d, "AnonymousIteratorV2", ds.repeat(d.int(1, 2)))


def shuffled_and_repeated(d):
    ds = variant(
        d,
        any_of(d),
        "ShuffleAndRepeatDatasetV2",
        buffer_size=int64(d.pick([1, 2, 4, 50])),
        seed=int64(0),
        seed2=int64(0),
        count=int64(d.pick([1, 2, 3, -1])),
        seed_generator=seeds(d),
        reshuffle_each_iteration=d.chance(0.5),
    )
    return own_iterator(d, "AnonymousIteratorV2", ds)


def cached(d):
    ds = variant(d, any_of(d), "CacheDatasetV2", filename="", cache=raw.AnonymousMemoryCache().handle)
    return own_iterator(d, "AnonymousIterator", ds.repeat(2))


IN_FUNCTIONS = {
    "AnonymousIterator": lambda d: own_iterator(d, "AnonymousIterator", tail(d, any_of(d))),
    "AnonymousIteratorV2": lambda d: own_iterator(d, "AnonymousIteratorV2", tail(d, any_of(d))),
    "DeleteIterator": lambda d: own_iterator(d, "AnonymousIteratorV2", tail(d, pairs(d))),
    "AnonymousSeedGenerator": lambda d: d.pick([shuffled, shuffled_and_repeated])(d),
    "ShuffleDatasetV2": shuffled,
    "ShuffleAndRepeatDatasetV2": shuffled_and_repeated,
    "AnonymousMemoryCache": cached,
}


@op(*IN_FUNCTIONS, count=3)
def in_function(d):
    """A step that makes a dataset, takes from it, and deletes what it made."""
    with tf.Graph().as_default() as graph:
        names = [tensor.name for tensor in tf.function(lambda: IN_FUNCTIONS[d.op](d), autograph=False)()]
    return Program(graph, [({}, names, [])] * 2, "a dataset within a function")
