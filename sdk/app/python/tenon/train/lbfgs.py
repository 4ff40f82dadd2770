# SPDX-License-Identifier: Apache-2.0
"""L-BFGS, for losses of whole data sets."""

from typing import Callable, NamedTuple, Optional

from .. import _core
from .._core import Output
from ..session import Session
from .model import Model


class LbfgsResult(NamedTuple):
    end: str  # "gradient": its norm is small enough; "iterations"; "no step" makes the loss lower
    iterations: int
    evaluations: int
    left_out: int  # pairs without positive curvature
    loss: float
    gradient_norm: float


class Lbfgs(_core.LbfgsBase):
    """Changes a model's trainable variables until the loss, a float32 scalar, is lowest; make it before the session's
    first step. The loss depends on the variables alone: no dropout, no batch drawn anew.

    history: pairs that are kept. gradient_tolerance: of the norm of the whole gradient. max_evaluations: of one line
    search, which satisfies the strong Wolfe conditions with sufficient_decrease and curvature. on_iteration gets an
    LbfgsResult; what it raises ends the run, with the variables at the last accepted point.
    """

    def __init__(
        self,
        model: Model,
        loss: Output,
        *,
        history: int = 10,
        max_iterations: int = 100,
        gradient_tolerance: float = 1e-5,
        max_evaluations: int = 20,
        sufficient_decrease: float = 1e-4,
        curvature: float = 0.9,
        on_iteration: Optional[Callable[[LbfgsResult], None]] = None
    ):
        told = None if on_iteration is None else lambda values: on_iteration(LbfgsResult(**values))
        super().__init__(
            model,
            loss,
            {
                "history": history,
                "max_iterations": max_iterations,
                "gradient_tolerance": gradient_tolerance,
                "max_evaluations": max_evaluations,
                "sufficient_decrease": sufficient_decrease,
                "curvature": curvature,
            },
            told,
        )

    def run(self, session: Session, feeds: Optional[dict] = None, *, timeout: Optional[float] = None) -> LbfgsResult:
        """From the variables' values in the session; may be called again. timeout: of each evaluation, in seconds."""
        session._look_at_graph()
        names = list(feeds or ())
        return LbfgsResult(
            **self._run(
                session, names, list((feeds or {}).values()), [session._type_of(name) for name in names], timeout
            )
        )
