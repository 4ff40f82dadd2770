# SPDX-License-Identifier: Apache-2.0
"""The rows of peers.py: what is timed, and how each engine does it.

A row is made once, by a Python with TensorFlow: `make(folder)` writes graph.pb, feeds.npz, model.json ({"feeds",
"fetches", "targets", "init"}), and what else its engines want. Each engine then runs in a process of its own, in its
own Python, where the row's method of that name gives a step: a function that runs once and gives the fetched arrays (or
the loss alone), which are compared with TensorFlow's. Tenon and TensorFlow run the same graph; the others get what
their users would write for the same numbers. A new row is a class with @row; a new engine a method.
"""

import importlib.util
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = pathlib.Path(__file__).resolve().parent
ROWS = {}


def row(*arguments, **options):
    """Registers the class, made with these."""
    def register(kind):
        made = kind(*arguments, **options)
        ROWS[made.name] = made
        return kind
    return register


def networks():
    """tests/perf/networks.py, whose name tests/models has too."""
    spec = importlib.util.spec_from_file_location("perf_networks", HERE / "networks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(folder, name):
    import numpy as np
    with np.load(folder / name) as archive:
        return {key: archive[key] for key in archive.files}


def about(folder):
    return json.loads((folder / "model.json").read_text())


def graph_step(folder, threads):
    """TensorFlow's session over graph.pb."""
    import tensorflow as tf
    model, feeds = about(folder), load(folder, "feeds.npz")
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString((folder / "graph.pb").read_bytes()), name="")
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    session = tf.compat.v1.Session(graph=graph, config=config)
    for one in model["init"]:
        session.run(one)
    asked = [f"{one}:0" for one in model["fetches"]] + [graph.get_operation_by_name(one) for one in model["targets"]]
    call = session.make_callable(asked, [f"{one}:0" for one in model["feeds"]])
    given = [feeds[one] for one in model["feeds"]]
    return lambda: call(*given)[:len(model["fetches"])]


class Row:
    """One line of the page. unit and per: a step's time over `per`, in this unit. tolerance: how far an answer may be
    from TensorFlow's, over its largest element."""
    unit, per, tolerance = "ms", 1, 1e-3
    precision = "strict"  # Tenon's

    def make(self, folder):
        """In a Python with TensorFlow."""
        raise NotImplementedError

    def save(self, folder, graph, feeds, fetches, targets=(), init=()):
        """The files that all need; what a first step answers is TensorFlow's word."""
        import numpy as np
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "graph.pb").write_bytes(graph.SerializeToString())
        np.savez(
            folder / "feeds.npz",
            **{name: value.astype(bytes) if value.dtype == object else value for name, value in feeds.items()},
        )
        (folder / "model.json").write_text(
            json.dumps({"feeds": list(feeds), "fetches": list(fetches), "targets": list(targets), "init": list(init)})
        )
        np.savez(folder / "outputs.npz", *graph_step(folder, 1)())

    def engines(self):
        """Those that the row knows beside Tenon."""
        return [name for name in ENGINES if hasattr(self, name)]

    def tensorflow(self, folder, threads):
        return graph_step(folder, threads)


# By engine, the library whose Python runs it.
ENGINES = {
    "tensorflow": "tensorflow",
    "tensorflow_xla": "tensorflow",
    "torch": "torch",
    "torch_compile": "torch",
    "jax": "jax",
    "openvino": "openvino",
    "onnxruntime": "onnxruntime",
}


def torch_with(threads):
    import torch
    torch.set_num_threads(threads)
    return torch


def jax_with(threads):
    """JAX takes as many threads as it sees cores: it is shown so many."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    return jax


def openvino_step(folder, threads, precision="f32"):
    """OpenVINO's own reader of TensorFlow's graphs."""
    import openvino as ov
    model, feeds, core = about(folder), load(folder, "feeds.npz"), ov.Core()
    read = core.read_model(str(folder / "graph.pb"))
    read.reshape(
        {
            f"{name}:0" if any(f"{name}:0" in port.get_names() for port in read.inputs) else name: list(value.shape)
            for name, value in feeds.items()
        }
    )
    compiled = core.compile_model(
        read,
        "CPU",
        {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision},
    )
    request = compiled.create_infer_request()
    names = [next(name for name in port.get_names() if name.split(":")[0] in feeds) for port in compiled.inputs]
    given = {port.get_any_name(): feeds[name.split(":")[0]] for port, name in zip(compiled.inputs, names)}

    def step():
        found = request.infer(given, share_inputs=True, share_outputs=True)
        outputs = {name.split(":")[0]: port for port in compiled.outputs for name in port.get_names()}
        return [found[outputs[one]] for one in model["fetches"]]
    return step


# ---- Nodes that do nothing much ----

@row()
class ScalarChain(Row):
    name, unit, per = "chain of 1,000 scalar sums, a node", "ns", 1000

    def make(self, folder):
        import numpy as np
        import tensorflow as tf
        with tf.Graph().as_default() as graph:
            x = y = tf.compat.v1.placeholder(tf.float32, [], "x")
            for _ in range(self.per):
                y = tf.raw_ops.AddV2(x=y, y=x)
            self.save(folder, graph.as_graph_def(), {"x": np.float32(1)}, [y.op.name])


@row()
class Loop(Row):
    name, unit, per = "turn of a loop with three small ops", "ns", 10000

    def make(self, folder):
        import numpy as np
        import tensorflow as tf
        tf.compat.v1.disable_control_flow_v2()
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(tf.float32, [], "x")
            y = tf.identity(
                tf.compat.v1.while_loop(lambda i, y: i < self.per, lambda i, y: (i + 1, y * 0.5 + 1.0), [0, x])[1], "y"
            )
            self.save(folder, graph.as_graph_def(), {"x": np.float32(1)}, [y.op.name])

    def tensorflow_xla(self, folder, threads):
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(threads)

        @tf.function(jit_compile=True)
        def loop(x):
            return tf.while_loop(lambda i, y: i < self.per, lambda i, y: (i + 1, y * 0.5 + 1.0), [0, x])[1]
        x = tf.constant(1.0)
        return lambda: [loop(x).numpy()]

    def jax(self, folder, threads):
        jax = jax_with(threads)
        loop = jax.jit(lambda x: jax.lax.fori_loop(0, self.per, lambda i, y: y * 0.5 + 1.0, x))
        x = jax.numpy.float32(1)
        return lambda: [loop(x).block_until_ready()]


@row()
class FirstAnswer(Row):
    """From the file's bytes to the first answer, in a process that has loaded everything else."""
    name, nodes = "36,000 nodes, bytes to the first answer", 36000

    def make(self, folder):
        import numpy as np
        import tensorflow as tf
        random = np.random.default_rng(9)
        ops = [tf.raw_ops.Minimum, tf.raw_ops.Mul, tf.raw_ops.Maximum]  # whose results stay small
        with tf.Graph().as_default() as graph:
            values = [tf.compat.v1.placeholder(tf.float32, [4], "x")]
            for i in range(self.nodes):
                a, b = (values[-1 - int(k)] for k in random.integers(0, min(len(values), 64), 2))
                values.append(tf.cos(a) if i % 5 == 4 else ops[i % 3](x=a, y=b))
            y = tf.identity(tf.raw_ops.AddN(inputs=values[-64:]), "y")
            self.save(folder, graph.as_graph_def(), {"x": np.linspace(0.1, 0.4, 4, dtype=np.float32)}, [y.op.name])

    def tensorflow(self, folder, threads):
        def step():
            import tensorflow as tf
            with tf.Graph().as_default() as graph:
                tf.import_graph_def(tf.compat.v1.GraphDef.FromString((folder / "graph.pb").read_bytes()), name="")
                with tf.compat.v1.Session(
                    graph=graph,
                    config=tf.compat.v1.ConfigProto(
                        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
                    ),
                ) as session:
                    return session.run(["y:0"], {"x:0": feeds["x"]})
        feeds = load(folder, "feeds.npz")
        return step

    def tenon(self, folder, threads):
        """Its Python package."""
        import tenon
        feeds, runtime = load(folder, "feeds.npz"), tenon.Runtime(threads=threads)

        def step():
            session = tenon.Session(runtime=runtime)
            session.extend((folder / "graph.pb").read_bytes())
            return [session.run("y", {"x": feeds["x"]})]
        return step

    def run(self, bench, engine, threads):
        library = "tensorflow" if engine == "tenon" else ENGINES[engine]
        environment = {"PYTHONPATH": str((bench.options.build / "python").resolve())}
        return json.loads(
            bench.itself(
                library,
                "--peer",
                engine,
                self.name,
                bench.folder(self),
                threads,
                bench.options.seconds,
                environment=environment,
            )
        )


# ---- A few ops in a row ----

class Written(Row):
    """Ops that each engine's users write out: `in_tensorflow(tf, *feeds)` and so on."""
    shapes = {}  # of the feeds

    def make(self, folder):
        import numpy as np
        import tensorflow as tf
        random = np.random.default_rng(1)
        feeds = {name: random.standard_normal(shape, np.float32) for name, shape in self.shapes.items()}
        with tf.Graph().as_default() as graph:
            y = tf.identity(
                self.in_tensorflow(
                    tf, *(tf.compat.v1.placeholder(tf.float32, shape, name) for name, shape in self.shapes.items())
                ),
                "y",
            )
            self.save(folder, graph.as_graph_def(), feeds, [y.op.name])

    def tensorflow_xla(self, folder, threads):
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        feeds = load(folder, "feeds.npz")
        run = tf.function(lambda *given: self.in_tensorflow(tf, *given), jit_compile=True)
        given = [tf.constant(feeds[one]) for one in self.shapes]
        return lambda: [run(*given).numpy()]

    def torch(self, folder, threads, compiled=False):
        torch = torch_with(threads)
        feeds = load(folder, "feeds.npz")
        given = [torch.from_numpy(feeds[one]) for one in self.shapes]
        run = lambda *given: self.in_torch(torch, *given)  # noqa: E731
        run = torch.compile(run) if compiled else run

        def step():
            with torch.inference_mode():
                return [run(*given).numpy()]
        return step

    def torch_compile(self, folder, threads):
        return self.torch(folder, threads, compiled=True)

    def jax(self, folder, threads):
        jax = jax_with(threads)
        feeds = load(folder, "feeds.npz")
        run = jax.jit(lambda *given: self.in_jax(jax, *given))
        given = [jax.numpy.asarray(feeds[one]) for one in self.shapes]
        return lambda: [run(*given).block_until_ready()]


@row()
class NineOps(Written):
    name = "nine element-wise ops over 4 Mi floats"
    shapes = {"x": [1 << 22], "w": [1 << 22]}

    @staticmethod
    def chain(x, w, tanh, relu, sigmoid):
        y = relu(tanh(x * w + 0.25) * 1.5 - w)
        return sigmoid(y * y - x)

    def in_tensorflow(self, tf, x, w):
        return self.chain(x, w, tf.tanh, tf.nn.relu, tf.sigmoid)

    def in_torch(self, torch, x, w):
        return self.chain(x, w, torch.tanh, torch.relu, torch.sigmoid)

    def in_jax(self, jax, x, w):
        return self.chain(x, w, jax.numpy.tanh, jax.nn.relu, jax.nn.sigmoid)


@row("8 x 12 x 128 x 128 scores: scale, mask, softmax", 8)
class Scores(Written):
    unit = "us"

    def __init__(self, name, batch):
        self.name, self.shapes = name, {"x": [batch, 12, 128, 128], "mask": [batch, 1, 1, 128]}

    def in_tensorflow(self, tf, x, mask):
        return tf.nn.softmax(x * 0.125 + mask)

    def in_torch(self, torch, x, mask):
        return torch.softmax(x * 0.125 + mask, -1)

    def in_jax(self, jax, x, mask):
        return jax.nn.softmax(x * 0.125 + mask)


@row("8 x 128 x 768: a sum, normalised as Keras does", 8)
class Norm(Written):
    unit = "us"

    def __init__(self, name, batch):
        self.name, self.shapes = name, {"x": [batch, 128, 768], "y": [batch, 128, 768], "scale": [768], "offset": [768]}

    def in_tensorflow(self, tf, x, y, scale, offset):
        x = x + y
        mean = tf.reduce_mean(x, -1, keepdims=True)
        factor = tf.math.rsqrt(tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True) + 1e-6) * scale
        return x * factor + (offset - mean * factor)

    def in_torch(self, torch, x, y, scale, offset):
        return torch.nn.functional.layer_norm(x + y, (768,), scale, offset, 1e-6)

    def in_jax(self, jax, x, y, scale, offset):
        x = x + y
        mean = jax.numpy.mean(x, -1, keepdims=True)
        factor = jax.lax.rsqrt(jax.numpy.mean((x - mean) ** 2, -1, keepdims=True) + 1e-6) * scale
        return x * factor + (offset - mean * factor)


# ---- Small networks, written out for each ----

class Layers(Row):
    """Dense layers and convolutions with rectifiers between; a softmax's loss, and a step of gradient descent where it
    trains. weights(random): [(filter, bias)]."""
    rate = 0.05

    def __init__(self, name, batch, sizes, trains):
        self.name, self.batch, self.sizes, self.trains = name, batch, sizes, trains

    def weights(self, random):
        return [
            (random.standard_normal((a, b)) / a**0.5, random.standard_normal(b) / 10)
            for a, b in zip(self.sizes, self.sizes[1:])
        ]

    def input_shape(self):
        return (self.batch, self.sizes[0])

    @staticmethod
    def forward(x, weights, lib):
        for i, (w, b) in enumerate(weights):
            x = lib.matmul(x, w) + b
            x = lib.relu(x) if i + 1 < len(weights) else x
        return x

    def make(self, folder):
        import numpy as np
        import tensorflow as tf
        v1, random = tf.compat.v1, np.random.default_rng(3)
        values = [[part.astype(np.float32) for part in layer] for layer in self.weights(random)]
        feeds = {
            "x": random.standard_normal(self.input_shape()).astype(np.float32),
            "labels": random.integers(0, self.sizes[-1], self.batch).astype(np.int32),
        }
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(
            folder / "weights.npz",
            **{f"{i}.{k}": part for i, layer in enumerate(values) for k, part in enumerate(layer)},
        )

        class Lib:
            matmul, relu = tf.matmul, tf.nn.relu
            reshape = tf.reshape

            @staticmethod
            def conv(x, w, padding):
                return tf.nn.conv2d(x, w, 1, padding)

            @staticmethod
            def pool(x):
                return tf.nn.max_pool2d(x, 2, 2, "VALID")
        with tf.Graph().as_default() as graph:
            x, labels = v1.placeholder(tf.float32, self.input_shape(), "x"), v1.placeholder(
                tf.int32, [self.batch], "labels"
            )
            variables = [
                [v1.get_variable(f"w{i}_{k}", initializer=part, use_resource=True) for k, part in enumerate(layer)]
                for i, layer in enumerate(values)
            ]
            logits = self.forward(x, variables, Lib)
            if self.trains:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
                train = v1.train.GradientDescentOptimizer(self.rate).minimize(loss)
                self.save(folder, self.with_init(graph), feeds, [loss.op.name], [train.name], ["init"])
            else:
                tf.identity(logits, "logits")
                del feeds["labels"]
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["logits"])
                self.save(folder, frozen, feeds, ["logits"])

    @staticmethod
    def with_init(graph):
        import tensorflow as tf
        tf.compat.v1.variables_initializer(tf.compat.v1.global_variables(), name="init")
        return graph.as_graph_def()

    def arrays(self, folder):
        held = load(folder, "weights.npz")
        return [[held[f"{i}.{k}"] for k in range(2)] for i in range(len(held) // 2)]

    def torch(self, folder, threads, compiled=False):
        torch = torch_with(threads)
        F = torch.nn.functional  # noqa: N806
        feeds = load(folder, "feeds.npz")
        weights = [
            [torch.from_numpy(part).requires_grad_(self.trains) for part in layer] for layer in self.arrays(folder)
        ]
        x = torch.from_numpy(feeds["x"])

        class Lib:
            matmul, relu = torch.matmul, torch.relu
            reshape = torch.reshape

            @staticmethod
            def conv(x, w, padding):  # images and filters as TensorFlow has them
                return F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=padding.lower()).permute(
                    0, 2, 3, 1
                )

            @staticmethod
            def pool(x):
                return F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
        if not self.trains:
            run = (lambda x: self.forward(x, weights, Lib))
            run = torch.compile(run) if compiled else run

            def infer():
                with torch.inference_mode():
                    return [run(x).numpy()]
            return infer
        labels = torch.from_numpy(feeds["labels"]).long()
        optimizer = torch.optim.SGD([part for layer in weights for part in layer], self.rate)
        lose = lambda: F.cross_entropy(self.forward(x, weights, Lib), labels)  # noqa: E731
        lose = torch.compile(lose) if compiled else lose

        def train():
            optimizer.zero_grad(set_to_none=True)
            loss = lose()
            loss.backward()
            optimizer.step()
            return [loss.detach().numpy()]
        return train

    def torch_compile(self, folder, threads):
        return self.torch(folder, threads, compiled=True)

    def jax(self, folder, threads):
        jax = jax_with(threads)
        jnp, feeds = jax.numpy, load(folder, "feeds.npz")
        held = [[[jnp.asarray(part) for part in layer] for layer in self.arrays(folder)]]
        x = jnp.asarray(feeds["x"])

        class Lib:
            matmul, relu = jnp.matmul, jax.nn.relu
            reshape = jnp.reshape

            @staticmethod
            def conv(x, w, padding):
                return jax.lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

            @staticmethod
            def pool(x):
                return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        if not self.trains:
            run = jax.jit(lambda x, weights: self.forward(x, weights, Lib))
            return lambda: [run(x, held[0]).block_until_ready()]
        labels = jnp.asarray(feeds["labels"])

        def lose(weights):
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(self.forward(x, weights, Lib)), labels[:, None], 1))

        def update(weights):
            loss, gradients = jax.value_and_grad(lose)(weights)
            return loss, jax.tree_util.tree_map(lambda w, g: w - self.rate * g, weights, gradients)
        update = jax.jit(update, donate_argnums=0)

        def train():
            loss, held[0] = update(held[0])
            return [loss.block_until_ready()]
        return train


class Openable(Layers):
    """What OpenVINO can be given: inference."""

    def openvino(self, folder, threads):
        return openvino_step(folder, threads)


row("training of 64-32-10, batch 32", 32, (64, 32, 10), True)(Layers)
ROWS["training of 64-32-10, batch 32"].unit = "us"
row("784-512-512-10, batch 64", 64, (784, 512, 512, 10), False)(Openable)
row("training of 784-512-512-10, batch 64", 64, (784, 512, 512, 10), True)(Layers)


@row("training of LeNet-5, batch 64", 64, (28, 6, 16, 120, 84, 10), True)
class LeNet(Layers):
    def weights(self, random):
        shapes = [(5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10)]
        return [
            (
                random.standard_normal(shape)
                / (shape[0] if len(shape) == 2 else shape[0] * shape[1] * shape[2]) ** 0.5,
                random.standard_normal(shape[-1]) / 10,
            )
            for shape in shapes
        ]

    def input_shape(self):
        return (self.batch, 28, 28, 1)

    def forward(self, x, weights, lib):
        for (w, b), padding in zip(weights, ("SAME", "VALID")):
            x = lib.pool(lib.relu(lib.conv(x, w, padding) + b))
        return Layers.forward(lib.reshape(x, (self.batch, 400)), weights[2:], lib)


@row()
class Lstm(Row):
    """Two layers of Keras's LSTM, as it exports them."""
    name = "LSTM 2 x 256, batch 32, 50 steps"
    batch, time, units = 32, 50, 256

    def make(self, folder):
        import numpy as np
        import tensorflow as tf
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
        random = np.random.default_rng(5)
        shapes = [(self.units, 4 * self.units), (self.units, 4 * self.units), (4 * self.units,)] * 2
        values = [(random.standard_normal(shape) / self.units ** 0.5).astype(np.float32) for shape in shapes]
        x = random.standard_normal((self.batch, self.time, self.units)).astype(np.float32)
        model = tf.keras.Sequential(
            [
                tf.keras.layers.LSTM(self.units, return_sequences=True),
                tf.keras.layers.LSTM(self.units, return_sequences=True),
            ]
        )
        model(x)
        model.set_weights(values)
        called = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec(x.shape, tf.float32, "x"))
        frozen = convert_variables_to_constants_v2(called, lower_control_flow=False)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "weights.npz", *values)
        self.save(folder, frozen.graph.as_graph_def(), {"x": x}, [frozen.outputs[0].op.name])

    def torch(self, folder, threads):
        torch = torch_with(threads)
        held = list(load(folder, "weights.npz").values())
        lstm = torch.nn.LSTM(self.units, self.units, 2, batch_first=True).eval()
        with torch.no_grad():
            for layer in range(2):  # the gates stand in the same order
                for name, value in zip(("weight_ih", "weight_hh", "bias_ih"), held[3 * layer:]):
                    getattr(lstm, f"{name}_l{layer}").copy_(
                        torch.from_numpy(value.T.copy() if value.ndim == 2 else value)
                    )
                getattr(lstm, f"bias_hh_l{layer}").zero_()
        x = torch.from_numpy(load(folder, "feeds.npz")["x"])

        def step():
            with torch.inference_mode():
                return [lstm(x)[0].numpy()]
        return step

    def jax(self, folder, threads):
        jax = jax_with(threads)
        jnp = jax.numpy
        held = [jnp.asarray(value) for value in load(folder, "weights.npz").values()]

        def layer(x, w, u, b):
            def turn(state, gates):
                h, c = state
                i, f, g, o = jnp.split(gates + h @ u, 4, -1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h
            zero = jnp.zeros((self.batch, self.units))
            return jax.lax.scan(turn, (zero, zero), x @ w + b)[1]
        run = jax.jit(lambda x: jnp.swapaxes(layer(layer(jnp.swapaxes(x, 0, 1), *held[:3]), *held[3:]), 0, 1))
        x = jnp.asarray(load(folder, "feeds.npz")["x"])
        return lambda: [run(x).block_until_ready()]

    def openvino(self, folder, threads):
        return openvino_step(folder, threads)


# ---- Whole networks of tests/models ----

class Network(Row):
    """Inference, as networks.py makes it."""

    def __init__(self, network, batch, precision="strict"):
        self.network, self.batch, self.precision = network, batch, precision
        self.name = f"{network}, batch {batch}" + ("" if precision == "strict" else f", {precision}")
        self.tolerance = 1e-3 if precision == "strict" else 0.1

    def make(self, folder):
        networks().make(self.network, self.batch, folder)
        made = about(folder)
        (folder / "model.json").write_text(
            json.dumps({**made, "feeds": made["inputs"], "fetches": made["outputs"], "targets": [], "init": []})
        )
        import numpy as np
        outputs = load(folder, "outputs.npz")
        np.savez(folder / "outputs.npz", *[outputs[one.replace("/", ".")] for one in made["outputs"]])

    def engines(self):
        return super().engines() if self.precision == "strict" else ["openvino"]

    def openvino(self, folder, threads):
        return openvino_step(folder, threads, "f32" if self.precision == "strict" else "bf16")

    def onnxruntime(self, folder, threads):
        return networks().onnxruntime(folder, about(folder), load(folder, "feeds.npz"), threads)


class NetworkTraining(Row):
    """A step of training, with the optimizer that the network is published with; its loss is compared."""
    tolerance = 1e-2

    def __init__(self, network, batch):
        self.network, self.batch, self.name = network, batch, f"training of {network}, batch {batch}"

    def make(self, folder):
        published = networks().PUBLISHED
        sys.path.insert(0, str(HERE.parent / "models"))
        import tensorflow as tf
        from networks import NETWORKS, build
        tf.compat.v1.disable_eager_execution()
        model = build(NETWORKS[self.network](batch=self.batch, **published.get(self.network, {})))
        self.save(folder, model.graph.as_graph_def(), model.feeds, ["loss"], ["step"], ["init"])


class TrainingAsPytorchHasIt(Row):
    """A step of a network of bench-gpu, on the CPU: gpu_bench beside gpu/peers.py, over the same weights and batch. Its
    first losses are compared."""

    def __init__(self, network, batch):
        self.network, self.batch, self.name = network, batch, f"training of bench-gpu's {network}, batch {batch}"

    def make(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.json").write_text("{}")

    def engines(self):
        return ["torch", "torch_compile"]

    def run(self, bench, engine, threads):
        """Instead of a step: {"least", "median"} in seconds."""
        folder = bench.folder(self)
        words = ["train", "--network", self.network, "--seconds", bench.options.seconds, "--folder", folder]
        if engine == "tenon":
            said = bench.program(
                [
                    bench.options.build / "bin/gpu_bench",
                    *words,
                    "--device",
                    "/device:CPU:0",
                    "--batch",
                    self.batch,
                    "--threads",
                    threads,
                ]
            )
            (folder / "tenon.json").write_text(json.dumps(self.found(said)))
        else:
            ours = json.loads((folder / "tenon.json").read_text())
            networks = map(json.loads, bench.program([bench.options.build / "bin/gpu_bench", "networks"]).splitlines())
            ours.update(next(one for one in networks if one["network"] == self.network))
            words += [
                "--device",
                "cpu",
                "--mode",
                "eager" if engine == "torch" else "compiled",
                "--optimizer",
                ours["optimizer"],
                "--rate",
                ours["rate"],
                "--losses",
                json.dumps(ours["losses"]),
            ]
            said = bench.program(
                [bench.python("torch"), "-B", HERE / "gpu/peers.py", *words], {"OMP_NUM_THREADS": str(threads)}
            )
        return {"least": self.found(said)["least_ms"] / 1e3, "median": self.found(said)["median_ms"] / 1e3}

    @staticmethod
    def found(said):
        return json.loads(next(line for line in said.splitlines() if line.startswith("{")))


for _name, _batch in (("resnet50", 1), ("resnet50", 8), ("mobilenet_v2", 1), ("bert_encoder", 1), ("bert_encoder", 8)):
    row(_name, _batch)(Network)
for _name in ("resnet50", "bert_encoder", "mobilenet_v2"):
    row(_name, 1, "bfloat16")(Network)
for _name in ("resnet50", "bert_encoder", "mobilenet_v2", "unet", "dcgan", "wide_and_deep"):
    row(_name, 8)(NetworkTraining)
for _name in ("resnet50", "bert_base", "lstm"):
    row(_name, 8)(TrainingAsPytorchHasIt)
