#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The null step of OSDI'16 Figure 7, over shm and gRPC, beside TensorFlow's own distributed runtime and bounds of the
same run.

A worker fetches, each step, what lies on 1 to 16 parameter servers: a scalar from each; a model of 10 or 100 MB, in
equal parts; or 32 random rows of a table of 64 MB or 1 GB. Every task is a process on this host. The sides take turns,
several times for each case; their steps' times are put together. Ours are timed by bin/cluster_bench. TensorFlow runs
the same graph through its gRPC servers, in processes of their own, from a session of this process; run with a Python
that has it, or ours are measured alone.

Writes figure7.md (tables), figure7.tsv (the same figures) and figure7.svg (a plot) into the folder --out.
"""

import argparse
import collections
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROW = 256  # floats
LOOKUPS = 32
CASES = {"scalar": 0, "10MB": 10 << 20, "100MB": 100 << 20, "sparse_64MB": 64 << 20, "sparse_1GB": 1 << 30}
SHARDS = (1, 2, 4, 8, 16)
SIDES = ("shm", "grpc", "tensorflow")
LONGEST = 300  # seconds that one program, or one step of TensorFlow, may take


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument(
        "--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="build folder (default: %(default)s)"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--shards", nargs="+", type=int, choices=SHARDS, default=SHARDS, metavar="N",
                        help=f"of {SHARDS}; 1 GB: 1 and 2 alone")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side in each case (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="of a turn (default: %(default)s)")
    parser.add_argument("--note", default="", help="a line for the table: what else the machine did")
    return parser.parse_args()


# --- ours ---


def run_bench(options, program, pattern, *more):
    command = [
        options.build / "bin" / program,
        f"--benchmark_filter={pattern}",
        f"--benchmark_min_time={options.seconds}",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode != 0 or "ERROR" in done.stdout:
        sys.exit(f"{program} {pattern} failed:\n{done.stdout}{done.stderr}")


def timed_by_us(options, pattern, steps):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "samples")
        run_bench(options, "cluster_bench", pattern, f"--samples={path}")
        for line in path.read_text().splitlines():
            name, milliseconds = line.split("\t")
            steps[name].append(float(milliseconds))


def reported(options, program, pattern):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "report.json")
        run_bench(options, program, pattern, f"--benchmark_out={path}")
        return json.loads(path.read_text())["benchmarks"]


def bare_grpc(options, steps):
    if not (options.build / "bin" / "grpc_bench").exists():
        return print("figure7: bare gRPC is not measured: there is no bin/grpc_bench", file=sys.stderr)
    for found in reported(options, "grpc_bench", "RoundTrip|OneWay/bytes:100000000"):
        what = "100 MB, one way" if "OneWay" in found["name"] else "round trip of nothing"
        steps[f"Bound/bare gRPC, {what}"].append(found["bare_us"] / 1000)


def rates(options):
    found = collections.defaultdict(list)
    for _ in range(options.rounds):
        for each in reported(options, "cluster_bench", "SubgraphRate"):
            _, scheme, _, threads = each["name"].split("/")
            found[scheme, int(threads.split(":")[1])].append(each["items_per_second"])
    return found


# --- TensorFlow ---


def serve(cluster, job, task):
    import tensorflow as tf
    server = tf.distribute.Server(tf.train.ClusterSpec(json.loads(cluster)), job_name=job, task_index=int(task))
    print("listens", flush=True)
    server.join()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class TensorFlow:
    """Servers that live as long as this object, and null steps over them."""

    def __init__(self, servers):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(servers + 1)]
        self.target = "grpc://" + addresses[0]
        cluster = json.dumps({"worker": addresses[:1], "ps": addresses[1:]})
        tasks = [("worker", 0)] + [("ps", i) for i in range(servers)]
        die_with_us = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        self.processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--serve", cluster, job, str(task)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_us,
            )
            for job, task in tasks
        ]
        if any(process.stdout.readline() != b"listens\n" for process in self.processes):
            self.end()
            sys.exit("figure7: a server of TensorFlow did not start")
        import tensorflow as tf
        tf.compat.v1.disable_eager_execution()
        self.tf = tf

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def first_of(self, case, shard, shards):
        tf, raw = self.tf, self.tf.raw_ops
        shape = [CASES[case] // (ROW * 4) // shards, ROW] if CASES[case] else [1, 1]
        with tf.device("/job:worker/task:0"):
            if case.startswith("sparse"):
                ids = raw.RandomUniformInt(shape=[LOOKUPS // shards], minval=0, maxval=shape[0])
        with tf.device(f"/job:ps/task:{shard}"):
            variable = raw.VarHandleOp(dtype=tf.float32, shape=shape, shared_name=f"{case}_{shards}_{shard}")
            assign = raw.AssignVariableOp(resource=variable, value=raw.Fill(dims=shape, value=1.0))
            destroy = raw.DestroyResourceOp(resource=variable)
            rows = (
                raw.ResourceGather(resource=variable, indices=ids, dtype=tf.float32)
                if case.startswith("sparse")
                else raw.ReadVariableOp(resource=variable, dtype=tf.float32)
            )
        with tf.device("/job:worker/task:0"):
            return raw.Slice(input=rows, begin=[0, 0], size=[1, 1]), assign, destroy

    def null_step(self, case, shards):
        """The step as a function, and one that ends it."""
        tf = self.tf
        graph = tf.Graph()
        with graph.as_default():
            firsts, assigns, destroys = zip(*(self.first_of(case, i, shards) for i in range(shards)))
            with tf.device("/job:worker/task:0"):
                total = tf.raw_ops.AddN(inputs=firsts)
        tasks = [f"/job:ps/task:{i}" for i in range(shards)]
        config = tf.compat.v1.ConfigProto(
            device_filters=["/job:worker/task:0"] + tasks, operation_timeout_in_ms=LONGEST * 1000
        )
        session = tf.compat.v1.Session(self.target, graph=graph, config=config)
        session.run(assigns)
        step = session.make_callable(total)
        if float(step()[0, 0]) != shards:
            sys.exit(f"figure7: TensorFlow's step of {case} over {shards} servers gave a wrong sum")

        def end():
            session.run(destroys)
            session.close()

        return step, end


def timed(step, seconds, times):
    for _ in range(3):
        step()
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        step()
        times.append((time.perf_counter() - begin) * 1000)


def measure(options, tensorflow, steps, case, shards):
    step, end = tensorflow.null_step(case, shards) if tensorflow else (None, None)
    for _ in range(options.rounds):
        for scheme in ("shm", "grpc"):
            timed_by_us(options, f"^NullStep/{scheme}/{case}/{shards}/", steps)
        if step:
            timed(step, options.seconds, steps[f"NullStep/tensorflow/{case}/{shards}"])
    if end:
        end()


# --- what is written ---


def percentile(times, percent):
    ordered = sorted(times)
    at = percent / 100 * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def digits(value):
    return f"{value:#.3g}".rstrip(".")


def spread(times):
    if not times:
        return "-"
    low, median, high = (digits(percentile(times, percent)) for percent in (10, 50, 90))
    return f"{median} ({low} - {high})" if len(times) > 1 else median


def write_tsv(path, steps, subgraphs):
    lines = ["name\tsteps\tmedian_ms\tp10_ms\tp90_ms"]
    for name, times in steps.items():
        lines.append(
            "\t".join([name, str(len(times))] + [f"{percentile(times, percent):.6g}" for percent in (50, 10, 90)])
        )
    lines += ["", "rate\tin_flight\tsteps_per_second"]
    lines += [f"{scheme}\t{in_flight}\t{percentile(found, 50):.6g}" for (scheme, in_flight), found in subgraphs.items()]
    path.write_text("\n".join(lines) + "\n")


def ratio(steps, case, shards, side):
    theirs, ours = steps.get(f"NullStep/tensorflow/{case}/{shards}"), steps.get(f"NullStep/{side}/{case}/{shards}")
    return digits(percentile(theirs, 50) / percentile(ours, 50)) if theirs and ours else "-"


def table(*rows):
    return ["| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])] + [""]


def write_markdown(path, options, load, steps, subgraphs, versions, done):
    said = (
        f"Null step in ms: median (10th - 90th percentile) of {options.rounds} turns of {options.seconds:g} s. {os.cpu_count()} cores, "
        f"load {load[0]:.1f} when it began and {os.getloadavg()[0]:.1f} when it ended. {versions} {options.note}"
    )
    cells = [[case, str(shards)] + [spread(steps.get(f"NullStep/{side}/{case}/{shards}")) for side in SIDES] +
             [ratio(steps, case, shards, side) for side in SIDES[:2]] for case, shards in done]
    bounds = [
        [name.removeprefix("Bound/"), spread(times)] for name, times in steps.items() if name.startswith("Bound/")
    ]
    in_flight = sorted({key[1] for key in subgraphs})
    per_second = [
        [str(n)] + [f"{percentile(subgraphs[scheme, n], 50):,.0f}" for scheme in SIDES[:2]] for n in in_flight
    ]
    lines = [said.rstrip(), ""]
    lines += table(["case", "shards", "shm", "gRPC", "TensorFlow", "TensorFlow / shm", "TensorFlow / gRPC"], *cells)
    lines += table(["bound", "ms"], *bounds)
    lines += table(["steps of nothing in flight on one task", "shm, a second", "gRPC, a second"], *per_second)
    path.write_text("\n".join(lines))


def write_svg(path, steps, done):
    """A panel a case; both axes are logarithmic."""
    colors = dict(zip(SIDES, ("#1b7837", "#2166ac", "#b2182b")))
    medians = {name: percentile(times, 50) for name, times in steps.items() if name.startswith("NullStep/")}
    first, last = math.floor(math.log10(min(medians.values()))), math.ceil(math.log10(max(medians.values())))
    decades = [10.0**power for power in range(first, last + 1)]
    cases = list(dict.fromkeys(case for case, _ in done))
    width, height, top, left = 190, 300, 40, 60
    base = top + height

    def y(ms):
        return base - height * (math.log10(ms) - first) / (last - first)

    def text(x, at, words, more=""):
        out.append(f'<text x="{x:.1f}" y="{at:.1f}" {more}>{words}</text>')

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + len(cases) * width + 10}" height="{base + 60}" font-size="11" '
        'font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for ms in decades:
        text(left - 6, y(ms) + 4, f"{ms:g} ms", 'text-anchor="end"')
    for i, side in enumerate(SIDES):
        text(left + 80 * i, base + 50, side, f'fill="{colors[side]}"')
    text(left, base + 33, "parameter servers")
    for panel, case in enumerate(cases):
        x0 = left + panel * width
        xs = {n: x0 + 12 + (width - 34) * math.log2(n) / 4 for n in SHARDS}
        text(x0, top - 12, case, 'font-weight="bold"')
        out += [
            f'<line x1="{x0}" x2="{x0 + width - 10}" y1="{y(ms):.1f}" y2="{y(ms):.1f}" stroke="#ddd"/>'
            for ms in decades
        ]
        for n, x in xs.items():
            text(x, base + 16, n, 'text-anchor="middle"')
        for side in SIDES:
            points = [
                (xs[n], y(medians[key]))
                for c, n in done
                if c == case and (key := f"NullStep/{side}/{case}/{n}") in medians
            ]
            line = " ".join(f"{x:.1f},{at:.1f}" for x, at in points)
            out.append(f'<polyline fill="none" stroke="{colors[side]}" points="{line}"/>')
            out += [f'<circle cx="{x:.1f}" cy="{at:.1f}" r="3" fill="{colors[side]}"/>' for x, at in points]
    path.write_text("\n".join(out + ["</svg>"]) + "\n")


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    options = parse()
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    options.out.mkdir(parents=True, exist_ok=True)
    load, steps = os.getloadavg(), collections.defaultdict(list)
    done = [
        (case, shards) for case in options.cases for shards in options.shards if case != "sparse_1GB" or shards <= 2
    ]
    tensorflow, versions = None, "TensorFlow is not measured: this Python has none."
    if importlib.util.find_spec("tensorflow"):
        tensorflow = TensorFlow(max(shards for _, shards in done))
        versions = f"TensorFlow {tensorflow.tf.__version__}."
    else:
        print(f"figure7: TENSORFLOW IS NOT MEASURED: {sys.executable} has no package tensorflow", file=sys.stderr)
    try:
        bare_grpc(options, steps)
        for i, (case, shards) in enumerate(done):
            print(f"figure7: {case} over {shards}", flush=True)
            if i == 0 or case != done[i - 1][0]:
                timed_by_us(options, "^Bound/", steps)
            measure(options, tensorflow, steps, case, shards)
    finally:
        if tensorflow:
            tensorflow.end()
    subgraphs = rates(options)
    write_tsv(options.out / "figure7.tsv", steps, subgraphs)
    write_markdown(options.out / "figure7.md", options, load, steps, subgraphs, versions, done)
    write_svg(options.out / "figure7.svg", steps, done)
    print((options.out / "figure7.md").read_text())


if __name__ == "__main__":
    main()
