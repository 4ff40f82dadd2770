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
        assert sorted(task["name"].split("/task")[0].split("job:")[1].split("/")[0] for task in tasks) == ["ps", "worker"]
        with pytest.raises(tenon.InvalidArgumentError, match="x"):
            session.run(y, {x: [1.0, 2.0, 3.0]})


def test_a_cluster_in_one_process():
    cluster = {"ps": [address()], "worker": [address()]}
    with tenon.Worker(cluster, "ps", threads=1) as ps, tenon.Worker(cluster, "worker", threads=1) as worker:
        assert repr(ps).startswith("<tenon.Worker /job:ps/task:0 at loopback://") and worker.address == cluster["worker"][0]
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
    processes = [subprocess.Popen([sys.executable, "-c", WORKER, json.dumps(cluster), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for job in cluster]
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
