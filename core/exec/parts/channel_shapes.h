// SPDX-License-Identifier: Apache-2.0
// ChannelShapes: what the parts (partitions) of a step will receive, as far as the shapes of its feeds tell.
//
// A part knows nothing of what comes from the others, so this is found over the whole graph, once for each set of
// shapes fed. Thread-safe; keeps the last few answers.
#ifndef TENON_CORE_EXEC_PARTS_CHANNEL_SHAPES_H_
#define TENON_CORE_EXEC_PARTS_CHANNEL_SHAPES_H_

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/graph/graph.h"
#include "core/partition/parts.h"

namespace tenon::exec {

struct Environment;

class ChannelShapes {
 public:
  struct Known {
    std::vector<Shape> feeds;
    IdVector<partition::ChannelId, Shape> channels;
    IdVector<partition::ChannelId, tenon_tensor_view> views;  // without data
  };

  // What is asked, over the whole graph. The graph and the environment outlive it.
  struct Question {
    const graph::Graph* graph;
    const Environment* env;
    std::vector<graph::NodeId> order;
    std::vector<graph::Edge> feeds;
    IdVector<partition::ChannelId, graph::Edge> values;  // index -1: a control edge
    bool fold;                               // whether constants may be computed
    std::function<bool(const graph::Node&)> own_arithmetic;  // of a node's device, which the host's does not foretell
  };
  explicit ChannelShapes(Question question) : question_(std::move(question)) {}

  // `last` is tried first.
  std::shared_ptr<const Known> For(const tenon_tensor_view* const* feeds, const std::shared_ptr<const Known>& last);

 private:
  std::shared_ptr<const Known> Infer(const tenon_tensor_view* const* feeds) const;

  const Question question_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Known>> known_;
  size_t next_evicted_ = 0;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PARTS_CHANNEL_SHAPES_H_
