# SPDX-License-Identifier: Apache-2.0
"""This process as a task of a cluster; `tenon worker` is the same as a command."""

import json
from typing import Dict, Sequence, Union

from . import _core
from .errors import InvalidArgumentError
from .runtime import Runtime


class Worker(_core.WorkerBase):
    """Serves the sessions of a cluster until it is stopped or let go of.

    cluster: the addresses of all tasks by job, {"ps": ["grpc://host:2222"], "worker": [...]}; plain "host:port" is
    gRPC's. job, task: which of them this is. The runtime is the worker's own; runtime_options are those of
    tenon.Runtime. listen: where, if not at the task's address. credentials: of the transport, JSON. max_sessions (0:
    64), memory_limit (bytes; 0: none), max_message_bytes (0: 4 GiB): what is more is an error of whoever asks for it.

        worker = tenon.Worker({"worker": ["shm://name"]}, "worker", 0)
        session = tenon.Session(graph, master="shm://name")
    """

    def __init__(
        self,
        cluster: Dict[str, Union[Sequence[str], Dict[int, str]]],
        job: str,
        task: int = 0,
        *,
        listen: str = "",
        credentials: str = "",
        max_sessions: int = 0,
        memory_limit: int = 0,
        max_message_bytes: int = 0,
        **runtime_options,
    ):
        tasks = [
            (f"/job:{name}/task:{number}", address)
            for name, addresses in cluster.items()
            for number, address in (
                addresses.items()
                if isinstance(addresses, dict)
                else enumerate([addresses] if isinstance(addresses, str) else addresses)
            )
        ]
        self.task = f"/job:{job}/task:{task}"
        if self.task not in [name for name, _ in tasks]:
            raise InvalidArgumentError(
                f"the cluster has no task '{self.task}'; it has: {', '.join(name for name, _ in tasks) or 'none'}"
            )
        self.runtime = Runtime(task=self.task, **runtime_options)
        super().__init__(self.runtime, tasks, listen, credentials, max_sessions, memory_limit, max_message_bytes)

    def metrics(self) -> list:
        """What it has done, and has now: counters and gauges in families, named as Prometheus wants it."""
        return json.loads(self._metrics())

    def stop(self, seconds: float = 10.0):
        """Takes no new steps, lets those that run end for so long, then cancels them."""
        self._stop(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()

    def __repr__(self):
        try:
            return f"<tenon.Worker {self.task} at {self.address}>"
        except RuntimeError:
            return f"<tenon.Worker {self.task}, stopped>"
