#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce between processes of this machine, beside gloo (PyTorch's, over TCP on loopback, one thread a process) and
bounds of the same run: the bytes copied once by memcpy, and sent once over a TCP socket from one process to another.

The sides take turns, several times for each case. Ours are timed by bin/collective_bench. Run with a Python that has
PyTorch, or ours are measured alone. Prints a table: least and median milliseconds of a step, and gloo's median over
ours.
"""

import argparse
import importlib.util
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"4kB": 4 << 10, "1MB": 1 << 20, "100MB": 100 << 20}
LONGEST = 300  # seconds of one program


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="build folder (default: %(default)s)"
    )
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--tasks", nargs="+", type=int, choices=(2, 4), default=[2, 4])
    parser.add_argument("--ways", nargs="+", choices=("direct", "ring", "tree"), default=["direct", "ring"])
    parser.add_argument("--turns", type=int, default=3, help="of each side (default: %(default)s)")
    parser.add_argument("--gloo", nargs=4, metavar=("RANK", "TASKS", "BYTES", "PORT"), help=argparse.SUPPRESS)
    return parser.parse_args()


def gloo_member(rank, tasks, size, port):
    """One process of gloo's side; the first one prints the milliseconds of each step."""
    import torch
    import torch.distributed as distributed
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=tasks)
    value = torch.full((size // 4,), float(rank + 1))
    steps = 200 if size < 1 << 16 else 50 if size < 1 << 22 else 8
    for step in range(steps + 3):
        distributed.barrier()
        begin = time.perf_counter()
        distributed.all_reduce(value)
        value /= tasks
        took = (time.perf_counter() - begin) * 1e3
        if rank == 0 and step >= 3:
            print(took)
    distributed.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gloo(tasks, size):
    port = free_port()
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    members = [
        subprocess.Popen(
            [sys.executable, __file__, "--gloo", str(rank), str(tasks), str(size), str(port)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(tasks)
    ]
    try:
        outputs = [member.communicate(timeout=LONGEST)[0] for member in members]
    finally:
        for member in members:
            if member.poll() is None:
                member.kill()
    if any(member.returncode != 0 for member in members):
        sys.exit("gloo's side failed")
    return [float(line) for line in outputs[0].split()]


def tenon(build, name):
    with tempfile.TemporaryDirectory() as folder:
        samples = pathlib.Path(folder) / "samples"
        subprocess.run(
            [
                build / "bin" / "collective_bench",
                f"--samples={samples}",
                f"--benchmark_filter=^{name}/real_time$",
                "--benchmark_min_time=0.5",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=LONGEST,
        )
        return (
            [float(line.split("\t")[1]) for line in samples.read_text().splitlines()]
            if samples.exists()
            else sys.exit(f"{name} did not run")
        )


def memcpy(size):
    source, target = bytearray(size), bytearray(size)
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        target[:] = source
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def tcp(size):
    """The bytes, from one process to another."""
    listener = socket.create_server(("127.0.0.1", 0))
    code = ("import socket, sys\n"
            f"s = socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))\n"
            f"data = bytes({size})\n"
            "while s.recv(1):\n    s.sendall(data)\n")
    sender = subprocess.Popen([sys.executable, "-c", code])
    times = []
    with listener, listener.accept()[0] as connection:
        room = memoryview(bytearray(size))
        for _ in range(10):
            begin = time.perf_counter()
            connection.sendall(b"x")
            got = 0
            while got < size:
                got += connection.recv_into(room[got:])
            times.append((time.perf_counter() - begin) * 1e3)
    sender.wait(timeout=LONGEST)
    return times


def main():
    options = parse()
    if options.gloo:
        return gloo_member(*map(int, options.gloo))
    has_gloo = importlib.util.find_spec("torch") is not None
    print("| case | side | least ms | median ms | gloo's median over it |\n| --- | --- | --- | --- | --- |")
    for size in options.sizes:
        for tasks in options.tasks:
            sides = {
                f"{scheme} {way}": (lambda name: lambda: tenon(options.build, name))(f"{scheme}/{size}/{tasks}/{way}")
                for scheme in ("shm", "grpc")
                for way in options.ways
            }
            if has_gloo:
                sides["gloo"] = lambda: gloo(tasks, SIZES[size])
            sides["memcpy, once"] = lambda: memcpy(SIZES[size])
            sides["tcp, once"] = lambda: tcp(SIZES[size])
            times = {side: [] for side in sides}
            for _ in range(options.turns):
                for side, measure in sides.items():
                    times[side] += measure()
            reference = statistics.median(times["gloo"]) if has_gloo else None
            for side, taken in times.items():
                median = statistics.median(taken)
                ratio = "" if reference is None else f"{reference / median:.2f}"
                print(f"| {size}, {tasks} tasks | {side} | {min(taken):.3f} | {median:.3f} | {ratio} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
