// SPDX-License-Identifier: Apache-2.0
#include "tenon/sdk/op/graph_view.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tenon/testing/host.h"

namespace tenon::sdk::graph_view_test {
namespace {

struct FakeNode {
  std::string name, op;
  std::vector<tenon_output> inputs;
  std::vector<int64_t> controls;
  int32_t outputs = 1;
  uint64_t properties = 0;
};
// What is behind the opaque pointers.
const std::vector<FakeNode>& Of(const tenon_graph* graph) {
  return *reinterpret_cast<const std::vector<FakeNode>*>(graph);
}
const FakeNode& Of(const tenon_node* node) { return *reinterpret_cast<const FakeNode*>(node); }

class View : public ::testing::Test {
 protected:
  View() {
    services_.struct_size = sizeof services_;
    services_.name = [](const tenon_node* node) { return ToSpan(Of(node).name); };
    services_.op = [](const tenon_node* node) { return ToSpan(Of(node).op); };
    services_.device = [](const tenon_node*) -> tenon_span { return TENON_SPAN("/device:CPU:0"); };
    services_.input_count = [](const tenon_node* node) { return static_cast<int32_t>(Of(node).inputs.size()); };
    services_.output_count = [](const tenon_node* node) { return Of(node).outputs; };
    services_.properties = [](const tenon_node* node, tenon_node_properties* out) { out->flags = Of(node).properties; };
    cursor_.struct_size = sizeof cursor_;
    cursor_.graph = reinterpret_cast<const tenon_graph*>(&nodes_);
    cursor_.node_services = &services_;
    cursor_.node_count = [](const tenon_graph* graph) { return static_cast<int64_t>(Of(graph).size()); };
    cursor_.node = [](const tenon_graph* graph, int64_t id) {
      return reinterpret_cast<const tenon_node*>(&Of(graph)[static_cast<size_t>(id)]);
    };
    cursor_.input = [](const tenon_graph* graph, int64_t id, int32_t index, tenon_output* out) -> tenon_status* {
      const FakeNode& node = Of(graph)[static_cast<size_t>(id)];
      if (node.name == "broken") return Failure(TENON_INTERNAL, "no inputs of ", node.name);
      *out = node.inputs[static_cast<size_t>(index)];
      return nullptr;
    };
    cursor_.control_input_count = [](const tenon_graph* graph, int64_t id) {
      return static_cast<int32_t>(Of(graph)[static_cast<size_t>(id)].controls.size());
    };
    cursor_.control_input = [](const tenon_graph* graph, int64_t id, int32_t index, int64_t* out) -> tenon_status* {
      *out = Of(graph)[static_cast<size_t>(id)].controls[static_cast<size_t>(index)];
      return nullptr;
    };
  }
  auto Check() {
    return [this](tenon_status* status) {
      if (status != nullptr) failures_.push_back(testing::Text(status));
    };
  }

  std::vector<FakeNode> nodes_;
  tenon_node_services services_ = {};
  tenon_graph_cursor cursor_ = {};
  std::vector<std::string> failures_;
};

TEST_F(View, HasNodesWithTheirReaders) {
  nodes_ = {{"c", "Split", {}, {}, 2},
            {"x", "Neg", {{0, 0, 0}}, {}},
            {"y", "Add", {{0, 1, 0}, {0, 1, 0}}, {1}, 1, TENON_PROPERTY_ELEMENTWISE}};
  struct Own {
    int seen = 7;
  };
  GraphView<Own> view(cursor_, Check());
  EXPECT_TRUE(failures_.empty());
  ASSERT_EQ(view.count(), 3);
  EXPECT_EQ(view.at(2).op, "Add");
  EXPECT_EQ(view.at(2).device, "/device:CPU:0");
  EXPECT_EQ(view.at(2).properties, TENON_PROPERTY_ELEMENTWISE);
  EXPECT_EQ(view.at(2).controls, (std::vector<int64_t>{1}));
  EXPECT_EQ(view.at(1).seen, 7);
  ASSERT_EQ(view.at(0).readers.size(), 2u);
  ASSERT_EQ(view.at(0).readers[0].size(), 1u);
  EXPECT_EQ(view.at(0).readers[0][0].node, 1);
  ASSERT_EQ(view.at(0).readers[1].size(), 2u);
  EXPECT_EQ(view.at(0).readers[1][1].node, 2);
  EXPECT_EQ(view.at(0).readers[1][1].input, 1);
}

TEST_F(View, KnowsTheOneReader) {
  nodes_ = {{"a", "Const", {}, {}}, {"b", "Neg", {{0, 0, 0}}, {}}, {"c", "Add", {{1, 0, 0}, {1, 0, 0}}, {}}};
  const GraphView<> view(cursor_, Check());
  EXPECT_EQ(view.OnlyReader(0).node, 1);
  EXPECT_EQ(view.OnlyReader(1).node, -1) << "it is read twice";
  EXPECT_EQ(view.OnlyReader(2).node, -1) << "nobody reads it";
}

// A loop's back edge is the one that goes against the order.
TEST_F(View, OrdersNodesAfterWhatTheyRead) {
  nodes_ = {{"y", "Neg", {{2, 0, 0}}, {}},
            {"next", "Add", {{2, 0, 0}}, {}},
            {"x", "Merge", {{3, 0, 0}, {1, 0, 0}}, {}},
            {"c", "Const", {}, {}}};
  const std::vector<int64_t> order = GraphView<>(cursor_, Check()).Order();
  ASSERT_EQ(order.size(), nodes_.size());
  std::map<int64_t, size_t> at;
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = i;
  EXPECT_LT(at[3], at[2]);
  EXPECT_LT(at[2], at[0]);
}

TEST_F(View, TellsFailuresOfTheCursorAndHasNoSuchEdge) {
  nodes_ = {{"a", "Const", {}, {}}, {"broken", "Neg", {{0, 0, 0}}, {}}};
  const GraphView<> view(cursor_, Check());
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_NE(failures_[0].find("no inputs of broken"), std::string::npos) << failures_[0];
  EXPECT_EQ(view.at(1).inputs[0].node, -1);
  EXPECT_TRUE(view.at(0).readers[0].empty());
}

// A host that is older than properties tells none.
TEST_F(View, OfAnOlderHostHasNoProperties) {
  nodes_ = {{"a", "Const", {}, {}, 1, TENON_PROPERTY_EXACT}};
  services_.struct_size = offsetof(tenon_node_services, properties);
  EXPECT_EQ(GraphView<>(cursor_, Check()).at(0).properties, 0u);
}

}  // namespace
}  // namespace tenon::sdk::graph_view_test
