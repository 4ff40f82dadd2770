# SPDX-License-Identifier: Apache-2.0
"""Tenon: a dataflow engine in which everything but the engine is a plugin.

    model = tenon.load("folder")              # a SavedModel
    model(x=[[1.0, 2.0, 3.0]])["y"]           # its default signature

    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [None, 3], name="x")
        y = tenon.ops.MatMul(x, numpy.ones((3, 2)))
    tenon.Session(graph).run(y, {x: data})
"""

import os as _os

from . import errors
from ._core import (
    Callable,
    Cancellation,
    DType,
    Operation,
    Output,
    Tensor,
    from_dlpack,
    version,
    bfloat16,
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from . import _core
from .errors import *  # noqa: F401,F403
from .runtime import Device, LoadReport, Runtime, default_runtime
from .graph import Graph, Slices, constant, control_dependencies, default_graph, device, grad, placeholder, scope
from .session import PartialRun, Placement, Session, Trace
from .worker import Worker
from .model import Model, Signature, TensorSpec, freeze, load, save
from .function import Function, cond, function, while_loop
from .elements import fold, map, map_with_state, scan
from .defined_op import DefinedOp, op
from .folders import cmake_dir, include_dir, plugin_dir, share_dir
from . import ops

__version__ = version()

_os.register_at_fork(after_in_child=_core._after_fork)


def __getattr__(name):
    if name in ("data", "train"):  # when they are first asked for
        import importlib

        return importlib.import_module("." + name, __name__)
    if name.startswith(("float8_", "float4_", "qint", "quint", "int2", "int4", "uint2", "uint4")) and hasattr(
        _core, name
    ):
        return getattr(_core, name)
    raise AttributeError(f"module 'tenon' has no attribute '{name}'")
