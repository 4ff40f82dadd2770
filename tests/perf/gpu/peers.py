#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench-gpu: measures one thing and prints it, one JSON object a line, as gpu_bench does.

    peers.py train --network resnet50 --folder FOLDER --mode compiled --precision tf32 --device cuda --losses "[6.9,
    6.7]"

A network gets the weights and the batch that gpu_bench wrote into FOLDER. Its first losses are compared with
gpu_bench's (--losses), and where they differ nothing is timed. A change in networks.cc is a change here too.

Modes: eager; compiled (torch.compile of the loss and its gradients, the optimizer fused as in all modes on a GPU);
reduce_overhead (the same with CUDA graphs); whole_graph (the compiled step, optimizer too, captured as one CUDA graph,
which is what PyTorch can do at best where nothing changes between steps). float32 is what the weights are in: tf32
allows it for products, bfloat16 is autocast. Needs torch and numpy alone.
"""

import argparse
import json
import math
import pathlib
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F


# ---- Networks: as networks.cc has them, over its weights ----

class Weights:
    """The weights by name, in PyTorch's layouts: filters [outputs, inputs, height, width], kernels [outputs,
    inputs]."""

    def __init__(self, folder, device, layout):
        self.values, self.averages, self.used = {}, {}, set()
        self.noting = True  # which are used; a compiler is not to see that
        for file in sorted(folder.glob("weight.*.npy")):
            name = file.name[len("weight."):-len(".npy")].replace(".", "/")
            value = torch.from_numpy(np.load(file))
            if value.dim() == 4:
                value = value.permute(3, 2, 0, 1)
                value = value.contiguous(
                    memory_format=torch.channels_last if layout == "channels_last" else torch.contiguous_format
                )
            elif name.endswith(("/kernel", "/recurrent")):
                value = value.t().contiguous()
            self.values[name] = value.to(device).requires_grad_()
        if not self.values:
            raise SystemExit(f"peers.py: {folder} holds no weights; gpu_bench train --folder {folder} writes them")

    def __getitem__(self, name):
        if self.noting:
            self.used.add(name)
        return self.values[name]

    def average(self, name, start):
        if name not in self.averages:
            self.averages[name] = torch.full_like(self[name.rpartition("/")[0] + "/scale"].detach(), start)
        return self.averages[name]


class Network:
    """A network over weights; what its sizes are shows in them and in the batch."""

    def __init__(self, w, batch):
        self.w, self.batch = w, batch

    def conv(self, name, x, stride=1, pad=0, bias=True):
        return F.conv2d(x, self.w[f"{name}/kernel"], self.w[f"{name}/bias"] if bias else None, stride, pad)

    def conv_relu(self, name, x, stride=1, pad=0):
        return F.relu(self.conv(name, x, stride, pad))

    def dense(self, name, x):
        return F.linear(x, self.w[f"{name}/kernel"], self.w[f"{name}/bias"])

    def batch_norm(self, name, x):
        w = self.w
        return F.batch_norm(
            x,
            w.average(f"{name}/mean", 0.0),
            w.average(f"{name}/variance", 1.0),
            w[f"{name}/scale"],
            w[f"{name}/offset"],
            True,
            0.1,
            1e-5,
        )

    def layer_norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}/scale"], self.w[f"{name}/offset"], 1e-12)

    def flat(self, x):
        """Height, width, channels, as Tenon's rows have them."""
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)

    def classified(self, x):
        return F.cross_entropy(self.dense("logits", x), self.batch["labels"])

    def all_over(self, x, size, stride):
        """A pool whose last window may be only partly inside."""
        return F.max_pool2d(x, size, stride, ceil_mode=True)

    def prepare(self):
        """What is done once."""


class AlexNet(Network):
    def loss(self):
        x = F.max_pool2d(self.conv_relu("conv1", self.batch["x"], 4, 2), 3, 2)
        x = F.max_pool2d(self.conv_relu("conv2", x, 1, 2), 3, 2)
        for name in ("conv3", "conv4", "conv5"):
            x = self.conv_relu(name, x, 1, 1)
        x = self.flat(F.max_pool2d(x, 3, 2))
        return self.classified(F.relu(self.dense("dense7", F.relu(self.dense("dense6", x)))))


class Overfeat(Network):
    def loss(self):
        x = F.max_pool2d(self.conv_relu("conv1", self.batch["x"], 4), 2, 2)
        x = F.max_pool2d(self.conv_relu("conv2", x), 2, 2)
        for name in ("conv3", "conv4", "conv5"):
            x = self.conv_relu(name, x, 1, 1)
        x = self.flat(F.max_pool2d(x, 2, 2))
        return self.classified(F.relu(self.dense("dense7", F.relu(self.dense("dense6", x)))))


class VggA(Network):
    def loss(self):
        x, number = self.batch["x"], 0
        for convolutions in (1, 1, 2, 2, 2):
            for _ in range(convolutions):
                number += 1
                x = self.conv_relu(f"conv{number}", x, 1, 1)
            x = F.max_pool2d(x, 2, 2)
        return self.classified(F.relu(self.dense("dense2", F.relu(self.dense("dense1", self.flat(x))))))


class GoogleNet(Network):
    def module(self, name, x):
        narrow = self.conv_relu(f"{name}/narrow", x)
        three = self.conv_relu(f"{name}/three", self.conv_relu(f"{name}/three_before", x), 1, 1)
        five = self.conv_relu(f"{name}/five", self.conv_relu(f"{name}/five_before", x), 1, 2)
        pooled = self.conv_relu(f"{name}/pooled", F.max_pool2d(x, 3, 1, 1))
        return torch.cat([narrow, three, five, pooled], 1)

    def loss(self):
        x = self.all_over(self.conv_relu("conv1", self.batch["x"], 2, 3), 3, 2)
        x = self.conv_relu("conv3", self.conv_relu("conv2", x), 1, 1)
        for stage, modules in (("3", "ab"), ("4", "abcde"), ("5", "ab")):
            x = self.all_over(x, 3, 2)
            for one in modules:
                x = self.module(f"inception{stage}{one}", x)
        return self.classified(x.mean((2, 3)))


class ResNet50(Network):
    def layer(self, name, x, stride=1, pad=0):
        return self.batch_norm(f"{name}/norm", self.conv(name, x, stride, pad, False))

    def block(self, name, x, stride):
        shortcut = self.layer(f"{name}/shortcut", x, stride) if f"{name}/shortcut/kernel" in self.w.values else x
        y = F.relu(self.layer(f"{name}/narrow", x))
        y = F.relu(self.layer(f"{name}/window", y, stride, 1))
        return F.relu(self.layer(f"{name}/wide", y) + shortcut)

    def loss(self):
        x = self.all_over(F.relu(self.layer("first", self.batch["x"], 2, 3)), 3, 2)
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for i in range(blocks):
                x = self.block(f"stage{stage + 2}_{i}", x, 2 if i == 0 and stage > 0 else 1)
        return self.classified(x.mean((2, 3)))


class Bert(Network):
    def attention(self, name, x):
        texts, steps = self.batch["ids"].shape
        query, key, value = (
            self.dense(f"{name}/{part}", x).view(texts, steps, -1, 64).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = F.scaled_dot_product_attention(query, key, value)
        return self.dense(f"{name}/output", seen.transpose(1, 2).reshape(texts * steps, -1))

    def layer(self, name, x):
        x = self.layer_norm(f"{name}/norm1", x + self.attention(name, x))
        return self.layer_norm(f"{name}/norm2", x + self.dense(f"{name}/outer", F.gelu(self.dense(f"{name}/inner", x))))

    def loss(self):
        w, b = self.w, self.batch
        x = F.embedding(b["ids"], w["words"]) + F.embedding(b["kind"], w["kinds"]) + w["places"]
        x = self.layer_norm("norm", x.flatten(0, 1))
        for i in range(sum(name.endswith("/query/kernel") for name in w.values)):
            x = self.layer(f"layer{i}", x)
        picked = self.layer_norm("masked/norm", F.gelu(self.dense("masked", x[b["places"]])))
        masked = F.cross_entropy(F.linear(picked, w["words"], w["masked/words_bias"]), b["masked_words"])
        following = F.cross_entropy(
            self.dense("next", torch.tanh(self.dense("pooler", x[b["first"]]))), b["next_sentence"]
        )
        return masked + following


class Lstm(Network):
    """PyTorch's own layer, which is cuDNN's on a GPU. It has two biases where others have one: the second stays
    zero."""

    def prepare(self):
        w = self.w
        width, inputs = w["layer0/recurrent"].shape[1], w["layer0/kernel"].shape[1]
        self.layers = torch.nn.LSTM(inputs, width, 2).to(w["embedding"].device)
        for i in range(2):
            for theirs, ours in (("weight_ih", "kernel"), ("weight_hh", "recurrent"), ("bias_ih", "bias")):
                parameter = getattr(self.layers, f"{theirs}_l{i}")
                parameter.data.copy_(w[f"layer{i}/{ours}"].data)
                w.values[f"layer{i}/{ours}"] = parameter
            unused = getattr(self.layers, f"bias_hh_l{i}")
            unused.data.zero_()
            unused.requires_grad_(False)
        self.layers.flatten_parameters()

    def loss(self):
        x, _ = self.layers(F.embedding(self.batch["ids"], self.w["embedding"]))
        return F.cross_entropy(self.dense("logits", x.flatten(0, 1)), self.batch["next_words"])


NETWORKS = {
    "alexnet": AlexNet,
    "overfeat": Overfeat,
    "vgg_a": VggA,
    "googlenet": GoogleNet,
    "resnet50": ResNet50,
    "bert_base": Bert,
    "lstm": Lstm,
}


# ---- Time ----

class Device:
    """Where all of it runs, and what only a GPU has."""

    def __init__(self, name):
        self.name, self.cuda = name, name.startswith("cuda")
        if self.cuda and not torch.cuda.is_available():
            raise SystemExit("peers.py: this PyTorch finds no GPU; torch.version.cuda is " + str(torch.version.cuda))

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def forget_peak(self):
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()

    def peak(self):
        return torch.cuda.max_memory_allocated() if self.cuda else 0


def time_steps(seconds, step, bring):
    """As measure.cc has it: rows of steps, of which the last one's result is brought home."""
    def row(steps):
        begin, thread = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            last = step()
        bring(last)
        return (time.perf_counter() - begin) / steps, (time.thread_time() - thread) / steps

    one, warm, end = 0, 0, time.perf_counter() + seconds / 4
    while warm < 4 or time.perf_counter() < end:
        one, warm = row(1)[0], warm + 1
    steps = min(10000, max(1, round(0.02 / one)))
    took, end = [], time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        took.append(row(steps))
    middle = len(took) // 2
    return {"median_ms": 1e3 * sorted(one for one, _ in took)[middle], "least_ms": 1e3 * min(one for one, _ in took),
            "thread_ms": 1e3 * sorted(one for _, one in took)[middle], "steps": steps * len(took)}


def set_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "strict"
    torch.backends.cudnn.benchmark = True


# ---- Training ----

def optimizer_of(name, rate, parameters, device, mode):
    more = {"fused": True} if device.cuda else {}
    if name == "adam":
        return torch.optim.Adam(parameters, rate, capturable=device.cuda and mode == "whole_graph", **more)
    return torch.optim.SGD(parameters, rate, momentum=0.9 if name == "momentum" else 0.0, **more)


def loss_of(network, device, precision, mode):
    def plain():
        with torch.autocast(device.name, torch.bfloat16, enabled=precision == "bfloat16"):
            return network.loss()

    if mode == "eager":
        return plain
    return torch.compile(plain, mode="reduce-overhead" if mode == "reduce_overhead" else None)


def captured(step, optimizer):
    """The step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        warm = [step() for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss
    return warm, replay


def compare(ours, theirs, tolerance):
    for i, (our, their) in enumerate(zip(ours, theirs)):
        if not math.isfinite(their) or abs(our - their) > tolerance * max(1.0, abs(their)):
            raise SystemExit(
                f"peers.py: the loss of step {i + 1} is {our:.6g} here and {their:.6g} in Tenon, which is more than {tolerance:g} apart; "
                "nothing was timed"
            )


def look_through(network, w):
    """Once forward, as it is written: every weight must have a part in it, or it is another network than Tenon's."""
    with torch.no_grad():
        network.loss()
    if set(w.values) != w.used:
        raise SystemExit(f"peers.py: these weights take no part: {sorted(set(w.values) - w.used)}")
    w.noting = False


def train(arguments):
    device = Device(arguments.device)
    set_precision(arguments.precision)
    folder = pathlib.Path(arguments.folder)
    w = Weights(folder, arguments.device, arguments.layout)
    batch = {
        file.name[len("batch.") : -len(".npy")]: torch.from_numpy(np.load(file)).to(arguments.device)
        for file in folder.glob("batch.*.npy")
    }
    if "x" in batch:
        batch["x"] = batch["x"].permute(0, 3, 1, 2)  # which is channels_last in memory
        batch["x"] = batch["x"] if arguments.layout == "channels_last" else batch["x"].contiguous()
    network = NETWORKS[arguments.network](w, batch)
    network.prepare()
    look_through(network, w)
    optimizer = optimizer_of(arguments.optimizer, arguments.rate, list(w.values.values()), device, arguments.mode)
    loss = loss_of(network, device, arguments.precision, arguments.mode)

    def step():
        if arguments.mode == "reduce_overhead":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    begin = time.perf_counter()
    first = []
    if arguments.mode == "whole_graph":
        if not device.cuda:
            raise SystemExit("peers.py: the mode whole_graph needs a GPU")
        first, step = captured(step, optimizer)
    while len(first) < len(arguments.losses):
        first.append(step().clone())
    losses = [one.item() for one in first]
    out = {
        "what": "training",
        "network": arguments.network,
        "mode": arguments.mode,
        "layout": arguments.layout,
        "precision": arguments.precision,
        "losses": losses,
        "parameters": sum(one.numel() for one in w.values.values()),
        "first_steps_ms": 1e3 * (time.perf_counter() - begin),
    }
    compare(losses, arguments.losses, arguments.tolerance)
    device.forget_peak()  # what searching for the best convolutions took
    out.update(time_steps(arguments.seconds, step, lambda last: last.item()), device_peak_bytes=device.peak())
    return [out]


# ---- The card's limits ----

def products(arguments):
    device, n = Device(arguments.device), arguments.side
    set_precision(arguments.precision)
    dtype = torch.bfloat16 if arguments.precision == "bfloat16" else torch.float32
    a, b = (torch.randn(n, n, device=arguments.device).div_(n ** 0.5).to(dtype) for _ in range(2))
    product = a.clone()

    def step():
        nonlocal product
        product = a
        for _ in range(arguments.count):
            product = product @ b
        return product

    out = {"what": "products", "side": n, "count": arguments.count, "precision": arguments.precision, "mode": "eager"}
    out.update(time_steps(arguments.seconds, step, lambda last: last.sum().item()), device_peak_bytes=device.peak())
    out["tflops"] = 2 * n ** 3 * arguments.count / out["median_ms"] / 1e9
    return [out]


def launches(arguments):
    device, found = Device(arguments.device), []
    for nodes in arguments.nodes:
        x = torch.randn(1, 8, device=arguments.device)

        def step():
            y = x
            for _ in range(nodes):
                y = torch.softmax(y, 1)
            return y

        ways = {"eager": step}
        if device.cuda:
            class Nothing:
                def zero_grad(self, set_to_none): pass
            ways["whole_graph"] = captured(step, Nothing())[1]
        for mode, way in ways.items():
            out = {
                "what": "launches",
                "nodes": nodes,
                "mode": mode,
                **time_steps(arguments.seconds, way, lambda last: last.sum().item()),
            }
            found.append({**out, "us_a_node": 1e3 * out["median_ms"] / nodes})
    return found


def copies(arguments):
    device, found = Device(arguments.device), []
    for size in arguments.bytes:
        there, total = (torch.ones(size // 4, device=arguments.device) for _ in range(2))
        out = {"what": "copies", "bytes": size}
        for kind in ("pageable", "pinned") if device.cuda else ("pageable",):
            here = torch.zeros(size // 4, pin_memory=kind == "pinned")

            def to():
                there.copy_(here, non_blocking=kind == "pinned")
                device.wait()

            def back():
                here.copy_(there, non_blocking=kind == "pinned")
                device.wait()
            for name, way in (("to_device", to), ("from_device", back)):
                out[f"{name}_{kind}_gbs"] = size / time_steps(arguments.seconds, way, lambda _: None)["median_ms"] / 1e6
        on = time_steps(arguments.seconds, lambda: (total.add_(there), device.wait()), lambda _: None)
        out["on_device_gbs"] = 3 * size / on["median_ms"] / 1e6
        found.append(out)
    return found


def card(arguments):
    """What PyTorch and the device say of themselves."""
    out = {
        "what": "card",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version(),
    }
    if Device(arguments.device).cuda:
        of = torch.cuda.get_device_properties(0)
        out.update(
            name=of.name,
            multiprocessors=of.multi_processor_count,
            memory_bytes=of.total_memory,
            capability=f"{of.major}.{of.minor}",
        )
        width, rate = getattr(of, "memory_bus_width", 0), getattr(of, "memory_clock_rate", 0)  # bits, kHz
        if width and rate:
            out["memory_gbs"] = 2 * rate * width / 8 / 1e6
    return [out]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "products", "launches", "copies", "card"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=["strict", "tf32", "bfloat16"], default="strict")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--network", choices=sorted(NETWORKS))
    parser.add_argument("--folder", help="weights and batch, as gpu_bench train --folder wrote them")
    parser.add_argument("--mode", choices=["eager", "compiled", "reduce_overhead", "whole_graph"], default="eager")
    parser.add_argument("--layout", choices=["channels_last", "channels_first"], default="channels_last")
    parser.add_argument("--optimizer", choices=["sgd", "momentum", "adam"], default="sgd")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--losses", type=json.loads, default=[], help="gpu_bench's, a JSON list")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--bytes", type=int, nargs="+", default=[1 << 12, 1 << 20, 1 << 26, 1 << 30])
    arguments = parser.parse_args()
    if arguments.what == "train" and not (arguments.network and arguments.folder):
        raise SystemExit("peers.py: train needs --network and --folder")
    for out in globals()[arguments.what](arguments):
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
