# SPDX-License-Identifier: Apache-2.0
"""Cases of datasets over files: pipelines as people write them, from TFRecords, lines, CSV, pictures and saved datasets
to batches. A first run writes the files into a folder of the case's own."""

import gzip
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import load_op, structured_function

from . import pictures
from .draw import FOLDER, Program, op

tf1 = tf.compat.v1
MOST = 12  # elements that are asked for


class Files:
    """What the first run writes, and where."""

    def __init__(self):
        self.folder = tf1.placeholder(tf.string, (), "folder")
        self.writes = []

    def path(self, name):
        return tf.strings.join([self.folder, "/", name])

    def write(self, name, content):
        self.writes.append(tf.io.write_file(self.path(name), tf.constant(content)).name)
        return self.path(name)


def records(items, compression=""):
    """The bytes of a TFRecord file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records")
        with tf.io.TFRecordWriter(path, compression) as writer:
            for item in items:
                writer.write(item)
        with open(path, "rb") as file:
            return file.read()


def example(d, number):
    feature = tf.train.Feature
    values = {
        "n": feature(int64_list=tf.train.Int64List(value=[number])),
        "x": feature(float_list=tf.train.FloatList(value=d.random.normal(size=2).astype(np.float32))),
        "words": feature(bytes_list=tf.train.BytesList(value=[b"w%d" % (number + i) for i in range(d.int(0, 3))])),
        "ids": feature(int64_list=tf.train.Int64List(value=range(d.int(0, 4)))),
    }
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


SPEC = {
    "n": tf.io.FixedLenFeature([], tf.int64),
    "x": tf.io.FixedLenFeature([2], tf.float32),
    "ids": tf.io.RaggedFeature(tf.int64),
    "words": tf.io.VarLenFeature(tf.string),
}
FIXED = {"n": SPEC["n"], "x": SPEC["x"]}


def examples(d, files, compression="", many=None):
    """Some files of Examples; their paths."""
    many, number, paths = many or d.int(1, 3), 0, []
    for i in range(many):
        count = d.int(0, 5)
        paths.append(
            files.write(f"part{i}.tfrecord", records([example(d, number + k) for k in range(count)], compression))
        )
        number += count
    return paths


def seed(d):
    return d.int(1, 999)


def classic(d, files):
    """TFRecord, shuffle, batch, parse, prefetch."""
    ds = tf.data.TFRecordDataset(tf.stack(examples(d, files)))
    return (
        ds.shuffle(d.pick([2, 5, 50]), seed=seed(d))
        .batch(d.int(1, 4))
        .map(lambda x: tf.io.parse_example(x, FIXED))
        .prefetch(tf.data.AUTOTUNE)
    )


def one_by_one(d, files):
    """Parsed one by one in parallel, repeated, batched."""
    ds = tf.data.TFRecordDataset(tf.stack(examples(d, files))).map(
        lambda x: tf.io.parse_single_example(x, FIXED), num_parallel_calls=3
    )
    return ds.repeat(d.int(1, 2)).batch(d.int(1, 4), drop_remainder=d.chance(0.5)).prefetch(2)


def packed(d, files):
    compression = d.pick(["GZIP", "ZLIB"])
    return tf.data.TFRecordDataset(tf.stack(examples(d, files, compression)), compression_type=compression).map(
        lambda x: tf.io.parse_single_example(x, FIXED)["n"]
    )


def interleaved(d, files):
    """Files that are found by a pattern, read in turn."""
    examples(d, files, many=3)
    ds = tf.data.Dataset.list_files(files.path("*.tfrecord"), shuffle=False)
    return ds.interleave(
        tf.data.TFRecordDataset,
        cycle_length=d.int(1, 3),
        block_length=d.int(1, 2),
        num_parallel_calls=d.pick([None, 2]),
    ).map(lambda x: tf.io.parse_single_example(x, FIXED)["n"])


def varied(d, files):
    """Sequences of unlike length, padded."""
    ds = tf.data.TFRecordDataset(tf.stack(examples(d, files))).map(
        lambda x: tf.io.parse_single_example(x, {"n": SPEC["n"], "ids": tf.io.VarLenFeature(tf.int64)})
    )
    return ds.map(lambda v: (v["n"], tf.sparse.to_dense(v["ids"]))).padded_batch(
        d.int(1, 4), padded_shapes=([], [None])
    )


def sharded(d, files):
    shards = d.int(2, 3)
    return (
        tf.data.TFRecordDataset(tf.stack(examples(d, files)))
        .shard(shards, d.int(0, shards - 1))
        .map(lambda x: tf.io.parse_single_example(x, FIXED)["n"])
    )


def lines_of(d, files, name):
    return files.write(
        name,
        b"\n".join(
            d.pick([b"one", b"", b"two words", b"#comment", "grün".encode()]) + b" %d" % i for i in range(d.int(0, 5))
        )
        + d.pick([b"", b"\n", b"\r\n"]),
    )


def text(d, files):
    """Lines of files, filtered, numbered."""
    paths = [lines_of(d, files, f"{i}.txt") for i in range(d.int(1, 3))]
    return (
        tf.data.TextLineDataset(tf.stack(paths))
        .filter(lambda line: tf.not_equal(tf.strings.substr(line + " ", 0, 1), "#"))
        .enumerate()
        .skip(d.int(0, 1))
    )


def packed_text(d, files):
    lines = gzip.compress(b"".join(b"line %d\n" % i for i in range(d.int(0, 6))), mtime=0)
    return tf.data.TextLineDataset(files.write("lines.gz", lines), compression_type="GZIP").batch(d.int(1, 3))


def csv(d, files):
    """A header, then rows of numbers and words, in shuffled batches of columns."""
    rows = b"".join(b"%d,%.3f,w%d\n" % (i, i / 7, i % 3) for i in range(d.int(1, 7)))
    ds = tf.data.TextLineDataset(files.write("table.csv", b"a,b,c\n" + rows)).skip(1)
    return (
        ds.map(lambda line: tf.io.decode_csv(line, [[0], [0.0], [""]]))
        .shuffle(4, seed=seed(d))
        .map(lambda a, b, c: (a, b, c))
        .batch(3)
    )


def fixed(d, files):
    count, header, footer = d.int(0, 5), d.int(0, 3), d.int(0, 2)
    data = bytes(d.random.integers(0, 256, header + 4 * count + footer, np.uint8))
    ds = tf.data.FixedLengthRecordDataset(files.write("data.bin", data), 4, header_bytes=header, footer_bytes=footer)
    return ds.map(lambda x: tf.io.decode_raw(x, tf.uint8)).batch(d.int(1, 3))


def photos(d, files):
    """Pictures in folders: listed, decoded, scaled, labelled, batched."""
    for i in range(d.int(1, 4)):
        samples = d.random.integers(0, 256, (4, d.pick([4, 5]), 3), np.uint8)
        files.write(f"{'cat' if i % 2 else 'dog'}/{i}.png", pictures.png(samples, pictures.RGB, 8))
    ds = tf.data.Dataset.list_files(files.path("*/*.png"), shuffle=False)

    def labelled(path):
        picture = tf.image.resize(tf.io.decode_png(tf.io.read_file(path), channels=3), [3, 3])
        return picture / 255.0, tf.strings.length(path) - tf.strings.length(files.folder)

    return ds.map(labelled, num_parallel_calls=2).batch(2).prefetch(1)


def kept(d, files):
    """A cache in a file, which the second pass reads."""
    ds = tf.data.TFRecordDataset(tf.stack(examples(d, files))).map(lambda x: tf.io.parse_single_example(x, FIXED))
    return ds.cache(files.path("cache")).repeat(2).shuffle(3, seed=seed(d))


def missing(d, files):
    """A file that is not there, left out or not."""
    paths = examples(d, files, many=2)
    ds = tf.data.TFRecordDataset(tf.stack([paths[0], files.path("nowhere"), paths[1]])).map(
        lambda x: tf.io.parse_single_example(x, FIXED)["n"]
    )
    return ds.ignore_errors() if d.chance(0.7) else ds


def damaged(d, files):
    """Records of which some byte is another."""
    data = bytearray(records([example(d, i) for i in range(4)]))
    data[d.int(0, len(data) - 1)] ^= 1 << d.int(0, 7)
    paths = [files.write("damaged.tfrecord", bytes(data)), *examples(d, files, many=1)]
    return tf.data.TFRecordDataset(tf.stack(paths)).map(tf.strings.length).ignore_errors()


def zipped(d, files):
    lines = tf.data.TextLineDataset(lines_of(d, files, "labels.txt"))
    return (
        tf.data.Dataset.zip(
            (
                tf.data.TFRecordDataset(tf.stack(examples(d, files))).map(
                    lambda x: tf.io.parse_single_example(x, FIXED)["x"]
                ),
                lines,
            )
        )
        .cache()
        .repeat(2)
    )


def buckets(d, files):
    """Batches of sequences of like length."""
    ds = (
        tf.data.TFRecordDataset(tf.stack(examples(d, files, many=3)))
        .map(lambda x: tf.io.parse_single_example(x, {"ids": tf.io.VarLenFeature(tf.int64)})["ids"])
        .map(tf.sparse.to_dense)
    )
    return ds.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [2, 4], [2, 2, 3])


PIPELINES = {
    "TFRecordDatasetV2": [
        classic,
        one_by_one,
        packed,
        interleaved,
        varied,
        sharded,
        missing,
        damaged,
        zipped,
        buckets,
        kept,
        photos,
    ],
    "TextLineDataset": [text, packed_text, csv],
    "FixedLengthRecordDatasetV2": [fixed],
}
COUNTS = {"TFRecordDatasetV2": 48, "TextLineDataset": 12, "FixedLengthRecordDatasetV2": 4}


def runs_of(files, iterator, writes):
    fetches = [tensor.name for tensor in tf.nest.flatten(iterator.get_next())]
    at = {files.folder.name: FOLDER}
    return [(at, [], writes), (at, [], [iterator.initializer.name])] + [({}, fetches, [])] * MOST


def pipeline(d):
    with tf.Graph().as_default() as graph:
        files = Files()
        make = d.turn(PIPELINES[d.op])
        iterator = tf1.data.make_initializable_iterator(make(d, files))
        return Program(graph, runs_of(files, iterator, files.writes), make.__doc__ or make.__name__)


for name, count in COUNTS.items():
    op(name, count=count)(pipeline)


def save(ds, path, compression, shard):
    """The op of ds.save(), whose path is a tensor."""
    function = structured_function.StructuredFunctionWrapper(
        shard or (lambda *x: None), "save()", input_structure=ds.element_spec, add_to_graph=False
    )
    return tf.raw_ops.SaveDataset(
        input_dataset=ds._variant_tensor,
        path=path,
        shard_func_other_args=function.function.captured_inputs,
        compression=compression,
        shard_func=function.function,
        use_shard_func=shard is not None,
    )


@op("LoadDataset", count=8)
def saved(d):
    """A dataset that is saved, and loaded again."""
    with tf.Graph().as_default() as graph:
        files = Files()
        ds = (
            tf.data.TFRecordDataset(tf.stack(examples(d, files)))
            .map(lambda x: tf.io.parse_single_example(x, FIXED))
            .map(lambda v: (v["n"], v["x"], tf.fill([v["n"] % 3], "word")))
        )
        compression, shards, path = d.pick(["", "GZIP"]), d.int(1, 3), files.path("saved")
        write = save(ds, path, compression, d.pick([None, lambda n, x, s: n % shards]))
        reader = d.pick(
            [
                lambda shards: shards.flat_map(lambda shard: shard),
                lambda shards: shards.interleave(lambda shard: shard, cycle_length=2),
            ]
        )
        loaded = load_op._LoadDataset(path, ds.element_spec, compression, reader)
        iterator = tf1.data.make_initializable_iterator(loaded)
        runs = runs_of(files, iterator, files.writes)
        return Program(
            graph, runs[:1] + [({files.folder.name: FOLDER}, [], [write.name])] + runs[1:], "saved and loaded"
        )
