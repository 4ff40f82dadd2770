# SPDX-License-Identifier: Apache-2.0
"""Reinforcement learning: a policy learns the way through a grid whose rules are a Python function, called from the
graph.

Whole episodes are one step of the graph: the policy's logits, a draw from them (Multinomial), and what the world
answers (tenon.op), for each move. The policy's gradient is REINFORCE's (Williams 1992): of log probabilities, times
what was gained from there on, less the batch's mean.

usage: reinforce.py [UPDATES]
"""

import sys

import numpy as np
import tenon
from tenon import ops, train

SIDE, MOVES, EPISODES = 5, 12, 64
GOAL = SIDE * SIDE - 1
STEPS = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


@tenon.op(inputs="place: int64, action: int64", outputs="next: int64, reward: float")
def walk(place, action):
    """Moves in the grid; a wall stops it, the goal keeps it. A move costs 0.05, and the goal gives 1 where it is
    reached."""
    at = np.clip(np.stack([place // SIDE, place % SIDE], axis=1) + STEPS[action], 0, SIDE - 1)
    there = place == GOAL
    after = np.where(there, place, at[:, 0] * SIDE + at[:, 1]).astype(np.int64)
    reward = np.where(there, 0, np.where(after == GOAL, 1 - 0.05, -0.05)).astype(np.float32)
    return after, reward


graph = tenon.Graph()
with graph:
    model = train.Model(graph, seed=1)
    start = tenon.placeholder("int64", [EPISODES], name="start")
    place, said, rewards = start, [], []
    for move in range(MOVES):
        seen = ops.OneHot(place, SIDE * SIDE, 1.0, 0.0)
        logits = model.dense("policy", seen, 4)
        action = ops.Reshape(ops.Multinomial(logits, 1, seed=11, seed2=move + 1), [EPISODES])
        # Minus the log probability of what was drawn.
        said.append(ops.SparseSoftmaxCrossEntropyWithLogits(logits, action)[0])
        place, reward = walk(place, action)
        rewards.append(ops.Reshape(reward, [EPISODES]))
        place = ops.Reshape(place, [EPISODES])
    gained, terms = None, []
    for unlikely, reward in zip(reversed(said), reversed(rewards)):
        gained = reward if gained is None else reward + gained
        terms.append(unlikely * ops.StopGradient(gained - ops.Mean(gained, [0])))
    loss = ops.Mean(ops.AddN(terms), [0])
    average = ops.Mean(gained, [0])
    update = train.minimize(model, loss, 0.05, train.Adam())
    initial = model.initialize_all()

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 200
session = tenon.Session(graph, seed=1)
session.run(initial)
begin = {start: np.zeros(EPISODES, np.int64)}
for i in range(updates + 1):
    value, _ = session.run([average, update], begin)
    if i % 50 == 0 or i == updates:
        print(f"update {i}  average return {value:.3f}")
