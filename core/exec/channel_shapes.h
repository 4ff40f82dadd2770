// SPDX-License-Identifier: Apache-2.0
// ChannelShapes: what the parts of a step will receive, as far as the shapes of its feeds tell.
//
// A part knows nothing of what comes from the others, so this is found over the whole graph, once for each set of shapes
// fed. Thread-safe; keeps the last few answers.
#ifndef TENON_CORE_EXEC_CHANNEL_SHAPES_H_
#define TENON_CORE_EXEC_CHANNEL_SHAPES_H_

#include <memory>
#include <mutex>
#include <functional>
#include <vector>

#include "core/exec/step.h"
#include "core/graph/graph.h"

namespace tenon::exec {

class ChannelShapes {
 public:
  struct Known {
    std::vector<Shape> feeds, channels;
    std::vector<tenon_tensor_view> views;  // of channels; without data
  };

  // values: of the channels, in the whole graph; index -1: a control edge. own_arithmetic: whether values of a node's device are not
  // foretold by the host's. fold: whether constants may be computed. What it is given outlives it.
  ChannelShapes(const graph::Graph* graph, const Environment* env, bool fold, std::function<bool(const graph::Node&)> own_arithmetic)
      : graph_(graph), env_(env), fold_(fold), own_arithmetic_(std::move(own_arithmetic)) {}
  void Set(std::vector<int32_t> order, std::vector<graph::Edge> feeds, std::vector<graph::Edge> values) {
    order_ = std::move(order);
    feeds_ = std::move(feeds);
    values_ = std::move(values);
  }

  // `last` is tried first.
  std::shared_ptr<const Known> For(const tenon_tensor_view* const* feeds, const std::shared_ptr<const Known>& last);

 private:
  std::shared_ptr<const Known> Infer(const tenon_tensor_view* const* feeds) const;

  const graph::Graph* graph_;
  const Environment* env_;
  const bool fold_;
  const std::function<bool(const graph::Node&)> own_arithmetic_;
  std::vector<int32_t> order_;
  std::vector<graph::Edge> feeds_, values_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Known>> known_;
  size_t next_evicted_ = 0;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_CHANNEL_SHAPES_H_
