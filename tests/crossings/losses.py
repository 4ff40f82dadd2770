# SPDX-License-Identifier: Apache-2.0
"""Losses of control flow whose gradients TensorFlow judges.

    losses.py --make FOLDER --seeds FIRST --count COUNT   by a Python that has TensorFlow: makes losses, and asks it for
    their gradients losses.py FOLDER                                      by a Python that has tenon: must give the same

A seed is a loss of four variables, in loops, branches, maps, folds and functions that lie in each other, in four forms:
variables as references and as resources, control flow as frames and as functions. Whatever the form, the loss is the
same; so the second gradient that TensorFlow has of functions judges frames too, of whose loops it has none, or another
one. Where the two differ, differences of the first gradient along a direction say who is right.

Exits with 0 when nothing differs, 1 when something does.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import sys

import numpy as np

VARIABLES = ["v0", "v1", "v2", "table"]
SHAPES = {"v0": [3], "v1": [], "v2": [3], "table": [4, 3]}
FED = np.array([0.31, -0.6, 0.83])
STEP = 1e-6


class Loss:
    """A loss from a seed, as nodes of TensorFlow's current graph."""

    def __init__(self, tf, seed, uses_resources):
        self.tf, self.dice = tf, random.Random(seed)
        self.variables = {name: self.variable(name, uses_resources) for name in VARIABLES}
        self.x = tf.compat.v1.placeholder(tf.float64, [3], name="x")

    def variable(self, name, is_resource):
        first = [self.dice.uniform(0.3, 0.9) * self.dice.choice([1, -1]) for _ in range(int(np.prod(SHAPES[name])))]
        return self.tf.compat.v1.get_variable(
            name, initializer=np.array(first).reshape(SHAPES[name]), use_resource=is_resource
        )

    def make(self):
        total = self.control([], 3) + 0.1 * self.value([], 2)
        return self.tf.identity(self.tf.reduce_sum(total), name="the_loss")

    def leaf(self, inside):
        """inside: what the loops and functions around have."""
        tf, dice = self.tf, self.dice
        draw = dice.randrange(10)
        if draw < 3 and inside:
            return dice.choice(inside)
        if draw < 4:
            return self.x
        if draw < 5:
            return tf.gather(self.variables["table"], tf.constant(dice.randrange(4)))
        if draw < 6:
            return tf.reduce_sum(
                tf.gather(self.variables["table"], tf.constant([dice.randrange(4), dice.randrange(4)])), 0
            )
        return tf.identity(self.variables[dice.choice(VARIABLES[:3])]) + tf.zeros([3], tf.float64)

    def value(self, inside, depth):
        tf = self.tf
        draw = self.dice.randrange(16)
        if depth <= 0 or draw < 2:
            return self.leaf(inside)
        if draw < 5:
            return self.value(inside, depth - 1) * self.value(inside, depth - 1) * 0.7
        if draw < 7:
            return self.value(inside, depth - 1) + self.value(inside, depth - 1)
        if draw < 9:
            return tf.tanh(self.value(inside, depth - 1))
        if draw == 9:
            return tf.sin(self.value(inside, depth - 1))
        return self.control(inside, depth - 1)

    def control(self, inside, depth):
        tf = self.tf
        draw = self.dice.randrange(8)
        if draw < 3:
            return self.loop(inside, depth)
        if draw < 5:
            asked = tf.reduce_sum(self.leaf(inside)) > self.dice.choice([-0.5, 0.0, 0.5])
            return tf.ensure_shape(
                tf.cond(asked, lambda: self.value(inside, depth) + 0.0, lambda: self.value(inside, depth) + 0.0), [3]
            )
        if draw == 5:
            return tf.ensure_shape(tf.function(lambda given: self.value([given], depth))(self.leaf(inside)), [3])
        if draw == 6:
            return tf.map_fn(
                lambda element: tf.reduce_sum(self.value(inside + [element + tf.zeros([3], tf.float64)], depth)),
                self.leaf(inside),
            )
        turn = lambda state, element: state * 0.9 + element * self.value([state] + inside[:2], depth - 1)
        return tf.foldl(turn, self.leaf(inside), initializer=tf.ones([3], tf.float64))

    def loop(self, inside, depth):
        tf, dice = self.tf, self.dice
        turns = dice.randrange(0, 4) if dice.random() < 0.2 else dice.randrange(1, 4)
        first = self.leaf(inside) + 0.0
        next_value = lambda states, depth: tf.ensure_shape(self.value(list(states) + inside[:2], depth), [3])
        if dice.random() < 0.4:
            other = self.leaf(inside) + 0.0
            body = lambda i, a, b: (i + 1, next_value((a, b), depth), next_value((a, b), depth - 1))
            _, a, b = tf.while_loop(lambda i, a, b: i < turns, body, [tf.constant(0), first, other])
            return a + b * 0.5
        asks = lambda i, a: i < turns
        if dice.random() < 0.3:
            limit = dice.uniform(5, 30)
            asks = lambda i, a: tf.logical_and(i < 4, tf.reduce_sum(a * a) < limit)
        return tf.while_loop(asks, lambda i, a: (i + 1, next_value((a,), depth)), [tf.constant(0), first])[1]


def make(folder, seed, uses_functions, uses_resources):
    """Writes the loss in one form, with its gradients where TensorFlow has them."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    (tf1.enable_control_flow_v2 if uses_functions else tf1.disable_control_flow_v2)()
    graph = tf.Graph()
    with graph.as_default():
        made = Loss(tf, seed, uses_resources)
        loss = made.make()
        first_values = tf1.global_variables_initializer()
        variables = [made.variables[name] for name in VARIABLES]
        reads = [tf.identity(variable) for variable in variables]
        definition = graph.as_graph_def()
        dice = random.Random(seed + 1)
        weights = [
            np.array([dice.uniform(0.5, 1.5) for _ in range(int(np.prod(SHAPES[name])))]).reshape(SHAPES[name])
            for name in VARIABLES
        ]
        dense = lambda found: [None if each is None else tf.convert_to_tensor(each) for each in found]
        asked, refused = {"loss": loss}, ""
        first = dense(tf1.gradients(loss, variables))
        asked.update({f"first {name}": each for name, each in zip(VARIABLES, first) if each is not None})
        sums = [tf.reduce_sum(each * weight) for each, weight in zip(first, weights) if each is not None]
        second = {}
        try:
            if sums:
                found = dense(tf1.gradients(tf.add_n(sums), variables))
                second = {f"second {name}": each for name, each in zip(VARIABLES, found) if each is not None}
        except Exception as error:  # of frames it has none
            refused = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        with tf1.Session(
            graph=graph, config=tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        ) as session:
            session.run(first_values)
            given = session.run(asked, {made.x: FED})
            try:
                given.update(session.run(second, {made.x: FED}) if second else {})
            except Exception as error:
                refused = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            given.update({f"value {name}": value for name, value in zip(VARIABLES, session.run(reads))})
    given.update({f"weight {name}": weight for name, weight in zip(VARIABLES, weights)})
    name = f"{seed}_{'functions' if uses_functions else 'frames'}_{'resources' if uses_resources else 'references'}"
    (folder / f"{name}.pb").write_bytes(definition.SerializeToString())
    np.savez(folder / f"{name}.npz", **given)
    (folder / f"{name}.json").write_text(
        json.dumps({"seed": seed, "first_values": first_values.name, "second_refused": refused})
    )


def make_all(folder, first, count):
    folder.mkdir(parents=True, exist_ok=True)
    skipped = 0
    for seed in range(first, first + count):
        for form in range(4):
            try:
                make(folder, seed, form >= 2, form % 2 == 1)
            except Exception as error:
                skipped += 1
                print(
                    f"{seed}, form {form}: TensorFlow refuses: {type(error).__name__}: {str(error).splitlines()[0][:200]}",
                    flush=True,
                )
    print(f"{4 * count - skipped} losses made, {skipped} refused by TensorFlow")


class Asked:
    """One loss in one form, by tenon."""

    def __init__(self, path, weights):
        import tenon

        self.tenon = tenon
        self.about = json.loads(path.with_suffix(".json").read_text())
        self.graph = tenon.Graph.from_graph_def(path.with_suffix(".pb").read_bytes())
        variables = [self.graph[name] for name in VARIABLES]
        self.fetches = {"loss": self.graph["the_loss"]}
        self.total, self.refused = None, ""
        found = tenon.grad(self.graph["the_loss"], variables)
        with self.graph:
            first = {name: self.dense(each) for name, each in zip(VARIABLES, found) if each is not None}
            self.fetches.update({f"first {name}": each for name, each in first.items()})
            sums = [
                tenon.ops.Sum(each * weights[name], tenon.constant(np.arange(weights[name].ndim, dtype=np.int32)))
                for name, each in first.items()
            ]
            try:
                if sums:
                    self.total = tenon.ops.AddN(sums) if len(sums) > 1 else sums[0]
                    second = zip(VARIABLES, tenon.grad(self.total, variables))
                    self.fetches.update(
                        {f"second {name}": self.dense(each) for name, each in second if each is not None}
                    )
            except Exception as error:
                self.refused = f"{type(error).__name__}: {str(error)[:300]}"

    def dense(self, gradient):
        tenon = self.tenon
        if not isinstance(gradient, tenon.Slices):
            return gradient
        zero, one = (tenon.constant(np.array([number], np.int32)) for number in (0, 1))
        return tenon.ops.UnsortedSegmentSum(
            gradient.values,
            gradient.indices,
            tenon.ops.StridedSlice(gradient.dense_shape, zero, one, one, shrink_axis_mask=1),
        )

    def run(self):
        session = self.tenon.Session(self.graph)
        session.run(targets=[self.graph.operation(self.about["first_values"])])
        return {
            key: np.asarray(value)
            for key, value in zip(self.fetches, session.run(list(self.fetches.values()), {self.graph["x"]: FED}))
        }

    def along(self, values, direction):
        """The derivative of the weighed sum of the first gradients, by differences."""
        firsts = [self.graph[self.graph.operation(f"{name}/Assign").inputs[1].name] for name in VARIABLES]
        session, found = self.tenon.Session(self.graph), []
        for step in (STEP, -STEP):
            moved = [values[name] + step * direction[name] for name in VARIABLES]
            session.run([], dict(zip(firsts, moved)), targets=[self.graph.operation(self.about["first_values"])])
            found.append(float(session.run([self.total], {self.graph["x"]: FED})[0]))
        return (found[0] - found[1]) / (2 * STEP)


def differing(found, right, keys):
    """Those that differ; none is as good as zeros."""
    bad = []
    for key in keys:
        a, b = found.get(key), right.get(key)
        if a is None and b is None:
            continue
        a, b = (np.zeros_like(b) if a is None else a), (np.zeros_like(a) if b is None else b)
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-7, atol=1e-9):
            bad.append(key)
    return bad


def judge(path, judges):
    """(what the second gradient is, what differs, why there is none)."""
    right = dict(np.load(path.with_suffix(".npz")))
    weights = {name: right[f"weight {name}"] for name in VARIABLES}
    asked = Asked(path, weights)
    found = asked.run()
    bad = differing(found, right, ["loss"] + [f"first {name}" for name in VARIABLES])
    if asked.refused:
        return "refused", bad, asked.refused
    seconds = [f"second {name}" for name in VARIABLES]
    second = judges.get(asked.about["seed"])
    if second is not None and differing(second, right, ["loss"]):
        second = None  # TensorFlow's forms are not of one mind
    if asked.total is None:
        return "none: the loss needs no variable", bad, ""
    wrong = differing(found, second, seconds) if second is not None else []
    if second is not None and not wrong:
        return "as TensorFlow's", bad, ""
    dice = np.random.RandomState(asked.about["seed"])
    direction = {name: dice.uniform(-1, 1, SHAPES[name]) for name in VARIABLES}
    by_differences = asked.along({name: right[f"value {name}"] for name in VARIABLES}, direction)
    along = lambda values: sum(
        float(np.sum(values[f"second {name}"] * direction[name])) for name in VARIABLES if f"second {name}" in values
    )
    is_near = lambda value: abs(value - by_differences) <= 1e-4 * max(1, abs(by_differences))
    if is_near(along(found)):
        return (
            (
                "as by differences, TensorFlow's is not"
                if second is not None
                else "as by differences, TensorFlow has none"
            ),
            bad,
            "",
        )
    return "WRONG", bad + (wrong or seconds), f"{along(found)} along a direction, {by_differences} by differences"


def check_all(folder):
    paths = sorted(folder.glob("*.json"), key=lambda path: (int(path.stem.split("_")[0]), path.stem))
    judges = {}
    for path in paths:
        about = json.loads(path.read_text())
        if "_functions_" in path.stem and not about["second_refused"]:
            judges.setdefault(about["seed"], dict(np.load(path.with_suffix(".npz"))))
    counts, bad = collections.Counter(), 0

    def late(*_):
        raise TimeoutError("no answer in a minute")

    signal.signal(signal.SIGALRM, late)
    for path in paths:
        form = path.stem.split("_", 1)[1].replace("_", ", ")
        signal.alarm(60)
        try:
            second, differs, why = judge(path, judges)
        except Exception as error:
            second, differs, why = "failed", ["everything"], f"{type(error).__name__}: {str(error)[:300]}"
        signal.alarm(0)
        first_is_wrong = any(not each.startswith("second") for each in differs)
        counts[form, "first gradient", "WRONG" if first_is_wrong else "as TensorFlow's"] += 1
        counts[form, "second gradient", second] += 1
        if differs or second == "refused":
            bad += 1
            print(f"{path.stem}: {', '.join(differs)}: {why}", flush=True)
    for (form, order, what), count in sorted(counts.items()):
        print(f"{count:6}  {form}: {order} {what}")
    print(f"{len(paths)} losses, {bad} with differences or refused")
    return 1 if bad or not paths else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--make", action="store_true", help="TensorFlow makes them")
    parser.add_argument("--seeds", type=int, default=1, help="the first")
    parser.add_argument("--count", type=int, default=125, help="seeds, of each of which there are four forms")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    if not options.make:
        return check_all(options.folder)
    make_all(options.folder, options.seeds, options.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
