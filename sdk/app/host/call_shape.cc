// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/host/call_shape.h"

#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/graph/shape_inference.h"
#include "core/optimize/optimize.h"
#include "tenon/op.h"

namespace tenon::host {
namespace {

using graph::AttrValue;
using graph::Edge;
using graph::Node;

// A graph of the call alone, whose inputs are arguments.
struct Alone {
  explicit Alone(const graph::Graph& whole) : graph(&whole.registry()) { graph.library() = whole.library(); }

  Status Add(const Node& call, int32_t output) {
    graph::Builder builder(&graph);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      graph::AttrMap attrs{{"T", AttrValue::Type(BaseType(call.input_types[i]))},
                           {"index", AttrValue::Int(static_cast<int64_t>(i))}};
      TENON_ASSIGN_OR_RETURN(const graph::NodeId argument,
                             builder.AddRole("argument", {}, std::move(attrs), StrCat("argument_", i)));
      request.feeds.push_back({argument, 0});
    }
    TENON_ASSIGN_OR_RETURN(const graph::NodeId id, builder.Add(call.op->name, request.feeds, call.attrs));
    request.fetches = {{id, output}};
    return Status::Ok();
  }

  graph::Graph graph;
  optimize::Request request;
};

Result<Shape> ShapeOfCall(graph::Builder* builder, const Node& call, int32_t output) {
  Alone alone(builder->graph());
  TENON_RETURN_IF_ERROR(alone.Add(call, output));
  TENON_ASSIGN_OR_RETURN(const graph::Graph body, optimize::InlineCalls(std::move(alone.graph), &alone.request));
  graph::ShapeInference inference(&body);
  for (size_t i = 0; i < call.inputs.size(); ++i) inference.Fix(alone.request.feeds[i], builder->Facts(call.inputs[i]));
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::NodeId> order, body.TopologicalOrder());
  TENON_RETURN_IF_ERROR(inference.Run(order));
  return inference.facts(alone.request.fetches[0]).shape;
}

}  // namespace

Shape ShapeOf(graph::Builder* builder, Edge output) {
  const Node& node = builder->graph().node(output.node);
  Shape shape = builder->Facts(output).shape;
  if (!node.has(TENON_OP_CALL) || shape.known_rank()) return shape;
  auto of_body = ShapeOfCall(builder, node, output.index);
  return of_body.ok() ? *std::move(of_body) : shape;
}

}  // namespace tenon::host
