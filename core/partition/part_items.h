// SPDX-License-Identifier: Apache-2.0
// Items: the nodes of all parts (partitions) while they are still being found, and how they become graphs.
//
// An item may name another as its input before that one's place is known. When all are there, each part's are sorted by
// their moments and added to its graph, so that ids follow the order in which nodes can run.
#ifndef TENON_CORE_PARTITION_PART_ITEMS_H_
#define TENON_CORE_PARTITION_PART_ITEMS_H_

#include <compare>
#include <string>
#include <vector>

#include "core/partition/parts.h"

namespace tenon::partition {

// When something runs: at a position of the sequence of the whole graph, and there before or after others.
struct Moment {
  enum Phase : int32_t {
    kBeforeLoop,      // of the loop that begins here: what enters it
    kLoopBegins,      // what turns it
    kBeforeNode,      // receives
    kNode,            // the node itself
    kAfterCondition,  // what depends on it
    kSend,
    kTurnEnds,
    kAfterLoop,       // of the loops that end here: sends of what leaves them, the inner ones first
  };
  int32_t position = -1;
  Phase phase = kNode;
  int32_t order = 0;
  auto operator<=>(const Moment&) const = default;
};

// An output of an item.
using ItemId = Id<struct ItemKind>;

struct Handle {
  ItemId item;
  int32_t output = 0;
};

struct Item {
  int32_t part = -1;
  Moment when;
  graph::NodeId origin;  // of the whole graph: its op, name and attributes hold; none: those below
  bool repeats = false;
  const graph::OpDef* op = nullptr;
  std::string name;
  graph::AttrMap attrs;
  std::vector<Handle> inputs;
  std::vector<ItemId> controls;
  ChannelId channel;
  graph::NodeId node;  // in its part's graph, once it is there
};

class ItemList {
 public:
  // The first items are the nodes of the graph, by id.
  explicit ItemList(const graph::Graph& graph) : graph_(graph), items_(graph.size()) {}

  static ItemId Of(graph::NodeId node) { return ItemId(node.number()); }

  Item& operator[](ItemId item) { return items_[item]; }
  Item& operator[](graph::NodeId node) { return items_[Of(node)]; }
  ItemId Add(Item item) { return items_.push_back(std::move(item)); }
  // Makes the parts' graphs; items without a part are left out.
  Status Build(std::vector<Part>* parts);

 private:
  Status AddNode(ItemId item, Part* part);

  const graph::Graph& graph_;
  IdVector<ItemId, Item> items_;
  struct Open {
    ItemId item;
    size_t input;
  };
  std::vector<Open> open_;  // inputs whose node comes later: back edges
};

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_PART_ITEMS_H_
