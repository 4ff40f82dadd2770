# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, and connectionist temporal classification."""
import numpy as np

from .inputs import cases


def sizes(i):
    """Steps, texts, inputs, cells."""
    return i.pick((2, 1, 4, 4), (8, 8, 32, 32), (16, 32, 128, 128))


def layer(i):
    _, batch, inputs, cells = sizes(i)
    return [
        i.floats((batch, cells)),
        i.floats((batch, cells)),
        i.floats((inputs + cells, 4 * cells), -0.1, 0.1),
        *(i.floats((cells,)) for _ in range(3)),
        i.floats((4 * cells,)),
    ]


def over_time(i):
    time, batch, inputs, _ = sizes(i)
    return [np.int64(time), i.floats((time, batch, inputs)), *layer(i)]


def states(i, many, steps=True):
    time, batch, _, cells = sizes(i)
    return [i.floats((time, batch, cells) if steps else (batch, cells), -0.9, 0.9) for _ in range(many)]


cases("BlockLSTM", over_time, forget_bias=1.0, cell_clip=-1.0)
cases("BlockLSTMV2", over_time, cell_clip=-1.0)
cases("BlockLSTMGrad BlockLSTMGradV2", lambda i: over_time(i) + states(i, 9), use_peephole=False)
cases("LSTMBlockCell", lambda i: [i.floats(sizes(i)[1:3]), *layer(i)], forget_bias=1.0)
cases("LSTMBlockCellGrad", lambda i: [i.floats(sizes(i)[1:3]), *layer(i), *states(i, 8, False)], use_peephole=False)


def gru(i):
    _, batch, inputs, cells = sizes(i)
    return [
        i.floats(shape, -0.3, 0.3)
        for shape in (
            (batch, inputs),
            (batch, cells),
            (inputs + cells, 2 * cells),
            (inputs + cells, cells),
            (2 * cells,),
            (cells,),
        )
    ]


cases("GRUBlockCell", gru)
cases("GRUBlockCellGrad", lambda i: gru(i) + states(i, 4, False))


# Classification over time: steps, texts, classes.
def heard(i):
    return i.pick((4, 1, 5), (64, 4, 32), (256, 32, 64))


def labels(i):
    time, batch, classes = heard(i)
    many = time // 4
    places = np.stack(np.meshgrid(np.arange(batch), np.arange(many), indexing="ij"), -1).reshape(-1, 2).astype(np.int64)
    return [i.read(places), i.ints((batch * many,), classes - 2, 1)]


def lengths(i):
    return i.read(np.full(heard(i)[1], heard(i)[0], np.int32))


cases("CTCLoss", lambda i: [i.floats(heard(i), -3, 3), *labels(i), lengths(i)])
cases("CTCGreedyDecoder", lambda i: [i.floats(heard(i), -3, 3), lengths(i)])
cases(
    "CTCBeamSearchDecoder",
    lambda i: [
        i.floats(i.pick((4, 1, 5), (16, 2, 16), (32, 8, 32)), -3, 3),
        i.read(np.full(i.pick(1, 2, 8), i.pick(4, 16, 32), np.int32)),
    ],
    beam_width=8,
    top_paths=1,
)
