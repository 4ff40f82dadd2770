# SPDX-License-Identifier: Apache-2.0
"""A right call of every function of the public headers for applications."""

import ctypes
import functools
import os
from dataclasses import dataclass

from headers import FUNCTIONS, MEMBERS, SCALARS, STRUCTS
from slips import Arguments

FLOAT, INT32, INT64 = 1, 3, 9
STRING, INT, TYPE, SHAPE, TENSOR, FUNCTION = 1, 2, 5, 6, 7, 8  # of attributes


class Making:
    """What one call is made of: addresses, and what lies there."""

    def __init__(self, world):
        self.world, self.at, self.kept = world, {}, []
        world.kept.append(self)

    def _keep(self, value):
        self.kept.append(value)
        return value

    def _address(self, value):
        self._keep(value)
        self.at[ctypes.addressof(value)] = value
        return ctypes.addressof(value)

    def span(self, text=""):
        data = self._keep(ctypes.create_string_buffer(text if isinstance(text, bytes) else text.encode()))
        return STRUCTS["tenon_span"](ctypes.addressof(data) if text else None, len(data) - 1)

    def value(self, struct, **members):
        made = STRUCTS[struct]()
        if "struct_size" in dict(MEMBERS[struct]):
            made.struct_size = ctypes.sizeof(made)
        for name, value in members.items():
            setattr(made, name, self.span(value) if isinstance(value, (str, bytes)) else value)
        return made

    def struct(self, struct, **members):
        return self._address(self.value(struct, **members))

    def array(self, kind, values):
        kind = SCALARS.get(kind) or STRUCTS.get(kind) or ctypes.c_void_p
        return self._address((kind * len(values))(*values)) if values else None

    def spans(self, *texts):
        return self.array("tenon_span", [self.span(text) for text in texts])

    def pointers(self, *addresses):
        return self.array("void*", addresses)

    def out(self, size=4096):
        """Memory that a function writes: of no interest."""
        return ctypes.addressof(self._keep(ctypes.create_string_buffer(size)))

    def shape(self, *dims):
        return self.value("tenon_shape", dims=self.array("int64_t", dims), rank=len(dims))

    def dl_tensor(self, *floats, dims=None):
        dims = (len(floats),) if dims is None else dims
        return self.value(
            "tenon_dl_tensor",
            data=self.array("float", floats),
            device_type=1,
            ndim=len(dims),
            dtype=self.value("tenon_dl_data_type", code=2, bits=32, lanes=1),
            shape=self.array("int64_t", dims),
        )

    def view_value(self, *floats, dims=None):
        return self.value(
            "tenon_tensor_view", dl=self.dl_tensor(*floats, dims=dims), dtype=FLOAT, byte_size=4 * len(floats), flags=2
        )

    def view(self, *floats, dims=None):
        return self._address(self.view_value(*floats, dims=dims))

    def texts_view(self, *texts):
        cells, data = b"", b""
        for text in texts:
            cells += (16 * len(texts) + len(data)).to_bytes(8, "little") + len(text).to_bytes(8, "little")
            data += text
        memory = self._keep(ctypes.create_string_buffer(cells + data))
        dl = self.dl_tensor(0)
        dl.data, dl.shape = ctypes.addressof(memory), self.array("int64_t", [len(texts)])
        return self.struct("tenon_tensor_view", dl=dl, dtype=7, byte_size=len(cells), flags=2)

    def managed(self, kind):
        version = {"version_major": 1} if kind.endswith("versioned") else {}
        return self.struct(kind, dl_tensor=self.dl_tensor(1, 2, 3, 4, dims=(2, 2)), **version)

    def attr_value(self, kind, *values):
        base = {
            STRING: "tenon_span",
            INT: "int64_t",
            TYPE: "uint32_t",
            SHAPE: "tenon_shape",
            TENSOR: "tenon_tensor_view",
            FUNCTION: "tenon_span",
        }[kind & 0xFF]
        return self.value(
            "tenon_attr_value",
            kind=kind,
            count=len(values),
            data=self.array(base, [self.span(v) if isinstance(v, str) else v for v in values]),
        )

    def attrs(self, **values):
        return self.array(
            "tenon_attr", [self.value("tenon_attr", name=name, value=value) for name, value in values.items()]
        )

    def edge(self, node, index=0):
        return self.value("tenon_output", node=node, index=index)

    def edges(self, *nodes):
        return self.array("tenon_output", [self.edge(node) for node in nodes])

    def node_spec(self, op, name, inputs=(), **attrs):
        return self.struct(
            "tenon_node_spec",
            op=op,
            name=name,
            inputs=self.edges(*inputs),
            input_count=len(inputs),
            attrs=self.attrs(**attrs),
            attr_count=len(attrs),
        )

    def run_options(self):
        return self.struct("tenon_run_options", timeout_ns=10**11)

    def fed(self, *more):
        """Names and values of feeds, and of what is fetched and run."""
        return [self.spans("x"), self.pointers(self.view(1, 2)), 1, self.spans("y"), 1, *more]


class World:
    """The objects that calls need, made when one does."""

    def __init__(self, build):
        self.build, self.kept, self.names = build, [], 0
        library = ctypes.CDLL(f"{build}/lib/libtenon_model_c.so")
        for name, function in FUNCTIONS.items():
            symbol = getattr(library, name)
            symbol.restype, symbol.argtypes = function.result.ctype, [kind.ctype for _, kind in function.parameters]
        self.library = library

    def call(self, name, arguments):
        return getattr(self.library, name)(*arguments)

    def text_of(self, status):
        """Takes the status."""
        if not status:
            return "OK"
        code, message = self.library.tenon_status_code(status), self.library.tenon_status_message(status)
        name = self.library.tenon_status_code_name(code)
        text = f"{ctypes.string_at(name.data, name.size).decode()}: {ctypes.string_at(message.data, message.size).decode(errors='replace')}"
        self.library.tenon_status_release(status)
        return text

    def do(self, name, *arguments):
        said = self.text_of(self.call(name, arguments))
        if said != "OK":
            raise RuntimeError(f"{name}: {said}")

    def made(self, name, *arguments, kind=ctypes.c_void_p):
        """What the function writes into its last parameter."""
        out = kind()
        self.do(name, *arguments, ctypes.addressof(out))
        return out.value

    def fresh(self, name):
        self.names += 1
        return f"{name}{self.names}"

    def folder(self):
        return f"{os.getcwd()}/{self.fresh('folder')}"

    def node(self, graph, op, name, inputs=(), **attrs):
        make = Making(self)
        return self.made(
            "tenon_graph_add_node",
            graph,
            make.node_spec(op, name, inputs, **{key: value(make) for key, value in attrs.items()}),
            make.span(),
            kind=ctypes.c_int64,
        )

    def placeholder(self, graph, name, *dims, dtype=FLOAT):
        return self.node(
            graph,
            "Placeholder",
            name,
            dtype=lambda make: make.attr_value(TYPE, dtype),
            shape=lambda make: make.attr_value(SHAPE, make.shape(*dims)),
        )

    def constant(self, graph, name, *floats, dims=None):
        make, out = Making(self), STRUCTS["tenon_output"]()
        self.do(
            "tenon_graph_add_constant", graph, make.span(name), make.view(*floats, dims=dims), ctypes.addressof(out)
        )
        return out.node

    def function(self, graph, name, op, inputs):
        """Of scalars."""
        make, body = Making(self), self.made("tenon_graph_create_body", graph)
        nodes = [self.placeholder(body, each) for each in inputs]
        result = self.node(body, op, "r", nodes)
        named = [
            make.value("tenon_named_output", name=each, output=make.edge(node))
            for each, node in zip((*inputs, "r"), (*nodes, result))
        ]
        self.do(
            "tenon_graph_add_function",
            graph,
            make.struct(
                "tenon_function_spec",
                name=name,
                body=body,
                inputs=make.array("tenon_named_output", named[:-1]),
                input_count=len(inputs),
                outputs=make.array("tenon_named_output", named[-1:]),
                output_count=1,
                attrs=make.attrs(_noinline=make.attr_value(INT, 1)),
                attr_count=1,
            ),
        )

    @functools.cached_property
    def runtime(self):
        return self.made("tenon_runtime_create", None)

    @functools.cached_property
    def graph(self):
        graph = self.made("tenon_graph_create", self.runtime)
        self.x = self.placeholder(graph, "x", 2)
        self.y = self.node(graph, "Square", "y", [self.x])
        self.function(graph, "square", "Square", ["a"])
        self.called = self.node(
            graph,
            "PartitionedCall",
            "called",
            [self.x],
            f=lambda make: make.attr_value(FUNCTION, "square"),
            Tin=lambda make: make.attr_value(TYPE | 0x100, FLOAT),
            Tout=lambda make: make.attr_value(TYPE | 0x100, FLOAT),
        )
        return graph

    @functools.cached_property
    def graph_def(self):
        text = self.library.tenon_text_span(self.made("tenon_graph_export", self.graph))
        return ctypes.string_at(text.data, text.size)

    def copy(self):
        graph = self.made("tenon_graph_create", self.runtime)
        self.do("tenon_graph_import", graph, Making(self).span(self.graph_def))
        return graph

    @functools.cached_property
    def session(self):
        return self.new_session(self.graph)

    def new_session(self, graph):
        session = self.made("tenon_session_create", self.runtime, None)
        self.do("tenon_session_extend_graph", session, graph)
        return session

    def new_callable(self):
        make = Making(self)
        return self.made("tenon_session_prepare", self.session, make.spans("x"), 1, make.spans("y"), 1, None, 0, None)

    @functools.cached_property
    def callable(self):
        return self.new_callable()

    def new_partial(self):
        make = Making(self)
        return self.made("tenon_session_partial_setup", self.session, make.spans("x"), 1, make.spans("y"), 1, None, 0)

    @functools.cached_property
    def tensor(self):
        make = Making(self)
        return self.made("tenon_tensor_create", FLOAT, make.shape(2), None, 8)

    @functools.cached_property
    def texts(self):
        make = Making(self)
        return self.made("tenon_tensor_create_strings", make.shape(2), make.spans("a", "b"), 2)

    def new_worker(self):
        make, name = Making(self), self.fresh("loopback://wrong_calls_")
        runtime = self.made("tenon_runtime_create", make.struct("tenon_runtime_options", task="/job:worker/task:0"))
        return runtime, make.struct(
            "tenon_worker_options",
            tasks=make.array("tenon_task", [make.value("tenon_task", name="/job:worker/task:0", address=name)]),
            task_count=1,
        )

    @functools.cached_property
    def worker(self):
        return self.made("tenon_worker_start", *self.new_worker())

    def write_options(self, make):
        def entry(name):
            return make.array("tenon_signature_entry", [make.value("tenon_signature_entry", key=name, tensor=name)])
        signature = make.struct(
            "tenon_signature_spec", inputs=entry("x"), input_count=1, outputs=entry("y"), output_count=1
        )
        return make.struct(
            "tenon_model_write_options",
            signatures=make.pointers(signature),
            signature_count=1,
            tags=make.spans("serve"),
            tag_count=1,
        )

    @functools.cached_property
    def model_folder(self):
        folder, make = self.folder(), Making(self)
        self.do(
            "tenon_model_write",
            self.runtime,
            self.session,
            make.span(self.graph_def),
            make.span(folder),
            self.write_options(make),
        )
        return folder

    def new_file(self):
        return self.made("tenon_model_file_open", Making(self).span(self.model_folder), None)

    @functools.cached_property
    def file(self):
        return self.new_file()

    def new_model(self):
        return self.made("tenon_model_load", self.runtime, self.file, None)

    @functools.cached_property
    def model(self):
        return self.new_model()

    # ---- What is trained ----

    @functools.cached_property
    def train_graph(self):
        graph = self.made("tenon_graph_create", self.runtime)
        self.function(graph, "square", "Square", ["a"])
        self.function(graph, "add", "AddV2", ["a", "b"])
        self.three = self.constant(graph, "three", 3, dims=())
        self.list = self.constant(graph, "list", 1, 2, 3)
        self.features = self.placeholder(graph, "features", 2, 3)
        self.sequence = self.placeholder(graph, "sequence", 2, 4, 3)
        self.labels = self.placeholder(graph, "labels", 2, dtype=INT64)
        self.label_rows = self.placeholder(graph, "label_rows", 2, 1, dtype=INT64)
        self.batch = self.placeholder(graph, "batch", dtype=INT32)
        self.state = self.placeholder(graph, "state", 2, 5)
        return graph

    def new_variables(self):
        return self.made("tenon_variables_create", self.train_graph, None)

    @functools.cached_property
    def variables(self):
        variables, info, make = self.new_variables(), STRUCTS["tenon_variable_info"](), Making(self)
        self.do("tenon_variables_add", variables, make.struct("tenon_variable_spec", name="w"), ctypes.addressof(info))
        self.loss = self.node(
            self.train_graph,
            "Square",
            "loss",
            [self.node(self.train_graph, "Sub", "error", [info.value.node, self.three])],
        )
        return variables

    def new_cell(self):
        make = Making(self)
        return self.made(
            "tenon_rnn_cell_create",
            self.new_variables(),
            make.struct("tenon_rnn_cell_spec", name=self.fresh("cell"), inputs=3, units=5),
        )

    @functools.cached_property
    def cell(self):
        return self.new_cell()

    def new_shards(self):
        make = Making(self)
        return self.made(
            "tenon_class_shards_create",
            self.new_variables(),
            make.struct("tenon_class_shards_spec", name=self.fresh("shards"), classes=4, width=3),
        )

    @functools.cached_property
    def shards(self):
        return self.new_shards()

    def new_lbfgs(self):
        return self.made("tenon_lbfgs_create", self.variables, Making(self).edge(self.after("loss")), None)

    def new_saver(self):
        return self.made("tenon_saver_create", self.variables, Making(self).span(self.folder()), None)

    def after(self, name):
        """A node, of the graph as it is with the variables."""
        _ = self.train_graph, self.variables
        return getattr(self, name)

    @functools.cached_property
    def trained(self):
        """(L-BFGS, a saver with a checkpoint, their session, the checkpoint's prefix)"""
        lbfgs, saver = self.new_lbfgs(), self.new_saver()
        init = self.made("tenon_variables_initializer", self.variables, kind=ctypes.c_int64)
        session = self.new_session(self.train_graph)
        self.do("tenon_session_run", session, None, None, None, 0, None, 0,
                Making(self).array("tenon_span", [self.library.tenon_graph_node_name(self.train_graph, init)]), 1, None)
        prefix = self.library.tenon_text_span(self.made("tenon_saver_save", saver, session, 1, None))
        return lbfgs, saver, session, ctypes.string_at(prefix.data, prefix.size)

    def new_checkpoint(self):
        return self.made("tenon_checkpoint_open", Making(self).span(self.trained[3]))

    @functools.cached_property
    def checkpoint(self):
        return self.new_checkpoint()

    def new_writer(self):
        return self.made("tenon_event_writer_create", Making(self).span(self.folder()))

    @functools.cached_property
    def writer(self):
        return self.new_writer()


DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)(lambda *_: None)


@dataclass
class Call:
    """arguments: of the world and the making; code: what the right call says; later: what is wrong with these members
    is said when the call has returned."""
    arguments: object
    code: str = "OK"
    later: tuple = ()

    def make(self, world):
        making = Making(world)
        return Arguments(self.arguments(world, making), making.at)


CALLS = {
    name: Call(*(call if isinstance(call, tuple) else (call,)))
    for name, call in {
        # ---- app.h: statuses, texts, tensors ----
        "tenon_version": lambda w, m: [],
        "tenon_status_code": lambda w, m: [w.call("tenon_status_create", (3, m.span("no")))],
        "tenon_status_message": lambda w, m: [w.call("tenon_status_create", (3, m.span("no")))],
        "tenon_status_code_name": lambda w, m: [3],
        "tenon_status_release": lambda w, m: [w.call("tenon_status_create", (3, m.span("no")))],
        "tenon_status_create": (lambda w, m: [5, m.span("no")], "NOT_FOUND"),
        "tenon_text_create": lambda w, m: [m.span("text")],
        "tenon_text_span": lambda w, m: [w.call("tenon_text_create", (m.span("text"),))],
        "tenon_text_release": lambda w, m: [w.call("tenon_text_create", (m.span("text"),))],
        "tenon_tensor_create": lambda w, m: [FLOAT, m.shape(2, 2), m.array("float", [1, 2, 3, 4]), 16, m.out()],
        "tenon_tensor_create_strings": lambda w, m: [m.shape(2), m.spans("a", "b"), 2, m.out()],
        "tenon_tensor_get_view": lambda w, m: [w.tensor],
        "tenon_tensor_string": lambda w, m: [w.texts, 1],
        "tenon_tensor_retain": lambda w, m: [w.tensor],
        "tenon_tensor_release": lambda w, m: [w.made("tenon_tensor_create", FLOAT, m.shape(2), None, 8)],
        "tenon_tensor_from_dlpack": lambda w, m: [m.managed("tenon_dl_managed_tensor"), m.out()],
        "tenon_tensor_from_dlpack_versioned": lambda w, m: [m.managed("tenon_dl_managed_tensor_versioned"), m.out()],
        "tenon_tensor_to_dlpack": lambda w, m: [w.tensor, m.out()],
        "tenon_tensor_to_dlpack_versioned": lambda w, m: [w.tensor, m.out()],
        "tenon_dtype_name": lambda w, m: [FLOAT],
        "tenon_dtype_from_name": lambda w, m: [m.span("float")],
        "tenon_dtype_size": lambda w, m: [FLOAT],
        # ---- app.h: runtimes ----
        "tenon_runtime_create": lambda w, m: [
            m.struct(
                "tenon_runtime_options",
                no_search=1,
                plugins=m.spans(f"{w.build}/lib/tenon/plugins/tenon_ops_math.so"),
                plugin_count=1,
                plugin_options=m.array(
                    "tenon_plugin_option",
                    [m.value("tenon_plugin_option", plugin="tenon", key="plugin_path", value="/none")],
                ),
                plugin_option_count=1,
            ),
            m.out(),
        ],
        "tenon_runtime_release": lambda w, m: [
            w.made("tenon_runtime_create", m.struct("tenon_runtime_options", no_search=1))
        ],
        "tenon_runtime_load_plugin": lambda w, m: [w.runtime, m.span(f"{w.build}/lib/tenon/plugins/tenon_ops_math.so")],
        "tenon_runtime_add_plugin": (lambda w, m: [w.runtime, m.struct("tenon_plugin")], "FAILED_PRECONDITION"),
        "tenon_runtime_open_all": lambda w, m: [w.runtime],
        "tenon_runtime_unload_plugin": (lambda w, m: [w.runtime, m.span("nobody's")], "FAILED_PRECONDITION"),
        "tenon_runtime_report_count": lambda w, m: [w.runtime],
        "tenon_runtime_report": lambda w, m: [
            (w.runtime, w.call("tenon_runtime_open_all", (w.runtime,)))[0],
            0,
            m.out(),
        ],
        "tenon_runtime_op_count": lambda w, m: [w.runtime],
        "tenon_runtime_op": lambda w, m: [w.runtime, 0, m.out()],
        "tenon_runtime_find_op": lambda w, m: [w.runtime, m.span("Square"), m.out()],
        "tenon_runtime_kernel_count": lambda w, m: [w.runtime],
        "tenon_runtime_kernel": lambda w, m: [w.runtime, 0, m.out()],
        "tenon_runtime_device_count": lambda w, m: [w.runtime],
        "tenon_runtime_device": lambda w, m: [w.runtime, 0, m.out()],
        "tenon_runtime_files": lambda w, m: [],
        # ---- app.h: graphs ----
        "tenon_graph_create": lambda w, m: [w.runtime, m.out()],
        "tenon_graph_release": lambda w, m: [w.made("tenon_graph_create", w.runtime)],
        "tenon_graph_import": lambda w, m: [w.made("tenon_graph_create", w.runtime), m.span(w.graph_def)],
        "tenon_graph_export": lambda w, m: [w.graph, m.out()],
        "tenon_graph_add_node": lambda w, m: [
            w.graph,
            m.node_spec(
                "Const",
                w.fresh("c"),
                (),
                dtype=m.attr_value(TYPE, FLOAT),
                value=m.attr_value(TENSOR, m.view_value(1, 2)),
                _shapes=m.attr_value(SHAPE | 0x100, m.shape(2)),
                _texts=m.attr_value(STRING | 0x100, "a", "b"),
            ),
            m.span("CPU:0"),
            m.out(),
        ],
        "tenon_graph_set_input": lambda w, m: [w.graph, (w.graph, w.y)[1], 0, m.edge(w.x)],
        "tenon_graph_add_constant": lambda w, m: [
            w.graph,
            m.span(w.fresh("c")),
            m.view(1, 2, 3, 4, dims=(2, 2)),
            m.out(),
        ],
        "tenon_graph_find": lambda w, m: [w.graph, m.span("x"), m.out()],
        "tenon_graph_node_count": lambda w, m: [w.graph],
        "tenon_graph_node_name": lambda w, m: [w.graph, 0],
        "tenon_graph_node_op": lambda w, m: [w.graph, 0],
        "tenon_graph_node_device": lambda w, m: [w.graph, 0],
        "tenon_graph_node_output_count": lambda w, m: [w.graph, 0],
        "tenon_graph_node_input_count": lambda w, m: [w.graph, 1],
        "tenon_graph_node_input": lambda w, m: [w.graph, (w.graph, w.y)[1], 0, m.out()],
        "tenon_graph_node_control_inputs": lambda w, m: [w.graph, 0, m.out(), 4],
        "tenon_graph_node_attr": lambda w, m: [w.graph, (w.graph, w.x)[1], m.span("dtype"), m.out()],
        "tenon_graph_output_dtype": lambda w, m: [w.graph, m.edge((w.graph, w.x)[1])],
        "tenon_graph_output_shape": lambda w, m: [w.graph, m.edge((w.graph, w.x)[1]), m.out()],
        "tenon_graph_add_gradients": lambda w, m: [
            w.graph,
            m.edges((w.graph, w.y)[1]),
            1,
            m.edges(w.x),
            1,
            m.edges(w.y),
            m.out(),
        ],
        "tenon_graph_set_scope": lambda w, m: [w.made("tenon_graph_create", w.runtime), m.span("scope")],
        "tenon_graph_get_scope": lambda w, m: [w.graph],
        "tenon_graph_set_device": lambda w, m: [w.made("tenon_graph_create", w.runtime), m.span("CPU:0")],
        "tenon_graph_get_device": lambda w, m: [w.graph],
        "tenon_graph_set_control_inputs": lambda w, m: [w.copy(), m.array("int64_t", [0]), 1],
        "tenon_graph_get_control_inputs": lambda w, m: [w.graph, m.out(), 4],
        # ---- app.h: functions ----
        "tenon_graph_create_body": lambda w, m: [w.graph, m.out()],
        "tenon_graph_add_function": lambda w, m: [
            w.graph,
            m.struct(
                "tenon_function_spec",
                name=w.fresh("f"),
                description="of x",
                body=w.graph,
                inputs=m.array(
                    "tenon_named_output", [m.value("tenon_named_output", name="a", output=m.edge((w.graph, w.x)[1]))]
                ),
                input_count=1,
                outputs=m.array("tenon_named_output", [m.value("tenon_named_output", name="r", output=m.edge(w.y))]),
                output_count=1,
                control_outputs=m.array("tenon_named_node", [m.value("tenon_named_node", name="c", node=w.y)]),
                control_output_count=1,
                attrs=m.attrs(_noinline=m.attr_value(INT, 1)),
                attr_count=1,
            ),
        ],
        "tenon_graph_copy_function": lambda w, m: [w.made("tenon_graph_create", w.runtime), w.graph, m.span("square")],
        "tenon_graph_set_function_gradient": (lambda w, m: [w.graph, m.span("square"), m.span("nobody")], "NOT_FOUND"),
        "tenon_graph_register_gradient": (lambda w, m: [w.graph, m.span("Square"), m.span("nobody")], "NOT_FOUND"),
        "tenon_graph_function_count": lambda w, m: [w.graph],
        "tenon_graph_function": lambda w, m: [w.graph, 0, m.out()],
        "tenon_graph_find_function": lambda w, m: [w.graph, m.span("square"), m.out()],
        "tenon_graph_function_argument": lambda w, m: [w.graph, m.span("square"), 0, 0, m.out()],
        "tenon_graph_function_attr": lambda w, m: [w.graph, m.span("square"), m.span("_noinline"), m.out()],
        "tenon_graph_bind_function": lambda w, m: [
            w.graph,
            (w.graph, w.called)[1],
            m.span("f"),
            0,
            m.attrs(T=m.attr_value(TYPE, FLOAT)),
            1,
        ],
        "tenon_graph_bound_attr": (
            lambda w, m: [w.graph, (w.graph, w.called)[1], m.span("f"), 0, m.span("none"), m.out()],
            "NOT_FOUND",
        ),
        # ---- app.h: workers ----
        "tenon_worker_start": lambda w, m: [*w.new_worker(), m.out()],
        "tenon_worker_address": lambda w, m: [w.worker],
        "tenon_worker_stop": lambda w, m: [w.made("tenon_worker_start", *w.new_worker()), 2**64 - 1],
        "tenon_worker_release": lambda w, m: [w.made("tenon_worker_start", *w.new_worker())],
        "tenon_worker_metrics": lambda w, m: [w.worker, m.out()],
        # ---- app.h: sessions ----
        "tenon_session_create": lambda w, m: [
            w.runtime,
            m.struct("tenon_session_options", seed=1, debug=m.struct("tenon_debug_options", schedule_seed=1)),
            m.out(),
        ],
        "tenon_session_release": lambda w, m: [w.new_session(w.graph)],
        "tenon_session_extend": lambda w, m: [w.made("tenon_session_create", w.runtime, None), m.span(w.graph_def)],
        "tenon_session_extend_within": lambda w, m: [
            w.made("tenon_session_create", w.runtime, None),
            m.run_options(),
            m.span(w.graph_def),
        ],
        "tenon_session_extend_graph": lambda w, m: [w.session, w.graph],
        "tenon_cancellation_create": lambda w, m: [m.out()],
        "tenon_cancellation_cancel": lambda w, m: [w.made("tenon_cancellation_create")],
        "tenon_cancellation_release": lambda w, m: [w.made("tenon_cancellation_create")],
        "tenon_session_run": lambda w, m: [w.session, m.run_options(), *m.fed(m.spans("y"), 1, m.out())],
        "tenon_session_prepare": lambda w, m: [
            w.session,
            m.spans("x"),
            1,
            m.spans("y"),
            1,
            m.spans("y"),
            1,
            m.struct("tenon_callable_options", feed_devices=m.spans(""), fetch_devices=m.spans("")),
            m.out(),
        ],
        "tenon_session_copy_tensor": lambda w, m: [w.session, w.tensor, m.span("CPU:0"), m.out()],
        "tenon_session_create_pinned_tensor": lambda w, m: [w.session, m.span("CPU:0"), FLOAT, m.shape(2), m.out()],
        "tenon_session_tensor_from_dlpack": lambda w, m: [
            w.session,
            m.span("CPU:0"),
            m.managed("tenon_dl_managed_tensor"),
            m.out(),
        ],
        "tenon_session_tensor_from_dlpack_versioned": lambda w, m: [
            w.session,
            m.span("CPU:0"),
            m.managed("tenon_dl_managed_tensor_versioned"),
            m.out(),
        ],
        "tenon_session_wait_for_stream": (lambda w, m: [w.session, m.span("CPU:0"), m.out()], "UNIMPLEMENTED"),
        "tenon_callable_release": lambda w, m: [w.new_callable()],
        "tenon_callable_run": lambda w, m: [w.callable, m.run_options(), m.pointers(m.view(1, 2)), m.out()],
        "tenon_callable_run_into": lambda w, m: [
            w.callable,
            m.run_options(),
            m.pointers(m.view(1, 2)),
            m.array("tenon_tensor_view", [m.view_value(0, 0)]),
        ],
        "tenon_callable_run_async": (
            lambda w, m: [
                w.callable,
                m.run_options(),
                m.pointers(m.view(1, 2)),
                ctypes.cast(DONE, ctypes.c_void_p).value,
                None,
            ],
            "OK",
            ("feeds[0].dtype", "feeds[0].byte_size = 1"),
        ),
        "tenon_session_reset_containers": lambda w, m: [w.new_session(w.graph), m.spans("", "a"), 2, m.out()],
        "tenon_session_freeze": lambda w, m: [w.new_session(w.graph)],
        "tenon_session_place": lambda w, m: [
            w.session,
            m.spans("x"),
            1,
            m.spans("y"),
            1,
            m.spans("y"),
            1,
            m.out(),
            m.out(),
            m.out(),
        ],
        "tenon_session_costs": lambda w, m: [w.session, m.out()],
        "tenon_session_partial_setup": lambda w, m: [
            w.session,
            m.spans("x"),
            1,
            m.spans("y"),
            1,
            m.spans("y"),
            1,
            m.out(),
        ],
        "tenon_partial_run_step": lambda w, m: [w.new_partial(), m.run_options(), *m.fed(m.out())],
        "tenon_partial_run_release": lambda w, m: [w.new_partial()],
        "tenon_session_get_metrics": lambda w, m: [w.session, m.out()],
        "tenon_session_task_count": lambda w, m: [w.session],
        "tenon_session_get_task": (lambda w, m: [w.session, 0, m.out()], "OUT_OF_RANGE"),
        "tenon_callable_explain": lambda w, m: [w.callable, m.out()],
        # ---- model.h ----
        "tenon_model_file_open": lambda w, m: [
            m.span(w.model_folder),
            m.struct("tenon_model_open_options", tags=m.spans("serve"), tag_count=1),
            m.out(),
        ],
        "tenon_model_file_release": lambda w, m: [w.new_file()],
        "tenon_model_file_get_info": lambda w, m: [w.file, m.out()],
        "tenon_model_file_tag": lambda w, m: [w.file, 0, m.out()],
        "tenon_model_file_note": (lambda w, m: [w.file, 0, m.out()], "INVALID_ARGUMENT"),
        "tenon_model_file_signature": lambda w, m: [w.file, 0, m.out()],
        "tenon_model_file_find_signature": lambda w, m: [w.file, m.span("serving_default"), m.out()],
        "tenon_model_file_signature_tensor": lambda w, m: [w.file, 0, 0, 0, m.out()],
        "tenon_model_file_signature_part": (lambda w, m: [w.file, 0, 0, 0, 0, m.out()], "INVALID_ARGUMENT"),
        "tenon_model_load": lambda w, m: [
            w.runtime,
            w.file,
            m.struct("tenon_model_load_options", session=m.struct("tenon_session_options", seed=1)),
            m.out(),
        ],
        "tenon_model_release": lambda w, m: [w.new_model()],
        "tenon_model_get_file": lambda w, m: [w.model],
        "tenon_model_get_session": lambda w, m: [w.model],
        "tenon_model_run": lambda w, m: [
            w.model,
            m.span("serving_default"),
            m.run_options(),
            m.spans("x"),
            m.pointers(m.view(1, 2)),
            1,
            m.out(),
            1,
        ],
        "tenon_model_prepare": lambda w, m: [
            w.model,
            m.span("serving_default"),
            m.struct("tenon_callable_options", feed_devices=m.spans(""), fetch_devices=m.spans("")),
            m.out(),
        ],
        "tenon_model_write": lambda w, m: [
            w.runtime,
            w.session,
            m.span(w.graph_def),
            m.span(w.folder()),
            w.write_options(m),
        ],
        "tenon_checkpoint_open": lambda w, m: [m.span(w.trained[3]), m.out()],
        "tenon_checkpoint_release": lambda w, m: [w.new_checkpoint()],
        "tenon_checkpoint_count": lambda w, m: [w.checkpoint],
        "tenon_checkpoint_get": lambda w, m: [w.checkpoint, 0, m.out()],
        "tenon_checkpoint_find": lambda w, m: [w.checkpoint, m.span("w"), m.out()],
        "tenon_checkpoint_read": lambda w, m: [w.checkpoint, w.runtime, 0, m.out()],
        # ---- train.h ----
        "tenon_variables_create": lambda w, m: [
            w.train_graph,
            m.struct("tenon_variables_options", seed=1, devices=m.spans("CPU:0"), device_count=1),
            m.out(),
        ],
        "tenon_variables_release": lambda w, m: [w.new_variables()],
        "tenon_variables_add": lambda w, m: [
            w.new_variables(),
            m.struct("tenon_variable_spec", name=w.fresh("v"), device="CPU:0", shape=m.shape(2, 3)),
            m.out(),
        ],
        "tenon_variables_count": lambda w, m: [w.variables],
        "tenon_variables_get": lambda w, m: [w.variables, 0, m.out()],
        "tenon_variables_initializer": lambda w, m: [w.variables, m.out()],
        "tenon_variables_minimize": lambda w, m: [
            w.variables,
            m.edge(w.after("loss")),
            m.edge(w.three),
            m.struct("tenon_optimizer_options", name="sgd"),
            m.out(),
        ],
        "tenon_variables_gradients": lambda w, m: [w.variables, m.edge(w.after("loss")), m.out(), 1],
        "tenon_variables_apply": lambda w, m: [
            w.variables,
            m.edges(w.after("three")),
            1,
            m.edge(w.three),
            m.struct("tenon_optimizer_options", name="sgd"),
            m.out(),
        ],
        "tenon_clip_by_value": lambda w, m: [w.train_graph, m.edges(w.after("three")), 1, -1, 1, m.out()],
        "tenon_clip_by_norm": lambda w, m: [w.train_graph, m.edges(w.after("three")), 1, 1, m.out()],
        "tenon_clip_by_global_norm": lambda w, m: [w.train_graph, m.edges(w.after("three")), 1, 1, m.out(), m.out()],
        "tenon_global_norm": lambda w, m: [w.train_graph, m.edges(w.after("three")), 1, m.out()],
        "tenon_learning_rate": lambda w, m: [
            w.train_graph,
            m.struct(
                "tenon_rate_spec",
                kind=4,
                boundaries=m.array("int64_t", [1]),
                values=m.array("float", [1, 2]),
                boundary_count=1,
            ),
            m.edge(w.after("batch")),
            m.out(),
        ],
        "tenon_map_elements": lambda w, m: [
            w.train_graph,
            m.struct(
                "tenon_elements_spec", function="square", name=w.fresh("map"), xs=m.edges(w.after("list")), x_count=1
            ),
            None,
            0,
            m.out(),
            1,
        ],
        "tenon_fold_elements": lambda w, m: [
            w.train_graph,
            m.struct(
                "tenon_elements_spec",
                function="add",
                states=m.edges(w.after("three")),
                state_count=1,
                xs=m.edges(w.list),
                x_count=1,
            ),
            m.out(),
            1,
        ],
        "tenon_scan_elements": lambda w, m: [
            w.train_graph,
            m.struct(
                "tenon_elements_spec",
                function="add",
                states=m.edges(w.after("three")),
                state_count=1,
                xs=m.edges(w.list),
                x_count=1,
            ),
            m.out(),
            1,
        ],
        "tenon_rnn_cell_create": lambda w, m: [
            w.new_variables(),
            m.struct("tenon_rnn_cell_spec", name=w.fresh("cell"), inputs=3, units=5),
            m.out(),
        ],
        "tenon_rnn_cell_release": lambda w, m: [w.new_cell()],
        "tenon_rnn_cell_get_info": lambda w, m: [w.cell, m.out()],
        "tenon_rnn_cell_zero_state": lambda w, m: [w.cell, m.edge(w.after("batch")), m.out(), 1],
        "tenon_rnn_cell_step": lambda w, m: [
            w.cell,
            w.train_graph,
            m.edge(w.features),
            m.edges(w.state),
            1,
            None,
            0,
            m.out(),
            m.out(),
        ],
        "tenon_dynamic_rnn": lambda w, m: [
            w.cell,
            m.edge(w.after("sequence")),
            m.struct("tenon_rnn_options", initial_states=m.edges(w.state), state_count=1),
            m.out(),
            m.out(),
            1,
        ],
        "tenon_class_shards_create": lambda w, m: [
            w.new_variables(),
            m.struct(
                "tenon_class_shards_spec",
                name=w.fresh("shards"),
                classes=4,
                width=3,
                devices=m.spans("", ""),
                device_count=2,
            ),
            m.out(),
        ],
        "tenon_class_shards_release": lambda w, m: [w.new_shards()],
        "tenon_class_shards_count": lambda w, m: [w.shards],
        "tenon_class_shards_get": lambda w, m: [w.shards, 0, m.out(), m.out()],
        "tenon_log_uniform_candidates": lambda w, m: [w.train_graph, m.edge(w.after("label_rows")), 2, 4, 1, m.out()],
        "tenon_class_shards_sampled_loss": lambda w, m: [
            w.shards,
            m.edge(w.after("features")),
            m.edge(w.labels),
            m.struct("tenon_sampled_loss_options", sampled=2, seed=1),
            m.out(),
        ],
        "tenon_class_shards_softmax_loss": lambda w, m: [
            w.shards,
            m.edge(w.after("features")),
            m.edge(w.labels),
            m.out(),
        ],
        "tenon_lbfgs_create": lambda w, m: [
            w.variables,
            m.edge(w.after("loss")),
            m.struct("tenon_lbfgs_options", history=3),
            m.out(),
        ],
        "tenon_lbfgs_release": lambda w, m: [w.new_lbfgs()],
        "tenon_lbfgs_run": lambda w, m: [
            w.trained[0],
            w.trained[2],
            m.run_options(),
            m.spans("features"),
            m.pointers(m.view(*range(6), dims=(2, 3))),
            1,
            None,
            None,
            m.out(),
        ],
        "tenon_saver_create": lambda w, m: [
            w.variables,
            m.span(w.folder()),
            m.struct(
                "tenon_saver_options",
                keep=3,
                variables=m.array("tenon_saved_variable", [m.value("tenon_saved_variable", variable="w", name="v")]),
                variable_count=1,
            ),
            m.out(),
        ],
        "tenon_saver_release": lambda w, m: [w.new_saver()],
        "tenon_saver_claim": lambda w, m: [w.trained[1]],
        "tenon_saver_save": lambda w, m: [w.trained[1], w.trained[2], 2, m.array("double", [1]), m.out()],
        "tenon_saver_restore_newest": lambda w, m: [w.trained[1], w.trained[2], m.out()],
        "tenon_saver_restore_from": lambda w, m: [w.trained[1], w.trained[2], m.span(w.trained[3])],
        "tenon_saver_clear": lambda w, m: [w.new_saver()],
        "tenon_event_writer_create": lambda w, m: [m.span(w.folder()), m.out()],
        "tenon_event_writer_release": lambda w, m: [w.new_writer()],
        "tenon_event_writer_path": lambda w, m: [w.writer],
        "tenon_event_writer_add_graph": lambda w, m: [w.writer, m.span(w.graph_def)],
        "tenon_event_writer_add_scalars": lambda w, m: [w.writer, 1, m.spans("a", "b"), m.array("float", [1, 2]), 2],
        "tenon_event_writer_add_summary": lambda w, m: [w.writer, 1, m.span()],
        "tenon_event_writer_add_start": lambda w, m: [w.writer, 1],
        "tenon_event_writer_flush": lambda w, m: [w.writer],
    }.items()
}
