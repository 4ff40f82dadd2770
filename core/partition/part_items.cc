// SPDX-License-Identifier: Apache-2.0
#include "core/partition/part_items.h"

#include <algorithm>

#include "core/graph/graph.h"

namespace tenon::partition {

using graph::Edge;
using graph::Node;

Status ItemList::Build(std::vector<Part>* parts) {
  std::vector<std::vector<ItemId>> of_part(parts->size());
  for (const ItemId item : items_.ids())
    if (items_[item].part >= 0) of_part[items_[item].part].push_back(item);
  for (size_t p = 0; p < parts->size(); ++p) {
    std::vector<ItemId>& own = of_part[p];
    std::stable_sort(own.begin(), own.end(), [this](ItemId a, ItemId b) { return (*this)[a].when < (*this)[b].when; });
    Part& part = (*parts)[p];
    for (ItemId item : own) TENON_RETURN_IF_ERROR(AddNode(item, &part));
  }
  for (const Open& open : open_) {
    const Item& item = (*this)[open.item];
    const Handle& from = item.inputs[open.input];
    TENON_RETURN_IF_ERROR((*parts)[item.part].graph.SetInput(item.node, static_cast<int32_t>(open.input),
                                                             {(*this)[from.item].node, from.output}));
  }
  return Status::Ok();
}

Status ItemList::AddNode(ItemId number, Part* part) {
  Item& item = (*this)[number];
  graph::NodeSpec spec{item.op, std::move(item.name), {}, {}, std::move(item.attrs), part->device};
  if (item.origin) {
    const Node& node = graph_.node(item.origin);
    spec.op = node.op;
    spec.name = node.name;
    spec.attrs = node.attrs;
    if (!item.repeats && !node.device.empty()) spec.device = node.device;
  }
  spec.inputs.reserve(item.inputs.size());
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    const Handle& from = item.inputs[i];
    spec.inputs.push_back(!from.item ? Edge{} : Edge{(*this)[from.item].node, from.output});
    if (spec.inputs.back().node) continue;
    spec.inputs.back().index = 0;
    if (from.item) open_.push_back({number, i});
  }
  for (ItemId control : item.controls) spec.controls.push_back((*this)[control].node);
  TENON_ASSIGN_OR_RETURN(item.node, part->graph.Add(std::move(spec)));
  part->origins.push_back(item.origin);
  part->repeats.push_back(item.repeats);
  part->channels.push_back(item.channel);
  return Status::Ok();
}

}  // namespace tenon::partition
