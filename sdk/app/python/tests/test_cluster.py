# SPDX-License-Identifier: Apache-2.0
"""Workers in this process and in others, and sessions on them."""

import json
import os
import subprocess
import sys
import uuid

import numpy as np
import pytest

import tenon


def address(scheme="loopback"):
    return f"{scheme}://python_{uuid.uuid4().hex[:12]}"


def graph_with_a_variable():
    graph = tenon.Graph()
    with graph:
        with tenon.device("/job:ps/task:0"):
            v = tenon.ops.VarHandleOp(dtype="float32", shape=[2], shared_name="v")
            initial = tenon.ops.AssignVariableOp(v, np.array([1, 2], np.float32))
            value = tenon.ops.ReadVariableOp(v, "float32")
        with tenon.device("/job:worker/task:0"):
            x = tenon.placeholder("float32", [2], name="x")
            with tenon.device("/job:ps/task:0"):
                add = tenon.ops.AssignAddVariableOp(v, x * 2.0)
            y = value * x
    return graph, x, initial, add, y, value


def train_on(master):
    graph, x, initial, add, y, value = graph_with_a_variable()
    with tenon.Session(graph, master=master) as session:
        session.run(initial)
        session.run(add, {x: [1.0, 10.0]})
        assert session.run(value).tolist() == [3.0, 22.0]
        assert session.run(y, {x: [1.0, 2.0]}).tolist() == [3.0, 44.0]
        step = session.prepare(y, [x])
        assert step([2.0, 1.0]).tolist() == [6.0, 22.0]
        tasks = session.tasks()
        assert sorted(task["name"].split("/task")[0].split("job:")[1].split("/")[0] for task in tasks) == [
            "ps",
            "worker",
        ]
        with pytest.raises(tenon.InvalidArgumentError, match="x"):
            session.run(y, {x: [1.0, 2.0, 3.0]})


def test_a_cluster_in_one_process():
    cluster = {"ps": [address()], "worker": [address()]}
    with tenon.Worker(cluster, "ps", threads=1) as ps, tenon.Worker(cluster, "worker", threads=1) as worker:
        assert (
            repr(ps).startswith("<tenon.Worker /job:ps/task:0 at loopback://")
            and worker.address == cluster["worker"][0]
        )
        train_on(worker.address)
        families = {family["name"]: family for family in worker.metrics()}
        assert sum(sample["value"] for sample in families["tenon_worker_steps_total"]["samples"]) > 0
    assert "stopped" in repr(ps)
    with pytest.raises(tenon.FailedPreconditionError, match="stopped"):
        ps.metrics()
    ps.stop()  # twice is none


def test_what_is_no_cluster_is_said():
    with pytest.raises(tenon.InvalidArgumentError, match="no task '/job:ps/task:1'; it has: /job:ps/task:0"):
        tenon.Worker({"ps": [address()]}, "ps", 1)
    with pytest.raises(tenon.Error, match="bogus"):
        tenon.Worker({"ps": ["bogus://there"]}, "ps")
    with pytest.raises(tenon.Error):
        tenon.Session(tenon.Graph(), master=address(), connect_timeout=0.2)


WORKER = """
import json, sys
import tenon

@tenon.op(inputs="x: float", outputs="y: float", name="Test>FailsElsewhere")
def fails(x):
    raise ZeroDivisionError("not here")

worker = tenon.Worker(json.loads(sys.argv[1]), sys.argv[2], 0, threads=1)
fails.add_to(worker.runtime)
print(worker.address, flush=True)
sys.stdin.readline()
worker.stop()
"""


def test_a_cluster_of_processes():
    folder = tenon.plugin_dir()
    if not os.path.exists(os.path.join(folder, "tenon_shm.so")):
        pytest.skip("this build has no shm transport")
    cluster = {"ps": [address("shm")], "worker": [address("shm")]}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(cluster), job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job in cluster
    ]
    try:
        for process, addresses in zip(processes, cluster.values()):
            assert process.stdout.readline().strip() == addresses[0]
        train_on(cluster["worker"][0])

        @tenon.op(inputs="x: float", outputs="y: float", name="Test>FailsElsewhere")
        def here(x):
            return x

        with tenon.Graph() as graph, tenon.device("/job:ps/task:0"):
            y = here(tenon.placeholder("float32", [], name="x"))
        with tenon.Session(graph, master=cluster["worker"][0]) as session:
            with pytest.raises(tenon.InvalidArgumentError, match="ZeroDivisionError: not here") as caught:
                session.run(y, {"x": 1.0})
            assert caught.value.__cause__ is None  # an exception stays in its process
    finally:
        for process in processes:
            process.communicate("", timeout=30)
    assert [process.returncode for process in processes] == [0, 0]


class Tasks:
    """A server and a worker in processes of their own, which can be killed and started again."""

    def __init__(self):
        self.cluster = {"ps": [address("shm")], "worker": [address("shm")]}
        self.processes = {}
        for job in self.cluster:
            self.start(job)

    def start(self, job):
        self.processes[job] = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(self.cluster), job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.processes[job].stdout.readline().strip() == self.cluster[job][0]

    def kill(self, job):
        self.processes[job].kill()
        self.processes[job].communicate(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        for job in self.cluster:
            self.kill(job)


def line_on_tasks(folder, on_step, **options):
    """A trainer of y = 2 x + 1, and what opens sessions for it."""
    graph = tenon.Graph()
    with graph:
        x, y = tenon.placeholder("float32", [8], name="x"), tenon.placeholder("float32", [8], name="y")
        with tenon.device("/job:ps/task:0"):
            model = tenon.train.Model(graph)
            slope = model.weight("slope", (), 0.0)
        with tenon.device("/job:worker/task:0"):
            error = x * slope.value - y
            loss = tenon.ops.Mean(error * error, [0])
        update = tenon.train.minimize(model, loss, 0.1, tenon.train.SGD())

        def feed(step):
            values = np.random.default_rng(step).uniform(-1, 1, 8).astype(np.float32)
            return values, 2 * values

        return graph, tenon.train.Trainer(
            model,
            loss=loss,
            update=update,
            feeds=[x, y],
            feed=feed,
            steps=40,
            checkpoint_folder=folder,
            checkpoint_steps=10,
            on_step=on_step,
            **options,
        )


def test_a_trainer_goes_on_after_a_task_is_lost(tmp_path):
    if not os.path.exists(os.path.join(tenon.plugin_dir(), "tenon_shm.so")):
        pytest.skip("this build has no shm transport")
    with Tasks() as tasks:
        master = tasks.cluster["ps"][0]
        calm, losses, messages = {}, {}, []
        graph, trainer = line_on_tasks(tmp_path / "calm", lambda report: calm.update({report["step"]: report["loss"]}))
        trainer.run(lambda: tenon.Session(graph, master=master))
        victims = {25: "ps", 33: "worker"}

        def on_step(report):
            losses.setdefault(report["step"], []).append(report["loss"])
            victim = victims.pop(report["step"], None)
            if victim:
                tasks.kill(victim)
                tasks.start(victim)

        graph, trainer = line_on_tasks(tmp_path / "disturbed", on_step, recover=60, on_message=messages.append)
        report = trainer.run(lambda: tenon.Session(graph, master=master))
        assert report["last_step"] == 40 and not victims
        assert [len(losses[step]) for step in (20, 22, 30, 31, 40)] == [1, 2, 1, 2, 1]
        assert all(loss == calm[step] for step, of_step in losses.items() for loss in of_step)
        assert any("trying again from the last checkpoint, for 60 s" in message for message in messages)

        # Nobody comes back, or it is not asked for.
        def kill(report):
            if report["step"] == 5:
                tasks.kill("worker")

        graph, trainer = line_on_tasks(tmp_path / "ended", kill)
        with pytest.raises((tenon.UnavailableError, tenon.AbortedError)):
            trainer.run(lambda: tenon.Session(graph, master=master))
        with pytest.raises(tenon.InvalidArgumentError, match="give run"), tenon.Session(tenon.Graph()) as session:
            line_on_tasks(tmp_path / "given", None, recover=1)[1].run(session)
        with pytest.raises(tenon.InvalidArgumentError, match="checkpoint_folder"):
            line_on_tasks("", None, recover=1)
