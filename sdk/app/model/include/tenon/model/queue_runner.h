// SPDX-License-Identifier: Apache-2.0
// QueueRunner: what TensorFlow's QueueRunnerDef says: which nodes fill a queue, and which close it.
// train/queue_runner.h runs them.
#ifndef TENON_MODEL_QUEUE_RUNNER_H_
#define TENON_MODEL_QUEUE_RUNNER_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/base.h"

namespace tenon::model {

struct QueueRunner {
  std::string queue;                     // the node that makes it, for messages
  std::vector<std::string> enqueue_ops;  // nodes, each for a thread of its own
  std::string close_op;                  // no more is put in; what is in may be taken
  std::string cancel_op;                 // the same, and what waits for room is cancelled
  std::vector<Code> closed = {Code::kOutOfRange};  // how an enqueue op ends where its input does
};

// Of a serialized QueueRunnerDef. INVALID_ARGUMENT where it is damaged.
Result<QueueRunner> ParseQueueRunner(std::string_view bytes);

}  // namespace tenon::model

#endif  // TENON_MODEL_QUEUE_RUNNER_H_
