#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pipelines of input (tf.data) beside TensorFlow's own, on the same graphs and files in the same run, and beside bare
loops.

usage: pipelines.py --build build/release [--rounds 5] [--only PART_OF_A_NAME ...] [--cores 0,1]

A case is a graph with an initializable iterator, written once; a pass begins it anew and takes elements, many in a step
(each step gives the last of so many batches, so that what a client's call costs is nothing). Both engines run passes in
turn, and so does the bare loop where there is one; the least of the rounds counts. On one thread each process is pinned
to one core, and it is the CPU time of all its threads that counts, which another program on the core does not lengthen;
with more threads it is the time on the clock. A case of `overlap` is a training step on one thread with its input made
on another: its time, beside those of the step alone (its input is a batch in memory) and of the input alone; and the
CPU time of both over the sum of the two's, which says what the meeting costs where other programs take the second core.

Run with a Python that has TensorFlow 2.21. Prints a table, and with --out writes it there.
"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np
import tensorflow as tf

CASES = {}


class Case:
    """build(files): the dataset. items: in a pass, of which `unit` says what they are; steps: in a pass. bare: the bare
    loop's command."""

    def __init__(self, build, items, unit, steps=1, threads=1, goal="", bare=None, theirs=True):
        self.build, self.items, self.unit, self.steps, self.threads = build, items, unit, steps, threads
        self.goal, self.bare, self.theirs = goal, bare, theirs


def last_of(dataset, batches):
    """One element for so many."""
    return dataset.shard(batches, batches - 1)


# ---- Files ----


def mask(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def example(**features):
    make = tf.train.Feature
    value = {
        bytes: lambda v: make(bytes_list=tf.train.BytesList(value=[v])),
        list: lambda v: make(int64_list=tf.train.Int64List(value=v)),
        float: lambda v: make(float_list=tf.train.FloatList(value=[v])),
        int: lambda v: make(int64_list=tf.train.Int64List(value=[v])),
    }
    return tf.train.Example(
        features=tf.train.Features(feature={k: value[type(v)](v) for k, v in features.items()})
    ).SerializeToString()


def picture(seed):
    """256 x 256 of soft shapes and a little noise: some 20 kB as a JPEG."""
    draws = np.random.default_rng(seed)
    y, x = np.mgrid[0:256, 0:256].astype(np.float32) / 256
    image = np.zeros((256, 256, 3), np.float32)
    for _ in range(12):
        fy, fx, phase = draws.uniform(1, 20), draws.uniform(1, 20), draws.uniform(0, 6, 3)
        image += draws.uniform(5, 25) * np.sin(fy * y[..., None] + fx * x[..., None] + phase)
    image += 128 + draws.normal(0, 6, image.shape)
    return tf.io.encode_jpeg(np.clip(image, 0, 255).astype(np.uint8), quality=90).numpy()


SMALL, LARGE, PICTURES = 102_400, 1_000, 256


class Files:
    def __init__(self, folder):
        self.folder = folder
        small = example(image=list(range(60)), label=3, w=1.0)
        self.small = self.write("small", [small] * SMALL)
        draws = random.Random(1)
        self.large = self.write("large", [draws.randbytes(100_000) for _ in range(LARGE)])
        self.pictures = self.write("pictures", [picture(seed) for seed in range(32)] * (PICTURES // 32))
        rows = np.random.default_rng(2).integers(0, 256, (2_000, 784), np.uint8)
        self.digits = self.write("digits", [example(image=row.tobytes(), label=int(row[0]) % 10) for row in rows])
        print(
            f"records: {len(small)} bytes, 100,000 bytes, pictures of {sum(map(len, (picture(s) for s in range(4)))) // 4:,} bytes"
        )

    def write(self, name, records):
        path = str(self.folder / name)
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        return path


# ---- Cases ----

FEATURES = {
    "image": tf.io.FixedLenFeature([60], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
    "w": tf.io.FixedLenFeature([], tf.float32),
}


def records(path, buffer=1 << 20):
    return tf.data.TFRecordDataset(path, buffer_size=buffer)


def parse(texts):
    return tf.io.parse_example(texts, FEATURES)


def one_more(x):
    return x + 1


def even(x):
    return tf.equal(x % 2, 0)  # where TensorFlow 1's rules hold, == asks whether both are one tensor


def with_half(x):
    return x, tf.cast(x, tf.float32) * 0.5


for _batch in (128, 1024):
    CASES[f"small records, raw, batches of {_batch}"] = Case(
        lambda files, n=_batch: last_of(records(files.small).batch(n), SMALL // n), SMALL, "record", goal="5 tf.data")
    CASES[f"small records, parsed, batches of {_batch}"] = Case(
        lambda files, n=_batch: last_of(records(files.small).batch(n).map(parse), SMALL // n),
        SMALL,
        "record",
        goal="4 tf.data",
    )
CASES["records of 100 kB"] = Case(lambda files: last_of(records(files.large), LARGE), LARGE, "record", goal="0.9 bare",
                                  bare=lambda files: {"bare": "records", "file": files.large, "passes": 1})
CASES["records of 100 kB, default buffer"] = Case(
    lambda files: last_of(records(files.large, None), LARGE),
    LARGE,
    "record",
    goal="0.9 bare",
    bare=lambda files: {"bare": "records", "file": files.large, "passes": 1},
)
CASES["range, x + 1, batches of 1024"] = Case(
    lambda files: last_of(tf.data.Dataset.range(102_400).map(one_more).batch(1024), 100),
    102_400,
    "element",
    goal="10 tf.data",
)
CASES["range, batches of 1024"] = Case(
    lambda files: last_of(tf.data.Dataset.range(1_024_000).batch(1024), 1000), 1_024_000, "element"
)
CASES["range, three functions and a filter"] = Case(
    lambda files: last_of(tf.data.Dataset.range(51_200).map(one_more).filter(even).map(with_half).batch(256), 100),
    51_200,
    "element",
)
CASES["shuffle of a million"] = Case(
    lambda files: last_of(tf.data.Dataset.range(1_000_000).shuffle(1_000_000, seed=7), 1_000_000), 1_000_000, "element"
)
CASES["shuffle of 10,000 out of a million"] = Case(
    lambda files: last_of(tf.data.Dataset.range(1_000_000).shuffle(10_000, seed=7), 1_000_000), 1_000_000, "element"
)


def ragged(files):
    lengths = np.random.default_rng(3).integers(1, 100, 20_480)
    ends = np.cumsum(lengths)
    return tf.data.Dataset.from_tensor_slices((ends - lengths, ends)).map(tf.range).padded_batch(64)


CASES["padded batches of ragged rows"] = Case(lambda files: last_of(ragged(files), 320), 20_480, "row")
CASES["padded batches alone"] = Case(
    lambda files: last_of(
        tf.data.Dataset.range(20_480)
        .window(16, drop_remainder=True)
        .flat_map(lambda w: w.batch(16))
        .repeat(16)
        .padded_batch(64, [20]),
        320,
    ),
    20_480,
    "row",
)


def decode(text):
    return tf.io.decode_jpeg(text, channels=3)


def distort(text):
    image = tf.io.decode_jpeg(text, channels=3)
    image.set_shape([256, 256, 3])
    image = tf.image.random_crop(image, [224, 224, 3])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(tf.cast(image, tf.float32), 32.0)
    return tf.image.random_contrast(image, 0.5, 1.5)


BATCH = 32


def pictures(files, threads):
    dataset = records(files.pictures)
    return last_of(
        (dataset.map(distort) if threads == 1 else dataset.map(distort, threads)).batch(BATCH), PICTURES // BATCH
    )


for _threads in (1, 2):
    CASES[f"pictures, {_threads} thread{'s' * (_threads > 1)}"] = Case(
        lambda files, n=_threads: pictures(files, n),
        PICTURES,
        "picture",
        threads=_threads,
        goal="0.95 bare, 1 tf.data",
        bare=lambda files, n=_threads: {
            "bare": "pictures",
            "file": files.pictures,
            "batch": BATCH,
            "batches": PICTURES // BATCH,
            "threads": n,
        },
    )
CASES["pictures, decoded alone"] = Case(
    lambda files: last_of(records(files.pictures).map(decode), PICTURES), PICTURES, "picture"
)


# ---- A step and its input ----


def digits_input(path):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def one(text):
        parsed = tf.io.parse_single_example(text, features)
        pixels = tf.cast(tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), [784]), tf.float32) / 255.0
        return tf.math.log1p(pixels) + tf.sqrt(pixels) * 0.1, parsed["label"]

    return records(path, 100_000).map(one).batch(100, drop_remainder=True).repeat()


def train_op(pixels, labels):
    draws = np.random.default_rng(5)
    layers = [
        tf.compat.v1.get_variable(
            f"v{i}", initializer=tf.constant(draws.normal(0, 0.05, shape).astype(np.float32)), use_resource=True
        )
        for i, shape in enumerate(((784, 160), (160,), (160, 10), (10,)))
    ]
    hidden = tf.nn.relu(pixels @ layers[0] + layers[1])
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden @ layers[2] + layers[3])
    )
    return tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(loss)


STEPS = 100
# name: the path's scheme, whether the input of TensorFlow's can be had
OVERLAPS = {"step and input": ("", True), "step and input, reads that wait 5 ms": ("slow://", False)}


def overlap_graphs(path):
    """Graphs of the step with its input, of the step alone, of the input alone."""
    found = {}
    for kind in ("both", "step", "input"):
        with tf.Graph().as_default() as graph:
            dataset = digits_input(path)
            if kind == "step":
                dataset = dataset.take(1).cache().repeat()
            dataset = single_threaded(dataset.prefetch(8) if kind == "both" else dataset, 2)
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            batch = iterator.get_next()
            target = tf.group(*batch) if kind == "input" else train_op(*batch)
            init = [op.name for op in [tf.compat.v1.global_variables_initializer()] if kind != "input"]
            found[kind] = Made(graph, init, [iterator.initializer.name], target.name)
    return found


# ---- Sides ----


class Made:
    def __init__(self, graph, init, begin, target):
        self.graph, self.init, self.begin, self.target = graph, init, begin, target

    def write(self, folder, name):
        path = folder / (name.replace(" ", "_") + ".pb")
        path.write_bytes(self.graph.as_graph_def().SerializeToString())
        return path


def single_threaded(dataset, threads):
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.autotune.enabled = False
    options.deterministic = True
    return dataset.with_options(options)


def make(case, files):
    with tf.Graph().as_default() as graph:
        iterator = tf.compat.v1.data.make_initializable_iterator(single_threaded(case.build(files), case.threads))
        target = tf.group(*tf.nest.flatten(iterator.get_next()))
        return Made(graph, [], [iterator.initializer.name], target.name)


class Engine:
    """A process of pipelines_bench on these cores."""

    def __init__(self, build, cores, plugins=()):
        self.process = subprocess.Popen(
            [build / "bin" / "pipelines_bench", *plugins],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("pipelines_bench ended")
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def open(self, name, made, threads, folder):
        self.ask(
            open=name,
            graph=str(made.write(folder, name)),
            init=made.init,
            begin=made.begin,
            target=made.target,
            threads=threads,
        )
        return lambda steps: self.ask(time=name, steps=steps)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class TensorFlow:
    """In this process, which its threads are pinned with."""

    def __init__(self, made, threads):
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads, use_per_session_threads=True
        )
        self.session = tf.compat.v1.Session(graph=made.graph, config=config)
        for name in made.init:
            self.session.run(name)
        self.begin = [self.session.make_callable(made.graph.get_operation_by_name(name)) for name in made.begin]
        self.step = self.session.make_callable(made.graph.get_operation_by_name(made.target))

    def __call__(self, steps):
        wall, cpu = time.perf_counter(), time.process_time()
        for begin in self.begin:
            begin()
        for _ in range(steps):
            self.step()
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def pinned(cores):
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cores)
        except ProcessLookupError:
            pass


def rounds(sides, steps, count, which):
    """The times of each side, in turn."""
    took = {name: [] for name in sides}
    for side in sides.values():
        side(steps)  # plans, and warms what is to be warm
    for _ in range(count):
        for name, side in sides.items():
            found = side(steps)
            took[name].append(tuple(found[clock] for clock in which) if isinstance(which, tuple) else found[which])
    return took


# ---- The table ----


def time_of(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def row(options, name, files):
    case = CASES[name]
    cores = options.cores if case.threads > 1 else options.cores[-1:]
    pinned(cores)
    made = make(case, files)
    if options.graphs:
        return str(made.write(options.folder, name))
    engine = Engine(options.build, cores)
    sides = {"tenon": engine.open(name, made, case.threads, options.folder)}
    if case.theirs and not options.alone:
        sides["tf.data"] = TensorFlow(made, case.threads)
    if case.bare:
        sides["bare"] = lambda steps: engine.ask(**case.bare(files))
    took = rounds(sides, case.steps, options.rounds, "cpu" if case.threads == 1 else "wall")
    engine.close()
    least = {side: min(times) / case.items for side, times in took.items()}
    noise = {side: statistics.median(times) / min(times) for side, times in took.items()}
    ratio = lambda side: f"{least[side] / least['tenon']:.2f}" if side in least else "-"
    of = lambda side: time_of(least[side]) if side in least else "-"
    return f"| {name} | {of('tenon')} a {case.unit} | {of('tf.data')} | {ratio('tf.data')} | {of('bare')} | {ratio('bare')} | {case.goal or '-'} | {max(noise.values()):.2f} |"


def overlap(options, name, files):
    scheme, theirs = OVERLAPS[name]
    pinned(options.cores)
    graphs = overlap_graphs(scheme + files.digits)
    engine = Engine(
        options.build,
        options.cores,
        [options.build / "tests" / "plugins" / "tenon_perf_slow_files.so"] if scheme else [],
    )
    sides = {"tenon " + kind: engine.open(f"{name}, {kind}", made, 1, options.folder) for kind, made in graphs.items()}
    if theirs and not options.alone:
        sides.update({"tf.data " + kind: TensorFlow(made, 1) for kind, made in graphs.items()})
    took = rounds(sides, STEPS, options.rounds, ("wall", "cpu"))
    engine.close()
    lines = []
    for engine_name in ("tenon", "tf.data"):
        if engine_name + " both" not in took:
            continue
        (both, step, feed), (both_cpu, step_cpu, feed_cpu) = (
            [min(times[clock] for times in took[f"{engine_name} {kind}"]) / STEPS for kind in ("both", "step", "input")]
            for clock in (0, 1)
        )
        walls = [times[0] for times in took[engine_name + " both"]]
        noise = statistics.median(walls) / min(walls)
        lines.append(
            f"| {name}, {engine_name} | {time_of(both)} a step | {time_of(step)} | {time_of(feed)} | {both / max(step, feed):.2f} | "
            f"{both_cpu / (step_cpu + feed_cpu):.2f} | {noise:.2f} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="cases whose names hold this")
    parser.add_argument("--cores", type=lambda text: [int(core) for core in text.split(",")], default=[0, 1])
    parser.add_argument(
        "--graphs", action="store_true", help="writes the graphs into the folder of --keep, and runs nothing"
    )
    parser.add_argument("--alone", action="store_true", help="without TensorFlow's side")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the graphs and files; else they go")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    wanted = lambda name: not options.only or any(part in name for part in options.only)
    with tempfile.TemporaryDirectory() as name:
        options.folder = options.keep or pathlib.Path(name)
        options.folder.mkdir(exist_ok=True)
        files = Files(options.folder)
        lines = []

        def put(line):
            print(line, flush=True)
            lines.append(line)

        for title, names, each in (
            (
                "| pipeline | Tenon | tf.data 2.21 | tf.data over Tenon | bare | bare over Tenon | goal | median over least |\n| --- | --- | --- | --- | --- | --- | --- | --- |",
                CASES,
                lambda name: [row(options, name, files)],
            ),
            (
                "\n| step on one thread, input on another | both | step alone | input alone | both over the larger | CPU time of both over the sum | median over least |\n| --- | --- | --- | --- | --- | --- | --- |",
                OVERLAPS,
                lambda name: overlap(options, name, files),
            ),
        ):
            found = list(filter(wanted, names))
            if found:
                put(title)
            for name in found:
                try:
                    for line in each(name):
                        put(line)
                except RuntimeError as error:
                    put(f"| {name} | {error} |")
        if options.out:
            options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
