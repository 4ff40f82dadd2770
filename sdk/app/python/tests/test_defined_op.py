# SPDX-License-Identifier: Apache-2.0
"""Ops that Python defines: kernels, shapes, gradients, attributes, errors, threads, and functions of apache-tvm-ffi."""

import gc
import os
import threading
import traceback
import weakref

import numpy as np
import pytest

import tenon

FLOATS = "T: {float, double}"


@tenon.op(
    inputs="x: T, y: T",
    outputs="z: T",
    attrs=FLOATS,
    shape="x",
    gradient=lambda x, y, dz: (dz * x / np.hypot(x, y), dz * y / np.hypot(x, y)),
)
def hypot(x, y):
    """The longest side."""
    return np.hypot(x, y)


def run(fetch, feeds=None, graph=None):
    return tenon.Session(graph or (fetch[0] if isinstance(fetch, list) else fetch).graph).run(fetch, feeds or {})


def test_a_function_is_an_op():
    with tenon.Graph():
        x, y = tenon.placeholder("float32", [None]), tenon.placeholder("float32", [2])
        z = hypot(x, y)
        assert z.op.type == "Python>hypot" and z.dtype == tenon.float32 and z.shape == (None,)
        got = run(z, {x: [3.0, 5.0], y: [4.0, 12.0]})
    np.testing.assert_allclose(got, [5.0, 13.0])
    assert got.dtype == np.float32
    assert "longest side" in tenon.ops.Python_hypot.__doc__
    assert repr(hypot).startswith("<tenon.DefinedOp Python>hypot(x: T, y: T)")


def test_constants_take_the_type_of_the_other_input_and_it_is_computed_before_the_step():
    with tenon.Graph():
        assert run(hypot(np.float64(3.0), 4.0)) == 5.0


def test_its_gradient_is_the_function_that_it_names():
    with tenon.Graph():
        x, y = tenon.placeholder("float64", [3]), tenon.placeholder("float64", [3])
        dx, dy = tenon.grad(tenon.ops.Square(hypot(x, y)), [x, y])
        a, b = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
        got = run([dx, dy], {x: a, y: b})
    np.testing.assert_allclose(got[0], 2 * a)
    np.testing.assert_allclose(got[1], 2 * b)


def test_a_gradient_that_is_none_is_zero_and_integers_have_none():

    @tenon.op(
        inputs="x: float, n: int32, w: float",
        outputs="y: float",
        shape="x",
        gradient=lambda x, n, w, dy: (dy * n, None),
    )
    def times(x, n, w):
        return x * n

    with tenon.Graph():
        x, n, w = tenon.placeholder("float32", [2]), tenon.placeholder("int32", []), tenon.placeholder("float32", [2])
        gradients = tenon.grad(times(x, n, w), [x, w])
        got = run(gradients, {x: [1.0, 2.0], n: 3, w: [7.0, 7.0]})
    np.testing.assert_array_equal(got[0], [3.0, 3.0])
    np.testing.assert_array_equal(got[1], [0.0, 0.0])


def test_without_a_gradient_asking_for_one_names_the_op_and_false_is_no_error():
    @tenon.op(inputs="x: float", outputs="y: float")
    def hard(x):
        return x

    @tenon.op(inputs="x: float", outputs="y: float", gradient=False)
    def stop(x):
        return x

    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        with pytest.raises(tenon.Error, match="Python>hard"):
            tenon.grad(hard(x), x)
        assert tenon.grad(stop(x) + x, x)[0] is not None


def test_attributes_come_by_name():
    seen = {}

    @tenon.op(
        name="Test>Attributes",
        inputs="x: T",
        outputs="y: T",
        shape="x",
        attrs="T: {float, int32}; i: int = 2; f: float = 0.5; b: bool = true; s: string = 'é'; l: list(int) = [1, 2]; d: type = DT_INT64; h: shape = [2, ?]",
    )
    def scale(x, i, **others):
        seen.update(others, i=i)
        return x * i

    with tenon.Graph():
        x = tenon.placeholder("int32", [2])
        np.testing.assert_array_equal(run(scale(x, i=3, l=[5]), {x: [1, 2]}), [3, 6])
    assert seen == {"T": tenon.int32, "i": 3, "f": 0.5, "b": True, "s": "é", "l": [5], "d": tenon.int64, "h": (2, None)}


def test_it_says_what_it_does_to_elements():
    @tenon.op(inputs="x: float", outputs="y: float", shape="x", properties="elementwise, keeps_nan")
    def halve(x):
        return x / 2

    assert tenon.default_runtime().op("Python>halve").properties == "elementwise, keeps_nan"
    assert tenon.default_runtime().op("Python>hypot").properties == ""
    with pytest.raises(tenon.Error, match="'magic' is none that this host knows"):
        tenon.op(lambda x: x, name="Python>magic", inputs="x: float", outputs="y: float", properties="magic")


def test_lists_of_inputs_and_outputs():
    @tenon.op(inputs="xs: N * float, rest: Ts", outputs="sum: float, same: Ts", attrs="N: int >= 1; Ts: list(type)")
    def gather(xs, rest):
        assert isinstance(xs, list) and isinstance(rest, list)
        return sum(xs), rest

    with tenon.Graph():
        a, b = tenon.placeholder("float32", []), tenon.placeholder("float32", [])
        made = gather([a, b], [tenon.constant("word"), tenon.constant(7)])
        total, word, number = run([made.sum, *made.same], {a: 1.0, b: 2.0})
    assert total == 3.0 and word.item() == b"word" and number == 7


def test_strings_both_ways():
    @tenon.op(inputs="x: string", outputs="y: string, n: int64", shape=["x", "x"])
    def upper(x):
        return np.array([s.upper() for s in x.ravel()], object).reshape(x.shape), [[len(s) for s in row] for row in x]

    with tenon.Graph():
        x = tenon.placeholder("string", [None, None])
        made = upper(x)
        text, size = run([made.y, made.n], {x: [["ab", "c\0d"], ["", "é"]]})
    assert (
        text.tolist() == [[b"AB", b"C\0D"], [b"", "é".encode().upper()]]
        and size.tolist() == [[2, 3], [0, 2]]
        and size.dtype == np.int64
    )


def test_no_input_no_output_and_state():
    calls = []

    @tenon.op(inputs="", outputs="n: int64", shape=lambda: (), stateful=True)
    def counter():
        calls.append(1)
        return len(calls)

    @tenon.op(inputs="x: int64", outputs="", stateful=True)
    def note(x):
        calls.append(int(x))

    with tenon.Graph() as graph:
        n = counter()
        noted = note(tenon.constant(40, "int64"))
        session = tenon.Session(graph)
        assert session.run(n) == 1 and session.run(n) == 2
        session.run(noted)
        assert calls == [1, 1, 40]


def test_a_function_says_the_shapes():

    @tenon.op(
        inputs="x: float",
        outputs="y: float, n: int32",
        attrs="times: int = 2",
        shape=lambda x, times: (None if x is None else (*x, times), ()),
    )
    def repeat(x, times):
        return np.repeat(x[..., None], times, -1), x.size

    with tenon.Graph():
        x = tenon.placeholder("float32", [3, None])
        y, n = repeat(x, times=4)
        assert y.shape == (3, None, 4) and n.shape == ()
        assert repeat(tenon.placeholder("float32")).y.shape is None
        got = run([y, n], {x: np.ones((3, 2))})
        assert got[0].shape == (3, 2, 4) and got[1] == 6


def test_a_value_that_is_not_of_the_shape_or_type_that_was_promised_is_an_error():
    @tenon.op(inputs="x: float", outputs="y: float", shape="x", name="Test>Liar")
    def liar(x):
        return np.ones(5)

    @tenon.op(inputs="x: float", outputs="y: int32", name="Test>Fraction")
    def fraction(x):
        return 0.5

    with tenon.Graph():
        x = tenon.placeholder("float32", [2])
        with pytest.raises(tenon.Error, match="Test>Liar|Liar"):
            run(liar(x), {x: [1.0, 2.0]})
        with pytest.raises(tenon.InvalidArgumentError, match="Test>Fraction.*output 0 is int32"):
            run(fraction(x), {x: [1.0, 2.0]})


@pytest.mark.parametrize(
    "raised, caught, words",
    [
        (
            ZeroDivisionError("no"),
            tenon.InvalidArgumentError,
            r"ZeroDivisionError: no \(test_defined_op.py, line \d+, in fail\)",
        ),
        (KeyError("k"), tenon.NotFoundError, "KeyError: 'k'"),
        (RuntimeError("odd"), tenon.UnknownError, "RuntimeError: odd"),
        (tenon.UnavailableError("later"), tenon.UnavailableError, "later"),
    ],
)
def test_what_it_raises_is_the_steps_error(raised, caught, words):
    @tenon.op(inputs="x: float", outputs="y: float", name="Test>Fails" + type(raised).__name__)
    def fail(x):
        raise raised

    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        with pytest.raises(caught, match=words) as error:
            run(fail(x, name="here"), {x: 1.0})
    assert error.value.op == fail.name and error.value.node == "here"


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit("no")])
@pytest.mark.parametrize("in_thread", [False, True])
def test_what_is_no_error_ends_the_step_and_is_what_it_is(raised, in_thread):
    @tenon.op(inputs="x: float", outputs="y: float", name=f"Test>Ends{type(raised).__name__}{in_thread}")
    def end(x):
        if x > 0:
            raise raised
        return x

    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        y = end(x) + 1.0
        session = tenon.Session(graph)
        caught = []

        def call():
            try:
                session.run(y, {x: 1.0})
            except BaseException as error:  # pylint: disable=broad-exception-caught
                caught.append(error)

        if in_thread:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        else:
            call()
        assert caught == [raised]
        assert session.run(y, {x: -1.0}) == 0.0


# ---- What it raises is the error's __cause__ ----


class Held:
    """Something that a frame keeps."""


def lines_of(error):
    """The names of the functions in its traceback."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def failing(name, held=None, wait=None, **options):
    """An op of which each run fails, with the value that it got, and whose frame keeps a Held that `held` gets a weak
    reference to."""

    @tenon.op(inputs="x: float", outputs="y: float", name=name, **options)
    def fail(x):
        kept = Held()
        if held is not None:
            held.append(weakref.ref(kept))
        if wait is not None:
            wait()
        raise ZeroDivisionError(f"no {float(x):g}")

    return fail


def all_gone(held):
    gc.collect()
    return [ref() for ref in held] == [None] * len(held)


def test_what_it_raises_is_the_errors_cause_and_goes_with_it():
    held = []
    fail = failing("Test>Caused", held)
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        y = fail(x)
        session = tenon.Session(graph)
        for call in (lambda: session.run(y, {x: 3.0}), lambda: session.prepare(y, [x])(3.0)):
            with pytest.raises(tenon.InvalidArgumentError) as caught:
                call()
            cause = caught.value.__cause__
            assert type(cause) is ZeroDivisionError and cause.args == ("no 3",) and lines_of(cause)[-1] == "fail"
            assert (
                "ZeroDivisionError: no 3"
                in "".join(
                    traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__)
                ).split("direct cause")[0]
            )
            assert held[-1]() is not None  # as the error lives
            del cause, caught
            assert all_gone(held)
        with pytest.raises(tenon.Error) as caught:  # an error of another kind has none
            session.run("nowhere", {x: 3.0})
        assert caught.value.__cause__ is None


def test_of_several_failures_the_one_that_is_told_is_the_cause_and_none_stays():
    held = []
    meet = threading.Barrier(2)

    def wait():
        try:
            meet.wait(1)  # for the other one, where there is a thread for it
        except threading.BrokenBarrierError:
            pass

    fail = failing("Test>Several", held, wait)
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [2])
        ys = [fail(x[i], name=f"fails{i}") for i in range(2)]
        session = tenon.Session(graph, executor="dynamic")  # both at once
        for _ in range(5):
            meet.reset()
            with pytest.raises(tenon.InvalidArgumentError) as caught:
                session.run(ys, {x: [0.0, 1.0]})
            assert str(caught.value.__cause__) == "no " + caught.value.node[-1]
            del caught
            assert all_gone(held)


def test_each_thread_gets_the_cause_of_its_own_failure():
    held, wrong = [], []
    fail = failing("Test>Threads", held)
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        step = tenon.Session(graph).prepare(fail(x), [x])

    def work(first):
        for i in range(first, first + 50):
            try:
                step(float(i))
                wrong.append("no failure")
            except tenon.InvalidArgumentError as error:
                if error.__cause__ is None or error.__cause__.args != (f"no {i}",):
                    wrong.append((i, error, error.__cause__))

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(held) == 200 and all_gone(held)


def test_causes_of_gradients_shapes_sessions_inside_and_training():
    def slope(x, dy):
        raise RuntimeError("steep")

    @tenon.op(inputs="x: float", outputs="y: float", name="Test>Steep", gradient=slope, shape="x")
    def steep(x):
        return x

    def no_shape(x):
        raise RuntimeError("shapeless")

    shapeless = tenon.op(lambda x: x, inputs="x: float", outputs="y: float", name="Test>Shapeless", shape=no_shape)
    fail = failing("Test>Inner")
    with tenon.Graph() as inner:
        a = tenon.placeholder("float32", [])
        inside = tenon.Session(inner).prepare(fail(a), [a])
    outer = tenon.op(lambda x: inside(x), inputs="x: float", outputs="y: float", name="Test>Outer")
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        with pytest.raises(tenon.UnknownError, match="steep") as caught:
            run(tenon.grad(steep(x), x)[0], {x: 1.0})
        assert str(caught.value.__cause__) == "steep" and lines_of(caught.value.__cause__)[-1] == "slope"
        with pytest.raises(tenon.UnknownError, match="shapeless") as caught:
            shapeless(x)
        assert str(caught.value.__cause__) == "shapeless"
        with pytest.raises(tenon.InvalidArgumentError, match="no 7") as caught:
            run(outer(x), {x: 7.0})
        assert (
            type(caught.value.__cause__) is tenon.InvalidArgumentError
            and type(caught.value.__cause__.__cause__) is ZeroDivisionError
        )
    with tenon.Graph() as graph:
        model = tenon.train.Model()
        w, x = model.weight("w", (), 1.0), tenon.placeholder("float32", [])
        loss = w.value * 1.0
        checked = failing("Test>Trained")(x)
        trainer = tenon.train.Trainer(
            model,
            loss=loss,
            metrics={"checked": checked},
            update=tenon.train.minimize(model, loss, 0.1),
            feeds=[x],
            feed=lambda step: [float(step)],
            steps=3,
        )
        with pytest.raises(tenon.InvalidArgumentError, match="no ") as caught:
            trainer.run(tenon.Session(graph))
        assert type(caught.value.__cause__) is ZeroDivisionError


def test_an_interrupt_within_it_ends_the_step():
    @tenon.op(inputs="x: float", outputs="y: float", name="Test>Interrupted")
    def interrupted(x):
        raise KeyboardInterrupt

    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        y = interrupted(x)
        with pytest.raises(KeyboardInterrupt):
            tenon.Session(graph).run(y, {x: 1.0})
        assert run(x + 1.0, {x: 1.0}) == 2.0


@pytest.mark.parametrize("given, words", [
    (dict(inputs="x: nonsense", outputs="y: float"), "nonsense"),
    (dict(inputs="x: float", outputs="y: float", shape="z"), "shape names 'z'.*inputs: x"),
    (dict(inputs="x: float", outputs="y: float", shape=["x", "x"]), "2 inputs for 1 outputs"),
    (dict(inputs="x: float", outputs="y: float", name="no spaces here"), "no spaces here"),
    (dict(inputs="x: float", outputs="y: float", name="MatMul"), "MatMul"),
])
def test_definitions_that_do_not_hold(given, words):
    with pytest.raises(tenon.Error, match=words):
        tenon.op(lambda x: x, **{"name": "Test>Wrong", **given})
    with tenon.Graph() as graph:
        with pytest.raises(tenon.NotFoundError):
            graph.add_node("Test>Wrong", [tenon.constant(1.0)])


def test_a_shape_function_may_not_change_a_graph():
    made = tenon.op(
        lambda x: x,
        name="Test>Builds",
        inputs="x: float",
        outputs="y: float",
        shape=lambda x: tenon.ops.Shape(tenon.constant(1.0)),
    )
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [2])
        count = graph.node_count
        with pytest.raises(tenon.FailedPreconditionError, match="Test>Builds.*no graph can change"):
            made(x)
        assert graph.node_count == count and tenon.ops.Neg(x).shape == (2,)


def test_a_function_that_is_run_before_the_step_may_run_the_same_session():
    sessions = []
    nested = tenon.op(
        lambda x: sessions[0].run(sessions[1]) + x, name="Test>Same", inputs="x: float", outputs="y: float", shape="x"
    )
    with tenon.Graph() as graph:
        other = tenon.constant(2.0) * 3.0
        y = nested(tenon.constant(1.0))
        sessions += [tenon.Session(graph), other]
        assert sessions[0].run(y) == 7.0


def test_a_list_has_no_gradient_and_something_else_is_no_function():
    with pytest.raises(tenon.UnimplementedError, match="'xs' is a list"):
        tenon.op(
            lambda xs: xs[0],
            name="Test>List",
            inputs="xs: N * float",
            outputs="y: float",
            attrs="N: int >= 1",
            gradient=lambda *_: None,
        )
    with pytest.raises(tenon.InvalidArgumentError, match="found 3"):
        tenon.op(3, inputs="", outputs="y: float")


def define(value):
    @tenon.op(inputs="x: float", outputs="y: float", name="Test>Again", gradient=lambda x, dy: dy)
    def again(x):
        return x + value

    return again


def test_a_name_that_is_defined_again_takes_the_old_ones_place():
    first = define(1.0)
    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        assert run(first(x), {x: 0.0}) == 1.0
    gc.collect()
    second = define(2.0)
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        y = second(x)
        assert run(y, {x: 0.0}) == 2.0
        with pytest.raises(tenon.FailedPreconditionError, match="defined again"):
            first(x)
        step = tenon.Session(graph).prepare(y, [x])
        assert step(0.0) == 2.0
        with pytest.raises(
            tenon.FailedPreconditionError, match="'Test>Again' cannot be defined again: a session uses it"
        ):
            define(3.0)
        assert step(1.0) == 3.0


def test_a_definition_that_does_not_hold_leaves_the_former_one():
    kept = tenon.op(lambda x: x * 3, name="Test>Kept", inputs="x: float", outputs="y: float")
    with pytest.raises(tenon.Error, match="nonsense"):
        tenon.op(lambda x: x, name="Test>Kept", inputs="x: nonsense", outputs="y: float")
    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        assert run(kept(x), {x: 2.0}) == 6.0


def test_its_function_goes_when_it_was_replaced():
    class Held:
        pass

    def make():
        held = Held()
        tenon.op(lambda x: (held, x)[1], inputs="x: float", outputs="y: float", name="Test>Held")
        return weakref.ref(held)

    held = make()
    gc.collect()
    assert held() is not None  # the op is still there
    tenon.op(lambda x: x, inputs="x: float", outputs="y: float", name="Test>Held")
    gc.collect()
    assert held() is None


def test_it_goes_to_every_runtime_that_has_a_graph_with_it():
    other = tenon.Runtime(threads=1)
    with tenon.Graph(other) as graph:
        x = tenon.placeholder("float32", [])
        assert run(hypot(x, 4.0), {x: 3.0}) == 5.0
        written = graph.graph_def()
    read = tenon.Graph.from_graph_def(written)  # the default runtime knows it
    node = next(operation for operation in read.operations if operation.type == hypot.name)
    assert tenon.Session(read).run(node.outputs[0], {node.inputs[0]: 3.0}) == 5.0
    with pytest.raises(tenon.NotFoundError, match="Python>hypot"):
        tenon.Graph.from_graph_def(written, tenon.Runtime(threads=1))


def test_arrays_that_it_keeps_stay_as_they_were():
    kept = []

    @tenon.op(inputs="x: float", outputs="y: float", shape="x")
    def keep(x):
        kept.append(x)
        with pytest.raises(ValueError):
            x[0] = 1.0
        return x

    with tenon.Graph():
        x = tenon.placeholder("float32", [1000])
        y = keep(x * 2.0) + 1.0
        session = tenon.Session(y.graph)
        for i in range(5):
            session.run(y, {x: np.full(1000, i, np.float32)})
    assert [array[0] for array in kept] == [0.0, 2.0, 4.0, 6.0, 8.0] and all(
        (array == array[0]).all() for array in kept
    )


def test_many_threads_and_a_session_inside():
    with tenon.Graph() as inner:
        a = tenon.placeholder("float32", [])
        b = a * 2.0
    inside = tenon.Session(inner)

    @tenon.op(inputs="x: float", outputs="y: float", shape="x")
    def nested(x):
        return inside.run(b, {a: x})

    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        y = nested(x) + nested(x + 1.0)
        session = tenon.Session(graph)
        wrong = []

        def steps():
            for i in range(50):
                if session.run(y, {x: float(i)}) != 4.0 * i + 2.0:
                    wrong.append(i)

        threads = [threading.Thread(target=steps) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_in_loops_functions_and_branches():
    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        looped = tenon.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, hypot(v, v)), [tenon.constant(0), x])[1]
        chosen = tenon.cond(x > 0.0, lambda: hypot(x, 1.0), lambda: x)
        dx = tenon.grad(looped, x)[0]
        got = run([looped, chosen, dx], {x: 1.0})
    np.testing.assert_allclose(got, [2**1.5, 2**0.5, 2**1.5], rtol=1e-6)


# ---- apache-tvm-ffi ----


@pytest.fixture(scope="module")
def foreign():
    """Compiled functions (tests/foreign_functions.c)."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    folder = os.environ.get("TENON_BUILD_DIR")
    if not folder:
        pytest.skip("no build folder, which has the compiled functions")
    return tvm_ffi.load_module(os.path.join(folder, "tests", "bin", "foreign_functions.so"))


def test_a_compiled_function_is_a_kernel(foreign):
    made = tenon.op(
        foreign.add_scaled,
        name="Test>Scaled",
        inputs="x: float, y: float",
        outputs="z: float",
        shape="x",
        attrs="n: int = 3; f: float = 0.5; negate: bool = false; word: string = 'ok'",
        gradient=lambda x, y, dz, n, f: (dz, dz * n * f),
    )
    with tenon.Graph():
        x = tenon.placeholder("float32", [2, None])
        z = made(x, x)
        dx = tenon.grad(z, x)[0]
        got = run([z, dx], {x: [[1, 2], [3, 4]]})
        np.testing.assert_array_equal(got[0], [[2.5, 5], [7.5, 10]])
        np.testing.assert_array_equal(got[1], np.full((2, 2), 2.5))
        np.testing.assert_array_equal(run(made(x, x, n=1, f=1.0, negate=True), {x: [[1, 2], [3, 4]]}), [[0, 0], [0, 0]])
        with pytest.raises(tenon.InvalidArgumentError, match="Test>Scaled.*ValueError: word is 'no'"):
            run(made(x, x, word="no"), {x: [[1, 2], [3, 4]]})


def test_compiled_functions_run_beside_each_other_without_the_interpreter(foreign):
    made = tenon.op(foreign.add_scaled, name="Test>Beside", inputs="x: float, y: float", outputs="z: float", shape="x",
                    attrs="n: int = 1; f: float = 1.0; negate: bool = false; word: string = 'ok'")
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [None])
        z = made(made(x, x), x)
        step = tenon.Session(graph).prepare(z, [x])
        wrong = []
        threads = [
            threading.Thread(target=lambda k=k: [wrong.append(k) for _ in range(100) if step([float(k)])[0] != 3.0 * k])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_function_that_returns_something_is_told_to_write_its_outputs(foreign):
    made = tenon.op(foreign.give_three, name="Test>Three", inputs="x: float", outputs="y: float", shape="x")
    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        with pytest.raises(tenon.InvalidArgumentError, match="returned a value"):
            run(made(x), {x: 1.0})


def test_a_compiled_function_needs_shapes(foreign):
    with pytest.raises(tenon.InvalidArgumentError, match="say their shapes"):
        tenon.op(foreign.add_scaled, name="Test>Shape", inputs="x: float", outputs="y: float")
    made = tenon.op(
        foreign.add_scaled,
        name="Test>Unknown",
        inputs="x: float, y: float",
        outputs="y: float",
        shape=lambda x, y: None,
    )
    with tenon.Graph():
        x = tenon.placeholder("float32", [])
        with pytest.raises(tenon.Error, match="Test>Unknown"):
            run(made(x, x), {x: 1.0})
