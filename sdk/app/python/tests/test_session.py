# SPDX-License-Identifier: Apache-2.0
"""Sessions: forms of feeds and fetches, time limits, interrupts, threads, and what a session tells."""

import _thread
import json
import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import tenon


@pytest.fixture
def doubled(graph):
    x = tenon.placeholder("float32", [None], name="x")
    tenon.ops.Mul(x, 2.0, name="y")
    return graph


def test_fetches_keep_their_form(doubled):
    session = tenon.Session(doubled)
    x, y = doubled["x"], doubled["y"]
    feeds = {"x": [1.0]}
    assert session.run("y", feeds).tolist() == [2]
    assert [v.tolist() for v in session.run([x, y], feeds)] == [[1], [2]]
    assert isinstance(session.run((y,), feeds), tuple)
    assert session.run({"a": y, "b": "y:0", "c": y.op}, {x: [1.0]})["c"] is None
    assert session.run(y.op, feeds) is None and session.run([], feeds, targets=[y]) == []
    with pytest.raises(tenon.InvalidArgumentError, match="a fetch is"):
        session.run(3, feeds)
    with pytest.raises(tenon.Error, match="'x'"):
        session.run("y")


def test_a_graph_may_grow_between_steps(doubled):
    session = tenon.Session(doubled)
    session.run("y", {"x": [1.0]})
    z = tenon.ops.Neg(doubled["y"], name="z")
    assert session.run(z, {"x": [1.0]}).tolist() == [-2]


def spans_of(events):
    """Node and op of each span, in a trace that a viewer reads."""
    spans = [event for event in events if event["ph"] == "X"]
    assert all(
        event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        for event in spans
    )
    return [(event["name"], event["cat"]) for event in spans]


def test_callables(doubled):
    session = tenon.Session(doubled)
    step = session.prepare({"y": "y", "x": doubled["x"]}, ["x"])
    assert step([3])["y"].tolist() == [6] and step(x=[4])["y"].tolist() == [8]
    assert (step.feed_names, step.fetch_names) == (["x"], ["y", "x"])
    del session  # the callable keeps it
    value, trace = step.run([[1.0]], trace=True, timeout=10)
    assert value["y"].tolist() == [2] and spans_of(json.loads(trace)["traceEvents"]) == [("y", "Mul")]
    for wrong in (lambda: step(), lambda: step([1], [2]), lambda: step(z=[1]), lambda: step([1], x=[1])):
        with pytest.raises(tenon.InvalidArgumentError):
            wrong()
    with pytest.raises(tenon.InvalidArgumentError, match="float32"):
        step(numpy.array([1 + 1j]))
    nodes = step.explain()
    assert "CPU" in json.dumps(nodes)


def test_fetched_memory_outlives_the_session(graph):
    x = tenon.placeholder("float32", [None], name="x")
    session = tenon.Session(graph)
    kept = session.run(x + 1, {x: numpy.zeros(1000)})
    session.close()
    del session
    assert kept.sum() == 1000


def test_deadlines_and_cancellation(endless):
    for _ in range(3):  # quick before
        assert endless(2e30) > 1e30
    with pytest.raises(TimeoutError) as caught:
        endless.run([0.5], timeout=0.05)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    cancellation = tenon.Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(tenon.CancelledError):
        endless.run([0.5], cancellation=cancellation)
    with pytest.raises(tenon.InvalidArgumentError, match="positive"):
        endless.run([0.5], timeout=-1)
    assert endless(2e30) > 1e30


@pytest.mark.parametrize("times_before", [0, 5])  # a first call, and one whose like were quick
@pytest.mark.parametrize("interrupt", [_thread.interrupt_main, lambda: os.kill(os.getpid(), signal.SIGINT)])
def test_keyboard_interrupt_ends_a_step(endless, interrupt, times_before):
    for _ in range(times_before):
        endless(2e30)
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.1, interrupt).start()
        endless(0.5)
    assert endless(2e30) > 1e30
    assert signal.set_wakeup_fd(-1) == -1


def test_what_a_handler_raises_ends_a_long_step(graph, endless):
    class Alarm(Exception):
        pass

    def ring(*unused):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Alarm):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            tenon.Session(graph).run(graph["endless"], {"x": 0.5})
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_returns_ends_nothing_and_may_run_steps(graph, endless):
    cancellation = tenon.Cancellation()
    seen = []

    def ring(*unused):
        seen.append(endless(2e30) > 1e30)
        if len(seen) == 3:
            cancellation.cancel()

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(tenon.CancelledError):
            tenon.Session(graph).run(graph["endless"], {"x": 0.5}, cancellation=cancellation)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) >= 3 and all(seen)


def test_who_waits_for_signals_by_a_descriptor_gets_them(endless):
    """As asyncio does: also those that come while a quick kind of call is watched for them."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    cancellation = tenon.Cancellation()
    got = []

    def wait():
        got.append(os.read(read_end, 1))
        cancellation.cancel()

    for _ in range(5):
        endless(2e30)
    before = signal.signal(signal.SIGALRM, lambda *unused: None)
    threading.Thread(target=wait).start()
    try:
        assert signal.set_wakeup_fd(write_end) == -1
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(tenon.CancelledError):
            endless.run([0.5], cancellation=cancellation)
        assert signal.set_wakeup_fd(-1) == write_end and got == [bytes([signal.SIGALRM])]
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(read_end), os.close(write_end)


def test_sixty_four_threads_of_steps(graph):
    x = tenon.placeholder("float32", [None], name="x")
    session = tenon.Session(graph)
    y = tenon.ops.Sum(x, 0) * 2.0
    step = session.prepare(y, [x])
    faults = []

    def work(number):
        for i in range(50):
            value = (
                step(numpy.full(100, number, numpy.float32)) if i % 2 else session.run(y, {x: numpy.full(100, number)})
            )
            if value != number * 200:
                faults.append((number, value))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert faults == [] and session.metrics()["steps"] == 64 * 50


def test_other_threads_go_on_while_a_step_runs(endless):
    """The interpreter's lock is given up: a thread that ends the endless step can run."""
    cancellation = tenon.Cancellation()
    done = threading.Event()

    def step():
        with pytest.raises(tenon.CancelledError):
            endless.run([0.5], cancellation=cancellation)
        done.set()

    threading.Thread(target=step).start()
    total = sum(range(10000))
    cancellation.cancel()
    assert done.wait(60) and total


def test_a_forked_child_can_be_interrupted_and_makes_a_runtime_of_its_own():
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with tenon.Graph(tenon.Runtime()) as graph:
                y = tenon.constant(1.0) + 1
            code = 0 if tenon.Session(graph).run(y) == 2 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_a_session_tells(doubled, tmp_path):
    session = tenon.Session(doubled, seed=1, executor="dynamic")
    trace = tenon.Trace()
    session.run("y", {"x": [1.0]}, trace=trace)
    assert spans_of(trace.events()) == [("y", "Mul")]
    assert (
        repr(trace).startswith("<tenon.Trace of ")
        and " us; the longest is " in repr(trace)
        and repr(tenon.Trace()) == "<tenon.Trace, empty>"
    )
    trace.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"] == trace.events()
    placement = session.place("y", ["x"])
    assert (
        "y" in json.dumps(placement.explanation)
        and placement.svg.startswith("<")
        and placement._repr_svg_() == placement.svg
        and "CPU" in placement.file
    )
    assert session.metrics()["steps"] == 1 and session.tasks() == []


def test_values_stay_on_a_device():
    runtime = tenon.Runtime(options={"tenon.tpu_sim": {"devices": "1"}})
    with tenon.Graph(runtime) as graph:
        x = tenon.placeholder("float32", [None], name="x")
        y = tenon.ops.Neg(x, name="y")
    session = tenon.Session(graph, device="TPU:0")
    step = session.prepare(y, [x], feed_devices=["TPU:0"], fetch_devices=["TPU:0"])
    value = session.copy_tensor(numpy.array([1, 2], numpy.float32), "TPU:0")
    there = step(step(value))
    assert not there.on_host and "device's memory" in repr(there)
    with pytest.raises(tenon.FailedPreconditionError, match="copy_tensor"):
        there.numpy()
    again = session.from_dlpack(there, "TPU:0")
    assert again.address == there.address and again.__dlpack_device__() == there.__dlpack_device__() != (1, 0)
    with pytest.raises(tenon.UnimplementedError):
        tenon.from_dlpack(there)
    del session, graph, runtime, step  # what lies there keeps the runtime
    other = tenon.Runtime(options={"tenon.tpu_sim": {"devices": "1"}})
    del other
    assert there.shape == (2,)


def test_values_come_back_from_a_device():
    runtime = tenon.Runtime(options={"tenon.tpu_sim": {"devices": "1"}})
    session = tenon.Session(runtime=runtime)
    there = session.copy_tensor([1.0, 2.0], "TPU:0")
    assert session.copy_tensor(there, "").numpy().tolist() == [1, 2]


def test_arrays_of_a_devices_host_memory_are_fed_and_run_into():
    runtime = tenon.Runtime(options={"tenon.tpu_sim": {"devices": "1"}})
    with tenon.Graph(runtime) as graph:
        x = tenon.placeholder("float32", [None], name="x")
        y = tenon.ops.Neg(x, name="y")
    session = tenon.Session(graph, device="TPU:0")
    step = session.prepare(y, [x])
    for device in ["TPU:0", "CPU:0", ""]:
        given, back = (session.pinned_array([3], device=device) for _ in range(2))
        for first in [1, 5]:
            given[:] = [first, 2, 3]
            step.run_into([given], back)
            assert back.tolist() == [-first, -2, -3]
    assert session.pinned_array((0, 2), "int64", "TPU:0").shape == (0, 2)
    numpy.from_dlpack(given)
    with pytest.raises(tenon.NotFoundError):
        session.pinned_array([1], device="TPU:7")
    with pytest.raises(tenon.InvalidArgumentError):
        session.pinned_array([1], "string", "TPU:0")
    with pytest.raises(tenon.InvalidArgumentError):
        session.pinned_array([None], device="TPU:0")
    session.close()
    del session, step, graph, runtime
    back[:] = 7  # it keeps what it lies in
    assert back.sum() == 21


def test_a_closed_session_says_so(doubled):
    with tenon.Session(doubled) as session:
        step = session.prepare("y", ["x"])
    with pytest.raises(tenon.FailedPreconditionError, match="closed"):
        session.run("y", {"x": [1.0]})
    assert repr(session) == "<tenon.Session, closed>" and step([1.0]).tolist() == [2]


def test_random_steps_repeat_with_a_seed(graph):
    y = tenon.ops.RandomUniform([3], dtype="float32")
    first, second = (tenon.Session(graph, seed=7).run(y) for _ in range(2))
    numpy.testing.assert_array_equal(first, second)


def test_partial_runs():
    with tenon.Graph() as graph:
        a, b = tenon.placeholder("float32", [], name="a"), tenon.placeholder("float32", [], name="b")
        first = a + 10.0
        second = first * b
        count = tenon.ops.VarHandleOp(dtype="int32", shape=[], shared_name="count")
        initial = tenon.ops.AssignVariableOp(count, numpy.int32(0))
        with tenon.control_dependencies([first.op]):
            counted = tenon.ops.AssignAddVariableOp(count, numpy.int32(1))
        read = tenon.ops.ReadVariableOp(count, "int32")
    session = tenon.Session(graph)
    session.run(initial)
    with session.partial_run([first, second], [a, b], targets=[counted]) as step:
        with pytest.raises(tenon.FailedPreconditionError):
            step.run(second, {b: 7.0})
        assert step.run(first, {a: 5.0}) == 15.0
        with pytest.raises(tenon.InvalidArgumentError, match="'a'|a:0"):
            step.run((), {a: 1.0})
        assert step.run([second], {b: 7.0}) == [105.0]
    with pytest.raises(tenon.FailedPreconditionError, match="closed"):
        step.run(first)
    assert session.run(read) == 1
    with pytest.raises(tenon.InvalidArgumentError, match="a call of a partial run fetches values"):
        session.partial_run([first], [a]).run(counted)


def test_a_step_into_arrays_of_the_callers():
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [None, 3])
        y, total = x * 2.0, tenon.ops.Sum(x, [0, 1])
    step = tenon.Session(graph).prepare([y, total], [x])
    into, sum_into = numpy.zeros((2, 3), numpy.float32), numpy.zeros((), numpy.float32)
    for i in range(3):
        step.run_into([numpy.full((2, 3), i, numpy.float32)], [into, sum_into])
        assert (into == 2 * i).all() and sum_into == 6 * i
    one = tenon.Session(graph).prepare(y, [x])
    one.run_into([numpy.ones((2, 3))], into)
    assert (into == 2).all()
    read_only = numpy.zeros((2, 3), numpy.float32)
    read_only.flags.writeable = False
    for wrong, words in (
        ([into], "gives 2 values; found 1"),
        ([read_only, sum_into], "may be written"),
        ([into[:, ::2], sum_into], "without gaps"),
        ([into.astype(numpy.float64), sum_into], "float|double"),
        ([numpy.zeros((3, 3), numpy.float32), sum_into], r"\[3,3\]|shape"),
        ([into, 3.0], "NumPy array"),
    ):
        with pytest.raises(tenon.InvalidArgumentError, match=words):
            step.run_into([numpy.ones((2, 3), numpy.float32)], wrong)


def test_int8_goes_by_a_calibration(graph):
    x = tenon.placeholder("float32", [16, 32], name="x")
    weights = numpy.sin(numpy.arange(32 * 8, dtype="float32")).reshape(32, 8)
    tenon.ops.MatMul(x, weights, name="y")
    given = numpy.cos(numpy.arange(16 * 32, dtype="float32")).reshape(16, 32)
    exact = tenon.Session(graph).run("y", {"x": given})
    reduced = tenon.Session(graph, precision="int8", calibration="tenon calibration 1\nx:0 - -1 1\n").run(
        "y", {"x": given}
    )
    assert 0 < numpy.abs(reduced - exact).max() < 0.02 * numpy.abs(exact).max() + 0.05
    with pytest.raises(tenon.InvalidArgumentError, match="'precision' is int8, and 'calibration' is empty"):
        tenon.Session(graph, precision="int8")


CLOSES = """
import threading
import tenon

begun = threading.Semaphore(0)

@tenon.op(inputs="x: float", outputs="y: float", name="Test>Tells", stateful=True)
def tells(x):
    begun.release()
    return x

with tenon.Graph() as graph:
    queue = tenon.ops.FIFOQueueV2(component_types=["float32"])
    wanted = [tenon.ops.QueueDequeueV2(queue, component_types=["float32"])[0], tells(1.0)]
session = tenon.Session(graph)
partial = session.partial_run(wanted, [])
prepared = session.prepare(wanted)
said = []

def call(run):
    try:
        run()
    except tenon.CancelledError as error:
        said.append("the session was closed" in str(error))

threads = [threading.Thread(target=call, args=(run,)) for run in (lambda: session.run(wanted), prepared, lambda: partial.run(wanted))]
for thread in threads:
    thread.start()
for thread in threads:
    begun.acquire()
session.close()
for thread in threads:
    thread.join()
print(said)
"""


def test_a_session_that_is_closed_ends_its_steps():
    done = subprocess.run([sys.executable, "-c", CLOSES], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("[True, True, True]\n", 0), done.stderr


def test_a_cancellation_outlives_a_session_that_was_closed(endless, graph):
    begun = threading.Event()

    @tenon.op(inputs="x: float", outputs="y: float", name="Test>Begins", stateful=True)
    def begins(x):
        begun.set()
        return x

    told = begins(graph["x"])
    cancellation = tenon.Cancellation()
    session = tenon.Session(graph)
    closing = threading.Thread(target=lambda: begun.wait() and session.close())
    closing.start()
    with pytest.raises(tenon.CancelledError, match="the session was closed"):
        session.run([graph["endless"], told], {"x": 0.5}, cancellation=cancellation)
    closing.join()
    assert endless.run([2e30], cancellation=cancellation) > 1e30
    cancellation.cancel()
    with pytest.raises(tenon.CancelledError):
        endless.run([2e30], cancellation=cancellation)
