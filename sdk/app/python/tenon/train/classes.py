# SPDX-License-Identifier: Apache-2.0
"""Losses over many classes: by a sample of them, or by shards that compute beside their weights."""

from typing import NamedTuple, Optional, Sequence

from .. import _core
from .._core import Initializer, Output
from .model import Model, Variable, _initializer


class ClassShards(_core.ClassShardsBase):
    """The weights and biases of a layer over many classes, parted by class into a shard on each of the devices.

    partition: "div": the classes in their order, which checkpoints hold as one tensor, restored into any number of
    shards; "mod": class c is row c // k of shard c % k, restored into as many shards alone. by_rows: training changes
    the rows alone that a step gathered, for so many
    classes that a dense gradient is too large.
    """

    def __init__(
        self,
        model: Model,
        name: str,
        classes: int,
        width: int,
        initializer=None,
        *,
        devices: Sequence[str] = ("",),
        partition: str = "div",
        by_rows: bool = False,
    ):
        initializer = Initializer.he(width) if initializer is None else _initializer(initializer)
        super().__init__(model, name, classes, width, initializer, list(devices), partition, by_rows)

    @property
    def weights(self) -> list:
        return [Variable(*parts) for parts in self._weights]

    @property
    def biases(self) -> list:
        return [Variable(*parts) for parts in self._biases]

    def __repr__(self):
        return f"<tenon.train.ClassShards of {self.classes} classes, {self.width} numbers each, in {len(self._weights)} shards>"


class Candidates(NamedTuple):
    """Sampled classes, and how often each label and each of them is to be expected."""

    sampled: Output
    true_expected: Output
    sampled_expected: Output


def log_uniform_candidates(labels: Output, sampled: int, classes: int, *, seed: int = 0) -> Candidates:
    """So many different classes, low ones more often (Zipf's law); labels: [batch, labels], int64."""
    return Candidates(*_core._log_uniform_candidates(labels, sampled, classes, seed))


def sampled_softmax_loss(
    classes: ClassShards,
    inputs: Output,
    labels: Output,
    *,
    sampled: int = 64,
    candidates: Optional[Candidates] = None,
    remove_accidental_hits: Optional[bool] = None,
    seed: int = 0,
) -> Output:
    """Of each example, [batch], for training: the softmax over its labels and a sample of the classes
    (tf.nn.sampled_softmax_loss). inputs: [batch, width]; labels: [batch] or [batch, labels]. Without candidates they
    are log-uniform."""
    return classes._loss("sampled", inputs, labels, sampled, candidates, remove_accidental_hits, seed)


def nce_loss(
    classes: ClassShards,
    inputs: Output,
    labels: Output,
    *,
    sampled: int = 64,
    candidates: Optional[Candidates] = None,
    remove_accidental_hits: Optional[bool] = None,
    seed: int = 0,
) -> Output:
    """The same as logistic losses of labels and sample (tf.nn.nce_loss)."""
    return classes._loss("nce", inputs, labels, sampled, candidates, remove_accidental_hits, seed)


def sharded_softmax_loss(classes: ClassShards, inputs: Output, labels: Output) -> Output:
    """Of each example, [batch]: the softmax over all classes, of which each shard computes its part beside its weights.
    labels: [batch]."""
    return classes._loss("sharded", inputs, labels, 1, None, None, 0)
