# SPDX-License-Identifier: Apache-2.0
"""The training loop."""

import os
from typing import Any, Callable, Dict, Optional, Sequence

from .. import _core
from .._core import Operation, Output
from ..data import Iterator
from ..session import Session
from .model import Model


class Trainer(_core.TrainerBase):
    """Runs a training step again and again, with checkpoints, event files and a guard against numbers that are none. Make it after everything else of the graph.

    feed(step) gives the feeds' values, in their order; it should depend on the step alone, so that a run that was killed goes on exactly. on_step gets a dict (step, loss,
    the metrics, examples_per_second, seconds_left), on_message what happens besides. input: an iterator (tenon.data) of which each step takes the next element: a run begins behind those that
    earlier steps had, and ends where they do (steps=None: not before); prefetch_device: where the next step's element is brought while a step runs. What they raise ends the loop and comes out of run(); KeyboardInterrupt, and what on_step
    raises, after a last checkpoint.
    """

    def __init__(self, model: Model, *, loss: Output, update: Operation, feeds: Sequence[Output] = (), feed: Callable[[int], Sequence[Any]] = lambda step: (),
                 metrics: Optional[Dict[str, Output]] = None, examples: int = 0, input: Optional[Iterator] = None, prefetch_device: str = "", steps: Optional[int] = 1000, checkpoint_folder="", checkpoint_steps: int = 0,
                 checkpoint_seconds: float = 0, keep: int = 5, keep_every_hours: float = 0, keep_best: int = 0, best_metric: str = "",
                 higher_is_better: bool = False, resume: bool = True, warm_start="", event_folder="", event_steps: int = 10, on_step=None, on_message=None):
        super().__init__(model, loss, metrics or {}, update, list(feeds), feed, None if input is None else (input.begin, input.get_next), examples, {
            "steps": steps, "checkpoint_folder": os.fspath(checkpoint_folder), "checkpoint_steps": checkpoint_steps, "checkpoint_seconds": checkpoint_seconds,
            "keep": keep, "keep_every_hours": keep_every_hours, "keep_best": keep_best, "best_metric": best_metric, "higher_is_better": higher_is_better,
            "prefetch_device": prefetch_device, "resume": resume, "warm_start": os.fspath(warm_start), "event_folder": os.fspath(event_folder), "event_steps": event_steps,
        }, on_step, on_message)

    def run(self, session: Session) -> dict:
        """Begins (the newest checkpoint, or first values) and trains up to `steps`; gives first_step, last_step, stopped, input_ended, seconds, checkpoint, ..."""
        self._begin(session)
        return self._run()
