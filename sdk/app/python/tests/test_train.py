# SPDX-License-Identifier: Apache-2.0
"""Training: variables, optimizers, checkpoints, event files, the loop, and the example."""

import gc
import glob
import pathlib
import subprocess
import sys

import numpy
import pytest
from conftest import SOURCE

import tenon
from tenon import train


class Line:
    """y = 2 x + 1, to be learnt."""

    def __init__(self, optimizer=None, rate=0.1, **options):
        self.graph = tenon.Graph()
        with self.graph:
            self.x, self.y = tenon.placeholder("float32", [None], name="x"), tenon.placeholder(
                "float32", [None], name="y"
            )
            self.model = train.Model(self.graph)
            self.slope, self.offset = self.model.weight("slope", (), 0.0), self.model.weight("offset", (), 0.0)
            error = self.x * self.slope.value + self.offset.value - self.y
            self.loss = tenon.ops.Mean(error * error, [0])
            update = train.minimize(self.model, self.loss, rate, optimizer or train.SGD())
            defaults = dict(loss=self.loss, update=update, feeds=[self.x, self.y], feed=self.feed, steps=100)
            self.trainer = train.Trainer(self.model, **{**defaults, **options})
        self.session = tenon.Session(self.graph)
        self.steps = []

    def feed(self, step):
        self.steps.append(step)
        x = numpy.random.default_rng(step).uniform(-1, 1, 8)
        return x, 2 * x + 1

    def values(self):
        return [float(v) for v in self.session.run([self.slope.value, self.offset.value])]


@pytest.mark.parametrize(
    "optimizer",
    [
        train.SGD(),
        train.SGD(fused=False),
        train.Momentum(0.5),
        train.Momentum(0.5, nesterov=True),
        train.Adam(),
        train.Adagrad(),
    ],
)
def test_optimizers_learn_a_line(optimizer):
    line = Line(optimizer, rate=0.3, steps=300)
    report = line.trainer.run(line.session)
    assert (report["first_step"], report["last_step"], report["stopped"]) == (0, 300, False)
    numpy.testing.assert_allclose(line.values(), [2, 1], atol=0.02)
    assert line.steps == list(range(300))


def test_a_run_that_was_stopped_goes_on_exactly(tmp_path):
    whole = Line(checkpoint_folder=tmp_path / "whole")
    whole.trainer.run(whole.session)
    messages = []

    def stop_at_forty(report):
        if report["step"] == 40:
            raise KeyboardInterrupt

    first = Line(checkpoint_folder=tmp_path / "parts", on_step=stop_at_forty)
    with pytest.raises(KeyboardInterrupt):
        first.trainer.run(first.session)
    del first
    gc.collect()  # with the trainer, which holds the folder
    second = Line(checkpoint_folder=tmp_path / "parts", on_message=messages.append)
    report = second.trainer.run(second.session)
    assert (report["first_step"], report["last_step"]) == (40, 100) and second.steps[0] == 40 and messages
    assert second.values() == whole.values()


def test_what_callbacks_raise_comes_out():
    class Wrong(Exception):
        pass

    def feed(step):
        if step == 3:
            raise Wrong("third")
        return [1.0], [1.0]

    line = Line(feed=feed)
    with pytest.raises(Wrong, match="third"):
        line.trainer.run(line.session)
    assert line.trainer.step == 3
    uneven = Line(feed=lambda step: [[1.0]])
    with pytest.raises(tenon.InvalidArgumentError, match="1 values for 2 feeds"):
        uneven.trainer.run(uneven.session)
    text = Line(feed=lambda step: ["a", "b"])
    with pytest.raises(tenon.InvalidArgumentError, match="float32"):
        text.trainer.run(text.session)
    with pytest.raises(tenon.Error, match="nan|finite|number"):
        Line(feed=lambda step: ([float("nan")], [1.0])).trainer.run(Line().session)


def test_savers_restore(tmp_path):
    line = Line()
    saver = train.Saver(line.model, tmp_path, keep=2, step_variable="")
    line.session.run(line.model.initialize_all())
    line.trainer.run(line.session)
    values = line.values()
    prefix = saver.save(line.session, 5)
    assert prefix.endswith("model.ckpt-5")
    line.session.run(line.model.initialize_all())
    assert line.values() == [0, 0]
    restored = saver.restore(line.session)
    assert (restored.prefix, restored.step, restored.warnings) == (prefix, 5, []) and line.values() == values
    line.session.run(line.model.initialize_all())
    saver.restore(line.session, prefix)
    assert line.values() == values
    saver.clear()
    assert saver.restore(line.session).prefix == ""


def test_event_files(tmp_path):
    line = Line(event_folder=tmp_path / "events", steps=20, metrics=None)
    line.trainer.run(line.session)
    assert glob.glob(str(tmp_path / "events" / "events.out.tfevents.*"))
    with train.EventWriter(tmp_path / "own") as writer:
        writer.add_graph(line.graph)
        writer.add_scalars(3, loss=0.5)
        writer.add_scalar_dict(4, {"a/b": 1})
    data = pathlib.Path(writer.path).read_bytes()
    assert b"brain.Event:2" in data and b"loss" in data and b"a/b" in data


def test_models_make_variables(graph):
    model = train.Model(graph, seed=5)
    weight = model.weight("w", [2, 3], train.Initializer.truncated_normal(0.1))
    assert model.weight("w", [2, 3]).value == weight.value and model.parameter_count == 6
    state, counter, rows = model.state("s", [2], 7.0), model.counter("c"), model.rows("r", [4, 2], 1.0)
    assert (weight.trainable, state.trainable, counter.dtype, rows.shape) == (True, False, "int64", (4, 2))
    assert [variable.name for variable in model.variables] == ["w", "s", "c", "r"] and "4 variables" in repr(model)
    session = tenon.Session(graph)
    session.run(model.initialize_all())
    assert session.run(state.value).tolist() == [7, 7] and 0 < abs(session.run(weight.value)).max() <= 0.2
    with pytest.raises(tenon.InvalidArgumentError, match="fully known"):
        model.weight("open", [None, 3])
    with pytest.raises(tenon.InvalidArgumentError, match="inputs="):
        model.dense("d", tenon.placeholder("float32"), 3)
    with pytest.raises(tenon.InvalidArgumentError, match="no setting 'decay'"):
        train.minimize(model, tenon.ops.Sum(weight.value, [0, 1]), 0.1, train.Adam(decay=1))
    with pytest.raises(tenon.Error):
        train.minimize(model, tenon.constant(1.0), 0.1)


def test_the_example_reads_digits(tmp_path):
    program = SOURCE / "sdk" / "examples" / "python" / "digits.py"
    assert len(program.read_text().splitlines()) <= 60
    out = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "digits")], capture_output=True, text=True, check=True
    ).stdout
    assert float(out.splitlines()[-1].split("%")[0]) >= 98, out
    assert (tmp_path / "digits" / "checkpoint").exists()
