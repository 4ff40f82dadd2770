# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and event files."""

import os
from typing import Dict, NamedTuple, Optional

from .. import _core
from ..graph import Graph
from ..session import Session
from .model import Model


class Restored(NamedTuple):
    prefix: str  # "": the folder has no checkpoint
    step: int
    warnings: list  # what was passed over, and why


class Saver(_core.SaverBase):
    """A model's variables in checkpoints of a folder, that survive a kill at any instruction. Make it after the
    variables.

    keep: the last so many; keep_every_hours: besides, one in so many hours; keep_best: besides, so many with the best
    metric. variables: those to save, a list of names or a dict to their names in checkpoints; none: all.
    """

    def __init__(
        self,
        model: Model,
        folder,
        *,
        keep: int = 5,
        keep_every_hours: float = 0,
        keep_best: int = 0,
        higher_is_better: bool = False,
        variables=(),
        step_variable: str = "global_step"
    ):
        names = variables if isinstance(variables, dict) else {name: "" for name in variables}
        super().__init__(
            model,
            os.fspath(folder),
            {
                "keep": keep,
                "keep_every_hours": keep_every_hours,
                "keep_best": keep_best,
                "higher_is_better": higher_is_better,
                "variables": names,
                "step_variable": step_variable,
            },
        )

    def save(self, session: Session, step: int, metric: Optional[float] = None) -> str:
        """Writes the checkpoint of a step; gives its prefix."""
        session._look_at_graph()
        return self._save(session, step, metric)

    def restore(self, session: Session, prefix: Optional[str] = None) -> Restored:
        """Restores the newest checkpoint of the folder that can be read, or the one of that prefix, from any folder."""
        session._look_at_graph()
        if prefix is None:
            return Restored(*self._restore_newest(session))
        self._restore_from(session, os.fspath(prefix))
        return Restored(os.fspath(prefix), -1, [])


class EventWriter(_core.EventWriterBase):
    """TensorBoard's event files: a new one in the folder."""

    def __init__(self, folder):
        super().__init__(os.fspath(folder))

    def add_scalars(self, step: int, **values: float):
        self.add_scalar_dict(step, values)

    def add_scalar_dict(self, step: int, values: Dict[str, float]):
        """The same, for tags that Python has not as keywords."""
        self._add_scalars(step, [(tag, float(value)) for tag, value in values.items()])

    def add_graph(self, graph: Graph):
        self._add_graph(graph.graph_def())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.flush()
