#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs, beside TensorFlow and ONNX Runtime in the same run, and beside C++.

usage: front_ends.py --build build/release [--peers PYTHON_WITH_TENSORFLOW_AND_ONNXRUNTIME] [--rounds 5]

  first     from a new process to the first answer of a small model (a dense layer): milliseconds and megabytes over
  those of a process that imports NumPy call      one step of x + 1 with a scalar that comes and goes as NumPy arrays,
  prepared: microseconds (TensorFlow: a concrete function; its Session as `session`) build     nodes of a chain of
  additions, added to a graph: thousands a second
  digits    a training step of the network that `tenon train digits` trains: microseconds, beside the command's own,
  which is C++ throughout

Each is the least of so many rounds, in which all sides take turns. PYTHON is a Python with tensorflow, onnxruntime,
onnx and numpy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TIMER = """
import time, sys
def least(step, count):
    best = 1e9
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        best = min(best, (time.perf_counter() - begin) / count)
    print(best)
"""

FIRST = {
    "numpy": "import numpy",
    "tenon": "import numpy, tenon; tenon.load(sys.argv[1])(numpy.zeros((1, 3), numpy.float32))",
    "tensorflow": "import numpy, tensorflow as tf; m = tf.saved_model.load(sys.argv[1]); f = m.signatures['serving_default']; "
    "n = list(f.structured_input_signature[1])[0]; f(**{n: tf.constant(numpy.zeros((1, 3), numpy.float32))})",
    "onnxruntime": "import numpy, onnxruntime as o; o.InferenceSession(sys.argv[2], providers=['CPUExecutionProvider']).run(None, {'x': numpy.zeros((1, 3), numpy.float32)})",
}
MEMORY = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"

CALL = {
    "tenon": """
import numpy, tenon
with tenon.Graph() as graph:
    x = tenon.placeholder("float32", [])
    step = tenon.Session(graph).prepare(x + 1.0, [x])
value = numpy.float32(2)
least(lambda: step(value), 20000)""",
    "tensorflow": """
import numpy, tensorflow as tf
f = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([], tf.float32)]).get_concrete_function()
value = numpy.float32(2)
least(lambda: f(tf.constant(value)).numpy(), 2000)""",
    "tensorflow session": """
import numpy, tensorflow as tf
with tf.Graph().as_default():
    x = tf.compat.v1.placeholder(tf.float32, [])
    y = x + 1.0
    step = tf.compat.v1.Session().make_callable(y, [x])
value = numpy.float32(2)
least(lambda: step(value), 2000)""",
    "onnxruntime": """
import numpy, onnxruntime as o
session = o.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
value = numpy.array(2, numpy.float32)
least(lambda: session.run(None, {"x": value}), 5000)""",
}

BUILD = {
    "tenon": """
import tenon
def build():
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [])
        one = tenon.constant(1.0)
        for _ in range(10000):
            x = tenon.ops.AddV2(x, one)
least(build, 1)""",
    "tensorflow": """
import tensorflow as tf
def build():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [])
        one = tf.constant(1.0)
        for _ in range(10000):
            x = tf.raw_ops.AddV2(x=x, y=one)
least(build, 1)""",
}

DIGITS = """
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location("digits", sys.argv[1])
text = open(sys.argv[1]).read()
code = text[:text.index("def show")].replace("STEPS = 32, 1200", "STEPS = 32, " + sys.argv[2])
exec(compile(code, sys.argv[1], "exec"))
batch = feed(1)
trainer = train.Trainer(model, loss=loss, metrics={"accuracy": accuracy}, update=update, feeds=[pixels, wanted], feed=lambda step: batch, steps=STEPS)
report = trainer.run(tenon.Session(graph))
print(report["seconds"] / STEPS)
"""


def onnx_models(python, folder):
    """A dense layer of 3 to 2, and x + 1."""
    text = f"""
import numpy, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as n
def save(name, nodes, x, y, constants):
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, x)], [h.make_tensor_value_info("y", T.FLOAT, y)],
                         [n.from_array(numpy.array(v, numpy.float32), k) for k, v in constants.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9), {str(folder)!r} + "/" + name + ".onnx")
save("dense", [h.make_node("Gemm", ["x", "w", "b"], ["y"])], [None, 3], [None, 2], dict(w=numpy.ones((3, 2)), b=numpy.ones(2)))
save("add", [h.make_node("Add", ["x", "one"], ["y"])], [], [], dict(one=1.0))
"""
    subprocess.run([python, "-c", text], check=True)


def saved_model(python, folder):
    text = f"""
import tensorflow as tf
class Dense(tf.Module):
    def __init__(self):
        self.w, self.b = tf.Variable(tf.ones((3, 2))), tf.Variable(tf.ones(2))
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def __call__(self, x):
        return {{"y": x @ self.w + self.b}}
module = Dense()
tf.saved_model.save(module, {str(folder / "dense")!r}, signatures=module.__call__)
"""
    subprocess.run([python, "-c", text], check=True, stderr=subprocess.DEVNULL)


def own_model(python, environment, folder):
    """The same without TensorFlow, where there is none."""
    text = f"""
import numpy, tenon
with tenon.Graph() as graph:
    x = tenon.placeholder("float32", [None, 3], name="x")
    y = x @ numpy.ones((3, 2), numpy.float32) + 1.0
    tenon.save({str(folder / "dense")!r}, tenon.Session(graph), {{"serving_default": tenon.Signature({{"x": x}}, {{"y": y}})}})
"""
    subprocess.run([python, "-c", text], check=True, env=environment)


class Sides:
    def __init__(self, options, folder):
        self.build = pathlib.Path(options.build).resolve()
        self.folder, self.rounds = folder, options.rounds
        self.own = str(self.build / "python_environment" / "bin" / "python")
        self.environment = {**os.environ, "PYTHONPATH": str(self.build / "python"), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed packages are: compiled before
        self.pythons = {"tenon": self.own, "numpy": self.own}
        for peer in ("tensorflow", "onnxruntime"):
            if (
                options.peers
                and subprocess.run([options.peers, "-c", f"import {peer}"], capture_output=True, check=False).returncode
                == 0
            ):
                self.pythons[peer] = options.peers

    def run(self, side, code, *arguments):
        python = self.pythons[side.split()[0]]
        done = subprocess.run(
            [python, "-c", code, *map(str, arguments)], check=True, capture_output=True, text=True, env=self.environment
        )
        return done.stdout.split()

    def of(self, programs):
        return [side for side in programs if side.split()[0] in self.pythons]

    def least(self, programs, *arguments):
        found = {}
        for _ in range(self.rounds):
            for side in self.of(programs):
                seconds = float(self.run(side, TIMER + programs[side], *arguments)[-1])
                found[side] = min(seconds, found.get(side, seconds))
        return found

    def first(self):
        """(seconds, kilobytes) of each; NumPy's own of the same Python are taken off."""
        import time

        found = {}
        sides = [(side, python) for side, python in self.pythons.items() if side != "numpy"]
        for _ in range(self.rounds):
            for side, python in sides:
                for name, code in ((side + " numpy", FIRST["numpy"]), (side, FIRST[side])):
                    begin = time.perf_counter()
                    done = subprocess.run(
                        [
                            python,
                            "-c",
                            "import sys\n" + code + MEMORY,
                            str(self.folder / "dense"),
                            str(self.folder / "dense.onnx"),
                        ],
                        check=True,
                        capture_output=True,
                        text=True,
                        env=self.environment,
                    )
                    seconds, kilobytes = time.perf_counter() - begin, int(done.stdout.split()[-1])
                    before = found.get(name, (seconds, kilobytes))
                    found[name] = (min(seconds, before[0]), min(kilobytes, before[1]))
        return {side: tuple(a - b for a, b in zip(found[side], found[side + " numpy"])) for side, _ in sides}

    def digits(self):
        python, command = [], []
        script = pathlib.Path(__file__).resolve().parents[2] / "sdk" / "examples" / "python" / "digits.py"
        for i in range(self.rounds):
            python.append(float(self.run("tenon", DIGITS, script, 1500)[-1]))
            done = subprocess.run(
                [
                    self.build / "bin" / "tenon",
                    "train",
                    "digits",
                    "--steps",
                    "1500",
                    "--checkpoint-steps",
                    "0",
                    "--restart",
                    "--json",
                    "--folder",
                    self.folder / f"digits{i}",
                ],
                check=True,
                capture_output=True,
                text=True,
            )
            command.append(json.loads(done.stdout)["seconds"] / 1500)
        return {"python": min(python), "c++": min(command)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--peers", default="")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sides = Sides(options, folder)
        if "tensorflow" in sides.pythons:
            saved_model(options.peers, folder)
        else:
            own_model(sides.own, sides.environment, folder)
        if "onnxruntime" in sides.pythons:
            onnx_models(options.peers, folder)
        print("sides:", ", ".join(side for side in sides.pythons if side != "numpy"))
        for side, (seconds, kilobytes) in sides.first().items():
            print(f"first    {side:20} {seconds * 1e3:9.1f} ms  {kilobytes / 1024:8.1f} MB")
        for what, programs, unit in (
            ("call", CALL, lambda s: f"{s * 1e6:9.2f} us"),
            ("build", BUILD, lambda s: f"{10 / s:9.1f} thousand nodes/s"),
        ):
            found = sides.least(programs, folder / "add.onnx")
            for side, seconds in found.items():
                ratio = seconds / found["tenon"]
                print(
                    f"{what:8} {side:20} {unit(seconds)}"
                    + ("" if side == "tenon" else f"  {ratio:.1f} times Tenon's time")
                )
        digits = sides.digits()
        print(
            f"digits   {'python':20} {digits['python'] * 1e6:9.1f} us  {digits['python'] / digits['c++']:.3f} of the command's {digits['c++'] * 1e6:.1f}"
        )


if __name__ == "__main__":
    sys.exit(main())
