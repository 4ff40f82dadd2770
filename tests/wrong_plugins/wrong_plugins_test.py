#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command `tenon` with a plugin that breaks one rule, a process a case, and compares what it says.

Usage: wrong_plugins_test.py TENON PLUGIN GRADIENT [CASE ...]
Each case names what the plugin does (WRONG of wrong_plugin.cc), the exit status, and texts that the output must hold. A
case that takes longer than its bound has failed; so has one that a signal ends, unless the plugin's crash is the case.
"""

import os
import signal
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

BOUND_SECONDS = 120  # of a machine that is busy; no case needs a quarter
PLUGIN = "plugin 'test.wrong' 1.2.3"
NODE = "node 'y' (Wrong)"


# ---- Graphs and arrays ----

def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(number, body):
    body = body.encode() if isinstance(body, str) else body
    return varint(number << 3 | 2) + varint(len(body)) + body


def attr(name, value):
    return message(5, message(1, name) + message(2, value))


def type_attr(name, number):
    return attr(name, varint(6 << 3) + varint(number))


def node(name, op, inputs=(), device="", attrs=b""):
    body = message(1, name) + message(2, op) + b"".join(message(3, each) for each in inputs)
    return message(1, body + (message(4, device) if device else b"") + attrs)


FLOAT = 1
X = node("x", "Placeholder", attrs=type_attr("dtype", FLOAT))
# Four floats: dtype, shape [4], bytes.
FOUR = (
    varint(1 << 3)
    + varint(FLOAT)
    + message(2, message(2, varint(1 << 3) + varint(4)))
    + message(4, struct.pack("<4f", 1, 2, 3, 4))
)
CONSTANT = node("x", "Const", attrs=type_attr("dtype", FLOAT) + attr("value", message(8, FOUR)))
GRAPHS = {
    "wrong.pb": X + node("y", "Wrong", ["x"]),
    "text.pb": X + node("y", "WrongText", ["x"]),
    "relu.pb": X + node("y", "Relu", ["x"], attrs=type_attr("T", FLOAT)),
    "constant.pb": CONSTANT + node("y", "Wrong", ["x"], device="/device:WRONG:0"),
    "device.pb": X + node("y", "Wrong", ["x"], device="/device:WRONG:0"),
}


def write_files(folder):
    for name, graph in GRAPHS.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(graph)
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    with open(os.path.join(folder, "x.npy"), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<4f", 1, 2, 3, 4))


# ---- Cases ----

@dataclass
class Case:
    wrong: str                 # what the plugin does
    says: tuple                # in what is printed
    status: int = 1            # negative: the signal that ends it
    graph: str = "wrong.pb"
    arguments: tuple = ()
    silent: tuple = ()         # not in what is printed
    command: tuple = ()        # instead of a run of the graph
    feed: bool = True
    name: str = field(default="")

    def __post_init__(self):
        self.name = self.name or self.wrong


def run_says(wrong, what, **more):
    """A wrong call of a service in run: node, plugin and function once."""
    return Case(wrong, (NODE + ": " + PLUGIN + ": its run() " + what,), silent=(NODE + ": " + NODE,), **more)


def refused(wrong, *what, **more):
    """Refused when it is loaded."""
    return Case(wrong, what, **more)


def thrown(function, **more):
    return Case("throw." + function, ("its " + function + "() threw an exception (thrown on purpose)", PLUGIN), **more)


def crash(function, where, number=signal.SIGSEGV, **more):
    name = number.name
    return Case(more.pop("wrong", "crash." + function), ("crashed (" + name + ") in " + where,), status=-number, **more)


ON_DEVICE = {"graph": "device.pb"}
# A device that is not used is a warning: its nodes go elsewhere.
ELSEWHERE = {"graph": "device.pb", "status": 0}
CASES = [
    Case("nothing", ("[1, 2, 3, 4]",), status=0),
    Case("nothing", ('["one", "two"]',), status=0, graph="text.pb", name="nothing.text"),
    # What a kernel gives.
    run_says("set_output.dtype", "gave set_output a int8 where the op says float for output 0"),
    run_says("set_output.byte_size", "gave set_output byte_size 4096 and a shape of 16 bytes"),
    run_says("set_output.outside", "gave set_output 16 bytes that do not lie in their buffer"),
    run_says("set_output.below", "gave set_output 16 bytes that do not lie in their buffer"),
    run_says("set_output.null_dims", "gave set_output a shape of rank 1 without dims"),
    run_says("set_output.negative_dim", "gave set_output a shape that cannot be"),
    run_says("set_output.rank", "gave set_output a shape of rank 300"),
    run_says("set_output.strides", "gave set_output a view with strides"),
    run_says("set_output.no_buffer", "gave set_output memory that lives in no buffer"),
    run_says("alloc_output.9", "set output 9 of 1"),
    run_says("alloc_output.null_dims", "called alloc_output with dims NULL and rank 3"),
    Case("alloc_output.extra_bytes", (NODE, "RESOURCE_EXHAUSTED", "needs more memory than any machine has")),
    run_says("alloc_tensor.null_dims", "called alloc_tensor with dims NULL and rank 2"),
    run_says("retain_input.9", "kept input 9 of 1"),
    run_says("run.sets_nothing", "did not set output 0"),
    run_says("resource_object.no_type", "called resource_object without a type"),
    # Functions, tuning and work in the background.
    Case("function.absent", (NODE, "the node has no attribute 'f' that names a function")),
    Case("prepare.scratch", (NODE, "RESOURCE_EXHAUSTED")),
    Case("prepare.key", (NODE, "a key of 5000 bytes; 1 to 4096 are allowed")),
    Case("prepare.value", (NODE, "a value of 1048576 bytes; at most 65536 are kept")),
    Case("background.nothing", (NODE, "there is no function to call")),
    Case("background.flags", (NODE, "the flags 64 of schedule(); TENON_WORK_MAY_WAIT is known")),
    Case(
        "background.events",
        (NODE, "the events 8 of await_descriptor(); TENON_WORK_READABLE, TENON_WORK_WRITABLE or both"),
    ),
    Case("background.descriptor", (NODE, "12345 is no open descriptor")),
    Case("background.null_dims", (PLUGIN + " called alloc_tensor with rank 2 and dims NULL",)),
    Case("background.left", ("[1, 2, 3, 4]",), status=0),
    Case(
        "background.throws",
        ("[1, 2, 3, 4]", PLUGIN, "its scheduled function() threw an exception (thrown on purpose)"),
        status=0,
    ),
    Case("text.offset", ("node 'y' (WrongText): " + PLUGIN, "gave output 0 the string 1 at byte"), graph="text.pb"),
    Case("text.size", ("node 'y' (WrongText): " + PLUGIN, "gave output 0 the string 1 at byte"), graph="text.pb"),
    Case("text.overflow", ("node 'y' (WrongText): " + PLUGIN, "gave output 0 the string 1 at byte"), graph="text.pb"),
    Case(
        "text.offset",
        ("gave output 0 the string 1 at byte",),
        graph="text.pb",
        arguments=("--executor", "dynamic"),
        name="text.offset.dynamic",
    ),
    Case("shape.null_dims", (NODE, PLUGIN + ": its shape() called set_output_shape with dims NULL and rank 2")),
    Case("shape.output_9", (NODE, "output 9, which does not exist")),
    Case("shape.value_type", (NODE, PLUGIN + ": its shape() gave set_output_value a int64 where the op says float")),
    Case("prepare.workspace", ("1152921504606846976",)),
    Case("cost.nan", (NODE, PLUGIN + ": its cost() gave nan")),
    # What a plugin registers.
    refused(
        "kernel.async_without_trait",
        "a kernel of op 'Wrong' has run_async alone, without the trait TENON_KERNEL_ASYNC",
        "test.wrong",
    ),
    refused(
        "kernel.trait_without_async",
        "a kernel of op 'Wrong' has the trait TENON_KERNEL_ASYNC and no run_async",
        "test.wrong",
    ),
    refused("kernel.no_run", "a kernel of op 'Wrong' has no run function", "test.wrong"),
    refused(
        "kernel.trait", "a kernel of op 'Wrong' has the traits 1048576, which this host does not know", "test.wrong"
    ),
    refused("kernel.must_understand", "a kernel of op 'Wrong' needs a feature of a newer host (must_understand 4)"),
    refused("kernel.size_0", "a kernel's registration has the struct_size 0"),
    refused("kernel.size_24", "a kernel of op 'Wrong' has the struct_size 24"),
    refused("kernel.op_name", "the op of a kernel 'Wrong?op' is no name"),
    refused("kernel.null_op", "the op of a kernel is a span of 5 bytes at NULL"),
    refused("kernel.constraint", "a kernel of op 'Wrong' constrains 'Nope', which is no type attribute"),
    refused("kernel.null_constraints", "its constraints are an array of 3 at NULL"),
    refused("kernel.host_memory_args", "host_memory_args names 'nope', which is no input or output of the op"),
    refused("kernel.in_place", "in_place says input 55 and output 3; the op has 1 and 1"),
    refused("kernel.in_place_negative", "in_place says input -3 and output 0"),
    refused("kernel.dynamic_outputs", "dynamic_outputs is 1048576; the op has 1 outputs"),
    refused("kernel.retained_inputs", "retained_inputs is 1048576; the op has 1 inputs"),
    refused("kernels.null", "a kernel package holds a NULL registration"),
    refused("kernels.must_understand", "tenon.kernels/1 needs a feature of a newer host (must_understand 1048576)"),
    refused("kernels.size_8", "tenon.kernels/1 has the struct_size 8"),
    refused("kernels.count", "the registrations of tenon.kernels/1 are an array of"),
    refused("op.trait", "op 'Wrong' has the traits 36028797018963968, which this host does not know"),
    refused("op.role", "op 'Wrong' has the role 'conjurer', which the engine asks nobody for"),
    refused("op.property", "op 'Wrong'", "'magic' is none that this host knows"),
    refused("op.property_input", "op 'Wrong'", "'moves' names 'nope', which is no input of the op"),
    refused("op.property_kinds", "op 'Wrong'", "an op is of one kind"),
    refused("op.property_axes", "op 'Wrong'", "'reduces' has its axes of 'T'"),
    refused("op.null_properties", "op 'Wrong': its properties is a span of 9 bytes at NULL"),
    refused("op.version", "op 'Wrong' has the version -3; versions are from 1 on"),
    refused("op.must_understand", "op 'Wrong' needs a feature of a newer host"),
    refused("op.size_0", "an op definition has the struct_size 0"),
    refused("op.size_24", "op 'Wrong' has the struct_size 24"),
    refused("op.size_huge", "op 'Wrong' has the struct_size 4294967295"),
    refused("op.name", "the name of an op 'Wrong?op' is no name"),
    refused("op.null_name", "the name of an op is a span of 9 bytes at NULL"),
    refused("op.null_attrs", "op 'Wrong': its attrs is a span of 9 bytes at NULL"),
    refused("op.huge_doc", "op 'Wrong': its doc is a span of 18446744073709551615 bytes"),
    refused("op.constraint_input", "op 'Wrong'", "names no input: 'nope'"),
    refused("op.constraint_attr", "op 'Wrong'", "names 'nope', which is no int attribute"),
    refused("op.twice", "op 'Wrong' stands twice in one package"),
    refused("ops.null", "an op package holds a NULL definition"),
    refused("ops.must_understand", "tenon.ops/1 needs a feature of a newer host"),
    refused("ops.size_8", "tenon.ops/1 has the struct_size 8"),
    refused("ops.null_definitions", "the definitions of tenon.ops/1 are an array of 2 at NULL"),
    refused("plugin.id", "its id 'test wrong?' is no name"),
    refused("plugin.null_id", "its id is a span of 7 bytes at NULL"),
    refused("option.type", "option 'size' has the type 77"),
    refused("option.reserved", "option 'size' has 1 in its reserved member"),
    refused("option.key", "the name of an option 'si ze' is no name"),
    refused("option.default", "option 'size' has the default 'three', which is not a whole number"),
    refused("transport.short", "the transport 'wrong' lacks", "its struct_size of 40 ends before"),
    refused("filesystem.empty", "the file system 'wrong' lacks open_read", "list"),
    refused("placer.empty", "a placer lacks place"),
    refused("load.fails", "its load() failed: no licence"),
    # One op that another package has: it alone is refused.
    Case(
        "op.builtin",
        ("op 'Relu' of plugin 'test.wrong' differs in its", "the one of plugin 'tenon.ops.nn'", "[1, 2, 3, 4]"),
        status=0,
    ),
    Case(
        "op.builtin",
        ("op 'Relu' of plugin 'test.wrong' differs in its", "[1, 2, 3, 4]"),
        status=0,
        graph="relu.pb",
        name="op.builtin.other",
    ),
    # Options.
    Case(
        "nothing",
        ("it has no option 'bogus'", "known options: size"),
        arguments=("--option", "test.wrong.bogus=1"),
        name="option.unknown",
    ),
    Case(
        "nothing",
        ("option 'size' is 'many', not a whole number",),
        arguments=("--option", "test.wrong.size=many"),
        name="option.misfit",
    ),
    Case(
        "nothing",
        ("option 'size' is 0; it must be at least 1",),
        arguments=("--option", "test.wrong.size=0"),
        name="option.range",
    ),
    Case(
        "nothing",
        ("[1, 2, 3, 4]",),
        status=0,
        arguments=("--option", "test.wrong.size=7"),
        name="option.reaches_a_file",
    ),
    Case(
        "nothing",
        ("'tenon.cpu.foo=1'", "it has no option 'foo'"),
        status=2,
        arguments=("--option", "tenon.cpu.foo=1"),
        name="option.of_an_installed_one",
    ),
    Case(
        "nothing",
        ("there is no package 'test.absent'",),
        status=2,
        arguments=("--option", "test.absent.foo=1"),
        name="option.of_none",
    ),
    Case(
        "nothing",
        ("there is no package 'tenon.absent'",),
        status=2,
        arguments=("--devices", "absent:2"),
        name="devices.absent",
    ),
    # Devices.
    Case("device.nan", (PLUGIN + ": its properties() gave flops nan",), **ELSEWHERE),
    Case("device.infinite", (PLUGIN + ": its properties() gave bytes_per_second inf",), **ELSEWHERE),
    Case("device.negative", (PLUGIN + ": its properties() gave copy_seconds -1",), **ELSEWHERE),
    Case("device.count", (PLUGIN + ": its count() gave 4000000000 devices",), **ELSEWHERE),
    Case("device.memory_kinds", (PLUGIN + ": its properties() gave memory_kind_count 1000000000",), **ELSEWHERE),
    Case("device.null", (PLUGIN + ": its open() gave success and no device",), **ELSEWHERE),
    Case(
        "device.null_name",
        (PLUGIN + ": the name that its properties() gave is a span of 100 bytes at NULL",),
        **ELSEWHERE,
    ),
    Case("device.null_queue", (PLUGIN + ": its queue_create() gave success and no queue",), **ELSEWHERE),
    Case("device.null_semaphore", (PLUGIN + ": its semaphore_create() gave success and no semaphore",), **ON_DEVICE),
    Case("device.null_memory", (PLUGIN + ": its allocate() gave success and no memory",), **ON_DEVICE),
    Case("device.misaligned", (PLUGIN + ": its allocate() gave memory that is not aligned",), **ON_DEVICE),
    Case(
        "device.far_memory",
        (PLUGIN + ": its properties() gave synchronous 1, and its allocate() gives memory that is not the host's",),
        **ELSEWHERE,
    ),
    Case(
        "device.not_host_visible",
        (PLUGIN + ": its properties() gave synchronous 1, and its memory 0 is not",),
        **ELSEWHERE,
    ),
    Case(
        "device.no_queues",
        (PLUGIN + ": its properties() gave synchronous 0, and the driver has no queues",),
        **ELSEWHERE,
    ),
    Case(
        "device.nan",
        ("its properties() gave flops nan", "node 'y' (Wrong) wants /device:WRONG:0"),
        graph="device.pb",
        arguments=("--hard-placement",),
        name="device.nan.hard_placement",
    ),
    Case(
        "device.nan",
        ("there is no device 'WRONG'", "its properties() gave flops nan"),
        arguments=("--device", "WRONG"),
        name="device.nan.asked_for",
    ),
    refused("driver.size_0", "tenon.device/1 has the struct_size 0"),
    refused(
        "driver.short",
        "the driver of WRONG, which has queues, lacks queue_destroy",
        "its struct_size of",
        "ends before",
    ),
    refused("driver.no_count", "the driver of WRONG lacks count"),
    refused("driver.no_wait", "the driver of WRONG, which has queues, lacks semaphore_wait"),
    refused("driver.no_type", "the device_type of a driver is empty"),
    refused("driver.reserved", "the driver of WRONG has 1 in its reserved member"),
    refused("driver.must_understand", "tenon.device/1 needs a feature of a newer host (must_understand 2)"),
    refused("copies.nan", "the copies from WRONG to OTHER have the seconds nan", "a number from 0 on is wanted"),
    refused("copies.negative", "the copies from WRONG to OTHER have the seconds -1", "a number from 0 on is wanted"),
    refused(
        "copies.infinite",
        "the copies from WRONG to OTHER have the bytes_per_second inf",
        "a number from 0 on is wanted",
    ),
    refused("copies.no_copy", "the copies from WRONG to OTHER lacks copy"),
    # Exceptions.
    Case("throw.query", ("tenon_plugin_query threw an exception",)),
    Case("throw.load", ("its load() threw an exception (thrown on purpose)",)),
    Case("throw.unload", (PLUGIN + ": its unload() threw an exception", "[1, 2, 3, 4]"), status=0),
    thrown("shape"),
    thrown("cost"),
    thrown("supports"),
    thrown("create"),
    thrown("prepare"),
    thrown("run"),
    thrown("run_async"),
    Case(
        "throw.run", (NODE, PLUGIN + ": its run() threw"), arguments=("--executor", "dynamic"), name="throw.run.dynamic"
    ),
    Case("throw.destroy", (PLUGIN + ": its destroy() threw", "[1, 2, 3, 4]"), status=0),
    Case("throw.int", (NODE, PLUGIN + ": its run() threw an exception (something that is no std::exception)")),
    Case("throw.parallel_for", (NODE, PLUGIN + ": its run() threw an exception (thrown in a share)")),
    thrown("count", **ELSEWHERE),
    thrown("open", **ELSEWHERE),
    thrown("properties", **ELSEWHERE),
    thrown("queue_create", **ELSEWHERE),
    thrown("allocate", **ON_DEVICE),
    thrown("queue_copy", **ON_DEVICE),
    thrown("queue_barrier", **ON_DEVICE),
    thrown("semaphore_create", **ON_DEVICE),
    thrown("semaphore_wait", **ON_DEVICE),
    Case("throw.queue_destroy", (PLUGIN + ": its queue_destroy() threw",), status=0, graph="wrong.pb"),
    # What never ends.
    Case(
        "done.never",
        ("DEADLINE_EXCEEDED", NODE + ": " + PLUGIN + ": its run_async() has not called done", "the runtime is kept"),
        arguments=("--deadline", "300ms"),
    ),
    Case(
        "done.late",
        ("DEADLINE_EXCEEDED", NODE + ": " + PLUGIN + ": its run_async() has not called done"),
        arguments=("--deadline", "300ms"),
    ),
    Case("done.twice", (PLUGIN + ": its run_async() of node 'y' called done twice", "[1, 2, 3, 4]"), status=0),
    Case(
        "run.late",
        (
            PLUGIN + ": its run of node 'y' (Wrong) still runs",
            "after the deadline of 300 ms",
            "DEADLINE_EXCEEDED",
            "it was done too late",
        ),
        arguments=("--deadline", "300ms"),
    ),
    Case("device.hung", ("DEADLINE_EXCEEDED", "WRONG:0", PLUGIN), arguments=("--deadline", "2s"), **ON_DEVICE),
    Case(
        "device.hung",
        ("DEADLINE_EXCEEDED", "a constant", PLUGIN),
        arguments=("--deadline", "2s"),
        graph="constant.pb",
        feed=False,
        name="device.hung.constant",
    ),
    Case("device.hung_destroy", (PLUGIN + ": its queue_destroy() of", "has not returned"), status=0),
    # Crashes: named, and the signal does what it does.
    Case("supports.nothing", (NODE + ": no kernel takes it: test.wrong: nothing at all",)),
    crash("constructor", "its library's constructors"),
    crash("query", "tenon_plugin_query"),
    crash("load", "load"),
    crash("shape", "shape of " + NODE),
    crash("supports", "supports of " + NODE),
    crash("create", "create of " + NODE),
    crash("prepare", "prepare of " + NODE),
    crash("run", "run of " + NODE),
    crash("run", "run of " + NODE, arguments=("--executor", "dynamic"), name="crash.run.dynamic"),
    crash("run_async", "run_async of " + NODE),
    crash("destroy", "destroy"),
    crash("unload", "unload"),
    crash("parallel_for", "run of " + NODE),
    crash("abort", "run of " + NODE, signal.SIGABRT),
    crash("fpe", "run of " + NODE, signal.SIGFPE),
    crash("bus", "run of " + NODE, signal.SIGBUS),
    crash("ill", "run of " + NODE, signal.SIGILL),
    crash("stack", "run of " + NODE),
    crash("properties", "properties", **ON_DEVICE),
    crash("queue_copy", "queue_copy", **ON_DEVICE),
    crash("semaphore_wait", "semaphore_wait", **ON_DEVICE),
    Case("exit.0", (PLUGIN + " called exit(0) in run of " + NODE,)),
    Case("exit.5", (PLUGIN + " called exit(5) in run of " + NODE,), status=5),
    Case("exit.load", (PLUGIN + " called exit(0) in load",)),
    Case("exit.query", ("called exit(0) in tenon_plugin_query",)),
    # Other ops that stand for one without a kernel.
    *(
        Case(
            "decompose." + what,
            ("the decomposition of " + NODE + " gives no float for output 0: an error of package 'test.wrong'",),
            status=1,
        )
        for what in ("nothing", "node", "negative_node", "output")
    ),
    Case("decompose.fails", ("the decomposition of " + NODE + ": no others",)),
    Case("throw.decompose", (PLUGIN + ": its decompose() threw an exception (thrown on purpose)",)),
    crash("decompose", "decompose of " + NODE),
    # Gradients, which the command does not ask for.
    *(
        Case("gradient." + what, (PLUGIN + ": its gradient() gave input 0: " + says, "Wrong"), command=("gradient",))
        for what, says in (
            ("node", "the gradient at node 99999; the graph has"),
            ("negative_node", "the gradient at node -7"),
            ("output", "the gradient at output 5 of node"),
            ("kind", "a gradient of kind 77"),
            ("slices", "the indices at node -1"),
        )
    ),
    Case(
        "throw.gradient", (PLUGIN + ": its gradient() threw an exception (thrown on purpose)",), command=("gradient",)
    ),
    Case("nothing", ("OK",), status=0, command=("gradient",), name="gradient.nothing"),
]


# ---- Running ----

def command_of(case, tenon, plugin, gradient, folder):
    if case.command:
        return [gradient, plugin]
    feed = ["--feed", "x=" + os.path.join(folder, "x.npy")] if case.feed else []
    return [tenon, "run", os.path.join(folder, case.graph), *feed, "--fetch", "y", "--plugin", plugin, *case.arguments]


def run(case, tenon, plugin, gradient, folder):
    """What is wrong with the outcome; empty: nothing."""
    command = command_of(case, tenon, plugin, gradient, folder)
    environment = {**os.environ, "WRONG": case.wrong}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BOUND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return "did not end; it said: " + (late.stdout or b"").decode(errors="replace")
    said = done.stdout.decode(errors="replace")
    wrong = [f"lacks: {text}" for text in case.says if text not in said]
    wrong += [f"has: {text}" for text in case.silent if text in said]
    if done.returncode != case.status:
        wrong.append(f"ended with {done.returncode}, not {case.status}")
    return "\n  ".join([*wrong, "it said:", *said.splitlines()]) if wrong else ""


def main(tenon, plugin, gradient, names):
    cases = [case for case in CASES if not names or case.name in names]
    assert len({case.name for case in CASES}) == len(CASES), "two cases have one name"
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        write_files(folder)
        # What takes long by itself begins first.
        slow = sorted(cases, key=lambda case: not case.name.startswith(("device.hung", "done.", "run.")))
        outcomes = dict(
            zip((case.name for case in slow), pool.map(lambda case: run(case, tenon, plugin, gradient, folder), slow))
        )
    for name, outcome in outcomes.items():
        if outcome:
            failed += 1
            print(f"FAILED {name}\n  {outcome}")
    print(f"{len(cases) - failed} of {len(cases)} cases as they should be")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], sys.argv[4:]))
