// SPDX-License-Identifier: Apache-2.0
// Queue runners: threads that run the enqueue ops of a queue over and over, so that the steps that dequeue find
// elements. What TensorFlow 1's input functions (string_input_producer, batch, shuffle_batch) leave in a graph, and its
// MetaGraphs list (model/meta_graph.h).
//
//   Coordinator coordinator;
//   TENON_TRY(StartQueueRunners(session, meta.queue_runners, &coordinator));
//   ... steps ...
//   Status status = coordinator.Stop();
//
// A runner whose enqueue op ends with one of `closed` (OUT_OF_RANGE: there is no more input) closes its queue when the
// last of its threads has come to that, so that the steps get what is left and then OUT_OF_RANGE. Any other failure
// stops all, and is what Join() gives. When all are asked to stop, what waits for room in a queue is cancelled.
#ifndef TENON_TRAIN_QUEUE_RUNNER_H_
#define TENON_TRAIN_QUEUE_RUNNER_H_

#include <vector>

#include "tenon/model/queue_runner.h"
#include "tenon/train/base.h"
#include "tenon/train/coordinator.h"

namespace tenon::train {

using model::QueueRunner;

// One thread for each enqueue op. The session outlives the coordinator's threads. NOT_FOUND, before anything was
// started: a node that is not in the graph.
Status StartQueueRunners(const Session& session, const std::vector<QueueRunner>& runners, Coordinator* coordinator);

}  // namespace tenon::train

#endif  // TENON_TRAIN_QUEUE_RUNNER_H_
