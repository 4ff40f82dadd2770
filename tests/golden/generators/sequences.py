# SPDX-License-Identifier: Apache-2.0
"""Cases of ops over sequences: recurrent layers and cells, and connectionist temporal classification."""
import numpy as np
import tensorflow as tf

from .draw import Case, op


def _lstm(d, t):
    """Weights and states of a layer: (time, batch, inputs, cells) and the arrays from cs_prev to b."""
    time, batch, inputs, cells = d.int(1, 4), d.int(1, 3), d.int(1, 4), d.int(1, 4)
    size = 0.6
    w = d.tensor(t, (inputs + cells, 4 * cells), -size, size)
    states = [d.tensor(t, (batch, cells), -1, 1) for _ in range(2)]
    peepholes = [d.tensor(t, (cells,), -1, 1) for _ in range(3)]
    return (time, batch, inputs, cells), [*states, w, *peepholes, d.tensor(t, (4 * cells,), -1, 1)]


@op("BlockLSTM", "BlockLSTMV2", count=30)
def block_lstm(d):
    t = d.dtype()
    (time, batch, inputs, _), rest = _lstm(d, t)
    attrs = {"use_peephole": d.chance(0.5), "cell_clip": d.pick([0.0, 3.0, 0.4, -1.0])}
    if d.op == "BlockLSTM":
        attrs["forget_bias"] = d.pick([1.0, 0.0, -0.5])
    # Behind seq_len_max TensorFlow writes cs and h alone, and where it is more than x has steps it ends the process.
    # The gradient that it registers for BlockLSTMV2 is that of BlockLSTM, whose gates stand in another order.
    steps = np.array(time, np.int64)
    return Case(
        [steps, d.tensor(t, (time, batch, inputs), -2, 2), *rest],
        attrs,
        gradients=d.op == "BlockLSTM",
        differentiated=(1, 6),
        disturb=False,
    )


@op("BlockLSTMGrad", "BlockLSTMGradV2", count=30)
def block_lstm_grad(d):
    t = d.dtype()
    (time, batch, inputs, cells), rest = _lstm(d, t)
    states = [d.tensor(t, (time, batch, cells), -0.95, 0.95) for _ in range(9)]
    steps = np.array(d.int(0, time) if d.chance(0.3) else time, np.int64)
    return Case(
        [steps, d.tensor(t, (time, batch, inputs), -2, 2), *rest, *states],
        {"use_peephole": d.chance(0.5)},
        disturb=False,
    )


@op("LSTMBlockCell", count=30)
def lstm_cell(d):
    t = d.dtype()
    (_, batch, inputs, _), rest = _lstm(d, t)
    attrs = {
        "use_peephole": d.chance(0.5),
        "cell_clip": d.pick([0.0, 3.0, 0.4, -1.0]),
        "forget_bias": d.pick([1.0, 0.0, -0.5]),
    }
    return Case([d.tensor(t, (batch, inputs), -2, 2), *rest], attrs)


@op("LSTMBlockCellGrad", count=30)
def lstm_cell_grad(d):
    t = d.dtype()
    (_, batch, inputs, cells), rest = _lstm(d, t)
    states = [d.tensor(t, (batch, cells), -0.95, 0.95) for _ in range(8)]
    return Case(
        [d.tensor(t, (batch, inputs), -2, 2), *rest, *states], {"use_peephole": d.chance(0.5)}, disturb=False
    )  # of which other ranks end TensorFlow's process


def _gru(d):
    batch, inputs, cells = d.int(1, 4), d.int(1, 4), d.int(1, 4)
    shapes = [
        (batch, inputs),
        (batch, cells),
        (inputs + cells, 2 * cells),
        (inputs + cells, cells),
        (2 * cells,),
        (cells,),
    ]
    return batch, cells, [d.tensor(tf.float32, shape, -1, 1) for shape in shapes]


@op("GRUBlockCell", count=25)
def gru_cell(d):
    return Case(_gru(d)[2])


@op("GRUBlockCellGrad", count=25)
def gru_cell_grad(d):
    batch, cells, inputs = _gru(d)
    return Case([*inputs, *(d.tensor(tf.float32, (batch, cells), -0.95, 0.95) for _ in range(4))])


def _lengths(d, time, batch, least=0):
    wrong = d.chance(0.06)
    return np.array([d.int(least, time) + (d.pick([1, -9]) if wrong and b == 0 else 0) for b in range(batch)], np.int32)


def _says_something(case):
    """Whether each sequence begins with a label: of nothing but blanks TensorFlow writes outside of its memory."""
    (x, indices, values, _) = case.inputs
    return all(value < x.shape[2] - 1 for (_, at), value in zip(indices, values) if at == 0)


@op("CTCLoss", count=40)
def ctc_loss(d):
    time, batch, classes = d.int(2, 8), d.int(1, 3), d.int(2, 6)
    lengths = _lengths(d, time, batch, 1)
    indices, values = [], []
    for b in range(batch):
        many = d.int(1, max(1, min(4, int(lengths[b]) + (1 if d.chance(0.15) else 0))))
        indices += [[b, i] for i in range(many)]
        values += [d.int(0, classes - 2) for _ in range(many)]
        if d.chance(0.1) and many > 1:
            values[-1] = d.pick([classes - 1, classes, -1])
    attrs = {
        name: True for name in ("preprocess_collapse_repeated", "ignore_longer_outputs_than_inputs") if d.chance(0.3)
    }
    if d.chance(0.2):
        attrs["ctc_merge_repeated"] = False
    x = d.tensor(d.dtype(), (time, batch, classes), -4, 4)
    if d.chance(0.05):
        x.flat[d.int(0, x.size - 1)] = -np.inf
    return Case(
        [x, np.array(indices, np.int64), np.array(values, np.int32), lengths],
        attrs,
        differentiated=(0,),
        answered=_says_something,
    )


def _logits(d, t, shape):
    """No two equal, by which an order could not be told."""
    return (
        d.random.permutation(int(np.prod(shape))).reshape(shape) * 0.07 + d.random.uniform(-0.03, 0.03, shape) - 2
    ).astype(t.as_numpy_dtype)


@op("CTCGreedyDecoder", count=25)
def greedy(d):
    time, batch, classes = d.int(1, 6), d.int(1, 4), d.int(1, 5)
    attrs = {"merge_repeated": d.chance(0.5)}
    if d.chance(0.5):
        attrs["blank_index"] = d.int(-classes - 1, classes)
    return Case([_logits(d, d.dtype(), (time, batch, classes)), _lengths(d, time, batch)], attrs)


@op("CTCBeamSearchDecoder", count=30)
def beam_search(d):
    time, batch, classes = d.int(1, 7), d.int(1, 3), d.int(1, 5)
    width = d.pick([1, 2, 3, 5, 20])
    attrs = {
        "beam_width": width,
        "top_paths": d.int(1, min(width, 3)) + (1 if d.chance(0.05) else 0),
        "merge_repeated": d.chance(0.5),
    }
    return Case([_logits(d, d.dtype(), (time, batch, classes)), _lengths(d, time, batch)], attrs)
