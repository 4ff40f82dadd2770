# SPDX-License-Identifier: Apache-2.0
"""Cases of the state package: variables before and after."""
import numpy as np
import tensorflow as tf

from .draw import Case, Program, Variable, op


def variable(d, dtype, shape):
    """A variable, now and then one that nobody has assigned."""
    value = d.tensor(dtype, shape, special=0.1)
    return Variable(
        value, unset=value.size > 0 and d.chance(0.04)
    )  # TensorFlow takes a variable without elements for assigned


@op("Assign", "AssignAdd", "AssignSub")
def assign(d):
    t, shape = d.dtype(), d.shape()
    attrs = {"validate_shape": d.chance(0.5)} if d.op == "Assign" else {}
    other = d.shape() if d.op == "Assign" and d.chance(0.2) else shape
    return Case([variable(d, t, shape), d.tensor(t, other)], {**attrs, "use_locking": d.chance(0.5)})


@op("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
def assign_resource(d):
    t, shape = d.dtype("dtype"), d.shape()
    attrs = {"validate_shape": d.chance(0.5)} if d.op == "AssignVariableOp" else {}
    return Case([variable(d, t, shape), d.tensor(t, shape)], attrs)


@op("ReadVariableOp")
def read(d):
    t = d.dtype("dtype")
    return Case([variable(d, t, d.shape())], {"dtype": t})


@op("IsVariableInitialized", "VarIsInitializedOp")
def is_initialized(d):
    value = variable(d, d.pick([tf.float32, tf.int64, tf.bool, tf.half]), d.shape())
    return Case([value])


@op("CountUpTo", "ResourceCountUpTo")
def count_up_to(d):
    t = d.dtype()
    shape = () if d.chance(0.9) else (1,)
    return Case(
        [Variable(np.full(shape, d.int(-2, 4), t.as_numpy_dtype), unset=d.chance(0.1))], {"T": t, "limit": d.int(-1, 4)}
    )


@op("ScatterAdd", "ScatterSub", "ResourceScatterAdd")
def scatter(d):
    resource = d.op.startswith("Resource")
    types = d.types("dtype" if resource else "T")
    t = types["dtype" if resource else "T"]
    shape = d.shape(1, 3)
    indices = d.tensor(types["Tindices"], d.shape(0, 2), 0, max(1, shape[0]) + (1 if d.chance(0.1) else 0))
    updates = d.tensor(t, () if d.chance(0.2) else indices.shape + shape[1:], special=0.1)
    return Case([variable(d, t, shape), indices, updates], {} if resource else {"use_locking": d.chance(0.5)})


@op("ResourceGather")
def resource_gather(d):
    types = d.types("dtype")
    shape = d.shape(1, 4)
    batch = d.int(0, len(shape) - 1) if d.chance(0.4) else 0
    high = max(1, shape[batch]) + (1 if d.chance(0.1) else 0)
    indices = d.tensor(types["Tindices"], shape[:batch] + d.shape(0, 2), 0, high)
    return Case([variable(d, types["dtype"], shape), indices], {"dtype": types["dtype"], "batch_dims": batch})


@op("StackV2")
def stack(d):
    """Pushes and pops: the last in is the first out; one too many is an error."""
    t, shape = d.pick([tf.float32, tf.int32, tf.string, tf.bool]), d.shape(large=0)
    pushes, pops = d.int(1, 4), d.int(0, 4)
    raw = tf.raw_ops
    graph = tf.Graph()
    with graph.as_default():
        handle = raw.StackV2(max_size=d.pick([-1, 2, 10]), elem_type=t, stack_name=d.pick(["", "s"]), name="stack")
        values, after = [tf.compat.v1.placeholder(t, shape, f"x{i}") for i in range(pushes)], []
        for i, value in enumerate(values):
            with tf.control_dependencies(after):
                after = [raw.StackPushV2(handle=handle, elem=value, swap_memory=d.chance(0.5), name=f"push{i}")]
        for i in range(pops):
            with tf.control_dependencies(after):
                after = [raw.StackPopV2(handle=handle, elem_type=t, name=f"pop{i}")]
        with tf.control_dependencies(after):
            close = raw.StackCloseV2(handle=handle, name="close")
    feeds = {f"x{i}:0": d.tensor(t, shape) for i in range(pushes)}
    fetches = [f"pop{i}:0" for i in range(pops)] or ["push0:0"]
    return Program(graph, [(feeds, fetches, [close.name])], f"{pushes} pushes, {pops} pops of {t.name}")


@op("DestroyResourceOp")
def destroy(d):
    """A variable that is destroyed can be assigned again, and not be read before."""
    t, shape = d.pick([tf.float32, tf.int64, tf.bool]), d.shape(empty=0, large=0)
    raw = tf.raw_ops
    graph = tf.Graph()
    with graph.as_default():
        handle = raw.VarHandleOp(dtype=t, shape=shape, shared_name="v", name="handle")
        value = tf.compat.v1.placeholder(t, shape, "value")
        raw.AssignVariableOp(resource=handle, value=value, name="assign")
        raw.ReadVariableOp(resource=handle, dtype=t, name="read")
        raw.DestroyResourceOp(resource=handle, ignore_lookup_error=d.chance(0.5), name="destroy")
        raw.VarIsInitializedOp(resource=handle, name="is")
    steps = {"assign": ({"value:0": d.tensor(t, shape)}, [], ["assign"]), "read": ({}, ["read:0"], []),
             "destroy": ({}, [], ["destroy"]), "is": ({}, ["is:0"], [])}
    order = ["assign"] + [d.pick(list(steps)) for _ in range(5)]
    return Program(graph, [steps[name] for name in order], " ".join(order))


@op("VarHandleOp", "VariableV2", "Variable")
def made(d):
    """Two nodes of one name are one variable; assigned, read, changed."""
    t, shape = d.pick([tf.float32, tf.int64, tf.half]), d.shape(empty=0, large=0)
    shared, raw = d.chance(0.5), tf.raw_ops
    names = ["shared", "shared"] if shared else ["one", "two"]
    graph = tf.Graph()
    with graph.as_default():
        value = tf.compat.v1.placeholder(t, shape, "value")
        for i, name in enumerate(names):
            if d.op == "VarHandleOp":
                handle = raw.VarHandleOp(dtype=t, shape=shape, shared_name=name)
                raw.AssignVariableOp(resource=handle, value=value, name=f"assign{i}")
                raw.AssignAddVariableOp(resource=handle, value=value, name=f"add{i}")
                raw.ReadVariableOp(resource=handle, dtype=t, name=f"read{i}")
            else:
                ref = getattr(raw, d.op)(dtype=t, shape=shape, shared_name=name)
                raw.Assign(ref=ref, value=value, name=f"assign{i}")
                raw.AssignAdd(ref=ref, value=value, name=f"add{i}")
                tf.identity(ref, name=f"read{i}")
    runs = []
    for _ in range(6):
        step = d.pick(["assign0", "assign0", "assign1", "add0", "add1", "read0", "read1"])
        runs.append(
            ({}, [step + ":0"], []) if step.startswith("read") else ({"value:0": d.tensor(t, shape, -9, 9)}, [], [step])
        )
    return Program(graph, runs, f"{' '.join(names)} of {t.name}")
