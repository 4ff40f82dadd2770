# SPDX-License-Identifier: Apache-2.0
"""Other frameworks beside Tenon in one Python process, in every order of importing: right values, and a clean end.

usage: PYTHONPATH=build/release/python PYTHON frameworks.py [--times N] [NAME...]     NAME: tensorflow, torch, jax, cv2;
those that PYTHON has, unless they are named
"""

import argparse
import importlib.util
import itertools
import pathlib
import subprocess
import sys

MODELS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models"
NAMES = ("tensorflow", "torch", "jax", "cv2")

# What each does, in a process that has imported all.
USE = {
    "tenon": """
import json, pathlib, tempfile
models = pathlib.Path(MODELS)
array = lambda value: numpy.array(value["values"], value["dtype"]).reshape(value["shape"])
for name in ("keras_dense", "vocabulary", "v1"):
    for case in json.loads((models / "models.json").read_text())[name]:
        got = tenon.load(models / name).signatures[case["signature"]].run({key: array(value) for key, value in case["inputs"].items()})
        for key, value in case["outputs"].items():
            if value["dtype"] != "string": numpy.testing.assert_allclose(got[key], array(value), rtol=1e-5, atol=1e-5)
graph = tenon.Graph()
with graph:
    picture = tenon.constant(numpy.arange(48, dtype=numpy.uint8).reshape(4, 4, 3))
    fetches = [tenon.ops.RegexReplace(["aXb"], "X", "--"), tenon.ops.DecodePng(tenon.ops.EncodePng(picture)), tenon.ops.Shape(tenon.ops.DecodeJpeg(tenon.ops.EncodeJpeg(picture))),
               tenon.ops.StringUpper(["größe"], encoding="utf-8"), tenon.ops.Conv2D(numpy.ones((1, 8, 8, 3), "f"), numpy.ones((3, 3, 3, 4), "f"), [1, 1, 1, 1], "VALID")]
    weights = tenon.train.Model(graph)
    y = weights.dense("layer", tenon.constant(numpy.ones((2, 3), "f")), 2)
session = tenon.Session(graph)
session.run(weights.initialize_all())
text, png, shape, upper, sums = session.run(fetches)
assert text.tolist() == [b"a--b"] and upper.tolist() == ["GRÖSSE".encode()] and shape.tolist() == [4, 4, 3], (text, upper, shape)
assert (png == numpy.arange(48).reshape(4, 4, 3)).all() and (sums == 27).all()
with tempfile.TemporaryDirectory() as folder:
    tenon.save(session, folder + "/m", outputs={"y": y})
    numpy.testing.assert_array_equal(tenon.load(folder + "/m")()["y"], session.run(y))
""",
    "tensorflow": """
assert tensorflow.strings.regex_replace(["aXb"], "X", "--").numpy().tolist() == [b"a--b"]
assert tensorflow.io.decode_png(tensorflow.io.encode_png(numpy.zeros((2, 2, 3), numpy.uint8))).shape == (2, 2, 3)
assert (tensorflow.nn.conv2d(numpy.ones((1, 8, 8, 3), "f"), numpy.ones((3, 3, 3, 4), "f"), 1, "VALID").numpy() == 27).all()
""",
    "torch": "assert (torch.ones(4, 4) @ torch.ones(4, 4)).sum().item() == 64",
    "jax": "assert float(jax.jit(lambda x: (x @ x).sum())(jax.numpy.ones((4, 4)))) == 64",
    "cv2": "assert cv2.imdecode(cv2.imencode('.png', numpy.zeros((4, 4, 3), numpy.uint8))[1], 1).shape == (4, 4, 3)",
}


def program(order, used):
    imports = "".join(f"import {name}\n" for name in order)
    return (
        f"import numpy\n{imports}MODELS = {str(MODELS)!r}\n"
        + "".join(USE[name] for name in used)
        + "\nprint('right')\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1, help="how often each order is tried")
    parser.add_argument("names", nargs="*", choices=[[], *NAMES])
    given = parser.parse_args()
    names = given.names or [name for name in NAMES if importlib.util.find_spec(name)]
    if not names:
        sys.exit("this Python has none of " + ", ".join(NAMES))
    tried = failed = 0
    for order in itertools.permutations(["tenon", *names]):
        for used in (order, tuple(reversed(order))):
            for _ in range(given.times):
                done = subprocess.run(
                    [sys.executable, "-B", "-c", program(order, used)], capture_output=True, text=True, timeout=600
                )
                tried += 1
                if done.returncode != 0 or not done.stdout.endswith("right\n"):
                    failed += 1
                    print(
                        f"{' '.join(order)}, used as {' '.join(used)}: ended with {done.returncode}\n{done.stderr[-2000:]}"
                    )
    print(f"{tried} processes with {', '.join(names)}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
