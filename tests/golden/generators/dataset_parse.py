# SPDX-License-Identifier: Apache-2.0
"""Cases of datasets whose elements are sparse and ragged tensors, which go through pipelines as variants: Examples that
are parsed, and rows that become sparse."""

import numpy as np
import tensorflow as tf

from .dataset import MOST, any_of, int64, numbers, pairs, ragged, vectors
from .draw import Program, op

raw = tf.raw_ops


# ---- Examples ----
KINDS = {tf.int64: lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
         tf.float32: lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
         tf.string: lambda values: tf.train.Feature(bytes_list=tf.train.BytesList(value=values))}
WORDS = [b"a", b"", b"some words", "grün".encode(), b"\0\xff"]


def value(d, dtype):
    return (
        int(d.int(-9, 99)) if dtype == tf.int64 else float(d.int(-8, 8)) / 4 if dtype == tf.float32 else d.pick(WORDS)
    )


def drawn_features(d):
    """Names, each with its type, and how many values it has: a number, or None where that differs."""
    names = ["b", "a", "Z", "aa", "", "n/m", "grün"]
    return {
        names[i]: (d.pick(list(KINDS)), d.pick([1, 2, None, None]))
        for i in d.random.permutation(len(names))[: d.int(1, 5)]
    }


def texts(d, features, rows):
    found = []
    for _ in range(rows):
        held = {}
        for name, (dtype, count) in features.items():
            if d.chance(0.12 if count else 0.25):
                continue
            of = d.pick(list(KINDS)) if d.chance(0.015) else dtype
            held[name] = KINDS[of](
                [value(d, of) for _ in range(d.int(0, 3) if count is None else count + d.chance(0.02))]
            )
        text = tf.train.Example(features=tf.train.Features(feature=held)).SerializeToString()
        found.append(text[:d.int(0, max(len(text) - 1, 0))] if d.chance(0.02) else text)
    return found


def serialized(d, features):
    """Batches of Examples, the last one smaller; now and then single ones, or pairs of them."""
    rows = d.int(0, 7)
    ds = (
        tf.data.Dataset.from_tensor_slices(np.array(texts(d, features, rows), object))
        if rows
        else tf.data.Dataset.from_tensors(tf.constant([], tf.string)).take(d.int(0, 1)).unbatch()
    )
    return ds.batch(d.int(1, 4))


def default(d, dtype, shape):
    count = int(np.prod(shape))
    return np.array(
        [value(d, dtype) for _ in range(count)], object if dtype == tf.string else dtype.as_numpy_dtype
    ).reshape(shape)


def asked(d, features):
    """What a program asks for: columns of tf.io."""
    specs = {}
    for name, (dtype, count) in features.items():
        if count is not None:
            shape = d.pick([[count], [count], [count, 1]]) if count > 1 or d.chance(0.3) else []
            specs[name] = tf.io.FixedLenFeature(
                shape, dtype, default_value=default(d, dtype, shape).tolist() if d.chance(0.7) else None
            )
        else:
            specs[name] = d.pick(
                [
                    lambda: tf.io.VarLenFeature(dtype),
                    lambda: tf.io.VarLenFeature(dtype),
                    lambda: tf.io.RaggedFeature(dtype, row_splits_dtype=d.pick([tf.int32, tf.int64])),
                    lambda: tf.io.FixedLenSequenceFeature(
                        [],
                        dtype,
                        allow_missing=True,
                        default_value=default(d, dtype, []).tolist() if d.chance(0.5) else None,
                    ),
                ]
            )()
    return specs


# ---- Behind it ----
def dense(part):
    if isinstance(part, tf.SparseTensor):
        return part if part.dtype == tf.string else tf.sparse.to_dense(part)
    if isinstance(part, tf.RaggedTensor):
        return part.to_tensor()
    return part


def behind(d, ds):
    """What people do with such elements, which need not be dense for it."""
    return d.pick(
        [
            lambda: ds,
            lambda: ds,
            lambda: ds,
            lambda: ds.prefetch(2),
            lambda: ds.take(2),
            lambda: ds.skip(1),
            lambda: ds.repeat(2),
            lambda: ds.cache().repeat(2),
            lambda: ds.shuffle(d.pick([1, 2, 5]), seed=d.int(1, 99)),
            lambda: ds.map(lambda x: tf.nest.map_structure(dense, x), num_parallel_calls=d.pick([None, 2])),
            lambda: tf.data.Dataset.zip((ds, numbers(d))),
            lambda: ds.filter(lambda x: True),
            lambda: ds.concatenate(ds),
            lambda: ds.ignore_errors(),
        ]
    )()


def program(ds, graph, about):
    iterator = tf.compat.v1.data.make_initializable_iterator(ds)
    fetches = [tensor.name for tensor in tf.nest.flatten(iterator.get_next(), expand_composites=True)]
    return Program(graph, [({}, [], [iterator.initializer.name])] + [({}, fetches, [])] * MOST, about)


@op("ParseExampleDatasetV2", count=60)
def parsed(d):
    with tf.Graph().as_default() as graph:
        features = drawn_features(d)
        ds = serialized(d, features).apply(
            tf.data.experimental.parse_example_dataset(
                asked(d, features), num_parallel_calls=d.pick([1, 2, -1]), deterministic=d.pick([None, True])
            )
        )
        return program(behind(d, ds), graph, "Examples in a pipeline")


@op("ParseExampleDataset", "ExperimentalParseExampleDataset", count=16)
def parsed_before(d):
    """The forms before, by name: columns in the order of their names."""
    with tf.Graph().as_default() as graph:
        features = drawn_features(d)
        fixed = {name: kind for name, kind in features.items() if kind[1] is not None}
        lists = {name: kind for name, kind in features.items() if kind[1] is None}
        of_ragged = {name: lists.pop(name) for name in list(lists) if d.op == "ParseExampleDataset" and d.chance(0.3)}
        specs = {name: tf.TensorSpec([None, count], dtype) for name, (dtype, count) in fixed.items()}
        specs.update({name: tf.SparseTensorSpec([None, None], dtype) for name, (dtype, _) in lists.items()})
        specs.update({name: tf.RaggedTensorSpec([None, None], dtype) for name, (dtype, _) in of_ragged.items()})
        specs = {name: specs[name] for name in sorted(specs, key=lambda name: name.encode())}
        more = {}
        if d.op == "ParseExampleDataset":
            more = {
                "ragged_keys": list(of_ragged),
                "ragged_value_types": [dtype for dtype, _ in of_ragged.values()],
                "ragged_split_types": [tf.int64] * len(of_ragged),
            }
        defaults = [
            tf.constant(default(d, dtype, [count]) if d.chance(0.7) else [], dtype) for dtype, count in fixed.values()
        ]
        made = getattr(raw, d.op)(
            input_dataset=serialized(d, features)._variant_tensor,
            num_parallel_calls=int64(d.pick([1, 2, 0])),
            dense_defaults=defaults,
            sparse_keys=list(lists),
            dense_keys=list(fixed),
            sparse_types=[dtype for dtype, _ in lists.values()],
            dense_shapes=[[count] for _, count in fixed.values()],
            sloppy=False,
            output_types=[spec.dtype if isinstance(spec, tf.TensorSpec) else tf.variant for spec in specs.values()],
            output_shapes=[
                (
                    spec.shape
                    if isinstance(spec, tf.TensorSpec)
                    else tf.TensorShape([None] if isinstance(spec, tf.SparseTensorSpec) else None)
                )
                for spec in specs.values()
            ],
            **more
        )
        return program(
            behind(d, tf.data.experimental.from_variant(made, specs)),
            graph,
            "Examples in a pipeline, by the form before",
        )


@op("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset", count=16)
def sparse_batches(d):
    with tf.Graph().as_default() as graph:
        kind, shape = d.pick(
            [
                (numbers, []),
                (ragged, [None]),
                (ragged, [None]),
                (ragged, [d.int(0, 5)]),
                (vectors, [d.pick([2, 3, None])]),
                (lambda d: pairs(d).map(lambda x, s: s), []),
                (lambda d: ragged(d).map(lambda x: tf.strings.as_string(x)), [4]),
                (lambda d: ragged(d).map(lambda x: tf.stack([x, x + 1])), [None, None]),
                (lambda d: ragged(d).map(lambda x: tf.cast(x, tf.bool)), [None]),
                (pairs, []),
                (numbers, [None]),
                (any_of, []),
            ]
        )
        ds = kind(d)
        dtype = tf.nest.flatten(ds.element_spec)[0].dtype
        spec = tf.SparseTensorSpec([None] + shape, dtype)
        made = getattr(raw, d.op)(
            input_dataset=ds._variant_tensor,
            batch_size=int64(d.pick([1, 2, 3, 5, 0])),
            row_shape=tf.constant([-1 if dim is None else dim for dim in shape], tf.int64, [len(shape)]),
            output_types=[tf.variant],
            output_shapes=[[3]],
        )
        return program(behind(d, tf.data.experimental.from_variant(made, spec)), graph, "rows as a sparse tensor")
