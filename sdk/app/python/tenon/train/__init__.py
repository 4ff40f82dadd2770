# SPDX-License-Identifier: Apache-2.0
"""Training: variables and layers, optimizers, checkpoints, event files, the loop.

    model = tenon.train.Model(graph)
    logits = model.dense("out", x, 10)
    loss = tenon.train.sparse_softmax_loss(logits, labels)
    update = tenon.train.minimize(model, loss, 0.001, tenon.train.Adam())
    trainer = tenon.train.Trainer(model, loss=loss, update=update, feeds=[x, labels], feed=lambda step: ..., steps=1000)
    report = trainer.run(tenon.Session(graph))
"""

from .._core import DevicePrefetcher, Initializer, LearningRate
from .classes import (
    Candidates,
    ClassShards,
    log_uniform_candidates,
    nce_loss,
    sampled_softmax_loss,
    sharded_softmax_loss,
)
from .coordinator import Coordinator, QueueRunner, start_queue_runners
from .lbfgs import Lbfgs, LbfgsResult
from .model import Model, Variable, accuracy, group, sparse_softmax_loss
from .optimizer import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Momentum,
    Optimizer,
    Replica,
    RMSProp,
    apply_gradients,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    dense_gradients,
    global_norm,
    minimize,
    minimize_replicas,
)
from .progress import Progress
from .rate import (
    constant_rate,
    cosine_decay,
    cosine_restarts,
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
    warm_up,
)
from .recurrent import Rnn, RnnCell, basic_rnn_cell, dynamic_rnn, gru_cell, lstm_cell, rnn_cell
from .saver import EventWriter, Restored, Saver
from .trainer import Trainer

__all__ = [
    name
    for name in dir()
    if not name.startswith("_")
    and name
    not in (
        "classes",
        "coordinator",
        "lbfgs",
        "model",
        "optimizer",
        "progress",
        "rate",
        "recurrent",
        "saver",
        "trainer",
    )
]
