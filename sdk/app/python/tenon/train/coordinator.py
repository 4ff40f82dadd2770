# SPDX-License-Identifier: Apache-2.0
"""Threads beside the steps of training that stop together and report the first failure; those that fill TensorFlow 1's
input queues.

with tenon.train.Coordinator() as coordinator:            # leaving the block stops all, and raises what failed first
    tenon.train.start_queue_runners(model.session, model.queue_runners, coordinator)
    while not coordinator.should_stop():
        model.run("loss", targets=["train_op"])
"""

import threading
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

from .._core import Cancellation
from ..errors import Error, InvalidArgumentError, NotFoundError, OutOfRangeError
from ..session import Session


class Coordinator:
    """A thread that raises asks all to stop. A thread is asked, never ended: it looks at should_stop(), or is woken by
    what on_stop() registered. All methods but join() may be called from any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads, self._wakes = [], []
        self._error = None

    def start(self, function: Callable, *arguments) -> threading.Thread:
        """Calls function(*arguments) on a thread of its own."""

        def run():
            try:
                function(*arguments)
            except BaseException as error:  # told by join()
                self.request_stop(error)

        thread = threading.Thread(
            target=run, daemon=True, name=f"coordinated {getattr(function, '__name__', 'function')}"
        )
        with self._lock:
            self._threads.append(thread)
        thread.start()
        return thread

    def request_stop(self, error: Optional[BaseException] = None):
        """Asks all to stop; of the errors that are reasons the first is kept."""
        with self._lock:
            if self._error is None:
                self._error = error
            wakes, self._wakes = self._wakes, []
            self._stopping.set()
        for wake in wakes:
            wake()

    def should_stop(self) -> bool:
        return self._stopping.is_set()

    def wait_for_stop(self, timeout: Optional[float] = None) -> bool:
        """Waits so many seconds at most; whether threads should stop."""
        return self._stopping.wait(timeout)

    def on_stop(self, wake: Callable[[], None]):
        """Calls wake() once: on the thread that asks all to stop first, or now if that was done."""
        with self._lock:
            if not self._stopping.is_set():
                self._wakes.append(wake)
                return
        wake()

    def join(self):
        """Waits until all threads have ended, and raises the first failure."""
        while True:
            with self._lock:
                thread = self._threads.pop() if self._threads else None
            if thread is None:
                break
            thread.join()
        with self._lock:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def stop(self):
        self.request_stop()
        self.join()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.request_stop(error)
        try:
            self.join()
        except BaseException as first:
            if first is not error:
                raise


class QueueRunner(NamedTuple):
    """Which nodes fill a queue, by their names, as TensorFlow's QueueRunnerDef says it; Model.queue_runners has those
    of a model."""

    queue: str
    enqueue_ops: Tuple[str, ...]  # each for a thread of its own
    close_op: str = ""  # no more is put in
    cancel_op: str = ""  # the same, and what waits for room is cancelled
    closed: Tuple[type, ...] = (OutOfRangeError,)  # how an enqueue op ends where its input does


def start_queue_runners(session: Session, runners: Sequence[QueueRunner], coordinator: Coordinator):
    """One thread for each enqueue op, which runs it over and over. Where it raises one of `closed`, and it is the
    queue's last, the queue is closed: steps get what is left, then OutOfRangeError. What else it raises stops all.
    NotFoundError, before anything was started: a node that is not there."""
    for runner in runners:
        if not runner.enqueue_ops:
            raise InvalidArgumentError(f"the queue runner of '{runner.queue}' names no enqueue op")
        for node in (*runner.enqueue_ops, runner.close_op, runner.cancel_op):
            if node:
                _prepared(session, runner, node)
    cancellation = Cancellation()
    coordinator.on_stop(cancellation.cancel)
    for runner in runners:
        left, lock = [len(runner.enqueue_ops)], threading.Lock()
        for node in runner.enqueue_ops:
            coordinator.start(_fill, session, runner, node, coordinator, cancellation, left, lock)
        if runner.cancel_op:
            coordinator.on_stop(lambda name=runner.cancel_op: _run_quietly(session, name))


def _prepared(session, runner, node):
    try:
        return session.prepare((), targets=[node])
    except NotFoundError as error:
        raise NotFoundError(f"the queue runner of '{runner.queue}': {error}") from None


def _fill(session, runner, node, coordinator, cancellation, left, lock):
    step = _prepared(session, runner, node)
    ended = False
    try:
        while not coordinator.should_stop():
            step.run((), cancellation=cancellation)
    except runner.closed:
        ended = True
    except Error:
        if not coordinator.should_stop():  # who was asked to stop may fail on its way
            raise
    with lock:
        left[0] -= 1
        last = left[0] == 0
    if ended and last and runner.close_op:
        _run_quietly(session, runner.close_op)


def _run_quietly(session, node):
    """Closing a queue that is closed fails, and nothing is lost."""
    try:
        session.run(targets=[node])
    except Error:
        pass
