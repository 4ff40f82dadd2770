// SPDX-License-Identifier: Apache-2.0
// Mutator: damages GraphDefs as a whole: edges, nodes, ops, functions, types, versions. Values are value_mutator.h's.
//
// One to four edits, each in the graph or in a function's body; one graph in eight is damaged as bytes of protobuf's
// wire format as well. The same dice make the same damage: names are taken in order, never as a hash table has them.
#ifndef TENON_TESTS_HOSTILE_MUTATOR_H_
#define TENON_TESTS_HOSTILE_MUTATOR_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graphdef/graph.pb.h"
#include "tests/hostile/dice.h"

namespace tenon::hostile {

struct Damage {
  std::string bytes;               // a GraphDef, or what is left of one
  std::vector<std::string> nodes;  // the graph's own, of which any may be asked for
  std::vector<std::string> edits;  // what was done, for the reader
};

class Mutator {
 public:
  // ops: names that nodes may get instead of their own.
  explicit Mutator(std::vector<std::string> ops) : ops_(std::move(ops)) {}

  Damage Make(std::string_view good, Dice& dice) const;

 private:
  std::vector<std::string> ops_;
};

}  // namespace tenon::hostile

#endif  // TENON_TESTS_HOSTILE_MUTATOR_H_
