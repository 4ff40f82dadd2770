# SPDX-License-Identifier: Apache-2.0
"""Pipelines of input: tenon.data, input that is brought to a device, TensorFlow 1's queues. Covers M1, M4, M8."""

import numpy
import pytest
from conftest import SOURCE

import tenon
from tenon import data, train


def plain(dataset):
    """The elements of a pass, as Python's numbers."""

    def of(value):
        if isinstance(value, tuple):
            return tuple(of(each) for each in value)
        if isinstance(value, dict):
            return {key: of(each) for key, each in value.items()}
        return value.tolist() if hasattr(value, "tolist") else value

    return [of(element) for element in dataset]


def test_elements_are_transformed(graph):
    ten = data.range(10)
    assert plain(ten.map(lambda x: x * 2).filter(lambda x: x > 12)) == [14, 16, 18]
    assert plain(ten.take_while(lambda x: x < 2)) == [0, 1]
    assert plain(ten.batch(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert plain(ten.batch(4, drop_remainder=True).unbatch().skip(6)) == [6, 7]
    assert plain(ten.shard(3, 1).repeat(2)) == [1, 4, 7, 1, 4, 7]
    assert plain(ten.skip(8).enumerate(5)) == [(5, 8), (6, 9)]
    assert plain(ten.take(2).concatenate(ten.skip(9)).cache().prefetch()) == [0, 1, 9]
    assert plain(data.range(3).flat_map(data.range)) == [0, 0, 1]
    assert plain(data.range(1, 4).interleave(lambda x: data.from_tensors(x).repeat(2), cycle_length=2)) == [
        1,
        2,
        1,
        2,
        3,
        3,
    ]
    assert plain(
        data.range(1, 4).interleave(lambda x: data.from_tensors(x).repeat(2), num_parallel_calls=2, cycle_length=2)
    ) == [1, 2, 1, 2, 3, 3]
    assert plain(data.range(7).window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))) == [
        [0, 1, 2],
        [2, 3, 4],
        [4, 5, 6],
    ]
    assert plain(ten.scan(tenon.constant(0, "int64"), lambda total, x: (total + x, total + x)).skip(8)) == [36, 45]
    assert plain(data.from_tensor_slices([3, 1, 3, 3, 2]).unique()) == [3, 1, 2]
    total = ten.reduce(tenon.constant(0, "int64"), lambda sum, x: sum + x)
    assert [
        value.item() for value in tenon.Session(graph).run([total, ten.cardinality(), ten.repeat().cardinality()])
    ] == [45, 10, -1]


def test_elements_are_tuples_and_dicts(graph):
    rows = data.from_tensor_slices({"x": numpy.arange(6, dtype="f").reshape(3, 2), "name": ["a", "b", "c"]})
    assert rows.element_spec["x"] == data.ElementSpec(tenon.float32, (2,))
    assert plain(rows.map(lambda e: {"sum": tenon.ops.Sum(e["x"], [0]), "name": e["name"]}).take(2)) == [
        {"sum": 1.0, "name": b"a"},
        {"sum": 5.0, "name": b"b"},
    ]
    pairs = data.zip_datasets((data.range(3), (data.range(5, 9), rows)))
    assert plain(pairs.map(lambda a, rest: a + rest[0])) == [5, 7, 9]
    with pytest.raises(tenon.InvalidArgumentError, match="more than 32 deep"):
        deep = 1
        for _ in range(40):
            deep = (deep,)
        data.from_tensors(deep)


def test_a_shuffle_has_tensorflows_order(graph):
    assert plain(data.range(10).shuffle(10, seed=1)) == [0, 9, 5, 1, 2, 7, 3, 8, 6, 4]


def test_functions_of_elements_use_what_lies_around(graph):
    weight, table = tenon.constant(3, "int64"), data.range(10)
    assert plain(data.range(3).map(lambda x: x * weight, num_parallel_calls=data.AUTOTUNE)) == [0, 3, 6]
    assert plain(data.range(1, 3).flat_map(lambda n: table.skip(8).map(lambda x: x * weight + n))) == [25, 28, 26, 29]


def test_sequences_of_about_the_same_length_come_together(graph):
    sequences = data.range(1, 7).map(lambda n: tenon.ops.Fill(tenon.ops.Reshape(n, [1]), n))
    length = lambda s: tenon.ops.Size(s)
    assert plain(sequences.bucket_by_sequence_length(length, [3, 5], [2, 2, 1], padded_shapes=[None])) == [
        [[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]], [[5] * 5], [[6] * 6]]
    padded = sequences.take(3).bucket_by_sequence_length(
        length, [4], [2, 1], padded_shapes=[None], padding_values=-1, pad_to_bucket_boundary=True
    )
    assert plain(padded) == [[[1, -1, -1], [2, 2, -1]], [[3, 3, 3]]]
    with pytest.raises(tenon.InvalidArgumentError, match="not below the last boundary"):
        plain(
            sequences.bucket_by_sequence_length(length, [4], [2, 1], padded_shapes=[None], pad_to_bucket_boundary=True)
        )
    with pytest.raises(tenon.InvalidArgumentError, match="one positive batch size more"):
        sequences.bucket_by_sequence_length(length, [3, 3], [2, 2, 2])


def test_files_are_read(graph, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_text("three\n")
    lines = data.list_files(str(tmp_path / "*.txt")).flat_map(data.text_lines)
    assert plain(lines) == [b"one", b"two", b"three"]
    assert plain(data.fixed_length_records(str(tmp_path / "b.txt"), 3)) == [b"thr", b"ee\n"]
    with pytest.raises(tenon.NotFoundError) as caught:
        plain(data.tfrecords(str(tmp_path / "none")))
    assert caught.value.file == str(tmp_path / "none")


def test_what_is_wrong_is_said_when_it_is_built(graph):
    ten = data.range(10)
    for wrong, why in (
        (lambda: ten.flat_map(lambda x: x), "gives a Dataset"),
        (lambda: ten.concatenate(data.from_tensors("text")), "concatenate"),
        (lambda: ten.padded_batch(2, ([], [])), "list of sizes"),
        (lambda: ten.enumerate().padded_batch(2, ([],)), "form"),
        (lambda: ten.scan(0, lambda s, x: s), "pair"),
        (lambda: ten.window(2).batch(2), "datasets in elements"),
        (lambda: iter(ten.window(2)), "hold datasets"),
        (lambda: data.zip_datasets((ten, 1)), "takes Datasets"),
        (lambda: ten.group_by_window(lambda x: x, lambda k, w: w), "window_size"),
    ):
        with pytest.raises(tenon.InvalidArgumentError, match=why):
            wrong()


def line(runtime, **options):
    """Losses of fitting a line whose points come out of a dataset."""
    with tenon.Graph(runtime) as graph:
        model = train.Model(graph)
        slope = model.weight("slope", (), 0.0)
        x = data.range(50).map(lambda n: tenon.ops.Cast(n, DstT="float32") * 0.02)
        batch = x.batch(8).prefetch().make_iterator("points")
        error = batch.next * slope.value - 2.0 * batch.next
        loss = tenon.ops.Mean(error * error, [0])
        losses = []
        trainer = train.Trainer(
            model,
            loss=loss,
            update=train.minimize(model, loss, 0.5),
            input=batch,
            on_step=lambda report: losses.append(report["loss"]),
            **options
        )
        report = trainer.run(tenon.Session(graph, device="TPU:0"))
    return losses, report


def test_input_is_brought_to_a_device_ahead(tmp_path):
    runtime = tenon.Runtime(options={"tenon.tpu_sim": {"devices": "1"}})
    plain_losses, report = line(runtime, steps=None)
    assert len(plain_losses) == 7 and report["input_ended"]
    assert line(runtime, steps=None, prefetch_device="TPU:0")[0] == plain_losses
    # A run that was stopped goes on behind what it had.
    first, _ = line(runtime, steps=3, checkpoint_folder=tmp_path, prefetch_device="TPU:0")
    second, report = line(runtime, steps=None, checkpoint_folder=tmp_path)
    assert first + second == plain_losses and report["first_step"] == 3


def test_a_loop_of_ones_own_takes_input_from_a_device():
    runtime = tenon.Runtime(options={"tenon.tpu_sim": {"devices": "1"}})
    with tenon.Graph(runtime) as graph:
        batch = data.range(5).map(lambda n: tenon.ops.Cast(n, DstT="float32")).batch(2).make_iterator()
        sums = tenon.ops.Sum(batch.next, [0])
        with tenon.Session(graph) as session:
            session.run(targets=[batch.begin])
            ahead = train.DevicePrefetcher(session, batch.get_next.outputs, "TPU:0")
            step = session.prepare(sums, [batch.next], feed_devices=ahead.devices)
            assert [step(*values).item() for values in ahead] == [1, 5, 4]
            with pytest.raises(tenon.NotFoundError, match="there is no device"):
                train.DevicePrefetcher(session, batch.get_next.outputs, "GPU:3")
            del ahead, step


def test_threads_stop_together_and_the_first_failure_is_told():
    coordinator = train.Coordinator()
    woken = []
    coordinator.on_stop(lambda: woken.append(1))
    coordinator.start(lambda: coordinator.wait_for_stop())

    def fails():
        raise ValueError("the first")

    coordinator.start(fails)
    assert coordinator.wait_for_stop(30) and coordinator.should_stop()
    with pytest.raises(ValueError, match="the first"):
        coordinator.join()
    assert woken == [1]
    with pytest.raises(ValueError, match="the first"), train.Coordinator() as other:
        other.start(fails)
        other.wait_for_stop(30)
        raise RuntimeError("what follows of it")
    with pytest.raises(KeyError), train.Coordinator():
        raise KeyError("the block's own")


def test_queue_runners_of_a_model_fill_its_queues(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    (tmp_path / "b.txt").write_text("4\n")
    model = tenon.load(SOURCE / "tests" / "golden" / "input_queues.meta", allow_files=True)
    assert [runner.queue for runner in model.queue_runners] and model.queue_runners[0].closed[
        0
    ] is tenon.OutOfRangeError
    model.session.run(targets=["init"])
    got = []
    with train.Coordinator() as coordinator:
        train.start_queue_runners(model.session, model.queue_runners, coordinator)
        with pytest.raises(tenon.OutOfRangeError):
            while True:
                got.append(model.session.run("out:0").tolist())
    assert got == [[2, 4], [6, 8], [2, 4], [6, 8]]
    wrong = train.QueueRunner("queue", ("no_such_node",))
    with pytest.raises(tenon.NotFoundError, match="queue runner of 'queue'"), train.Coordinator() as coordinator:
        train.start_queue_runners(model.session, [wrong], coordinator)
