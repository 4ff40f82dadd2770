// SPDX-License-Identifier: Apache-2.0
// What stands in a graph, counted: ops, parameters, memory.
#ifndef TENON_CLI_INSPECT_SUMMARY_H_
#define TENON_CLI_INSPECT_SUMMARY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tenon/data/graph_def.h"
#include "tenon/model/graph_index.h"
#include "tenon/tenon.h"

namespace tenon::cli {

// How many there are, and what they take.
struct Size {
  int64_t elements = 0;
  int64_t bytes = 0;
  void Add(host::DType dtype, const host::Shape& shape);
};

struct Parameters {
  Size variables;
  Size constants;
  // Of these nodes: a variable that several nodes name counts once.
  static Parameters Of(const std::vector<const data::NodeView*>& nodes);
};

struct Summary {
  std::map<std::string, int64_t> ops;
  Parameters reached;  // by calls of the signature, or of all of them; the whole graph where it has none
  Parameters whole;    // the whole graph's
  std::vector<const data::NodeView*> inputs;
  std::vector<const data::NodeView*> outputs;
  std::set<std::string> unknown_ops;
  int64_t peak_bytes = -1;              // of a step of the signature; -1: not known
  std::vector<std::string> peak_notes;  // what the prediction rests on, or why there is none
};

// reached: what a call runs, with the bodies of functions. Only its ops are counted when `narrow` says so.
Summary Summarize(const model::GraphIndex& index, const std::vector<const data::NodeView*>& reached, bool narrow);

}  // namespace tenon::cli

#endif  // TENON_CLI_INSPECT_SUMMARY_H_
