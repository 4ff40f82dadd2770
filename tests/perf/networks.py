#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole networks, inference: Tenon beside TensorFlow, ONNX Runtime, OpenVINO and PyTorch, on the same weights and
pictures.

    networks.py [--only NAME]... [--batch 1 8] [--threads 1 2] [--seconds 1] [--rounds 2] [--out build/networks]
    [--build build/release] [--made]

A network of tests/models, in its published size where that is not what tests/models has, is built by TensorFlow with
seeded weights and frozen into one GraphDef, which Tenon and TensorFlow run as it is (`tenon run --time`; a prepared
callable with TensorFlow's fast kernels and Grappler). The others get it as ONNX, made by tf2onnx: ONNX Runtime and
OpenVINO (its latency hint, in float32) run that, PyTorch the modules that onnx2torch makes of it (eager; with --engines
pytorch_compiled also torch.compile). What an engine cannot be given is empty, with the reason in networks.json. Each
result is compared with TensorFlow's. Every timing is the median of as many steps as fit into --seconds, in a process of
its own, the engines in turn; the least of the rounds counts.

Needs a Python with tensorflow-cpu, tf2onnx, onnx, onnxruntime, openvino, torch, torchvision and onnx2torch (of which
those that are missing are left out, and said). Writes networks.md and networks.json. Below the table: where Tenon's
time goes in the three networks that stand worst beside the best of the others.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
LONGEST = 900  # seconds that one program may take
CLOSE = 1e-3  # the largest difference over the largest element
PUBLISHED = {
    "alexnet": {"side": 227, "width": 1.0},
    "bert_encoder": {"words": 30522, "width": 768, "heads": 12, "layers": 12, "steps": 128},
    "densenet121": {"side": 224, "growth": 32},
    "inception_v3": {"side": 299, "width": 1.0},
    "mobilenet_v2": {"side": 224, "width": 1.0},
    "resnet50": {"side": 224, "width": 1.0},
    "unet": {"base": 32},
    "vgg_a": {"side": 224, "width": 1.0},
}
LEFT_OUT = ("kmeans", "word2vec")  # which infer nothing that takes time


# ---- In processes of their own: making a network, and timing one engine ----

def make(name, batch, folder):
    """graph.pb, model.onnx where it can be made, feeds.npz, outputs.npz (TensorFlow's), model.json."""
    sys.path.insert(0, str(HERE.parent / "models"))
    import numpy as np
    import tensorflow as tf
    from networks import NETWORKS, build
    tf.compat.v1.disable_eager_execution()
    model = build(NETWORKS[name](batch=batch, **PUBLISHED.get(name, {})))
    with tf.compat.v1.Session(graph=model.graph) as session:
        session.run("init")
        frozen = tf.compat.v1.graph_util.convert_variables_to_constants(
            session, model.graph.as_graph_def(), model.outputs
        )
        inputs = [node.name for node in frozen.node if node.op == "Placeholder"]
        feeds = {key: value for key, value in model.feeds.items() if key in inputs}
        outputs = session.run(
            [f"{one}:0" for one in model.outputs], {f"{key}:0": value for key, value in feeds.items()}
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.pb").write_bytes(frozen.SerializeToString())
    np.savez(
        folder / "feeds.npz",
        **{key: value.astype(bytes) if value.dtype == object else value for key, value in feeds.items()},
    )
    np.savez(folder / "outputs.npz", **{one.replace("/", "."): value for one, value in zip(model.outputs, outputs)})
    about = {"inputs": inputs, "outputs": model.outputs}
    try:
        import tf2onnx
        spell_out(frozen)
        tf2onnx.convert.from_graph_def(
            frozen,
            input_names=[f"{one}:0" for one in inputs],
            output_names=[f"{one}:0" for one in model.outputs],
            opset=17,
            output_path=str(folder / "model.onnx"),
        )
    except Exception as error:  # whatever a converter does
        (folder / "model.onnx").unlink(missing_ok=True)
        about["onnx"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    (folder / "model.json").write_text(json.dumps(about))


def spell_out(graph):
    """Ops that tf2onnx does not know, by others that it does."""
    import tensorflow as tf
    for node in list(graph.node):
        if node.op == "Erfc":  # 1 - erf
            erf, one = graph.node.add(), graph.node.add(name=f"{node.name}/one", op="Const")
            erf.CopyFrom(node)
            erf.name, erf.op = f"{node.name}/erf", "Erf"
            one.attr["dtype"].CopyFrom(node.attr["T"])
            one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
            node.op = "Sub"
            node.input[:] = [one.name, erf.name]


def median(step, seconds):
    """Of a step, in us."""
    end = time.perf_counter() + seconds / 4
    while time.perf_counter() < end:  # warm
        step()
    step()
    took, end = [], time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        took.append(time.perf_counter() - begin)
    return 1e6 * sorted(took)[len(took) // 2]


def tensorflow(folder, about, feeds, threads):
    import tensorflow as tf
    graph = tf.Graph()
    with graph.as_default():
        definition = tf.compat.v1.GraphDef.FromString((folder / "graph.pb").read_bytes())
        tf.import_graph_def(definition, name="")
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    session = tf.compat.v1.Session(graph=graph, config=config)
    call = session.make_callable([f"{one}:0" for one in about["outputs"]], [f"{one}:0" for one in about["inputs"]])
    return lambda: call(*[feeds[one] for one in about["inputs"]])


def onnxruntime(folder, about, feeds, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    given = {f"{one}:0": feeds[one] for one in about["inputs"]}
    return lambda: session.run([f"{one}:0" for one in about["outputs"]], given)


def openvino(folder, about, feeds, threads):
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(
        core.read_model(str(folder / "model.onnx")),
        "CPU",
        {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"},
    )
    request = compiled.create_infer_request()
    given = {f"{one}:0": feeds[one] for one in about["inputs"]}

    def step():
        found = request.infer(given, share_inputs=True, share_outputs=True)
        return [found[compiled.output(f"{one}:0")] for one in about["outputs"]]
    return step


def pytorch(folder, about, feeds, threads, compiled=False):
    import onnx
    import onnx2torch
    import torch
    torch.set_num_threads(threads)
    model = onnx2torch.convert(onnx.load(str(folder / "model.onnx"))).eval()
    names = [one.name for one in onnx.load(str(folder / "model.onnx"), load_external_data=False).graph.input]
    given = [torch.from_numpy(feeds[one.removesuffix(":0")].copy()) for one in names]
    if compiled:
        model = torch.compile(model)

    def step():
        with torch.inference_mode():
            found = model(*given)
        return [one.numpy() for one in (found if isinstance(found, (tuple, list)) else [found])]
    return step


def pytorch_compiled(folder, about, feeds, threads):
    return pytorch(folder, about, feeds, threads, compiled=True)


PEERS = {each.__name__: each for each in (tensorflow, onnxruntime, openvino, pytorch, pytorch_compiled)}


def check(found, folder, about):
    import numpy as np
    with np.load(folder / "outputs.npz") as wanted:
        for name, value in zip(about["outputs"], found):
            want = wanted[name.replace("/", ".")]
            if want.dtype.kind != "f":
                continue
            error = float(np.max(np.abs(value - want), initial=0.0)) / max(
                float(np.max(np.abs(want), initial=0.0)), 1e-30
            )
            if value.shape != want.shape or not error < CLOSE:
                raise RuntimeError(f"{name} is off by {error:.1e} of its largest element")


def time_peer(engine, folder, threads, seconds):
    """The median step in us. One number of threads a process: some libraries keep to their first."""
    import numpy as np
    about = json.loads((folder / "model.json").read_text())
    if engine != "tensorflow" and "onnx" in about:
        raise RuntimeError(f"no ONNX: {about['onnx']}")
    with np.load(folder / "feeds.npz") as archive:
        feeds = {name: archive[name] for name in archive.files}
    step = PEERS[engine](folder, about, feeds, threads)
    check(step(), folder, about)
    return median(step, seconds)


def time_tenon(options, folder, seconds, guesses):
    import numpy as np
    about = json.loads((folder / "model.json").read_text())
    found = {}
    for threads in options.threads:
        ends = folder / "tenon.npz"
        command = [
            options.build / "bin" / "tenon",
            "run",
            folder / "graph.pb",
            "--feed",
            folder / "feeds.npz",
            "--time",
            "--threads",
            threads,
        ]
        command += [word for one in about["outputs"] for word in ("--fetch", f"{one}={ends}")]
        repeat = 5 if threads not in guesses else max(8, int(seconds * 1e6 / guesses[threads]))  # the first ones warm
        out = program([*command, "--repeat", repeat])
        number, unit = re.search(r"median ([\d.]+) (\w+)", out).groups()
        found[threads] = guesses[threads] = float(number) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[unit]
        with np.load(ends) as values:
            check([values[one if one in values.files else f"{one}:0"] for one in about["outputs"]], folder, about)
    return found


# ---- The whole ----

def program(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LONGEST)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise RuntimeError(lines[-1][:300])
    return done.stdout


def measure(options, name, batch):
    """{engine: {threads: us} or why not}"""
    folder = options.out / f"{name}.{batch}"
    if not (options.made and (folder / "model.json").exists()):
        program([sys.executable, __file__, "--make", folder, "--only", name, "--batch", batch])
    found, guesses = {}, {}
    for engine in ["tenon", *options.engines]:
        found[engine] = {}
    for turn in range(options.rounds + 1):  # the first shows how long a step takes
        for engine, times in found.items():
            if isinstance(times, str) or (turn == 0 and engine != "tenon"):
                continue
            try:
                if engine == "tenon":
                    fresh = time_tenon(options, folder, options.seconds, guesses)
                else:
                    fresh = {}
                    for threads in options.threads:
                        out = program(
                            [
                                sys.executable,
                                __file__,
                                "--peer",
                                engine,
                                folder,
                                "--threads",
                                threads,
                                "--seconds",
                                options.seconds,
                            ]
                        )
                        fresh[threads] = float(out.strip().splitlines()[-1])
                for threads, value in fresh.items():
                    times[threads] = min(times.get(threads, math.inf), value)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                found[engine] = str(error)
    return found


def where(options, name, batch, threads):
    """What of a step goes into which ops, as Tenon's trace says."""
    folder = options.out / f"{name}.{batch}"
    about = json.loads((folder / "model.json").read_text())
    trace = folder / "trace.json"
    command = [
        options.build / "bin" / "tenon",
        "run",
        folder / "graph.pb",
        "--feed",
        folder / "feeds.npz",
        "--repeat",
        "10",
        "--threads",
        threads,
        "--trace",
        trace,
    ]
    program(command + [word for one in about["outputs"] for word in ("--fetch", f"{one}={folder / 'tenon.npz'}")])
    spent = collections.Counter()
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("ph") == "X":
            spent[event["cat"]] += event["dur"]  # the op
    whole = sum(spent.values())
    return ", ".join(f"{op} {100 * took / whole:.0f} %" for op, took in spent.most_common(6))


def ratio(found, engine, threads):
    """The engine's time over Tenon's."""
    mine, theirs = found["tenon"], found[engine]
    return None if isinstance(mine, str) or isinstance(theirs, str) else theirs[threads] / mine[threads]


def report(options, results):
    lines = [
        "Milliseconds a step of Tenon, and the others' time over Tenon's.",
        "",
        f"| network | batch | threads | Tenon | {' | '.join(options.engines)} |",
        "| --- " * (4 + len(options.engines)) + "|",
    ]
    worst = []
    for (name, batch), found in results.items():
        for threads in options.threads:
            ratios = [ratio(found, engine, threads) for engine in options.engines]
            mine = found["tenon"] if isinstance(found["tenon"], str) else f"{found['tenon'][threads] / 1e3:.3g}"
            lines.append(
                f"| {name} | {batch} | {threads} | {mine} | {' | '.join('' if r is None else f'{r:.2f}' for r in ratios)} |"
            )
            known = [r for r in ratios if r is not None]
            if known:
                worst.append((min(known), name, batch, threads))
    for engine in options.engines:
        known = [r for found in results.values() for threads in options.threads if (r := ratio(found, engine, threads))]
        if known:
            lines.append(
                f"\nGeometric mean of {engine}: {math.exp(sum(map(math.log, known)) / len(known)):.2f} of {len(known)}."
            )
    seen = set()
    for least, name, batch, threads in sorted(worst):
        if name not in seen and len(seen) < 3:
            seen.add(name)
            lines.append(
                f"\n{name}, batch {batch}, {threads} threads ({least:.2f}): {where(options, name, batch, threads)}."
            )
    reasons = {
        f"{name}, batch {batch}, {engine}": why
        for (name, batch), found in results.items()
        for engine, why in found.items()
        if isinstance(why, str)
    }
    lines += ["", *[f"- {which}: {why}" for which, why in reasons.items()]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--engines", nargs="+", choices=sorted(PEERS), default=["tensorflow", "onnxruntime", "openvino", "pytorch"]
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/networks"))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--made", action="store_true", help="networks that --out holds already are not made again")
    parser.add_argument("--make", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        return make(options.only[0], options.batch[0], options.make)
    if options.peer:
        return print(time_peer(options.peer[0], pathlib.Path(options.peer[1]), options.threads[0], options.seconds))
    listed = re.findall(
        r'@network\("(\w+)"\)',
        "".join(path.read_text() for path in sorted((HERE.parent / "models" / "networks").glob("*.py"))),
    )
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in options.only or [each for each in sorted(listed) if each not in LEFT_OUT]:
        for batch in options.batch:
            results[name, batch] = measure(options, name, batch)
            print(name, batch, results[name, batch], flush=True)
            (options.out / "networks.json").write_text(
                json.dumps({f"{name}.{batch}": found for (name, batch), found in results.items()}, indent=1) + "\n"
            )
    text = report(options, results)
    (options.out / "networks.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
