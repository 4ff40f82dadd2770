# SPDX-License-Identifier: Apache-2.0
"""fold, scan, map_with_state: values, forms, gradients, errors. map is in test_functions.py. Covers L9."""

import numpy as np
import pytest

import tenon
from tenon import ops

X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


@pytest.mark.parametrize("reverse", [False, True])
def test_folds_and_scans_are_numpys(run, graph, reverse):
    x = tenon.placeholder("float32", [None], name="x")
    step = lambda s, e: s * 0.5 + e
    folded, scanned = tenon.fold(step, x, 10.0, reverse=reverse), tenon.scan(step, x, 10.0, reverse=reverse)
    bare_fold, bare_scan = tenon.fold(step, x, reverse=reverse), tenon.scan(step, x, reverse=reverse)
    got = run([folded, scanned, bare_fold, bare_scan], {x: X})
    order = range(3, -1, -1) if reverse else range(4)

    def expected(state, elements):
        all_states = np.zeros(4, np.float32)
        for i in order:
            if state is None:
                state = X[i]
            elif i in elements:
                state = state * 0.5 + X[i]
            all_states[i] = state
        return state, all_states

    for (last, states), i in ((expected(10.0, range(4)), 0), (expected(None, range(4)), 2)):
        np.testing.assert_allclose(got[i], last)
        np.testing.assert_allclose(got[i + 1], states)


def test_several_xs_and_states_keep_their_form(run, graph):
    x, n = tenon.placeholder("float32", [4, 2]), tenon.placeholder("int32", [4])

    def step(state, e, k):
        assert isinstance(state, tuple) and e.shape == (2,)
        total, count = state
        return total + e * ops.Cast(k, DstT="float32"), count + k

    folded = tenon.fold(step, [x, n], (np.zeros(2, np.float32), 0))
    scanned = tenon.scan(step, (x, n), (np.zeros(2, np.float32), 0))
    assert isinstance(folded, tuple) and isinstance(scanned, tuple) and scanned[0].shape == (None, 2)
    a, b = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([1, 2, 3, 4], np.int32)
    got = run([*folded, *scanned], {x: a, n: b})
    sums = np.cumsum(a * b[:, None], 0)
    for value, wanted in zip(got, (sums[-1], 10, sums, np.cumsum(b))):
        np.testing.assert_array_equal(value, wanted)


def test_map_with_state_gives_the_state_and_what_is_stacked(run, graph):
    x = tenon.placeholder("float32", [None])
    state, y = tenon.map_with_state(lambda s, e: (s + e, s * e), x, 1.0)
    state2, (y2, z2) = tenon.map_with_state(lambda s, e: ([s[0] + e], (s[0], ops.Cast(e, DstT="int32"))), x, [1.0])
    got = run([state, y, state2[0], y2, z2], {x: X})
    before = np.array([1, 2, 4, 7], np.float32)
    for value, wanted in zip(got, (11, before * X, 11, before, X)):
        np.testing.assert_array_equal(value, wanted)


def test_gradients_go_to_elements_first_states_and_captures(run, graph):
    x, s, w = tenon.placeholder("float64", [4]), tenon.placeholder("float64", []), tenon.placeholder("float64", [])
    scanned = tenon.scan(lambda state, e: state * w + e, x, s)
    folded = tenon.fold(lambda state, e: state * w + e, x)
    gradients = tenon.grad(ops.Sum(scanned, [0]) + folded, [x, s, w])
    feeds = {x: X.astype(np.float64), s: 2.0, w: 0.7}
    got = run(gradients, feeds)

    def loss(xs, first, weight):
        state, total = first, 0.0
        for e in xs:
            state = state * weight + e
            total += state
        state = xs[0]
        for e in xs[1:]:
            state = state * weight + e
        return total + state

    for index, (key, at) in enumerate([(0, i) for i in range(4)] + [(1, None), (2, None)]):
        values = [np.array(v, dtype=np.float64) for v in feeds.values()]
        moved = []
        for h in (1e-6, -1e-6):
            changed = [v.copy() for v in values]
            changed[key][... if at is None else at] += h
            moved.append(loss(*changed))
        numeric = (moved[0] - moved[1]) / 2e-6
        np.testing.assert_allclose(got[key] if at is None else got[key][at], numeric, rtol=1e-5)


def test_no_elements(run, graph):
    x = tenon.placeholder("float32", [None])
    folded, scanned = tenon.fold(lambda s, e: s + e, x, 3.0), tenon.scan(lambda s, e: s + e, x, 3.0)
    got = run([folded, scanned], {x: np.zeros(0, np.float32)})
    assert got[0] == 3.0 and got[1].shape == (0,)
    with pytest.raises(tenon.InvalidArgumentError, match="there is no first element to begin with"):
        run(tenon.fold(lambda s, e: s + e, x), {x: np.zeros(0, np.float32)})


def test_what_does_not_fit_is_said(run, graph):
    x, y, scalar = (
        tenon.placeholder("float32", [4]),
        tenon.placeholder("float32", [3]),
        tenon.placeholder("float32", []),
    )
    free = tenon.placeholder("float32", [None])
    add = lambda s, *e: s + e[0]
    for make, words in (
        (lambda: tenon.fold(add, scalar, 0.0), "x 0 is a scalar"),
        (lambda: tenon.scan(add, [x, y], 0.0), "xs of 3 and 4 elements"),
        (lambda: tenon.fold(add, [], 0.0), "nothing to go over"),
        (
            lambda: tenon.fold(lambda s, e: ops.Cast(s, DstT="int32"), x, 0.0),
            r"the states are \(float32\); the function gives \(int32\)",
        ),
        (
            lambda: tenon.scan(lambda s, e: ops.Pack([s, s]), x, 0.0),
            r"state 0 begins with the shape \(\) and would go on with \(2,\)",
        ),
        (lambda: tenon.scan(lambda s, e: (s[0],), x, (0.0, 1.0)), "the function gives"),
        (lambda: tenon.map_with_state(lambda s, e: s, x, 0.0), "gives a pair"),
    ):
        with pytest.raises(tenon.InvalidArgumentError, match=words):
            make()
    with pytest.raises(tenon.InvalidArgumentError, match="differently many elements"):
        run(tenon.fold(lambda s, a, b: s + a + b, [x, free], 0.0), {x: X, free: X[:2]})
