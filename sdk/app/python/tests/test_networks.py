# SPDX-License-Identifier: Apache-2.0
"""Optimizers' options, clipping, learning rates, recurrent networks, losses over many classes, L-BFGS: that Python
reaches what sdk/app/train has and tests."""

import io
import math

import numpy as np
import pytest

import tenon
from tenon import ops, train


def begin(graph, model):
    session = tenon.Session(graph)
    session.run(model.initialize_all())
    return session


def parabola(optimizer, rate=0.1, **options):
    """What one weight, 1 at first, is after three steps of (w - 3)^2."""
    with tenon.Graph() as graph:
        model = train.Model()
        w = model.weight("w", (), 1.0)
        update = train.minimize(model, ops.Square(w.value - 3.0), rate, optimizer)
        session = begin(graph, model)
        for _ in range(3):
            session.run(update)
        return float(session.run(w.value))


def test_rmsprop_adadelta_and_clipping_by_hand():
    w, s = 1.0, 1.0
    for _ in range(3):
        g = 2 * (w - 3)
        s = 0.9 * s + 0.1 * g * g
        w -= 0.1 * g / math.sqrt(s + 1e-10)
    assert parabola(train.RMSProp()) == pytest.approx(w, rel=1e-5)
    w, s, u = 1.0, 0.0, 0.0
    for _ in range(3):
        g = 2 * (w - 3)
        s = 0.95 * s + 0.05 * g * g
        d = g * math.sqrt(u + 1e-8) / math.sqrt(s + 1e-8)
        u = 0.95 * u + 0.05 * d * d
        w -= d
    assert parabola(train.Adadelta(), 1.0) == pytest.approx(w, rel=1e-5)
    assert parabola(train.SGD(clip_norm=0.5)) == pytest.approx(1.15)
    assert parabola(train.SGD(clip_value=1.0)) == pytest.approx(1.3)
    assert parabola(train.SGD(clip_global_norm=0.25)) == pytest.approx(1.075)
    assert parabola(train.SGD(accumulate=3)) == pytest.approx(1.4)
    assert parabola(train.RMSProp(centered=True, momentum=0.5)) != parabola(train.RMSProp())


def test_settings_that_do_not_fit_are_said():
    with pytest.raises(tenon.InvalidArgumentError, match="no setting 'momentun'"):
        parabola(train.SGD(momentun=1))
    with pytest.raises(tenon.InvalidArgumentError, match="one way"):
        parabola(train.SGD(clip_norm=1.0, clip_value=1.0))
    with pytest.raises(tenon.InvalidArgumentError):
        parabola(train.SGD(clip_norm=-1.0))


def test_gradients_apart_from_what_applies_them():
    with tenon.Graph() as graph:
        model = train.Model()
        a, b, unused = model.weight("a", [2], 3.0), model.weight("b", (), 4.0), model.weight("unused", (), 1.0)
        gradients = train.dense_gradients(model, ops.Sum(a.value, [0]) * 3.0 + b.value * 4.0)
        assert gradients[2] is None
        clipped, norm = train.clip_by_global_norm(gradients, 1.0)
        assert clipped[2] is None
        by_norm, by_value = train.clip_by_norm(gradients, 2.0), train.clip_by_value(gradients, -1.0, 3.5)
        update = train.apply_gradients(model, clipped, 1.0, train.SGD())
        session = begin(graph, model)
        size = math.sqrt(34)
        got = session.run([clipped[0], clipped[1], norm, train.global_norm(gradients), by_norm[0], by_value[1]])
        for value, wanted in zip(got, ([3 / size] * 2, 4 / size, size, size, [math.sqrt(2)] * 2, 3.5)):
            np.testing.assert_allclose(value, wanted, rtol=1e-5)
        session.run(update)
        np.testing.assert_allclose(session.run(b.value), 4 - 4 / size, rtol=1e-5)
        with pytest.raises(tenon.InvalidArgumentError, match="no gradient"):
            train.clip_by_norm([None], 1.0)


@pytest.mark.parametrize(
    "rate, formula",
    [
        (train.constant_rate(0.5), lambda t: 0.5),
        (train.exponential_decay(0.5, 10, 0.9), lambda t: 0.5 * 0.9 ** (t / 10)),
        (train.exponential_decay(0.5, 10, 0.9, staircase=True), lambda t: 0.5 * 0.9 ** (t // 10)),
        (train.natural_exp_decay(0.5, 10, 0.9), lambda t: 0.5 * math.exp(-0.9 * t / 10)),
        (train.inverse_time_decay(0.5, 10, 0.9), lambda t: 0.5 / (1 + 0.9 * t / 10)),
        (train.piecewise_constant([5, 15], [1.0, 0.5, 0.1]), lambda t: 1.0 if t <= 5 else 0.5 if t <= 15 else 0.1),
        (train.polynomial_decay(0.5, 20, 0.1, 2.0), lambda t: 0.4 * (1 - min(t, 20) / 20) ** 2 + 0.1),
        (train.cosine_decay(0.5, 20, 0.1), lambda t: 0.5 * (0.9 * (1 + math.cos(math.pi * min(t, 20) / 20)) / 2 + 0.1)),
        (
            train.cosine_restarts(0.5, 5),
            lambda t: 0.5
            * (1 + math.cos(math.pi * (t / 5 if t < 5 else (t - 5) / 10 if t < 15 else (t - 15) / 20)))
            / 2,
        ),
        (train.warm_up(10, 0.5), lambda t: 0.05 * t if t < 10 else 0.5),
        (
            train.warm_up(10, train.cosine_decay(0.5, 20), 0.1),
            lambda t: 0.1 + 0.04 * t if t < 10 else 0.25 * (1 + math.cos(math.pi * min(t - 10, 20) / 20)),
        ),
    ],
)
def test_learning_rates(rate, formula):
    with tenon.Graph() as graph:
        step = tenon.placeholder("int64", [])
        made = rate(step)
        session = tenon.Session(graph)
        for t in (0, 3, 5, 10, 14, 22):
            np.testing.assert_allclose(session.run(made, {step: t}), formula(t), rtol=1e-5, atol=1e-7)


def test_a_rate_follows_the_step_that_the_trainer_counts():
    with tenon.Graph() as graph:
        model = train.Model()
        w = model.weight("w", (), 0.0)
        update = train.minimize(model, w.value * 1.0, train.piecewise_constant([2], [1.0, 0.25]), train.SGD())
        trainer = train.Trainer(model, loss=w.value * 1.0, update=update, steps=5)
        with tenon.Session(graph) as session:
            trainer.run(session)
            assert session.run(w.value) == pytest.approx(-3.5)  # steps 0, 1 and 2 at 1


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def test_cells_are_kerass_and_a_loop_of_them_is_steps():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 5, 2)).astype(np.float32)
    lengths = np.array([5, 2, 0], np.int32)
    with tenon.Graph() as graph:
        model = train.Model()
        inputs, of = tenon.placeholder("float32", [3, None, 2]), tenon.placeholder("int32", [3])
        cells = {
            "basic": train.basic_rnn_cell(model, "basic", 2, 4),
            "lstm": train.lstm_cell(model, "lstm", 2, 4),
            "gru": train.gru_cell(model, "gru", 2, 4),
        }
        assert repr(cells["lstm"]) == "<tenon.train.RnnCell 'lstm' of 2 inputs, states of 4, 4>" and cells[
            "gru"
        ].state_sizes == [4]
        rnns = {
            kind: train.dynamic_rnn(cell, inputs, sequence_length=of, name=kind + "_rnn")
            for kind, cell in cells.items()
        }
        session = begin(graph, model)
        weights = {kind: session.run(cell.weights) for kind, cell in cells.items()}
        got = {kind: session.run([rnn.outputs, *rnn.state], {inputs: x, of: lengths}) for kind, rnn in rnns.items()}

    def basic(e, state, k, r, b):
        return (np.tanh(e @ k + state[0] @ r + b),)

    def lstm(e, state, k, r, b):
        i, f, g, o = np.split(e @ k + state[0] @ r + b, 4)
        c = state[1] * sigmoid(f + 1) + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    def gru(e, state, k, r, b):
        (xz, xr, xg), (hz, hr, hg) = np.split(e @ k + b[0], 3), np.split(state[0] @ r + b[1], 3)
        z, reset = sigmoid(xz + hz), sigmoid(xr + hr)
        return (z * state[0] + (1 - z) * np.tanh(xg + reset * hg),)

    for kind, step in (("basic", basic), ("lstm", lstm), ("gru", gru)):
        for row in range(3):
            state = tuple(np.zeros(4) for _ in cells[kind].state_sizes)
            for t in range(5):
                if t < lengths[row]:
                    state = step(x[row, t], state, *weights[kind])
                np.testing.assert_allclose(
                    got[kind][0][row, t], state[0] if t < lengths[row] else np.zeros(4), rtol=1e-4, atol=1e-6
                )
            for found, wanted in zip(got[kind][1:], state):
                np.testing.assert_allclose(found[row], wanted, rtol=1e-4, atol=1e-6)


def test_a_cell_steps_in_the_body_of_a_scan_and_trains():
    with tenon.Graph() as graph:
        model = train.Model()
        x, first = tenon.placeholder("float32", [None, 3, 2]), tenon.placeholder(
            "float32", [None]
        )  # [time, batch, features]
        cell = train.gru_cell(model, "cell", 2, 8)
        zeros = np.zeros((3, 8), np.float32)
        scanned = tenon.scan(lambda state, e: cell.step(e, [state])[1][0], x, zeros)
        rnn = train.dynamic_rnn(cell, x, time_major=True)
        guess = model.dense("out", rnn.state[0], 1)
        loss = ops.Mean(ops.Square(ops.Squeeze(guess, squeeze_dims=[1]) - first), [0])
        update = train.minimize(model, loss, 0.02)
        session = begin(graph, model)
        rng = np.random.default_rng(2)
        a, b = session.run([scanned, rnn.outputs], {x: rng.normal(size=(4, 3, 2))})
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        step = session.prepare([loss, update], [x, first])
        losses = []
        for _ in range(300):  # remember the first number
            value = rng.uniform(-1, 1, (6, 3, 2)).astype(np.float32)
            losses.append(float(step(value, value[0, :, 0])[0]))
        assert np.mean(losses[-30:]) < 0.2 * np.mean(losses[:30])
        with pytest.raises(tenon.InvalidArgumentError, match="1 states; found 2"):
            cell.step(tenon.constant(np.zeros((3, 2))), [tenon.constant(zeros), tenon.constant(zeros)])


def test_a_cell_of_ones_own_is_one_as_well():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    with tenon.Graph() as graph:
        model = train.Model()
        keras = train.basic_rnn_cell(model, "keras", 3, 5)
        k, r, b = keras.weights
        inputs, of = tenon.placeholder("float32", [None, None, 3]), tenon.placeholder("int32", [None])

        def step(e, state):
            y = ops.Tanh(ops.BiasAdd(e @ k + state @ r, b))
            return y, y

        own = train.rnn_cell(model, "own", 3, [5], step)
        assert repr(own) == "<tenon.train.RnnCell 'own' of 3 inputs, states of 5>" and len(own.weights) == 3
        rnns = [train.dynamic_rnn(cell, inputs, sequence_length=of, reverse=True) for cell in (keras, own)]
        grads = [tenon.grad(ops.Sum(rnn.outputs * rnn.outputs, [0, 1, 2]), [inputs, r]) for rnn in rnns]
        by_hand = own.step(tenon.constant(x[:, 0]), own.zero_state(tenon.constant(2, "int32")))[0]
        session = begin(graph, model)
        a, b_, c, d, e, f, one = session.run(
            [*(rnn.outputs for rnn in rnns), *(g for pair in grads for g in pair), by_hand], {inputs: x, of: [4, 2]}
        )
        np.testing.assert_allclose(a, b_, rtol=1e-6)
        np.testing.assert_allclose(c, e, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(d, f, rtol=1e-5, atol=1e-7)
        weights = session.run(list(keras.weights))
        np.testing.assert_allclose(one, np.tanh(x[:, 0] @ weights[0] + weights[2]), rtol=1e-5)
        with pytest.raises(tenon.InvalidArgumentError, match="gives 1 values; it gives the output and 1 states"):
            train.rnn_cell(model, "half", 3, [5], lambda e, state: e @ k)
        with pytest.raises(tenon.InvalidArgumentError, match="0 states"):
            train.rnn_cell(model, "stateless", 3, [], lambda e: [e])


def test_a_loss_scale_grows_and_is_halved():
    with tenon.Graph() as graph:
        model = train.Model()
        w, factor = model.weight("w", (), 2.0), tenon.placeholder("float32", [])
        update = train.minimize(
            model,
            ops.Square(w.value) * factor,
            0.25,
            train.SGD(loss_scale="dynamic", loss_scale_first=8.0, loss_scale_growth=2),
        )
        scale = next(variable for variable in model.variables if variable.name == "loss_scale")
        session = begin(graph, model)
        seen = []
        for each in (1.0, 1.0, np.inf, 1.0):
            session.run(update, {factor: each})
            seen.append((float(session.run(scale.value)), float(session.run(w.value))))
        assert seen == [(8, 1), (16, 0.5), (8, 0.5), (8, 0.25)]
    with pytest.raises(tenon.InvalidArgumentError, match="loss_scale_growth is of loss_scale=\"dynamic\" alone"):
        parabola(train.SGD(loss_scale=8.0, loss_scale_growth=2))
    with pytest.raises(tenon.InvalidArgumentError, match="power of two"):
        parabola(train.SGD(loss_scale=3.0))
    assert parabola(train.SGD(loss_scale=8.0)) == pytest.approx(parabola(train.SGD()))


@pytest.mark.parametrize("partition", ["div", "mod"])
def test_losses_over_classes_in_shards(partition):
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(4, 3)).astype(np.float32), np.array([0, 6, 3, 5])
    with tenon.Graph() as graph:
        model = train.Model()
        shards = train.ClassShards(model, "classes", 7, 3, devices=["", "", ""], partition=partition)
        assert (
            shards.classes == 7
            and shards.width == 3
            and [w.shape[0] for w in shards.weights] == [3, 2, 2]
            and len(shards.biases) == 3
        )
        inputs, of = tenon.placeholder("float32", [None, 3]), tenon.placeholder("int64", [None])
        loss = train.sharded_softmax_loss(shards, inputs, of)
        given = train.Candidates(
            tenon.constant([1, 2, 4], "int64"),
            tenon.constant(np.full((4, 1), 0.5, np.float32)),
            tenon.constant(np.full(3, 0.5, np.float32)),
        )
        sampled, nce = train.sampled_softmax_loss(shards, inputs, of, candidates=given), train.nce_loss(
            shards, inputs, of, candidates=given
        )
        drawn = train.log_uniform_candidates(tenon.ops.ExpandDims(of, 1), 5, 7)
        update = train.minimize(model, ops.Mean(train.sampled_softmax_loss(shards, inputs, of, sampled=5), [0]), 0.05)
        session = begin(graph, model)
        weights = [session.run(w.value) for w in shards.weights]
        if partition == "div":
            whole = np.concatenate(weights)
        else:
            whole = np.stack([weights[c % 3][c // 3] for c in range(7)])
        got = session.run([loss, sampled, nce, drawn.sampled], {inputs: x, of: labels})
        logits = x @ whole.T
        np.testing.assert_allclose(
            got[0], np.log(np.exp(logits).sum(1)) - logits[range(4), labels], rtol=1e-4, atol=1e-5
        )
        chosen = logits - math.log(0.5)
        exps = np.exp(chosen)
        own = chosen[range(4), labels]
        np.testing.assert_allclose(got[1], np.log(np.exp(own) + exps[:, [1, 2, 4]].sum(1)) - own, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            got[2], np.log1p(np.exp(-own)) + np.log1p(exps[:, [1, 2, 4]]).sum(1), rtol=1e-4, atol=1e-5
        )
        assert len(set(got[3].tolist())) == 5 and got[3].max() < 7
        before = session.run(loss, {inputs: x, of: labels}).mean()
        for _ in range(60):
            session.run(update, {inputs: x, of: labels})
        assert session.run(loss, {inputs: x, of: labels}).mean() < 0.5 * before
        with pytest.raises(tenon.InvalidArgumentError, match="7"):
            session.run(loss, {inputs: x, of: [0, 1, 2, 7]})
    with pytest.raises(tenon.InvalidArgumentError, match="\"div\" or \"mod\""), tenon.Graph():
        train.ClassShards(train.Model(), "c", 7, 3, partition="other")


def rosenbrock(**options):
    graph = tenon.Graph()
    with graph:
        model = train.Model()
        w = model.weight("w", [2], -1.0)
        a, b = w.value[0], w.value[1]
        loss = ops.Square(1.0 - a) + 100.0 * ops.Square(b - a * a)
        lbfgs = train.Lbfgs(model, loss, **options)
        session = begin(graph, model)
    return lbfgs, session, w


def test_lbfgs_finds_the_bottom():
    seen = []
    lbfgs, session, w = rosenbrock(on_iteration=seen.append, gradient_tolerance=1e-3)
    result = lbfgs.run(session)
    assert (
        result.end in ("gradient", "no step")
        and result.iterations == len(seen) > 5
        and isinstance(seen[0], train.LbfgsResult)
    )
    np.testing.assert_allclose(session.run(w.value), [1, 1], atol=2e-3)


def test_lbfgs_ends_by_what_its_callback_raises_and_by_its_limit():
    def stop(result):
        if result.iterations == 3:
            raise KeyError("enough")

    lbfgs, session, w = rosenbrock(on_iteration=stop)
    with pytest.raises(KeyError, match="enough"):
        lbfgs.run(session)
    assert session.run(w.value)[0] != -1.0
    lbfgs, session, w = rosenbrock(max_iterations=4)
    assert lbfgs.run(session)[:2] == ("iterations", 4)
    with pytest.raises(tenon.InvalidArgumentError):
        rosenbrock(curvature=0.0)


def test_replicas_and_mirrors():
    with tenon.Graph() as graph:
        model = train.Model()
        x = tenon.placeholder("float32", [4])
        halves = [ops.StridedSlice(x, [2 * k], [2 * k + 2], [1]) for k in range(2)]
        w = model.weight("w", (), 1.0)
        losses = [ops.Mean(ops.Square(half * w.value), [0]) for half in halves]
        update = train.minimize_replicas(model, [train.Replica(loss) for loss in losses], 0.01, train.SGD())
        assert model.copy_to_mirrors() is None
        session = begin(graph, model)
        value = np.array([1, 2, 3, 4], np.float32)
        session.run(update, {x: value})
        np.testing.assert_allclose(session.run(w.value), 1 - 0.01 * 2 * np.mean(value**2), rtol=1e-5)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_line_that_changes_or_ten_lines():
    for file, seconds in ((Terminal(), 0.0), (io.StringIO(), 0.0), (Terminal(), 60.0)):
        with tenon.Graph() as graph:
            model = train.Model()
            w = model.weight("w", (), 1.0)
            loss = ops.Square(w.value)
            trainer = train.Trainer(
                model,
                loss=loss,
                metrics={"size": w.value * 1.0},
                update=train.minimize(model, loss, 0.01, train.SGD()),
                examples=4,
                steps=40,
                on_step=train.Progress(file, seconds),
            )
            trainer.run(tenon.Session(graph))
        text = file.getvalue()
        assert (
            "step 40 of 40  100%  loss " in text
            and "  size " in text
            and " examples/s" in text
            and text.endswith("\n")
            and "left" not in text.splitlines()[-1].split("\r")[-1]
        )
        if isinstance(file, Terminal):
            assert text.count("\r") == (40 if seconds == 0 else 2) and text.count("\n") == 1
        else:
            assert "\r" not in text and [int(line.split()[1]) for line in text.splitlines()] == [
                4,
                8,
                12,
                16,
                20,
                24,
                28,
                32,
                36,
                40,
            ]
