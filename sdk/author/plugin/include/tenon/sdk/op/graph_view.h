// SPDX-License-Identifier: Apache-2.0
// A graph as passes and compilers look at it: each node's op, device and inputs, and who reads what it gives. All of it
// is read once, when the view is made.
//
//   struct Own { int64_t saved = 0; };            // what a pass keeps of each node
//   GraphView<Own> graph(p.cursor(), [&p](tenon_status* status) { p.Check(status); });
//   for (int64_t id = 0; id < graph.count(); ++id)
//     for (const GraphReader& reader : graph.at(id).readers[0]) graph.at(reader.node).saved += 1;
//
// Ids are the cursor's. What is added to the graph later is not in the view. One thread.
#ifndef TENON_SDK_OP_GRAPH_VIEW_H_
#define TENON_SDK_OP_GRAPH_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tenon/graph.h"
#include "tenon/sdk/node.h"
#include "tenon/sdk/op/formula.h"
#include "tenon/sdk/span.h"

namespace tenon::sdk {

// Who reads an output: a node, and by which of its inputs.
struct GraphReader {
  int64_t node;
  int input;
};

// Of an op that says one of these a copy may give something else, and so may the next run.
inline constexpr uint64_t kOfMoreThanInputs =
    TENON_PROPERTY_DRAWS | TENON_PROPERTY_READS_STATE | TENON_PROPERTY_UPDATES_STATE;

struct NothingOfItsOwn {};

template <class Own = NothingOfItsOwn>
class GraphView {
 public:
  struct Node : Own {
    std::string name, op, device;
    std::string function;                           // that it is of its inputs (FunctionOf in formula.h)
    std::vector<tenon_output> inputs;               // node -1: an edge that the cursor does not tell
    std::vector<int64_t> controls;                  // nodes that it waits for besides
    std::vector<std::vector<GraphReader>> readers;  // of each output
    uint64_t properties = 0;                        // TENON_PROPERTY_*
    uint64_t elements = 0, rows = 0;                // of tenon_node_properties: a bit for each input

    bool Is(uint64_t property) const { return (properties & property) != 0; }
    bool IsElement(size_t input) const { return ((elements >> std::min<size_t>(input, 63)) & 1) != 0; }
  };

  // check: gets each answer of the cursor, NULL or a failure, which becomes its own.
  template <class Check>
  GraphView(const tenon_graph_cursor& cursor, Check&& check)
      : nodes_(static_cast<size_t>(cursor.node_count(cursor.graph))) {
    for (int64_t id = 0; id < count(); ++id) Read(cursor, id, check);
    for (int64_t id = 0; id < count(); ++id)
      for (size_t i = 0; i < at(id).inputs.size(); ++i)
        if (const tenon_output source = at(id).inputs[i]; source.node >= 0)
          at(source.node).readers[static_cast<size_t>(source.index)].push_back({id, static_cast<int>(i)});
  }

  int64_t count() const { return static_cast<int64_t>(nodes_.size()); }
  Node& at(int64_t id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& at(int64_t id) const { return nodes_[static_cast<size_t>(id)]; }
  // In the order of their ids.
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }

  // The one node that reads anything of it, and nothing else does; node -1: there is none, or there are several.
  GraphReader OnlyReader(int64_t id) const {
    GraphReader only{-1, 0};
    for (const auto& readers : at(id).readers)
      for (const GraphReader& reader : readers) {
        if (only.node >= 0) return {-1, 0};
        only = reader;
      }
    return only;
  }

  // Each node after those whose outputs it reads, but for the back edges of loops.
  std::vector<int64_t> Order() const {
    std::vector<int64_t> order;
    std::vector<bool> seen(nodes_.size());
    std::vector<std::pair<int64_t, size_t>> path;  // and which input is next
    for (int64_t root = 0; root < count(); ++root) {
      if (seen[static_cast<size_t>(root)]) continue;
      seen[static_cast<size_t>(root)] = true;
      path.push_back({root, 0});
      while (!path.empty()) {
        const int64_t id = path.back().first;
        if (path.back().second == at(id).inputs.size()) {
          order.push_back(id);
          path.pop_back();
          continue;
        }
        const int64_t source = at(id).inputs[path.back().second++].node;
        if (source < 0 || seen[static_cast<size_t>(source)]) continue;
        seen[static_cast<size_t>(source)] = true;
        path.push_back({source, 0});
      }
    }
    return order;
  }

 private:
  template <class Check>
  void Read(const tenon_graph_cursor& cursor, int64_t id, Check& check) {
    const tenon_node_services& services = *cursor.node_services;
    const tenon_node* const node = cursor.node(cursor.graph, id);
    Node& read = at(id);
    read.name = ToText(services.name(node));
    read.op = ToText(services.op(node));
    read.device = ToText(services.device(node));
    read.inputs.resize(static_cast<size_t>(services.input_count(node)), {-1, 0, 0});
    for (size_t i = 0; i < read.inputs.size(); ++i)
      check(cursor.input(cursor.graph, id, static_cast<int32_t>(i), &read.inputs[i]));
    read.controls.resize(static_cast<size_t>(cursor.control_input_count(cursor.graph, id)), -1);
    for (size_t i = 0; i < read.controls.size(); ++i)
      check(cursor.control_input(cursor.graph, id, static_cast<int32_t>(i), &read.controls[i]));
    read.readers.resize(static_cast<size_t>(services.output_count(node)));
    const tenon_node_properties properties = PropertiesOf(services, node);
    read.properties = properties.flags;
    read.elements = properties.elements;
    read.rows = properties.rows;
    if (properties.formula.size == 0) return;
    NodeContext context(&services, node);
    read.function = FunctionOf(context);
  }

  std::vector<Node> nodes_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_OP_GRAPH_VIEW_H_
