# SPDX-License-Identifier: Apache-2.0
"""Makes cases/recurrent.jsonl: what CudnnRNN must compute, which TensorFlow has on GPUs alone, as Keras' layers compute
it on the CPU.

    python3 make_recurrent.py > cases/recurrent.jsonl

Layers are stacked by hand, with Keras' weights packed in the order of cuDNN: all weights first, [gate, output, input],
then all biases. Keras has one bias where cuDNN has two, which get the same gradient; its GRU has two, and the order z,
r, h where cuDNN has r, z, h.
"""

import json
import sys

import numpy as np
import oracle
import tensorflow as tf

K = tf.keras.layers
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
ORDER = {"gru": [1, 0, 2]}  # of Keras' gates in cuDNN's


def layer_of(mode, cells, backward, dtype):
    common = {
        "return_sequences": True,
        "return_state": True,
        "go_backwards": backward,
        "dtype": dtype,
        "zero_output_for_mask": True,
    }
    if mode == "lstm":
        return K.LSTM(cells, **common)
    if mode == "gru":
        return K.GRU(cells, reset_after=True, **common)
    return K.SimpleRNN(cells, activation=mode[4:], **common)


def gates(mode, matrix):
    """Parts of the last dim, one a gate, in cuDNN's order."""
    parts = np.split(np.asarray(matrix), GATES[mode], axis=-1)
    return [parts[i] for i in ORDER.get(mode, range(len(parts)))]


def packed(mode, kernels):
    """kernels: (of the input, of the state, bias of the input, bias of the state) for each layer and direction."""
    weights = [
        part.T.ravel() for of_x, of_h, _, _ in kernels for matrix in (of_x, of_h) for part in gates(mode, matrix)
    ]
    biases = [part.ravel() for _, _, of_x, of_h in kernels for bias in (of_x, of_h) for part in gates(mode, bias)]
    return np.concatenate(weights + biases)


def case(random, op, mode, layers, directions, dtype, time_major, lengths):
    time, batch, inputs, cells = (int(random.integers(1, 5)) for _ in range(4))
    if lengths:
        time = max(time, 3)
    draw = lambda *shape: random.uniform(-1, 1, shape).astype(dtype)
    x = tf.constant(draw(batch, time, inputs))
    states = [
        [tf.constant(draw(batch, cells)) for _ in range(layers * directions)] for _ in range(2 if mode == "lstm" else 1)
    ]
    valid = random.integers(1, time + 1, batch) if lengths else np.full(batch, time)
    mask = tf.sequence_mask(valid, time) if lengths else None
    built, kernels = [], []
    for number in range(layers * directions):
        size = inputs if number < directions else cells * directions
        layer = layer_of(mode, cells, number % directions == 1, dtype)
        layer.build((batch, time, size))
        of_x, of_h = draw(size, GATES[mode] * cells), draw(cells, GATES[mode] * cells)
        biases = draw(2, GATES[mode] * cells)
        layer.set_weights([of_x, of_h, biases if mode == "gru" else biases.sum(0)])
        built.append(layer)
        kernels.append((of_x, of_h, *biases))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, *sum(states, [])])
        hidden, last = x, []
        for l in range(layers):
            parts = []
            for d in range(directions):
                number = l * directions + d
                y, *final = built[number](hidden, initial_state=[state[number] for state in states], mask=mask)
                parts.append(tf.reverse(y, [1]) if d else y)
                last.append(final)
            hidden = tf.concat(parts, -1)
        finals = [tf.stack([final[i] for final in last]) for i in range(len(states))]
        dys = [draw(*hidden.shape), *(draw(*one.shape) for one in finals)]
        loss = sum(tf.reduce_sum(y * dy) for y, dy in zip([hidden, *finals], dys))
    stacked = lambda values: np.stack(values, 0 if time_major else 1)
    steps = (lambda value: np.moveaxis(np.asarray(value), 0, 1)) if time_major else np.asarray
    placed = lambda value: np.asarray(value) if time_major else np.moveaxis(np.asarray(value), 0, 1)
    of_kernels = []
    for layer in built:
        of_x, of_h, bias = (np.asarray(tape.gradient(loss, weight.value)) for weight in layer.weights)
        of_kernels.append((of_x, of_h, *(bias if mode == "gru" else (bias, bias))))
    zero = np.zeros((), dtype)
    inputs_of_op = [steps(x), stacked(states[0]), stacked(states[1]) if mode == "lstm" else zero, packed(mode, kernels)]
    gradients = [
        steps(tape.gradient(loss, x)),
        *(stacked([tape.gradient(loss, one) for one in state]) for state in states),
    ]
    gradients += [] if mode == "lstm" else [zero]
    gradients.append(packed(mode, of_kernels))
    outputs = [steps(hidden), *(placed(one) for one in finals), *([] if mode == "lstm" else [zero]), np.zeros(0, dtype)]
    directions_of_outputs = [
        steps(dys[0]),
        *(placed(one) for one in dys[1:]),
        *([] if mode == "lstm" else [zero]),
        np.zeros(0, dtype),
    ]
    attrs = {"T": {"type": "float" if dtype == "float32" else "double"}, "rnn_mode": {"text": mode}}
    if directions == 2:
        attrs["direction"] = {"text": "bidirectional"}
    if op != "CudnnRNN":
        outputs.append(np.zeros(0, np.int8))
        directions_of_outputs.append(None)
    if op == "CudnnRNNV3":
        inputs_of_op.append(valid.astype(np.int32))
        if not time_major:
            attrs["time_major"] = {"bool": False}
    written = lambda values: [
        None if one is None else oracle.tensor(one.astype(dtype) if one.dtype.kind == "f" else one) for one in values
    ]
    return {
        "op": op,
        "attrs": attrs,
        "in": written(inputs_of_op),
        "out": written(outputs),
        "asked": [0, 1, 2, 3] if mode == "lstm" else [0, 1, 3],
        "dy": written(directions_of_outputs),
        "dx": written(gradients if mode == "lstm" else gradients[:2] + gradients[3:]),
    }


def main():
    random = np.random.default_rng(20260101)
    for number in range(48):
        op = ["CudnnRNNV3", "CudnnRNN", "CudnnRNNV3", "CudnnRNNV2"][number % 4]
        mode = list(GATES)[number // 2 % 4]
        third = op == "CudnnRNNV3"
        line = case(
            random,
            op,
            mode,
            layers=1 + number % 3,
            directions=1 + number // 8 % 2,
            dtype="float64" if number % 5 == 0 else "float32",
            time_major=not third or number % 3 > 0,
            lengths=third and number // 4 % 2 == 0,
        )
        json.dump(line, sys.stdout, separators=(",", ":"))
        print()


main()
