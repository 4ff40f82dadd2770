# SPDX-License-Identifier: Apache-2.0
"""The training loop."""

import os
import time
from typing import Any, Callable, Dict, Optional, Sequence, Union

from .. import _core
from .._core import Operation, Output
from ..data import Iterator
from ..errors import AbortedError, DeadlineExceededError, InvalidArgumentError, UnavailableError
from ..session import Session
from .model import Model


class Trainer(_core.TrainerBase):
    """Runs a training step again and again, with checkpoints, event files and a guard against numbers that are none.
    Make it after everything else of the graph.

    feed(step) gives the feeds' values, in their order; it should depend on the step alone, so that a run that was
    killed goes on exactly. on_step gets a dict (step, loss, the metrics, examples_per_second, seconds_left), on_message
    what happens besides. input: an iterator (tenon.data) of which each step takes the next element: a run begins behind
    those that earlier steps had, and ends where they do (steps=None: not before); prefetch_device: where the next
    step's element is brought while a step runs. What they raise ends the loop and comes out of run();
    KeyboardInterrupt, and what on_step raises, after a last checkpoint. recover: seconds for which it tries to go on
    after a task of a cluster is lost, from the newest checkpoint, where run() is given what opens sessions.
    """

    def __init__(
        self,
        model: Model,
        *,
        loss: Output,
        update: Operation,
        feeds: Sequence[Output] = (),
        feed: Callable[[int], Sequence[Any]] = lambda step: (),
        metrics: Optional[Dict[str, Output]] = None,
        examples: int = 0,
        input: Optional[Iterator] = None,
        prefetch_device: str = "",
        steps: Optional[int] = 1000,
        checkpoint_folder="",
        checkpoint_steps: int = 0,
        checkpoint_seconds: float = 0,
        keep: int = 5,
        keep_every_hours: float = 0,
        keep_best: int = 0,
        best_metric: str = "",
        higher_is_better: bool = False,
        resume: bool = True,
        recover: float = 0,
        warm_start="",
        event_folder="",
        event_steps: int = 10,
        on_step=None,
        on_message=None,
    ):
        super().__init__(
            model,
            loss,
            metrics or {},
            update,
            list(feeds),
            feed,
            None if input is None else (input.begin, input.get_next),
            examples,
            {
                "steps": steps,
                "checkpoint_folder": os.fspath(checkpoint_folder),
                "checkpoint_steps": checkpoint_steps,
                "checkpoint_seconds": checkpoint_seconds,
                "keep": keep,
                "keep_every_hours": keep_every_hours,
                "keep_best": keep_best,
                "best_metric": best_metric,
                "higher_is_better": higher_is_better,
                "prefetch_device": prefetch_device,
                "resume": resume,
                "warm_start": os.fspath(warm_start),
                "event_folder": os.fspath(event_folder),
                "event_steps": event_steps,
            },
            on_step,
            on_message,
        )
        if recover > 0 and not os.fspath(checkpoint_folder):
            raise InvalidArgumentError(
                "a training that is to go on after losses (recover) needs a folder for checkpoints (checkpoint_folder), from which it goes on"
            )
        self._recover, self._on_message = recover, on_message

    def run(self, session: Union[Session, Callable[[], Session]]) -> dict:
        """Begins (the newest checkpoint, or first values) and trains up to `steps`; gives first_step, last_step,
        stopped, input_ended, seconds, checkpoint, ...

        On a cluster give a function that opens a session, and say `recover`: for so many seconds since it last went on,
        a task that is lost is followed by another session.
        """
        if isinstance(session, Session):
            if self._recover > 0:
                raise InvalidArgumentError(
                    "a training that is to go on after losses (recover) opens sessions itself: give run() a function that opens one"
                )
            self._begin(session)
            return self._run()
        until, said = None, ""
        while True:
            before = self.step
            try:
                with session() as opened:
                    try:
                        self._begin(opened)
                        before = self.step
                        return self._run()
                    finally:
                        self._leave()
            except (UnavailableError, AbortedError, DeadlineExceededError) as lost:
                now = time.monotonic()
                if until is None or self.step != before:
                    until, said = now + self._recover, ""
                if self._recover <= 0 or now > until:
                    raise
                if lost.message != said and self._on_message is not None:
                    self._on_message(
                        f"lost: {lost.message}; trying again from the last checkpoint, for {self._recover:g} s"
                    )
                said = lost.message
            time.sleep(0.2)
