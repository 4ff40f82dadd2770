// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/queue_runner.h"

#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using sdk::WireReader;

// Fields of QueueRunnerDef (tensorflow/core/protobuf/queue_runner.proto).
constexpr uint32_t kQueueName = 1, kEnqueueOpName = 2, kCloseOpName = 3, kCancelOpName = 4, kClosedCodes = 5;

void AddCode(QueueRunner* runner, uint64_t code) {
  if (code > 0 && code <= static_cast<uint64_t>(Code::kUnauthenticated))
    runner->closed.push_back(static_cast<Code>(code));
}

}  // namespace

Result<QueueRunner> ParseQueueRunner(std::string_view bytes) {
  QueueRunner runner;
  runner.closed.clear();
  WireReader reader(bytes);
  while (reader.Next()) {
    if (!reader.is_bytes()) {
      if (reader.field() == kClosedCodes) AddCode(&runner, reader.number());
      continue;
    }
    const std::string text(reader.bytes());
    switch (reader.field()) {
      case kQueueName: runner.queue = text; break;
      case kEnqueueOpName: runner.enqueue_ops.push_back(text); break;
      case kCloseOpName: runner.close_op = text; break;
      case kCancelOpName: runner.cancel_op = text; break;
      case kClosedCodes: {  // packed
        uint64_t code = 0;
        for (std::string_view rest = text; !rest.empty() && sdk::TakeVarint(rest, &code);) AddCode(&runner, code);
        break;
      }
      default: break;
    }
  }
  if (!reader.ok()) return Status(Code::kInvalidArgument, "the bytes are no QueueRunnerDef, or damaged");
  if (runner.closed.empty()) runner.closed = {Code::kOutOfRange};
  return runner;
}

}  // namespace tenon::model
