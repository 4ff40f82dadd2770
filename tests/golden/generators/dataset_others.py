# SPDX-License-Identifier: Apache-2.0
"""Cases of datasets that tf.data writes in other ways, or no more: by their ops' names, in pipelines as those of
dataset.py."""

import numpy as np
import tensorflow as tf

from .dataset import MOST, any_of, first, inner, int64, numbers, pairs, ragged, steps, tail, variant, vectors
from .draw import Program, op

raw = tf.raw_ops


def plain(name, spec, **inputs):
    """A dataset by its op's name, which takes no single dataset."""
    made = getattr(raw, name)(
        **inputs,
        output_types=[part.dtype for part in tf.nest.flatten(spec)],
        output_shapes=[part.shape for part in tf.nest.flatten(spec)],
    )
    return tf.data.experimental.from_variant(made, spec)


def rows(ds):
    """The spec of batches of any size."""
    return tf.nest.map_structure(
        lambda part: tf.TensorSpec([None] + part.shape.as_list()[1:], part.dtype), ds.element_spec
    )


def to_batch(d, ds):
    return ds.batch(d.int(1, 5), drop_remainder=d.chance(0.3))


def rebatched(name):
    def make(d):
        ds = d.pick(
            [
                lambda: to_batch(d, any_of(d)),
                lambda: to_batch(d, any_of(d)),
                lambda: ragged(d),
                lambda: to_batch(d, numbers(d)).map(lambda x: (x, x[:2])),
            ]
        )()
        return variant(d, ds, name, rows(ds), num_replicas=int64(d.pick([1, 2, 3, 5, 0])))
    return make


def rebatched_by_sizes(d):
    ds = d.pick(
        [
            lambda: to_batch(d, any_of(d)),
            lambda: to_batch(d, any_of(d)),
            lambda: ragged(d),
            lambda: to_batch(d, numbers(d)).map(lambda x: (x, x[:2])),
            lambda: numbers(d),
        ]
    )()
    sizes = d.pick([[2], [3, 1], [1, 4, 2], [2, 0], [5]])
    return variant(d, ds, "RebatchDatasetV2", rows(ds), batch_sizes=int64(sizes), drop_remainder=d.chance(0.5))


def batches_of(ds):
    return tf.nest.map_structure(lambda part: tf.TensorSpec(None, part.dtype), ds.element_spec)


def sliding(name):
    def make(d):
        ds = d.pick([any_of, any_of, any_of, ragged])(d)
        more = {"drop_remainder": d.chance(0.5)} if name == "SlidingWindowDataset" else {}
        return variant(
            d,
            ds,
            name,
            batches_of(ds),
            window_size=int64(d.pick([1, 2, 3, 0])),
            window_shift=int64(d.pick([1, 2, 5])),
            window_stride=int64(d.pick([1, 2])),
            **more,
        )
    return make


def function_of(f, *specs):
    def body(*arguments):
        return f(*arguments)
    return tf.function(body, autograph=False).get_concrete_function(*specs)


def flat_specs(ds):
    return [tf.TensorSpec(part.shape, part.dtype) for part in tf.nest.flatten(ds.element_spec)]


def reduced_by_key(name):
    def make(d):
        ds, key, shift = any_of(d), d.int(1, 4), d.int(0, 3)
        scalar = tf.TensorSpec([], tf.int64)
        functions = {
            "key_func": function_of(lambda *x: tf.math.floormod(first(*x), key), *flat_specs(ds)),
            "init_func": function_of(lambda k: (k * 100, int64(shift)), scalar),
            "reduce_func": function_of(lambda s, n, *x: (s + first(*x[:1]), n + 1), scalar, scalar, *flat_specs(ds)),
            "finalize_func": function_of(lambda s, n: tf.stack([s, n]), scalar, scalar),
        }
        others = {f"{role}_func_other_arguments": [] for role in ("key", "init", "reduce", "finalize")}
        return variant(d, ds, name, tf.TensorSpec([2], tf.int64), **functions, **others)
    return make


def listed(d):
    count = d.int(1, 3) * 2 + d.int(0, 1)
    tensors = [
        int64(d.random.integers(0, 9, d.int(0, 3))) if i % 2 == 0 else tf.constant(d.pick([b"a", b"", b"words"]))
        for i in range(count)
    ]
    if d.chance(0.15):
        tensors[-1] = tf.constant(1.5)
    return plain("ListDataset", (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.string)), tensors=tensors)


def legacy_interleaved(d):
    """Where a dataset ends within a block TensorFlow counts the next one's elements to that block or not, by which
    thread comes first: none does here."""
    ds, f = any_of(d), inner(d)
    cycle, block = d.int(1, 3), d.int(1, 2)
    made = function_of(lambda *x: (f(*x) if block == 1 else f(*x).concatenate(f(*x)))._variant_tensor, *flat_specs(ds))
    return variant(
        d,
        ds,
        "LegacyParallelInterleaveDatasetV2",
        tf.TensorSpec([], tf.int64),
        other_arguments=[],
        cycle_length=int64(cycle),
        block_length=int64(block),
        buffer_output_elements=int64(d.int(1, 3)),
        prefetch_input_elements=int64(d.int(0, 2)),
        f=made,
        deterministic="true",
    )


def sharded(name):
    def make(d):
        return variant(
            d,
            any_of(d),
            name,
            num_workers=int64(d.pick([1, 2, 3, 0])),
            index=int64(d.pick([0, 0, 1, 2])),
            auto_shard_policy=d.pick([-1, 0, 2, 3]),
        )
    return make


def numbered(d):
    """Datasets whose elements can be had by their numbers, and some that cannot."""
    ds = d.pick([numbers, pairs, vectors])(d)
    return d.pick(
        [
            lambda: ds,
            lambda: ds.map(lambda *x: (*x, first(*x) * 2)),
            lambda: ds.batch(2, drop_remainder=True),
            lambda: ds.take(4),
            lambda: ds.skip(1),
            lambda: ds.repeat(2),
            lambda: ds.concatenate(ds),
            lambda: tf.data.Dataset.zip((ds, tf.data.Dataset.range(3))),
            lambda: ds.shard(2, 1),
            lambda: ds.batch(2),
            lambda: ds.filter(lambda *x: first(*x) > 1),
            lambda: tf.data.Dataset.range(d.pick([100, 70000])),
            lambda: ds.map(lambda *x: first(*x), num_parallel_calls=2),
        ]
    )()


def shuffled_by_number(d):
    """Not in a repetition that is repeated: TensorFlow begins one pass too many at the end of each, which draws seeds
    that nobody uses."""
    return variant(
        d,
        numbered(d),
        "GlobalShuffleDataset",
        seed=int64(d.int(0, 99)),
        seed2=int64(d.int(1, 99)),
        seed_generator=raw.DummySeedGenerator(),
        reshuffle_each_iteration=d.chance(0.5),
    )


def flat_by_index(d):
    size, width = d.int(1, 5), d.int(1, 3)
    ds = tf.data.Dataset.range(size)
    scalar = tf.TensorSpec([], tf.int64)
    made = variant(
        d,
        ds,
        "IndexFlatMapDataset",
        scalar,
        map_func_other_args=[],
        index_map_func_other_args=[],
        output_cardinality=int64(size * width),
        map_func=function_of(lambda x: x * 10 + tf.range(width, dtype=tf.int64), scalar),
        index_map_func=function_of(lambda i: (i // width, i % width), scalar),
    )
    if d.chance(0.5):
        return made
    return variant(
        d,
        made,
        "GlobalShuffleDataset",
        seed=int64(d.int(1, 99)),
        seed2=int64(3),
        seed_generator=raw.DummySeedGenerator(),
    )


def weighted(d):
    count = d.int(2, 4)
    datasets = [tf.data.Dataset.range(100 * i, 100 * i + d.int(0, 9)) for i in range(count)]
    weights = [
        tf.constant(d.pick([0.5, 1.0, 2.0, 0.3, 0.0]) if d.chance(0.1) else d.pick([0.5, 1.0, 2.0, 0.3]), tf.float64)
        for _ in range(count)
    ]
    return plain(
        "WeightedFlatMapDataset",
        tf.TensorSpec([], tf.int64),
        input_datasets=[ds._variant_tensor for ds in datasets],
        weights=weights,
    )


def fastest(name):
    def make(d):
        ds = numbers(d)
        same = [ds, ds.map(lambda x: x + 0), ds.prefetch(2)][:d.int(2, 3)]
        if d.chance(0.2):
            same[1] = ds.skip(1)
        return plain(
            name,
            tf.TensorSpec([], tf.int64),
            input_datasets=[each._variant_tensor for each in same],
            num_experiments=d.pick([1, 2, 20]),
        )
    return make


def fastest_branch(d):
    """Branches that give the same whatever is the fastest, of which one is longer at it than another."""
    ds = numbers(d)
    spec = ds.element_spec
    double = d.chance(0.4)
    branches = [
        lambda ds: ds.map(lambda x: x + 1),
        lambda ds: ds.map(lambda x: x + 2).map(lambda x: x - 1),
        lambda ds: ds.map(lambda x: x + 1).prefetch(1),
    ]
    if double:
        branches = [lambda ds: ds.batch(2).map(lambda x: x + 1), lambda ds: ds.map(lambda x: x + 1).batch(2)]
    made = [
        function_of(
            lambda v, b=b: b(tf.data.experimental.from_variant(v, spec))._variant_tensor, tf.TensorSpec([], tf.variant)
        )
        for b in branches
    ]
    return variant(
        d,
        ds,
        "ChooseFastestBranchDataset",
        tf.TensorSpec(None, tf.int64),
        ratio_numerator=int64(2 if double else d.pick([1, 1, 1, 0])),
        ratio_denominator=int64(1),
        other_arguments=[],
        num_elements_per_branch=d.int(1, 3),
        branches=made,
        other_arguments_lengths=[0] * len(made),
    )


def same_by(name, **inputs):
    return lambda d: variant(d, any_of(d), name, **inputs)


def pooled(name):
    return lambda d: variant(
        d,
        any_of(d),
        name,
        thread_pool=getattr(raw, name.replace("Dataset", "Handle"))(num_threads=2, display_name="pool"),
    )


def with_statistics(name):
    handle = "ExperimentalStatsAggregatorHandle" if name.startswith("Experimental") else "StatsAggregatorHandle"
    return lambda d: variant(d, any_of(d), name, stats_aggregator=getattr(raw, handle)(), tag="t", counter_prefix="c")


MORE = {
    **{name: rebatched(name) for name in ("RebatchDataset", "ExperimentalRebatchDataset")},
    "RebatchDatasetV2": rebatched_by_sizes,
    **{name: sliding(name) for name in ("SlidingWindowDataset", "ExperimentalSlidingWindowDataset")},
    **{name: reduced_by_key(name) for name in ("GroupByReducerDataset", "ExperimentalGroupByReducerDataset")},
    "SamplingDataset": lambda d: variant(
        d,
        any_of(d),
        "SamplingDataset",
        rate=d.pick([0.0, 0.3, 0.6, 1.0]),
        seed=int64(d.int(1, 99)),
        seed2=int64(d.int(0, 99)),
    ).repeat(2),
    **{
        name: (lambda d, name=name: variant(d, any_of(d), name, sleep_microseconds=int64(d.pick([0, 1, 2000, -1]))))
        for name in ("SleepDataset", "ExperimentalSleepDataset")
    },
    "ListDataset": listed,
    "LegacyParallelInterleaveDatasetV2": legacy_interleaved,
    **{name: sharded(name) for name in ("AutoShardDataset", "ExperimentalAutoShardDataset")},
    "GlobalShuffleDataset": shuffled_by_number,
    "IndexFlatMapDataset": flat_by_index,
    "WeightedFlatMapDataset": weighted,
    **{name: fastest(name) for name in ("ChooseFastestDataset", "ExperimentalChooseFastestDataset")},
    "ChooseFastestBranchDataset": fastest_branch,
    **{
        name: same_by(name, **inputs)
        for name, inputs in {
            "AssertPrevDataset": {"transformations": []},
            "ExperimentalAssertNextDataset": {"transformations": []},
            "ExperimentalMaxIntraOpParallelismDataset": {"max_intra_op_parallelism": 2},
            "ExperimentalPrivateThreadPoolDataset": {"num_threads": 2},
            "ExperimentalNonSerializableDataset": {},
            "ExperimentalLatencyStatsDataset": {"tag": "t"},
            "ExperimentalBytesProducedStatsDataset": {"tag": "t"},
        }.items()
    },
    **{name: pooled(name) for name in ("ThreadPoolDataset", "ExperimentalThreadPoolDataset")},
    **{name: with_statistics(name) for name in ("SetStatsAggregatorDataset", "ExperimentalSetStatsAggregatorDataset")},
}
# Those whose passes TensorFlow cannot write, or reads again as if they had not come to their end.
NOT_AGAIN = {"SlidingWindowDataset", "ExperimentalSlidingWindowDataset", "RebatchDatasetV2"}
FEW = {name for name in MORE if name.startswith(("Experimental", "AssertPrev", "ThreadPool", "SetStats", "Sleep"))}


def more(d):
    """The pipeline in turn, to its end and beyond; where the pass stands is written and read again between two
    elements, or never."""
    with tf.Graph().as_default() as graph:
        ds = tail(d, MORE[d.op](d))
        iterator = tf.compat.v1.data.make_initializable_iterator(ds)
        runs, about = steps(iterator, f"{d.op} in a pipeline")
        if d.chance(0.5) and d.op not in NOT_AGAIN:
            again = raw.DeserializeIterator(
                resource_handle=iterator._iterator_resource,
                serialized=raw.SerializeIterator(resource_handle=iterator._iterator_resource),
            )
            at = d.int(1, 4)
            runs[at:at] = [({}, [], [again.name])]
            about += ", which goes on from its state"
    return Program(graph, runs, about)


op(*[name for name in MORE if name not in FEW], count=8)(more)
op(*[name for name in MORE if name in FEW], count=2)(more)


@op(
    "MultiDeviceIterator",
    "MultiDeviceIteratorInit",
    "MultiDeviceIteratorGetNextFromShard",
    "MultiDeviceIteratorFromStringHandle",
    count=4,
)
def shards(d):
    """Elements dealt to shards, which ask in any order, round by round, to the end and beyond; then another pass, and
    one of which the number is wrong."""
    with tf.Graph().as_default() as graph:
        ds = tail(d, any_of(d)) if d.chance(0.5) else mapped_or_failing(d)
        spec = {
            "output_types": [part.dtype for part in tf.nest.flatten(ds.element_spec)],
            "output_shapes": [part.shape for part in tf.nest.flatten(ds.element_spec)],
        }
        count = d.int(1, 3)
        handle = raw.MultiDeviceIterator(
            devices=[f"/cpu:{i}" for i in range(count)], shared_name="", container="", **spec
        )
        again = raw.MultiDeviceIteratorFromStringHandle(
            string_handle=raw.MultiDeviceIteratorToStringHandle(multi_device_iterator=handle), **spec
        )
        begun = raw.MultiDeviceIteratorInit(
            dataset=ds._variant_tensor, multi_device_iterator=handle, max_buffer_size=int64(d.pick([1, 2, 5]))
        )
        which = tf.compat.v1.placeholder(tf.int64, [])
        got = [
            raw.MultiDeviceIteratorGetNextFromShard(
                multi_device_iterator=d.pick([handle, again]), shard_num=i, incarnation_id=which, **spec
            )
            for i in range(count)
        ]
        fetches = [[tensor.name for tensor in each] for each in got]

    def rounds(incarnation, most):
        return [
            ({which.name: np.int64(incarnation)}, fetches[i], [])
            for _ in range(most)
            for i in d.random.permutation(count)
        ]

    begin = ({}, [begun.name], [])
    runs = [begin] + rounds(1, 2) + [begin, ({which.name: np.int64(1)}, fetches[0], [])] + rounds(2, 7)
    return Program(graph, runs, "elements dealt to shards")


def mapped_or_failing(d):
    bad = d.int(0, 9)
    return numbers(d).map(lambda x: 100 // (x - bad))


@op("AnonymousMultiDeviceIteratorV3", count=4)
def anonymous_shards(d):
    """A step that deals a dataset's elements."""
    count, rounds_ = d.int(1, 3), d.int(1, 2)
    with tf.Graph().as_default() as graph:

        @tf.function(autograph=False)
        def taken():
            ds = any_of(d)
            spec = {
                "output_types": [part.dtype for part in tf.nest.flatten(ds.element_spec)],
                "output_shapes": [part.shape for part in tf.nest.flatten(ds.element_spec)],
            }
            handle = raw.AnonymousMultiDeviceIteratorV3(devices=[f"/cpu:{i}" for i in range(count)], **spec)
            begun = raw.MultiDeviceIteratorInit(
                dataset=ds._variant_tensor, multi_device_iterator=handle, max_buffer_size=int64(1)
            )
            return [
                value
                for _ in range(rounds_)
                for i in range(count)
                for value in raw.MultiDeviceIteratorGetNextFromShard(
                    multi_device_iterator=handle, shard_num=i, incarnation_id=begun, **spec
                )
            ]

        names = [tensor.name for tensor in taken()]
    return Program(graph, [({}, names, [])] * 2, "elements dealt within a function")


@op("InitializeTableFromDataset", count=6)
def table(d):
    """A table that a dataset fills, again and with other entries too; keys that come twice have one value or two."""
    with tf.Graph().as_default() as graph:
        key, value = d.pick([(tf.int64, tf.string), (tf.string, tf.int64), (tf.int64, tf.float32)])
        n = d.int(0, 5)
        keys, values = d.random.integers(0, 5, n), d.random.integers(0, 3, n)

        def as_type(numbers, dtype):
            return (
                np.array([b"%d" % i for i in numbers], object)
                if dtype == tf.string
                else numbers.astype(dtype.as_numpy_dtype)
            )

        ds = tf.data.Dataset.from_tensor_slices((as_type(keys, key), as_type(values, value)))
        ds = d.pick([lambda: ds, lambda: ds, lambda: ds.take(2), lambda: ds.map(lambda k, v: (v, v))])()
        handle = raw.HashTableV2(key_dtype=key, value_dtype=value)
        fill = raw.InitializeTableFromDataset(table_handle=handle, dataset=ds._variant_tensor)
        found = raw.LookupTableFindV2(
            table_handle=handle,
            keys=as_type(np.arange(5), key),
            default_value=tf.constant(b"none" if value == tf.string else -1, value),
        )
        size = raw.LookupTableSizeV2(table_handle=handle)
    return Program(
        graph,
        [({}, [], [fill.name]), ({}, [found.name, size.name], []), ({}, [], [fill.name])],
        "a table that a dataset fills",
    )
