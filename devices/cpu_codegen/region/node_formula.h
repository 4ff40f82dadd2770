// SPDX-License-Identifier: Apache-2.0
// What a node computes, as the generator's functions: of what its op says that it computes (tenon/formula.h), whoever
// wrote the op.
#ifndef TENON_DEVICES_CPU_CODEGEN_REGION_NODE_FORMULA_H_
#define TENON_DEVICES_CPU_CODEGEN_REGION_NODE_FORMULA_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "code/program.h"
#include "tenon/sdk/device/compiler.h"
#include "tenon/sdk/node.h"

namespace tenon::cpu_codegen {

// The inputs' and the output's types of a node.
struct NodeTypes {
  std::vector<uint32_t> inputs;
  uint32_t output = 0;
};
NodeTypes TypesOf(const tenon_node_services& services, const tenon_node* node);

class NodeFormula {
 public:
  NodeFormula(const tenon_node_services& services, const tenon_node* node, Level level);

  // Whether the op says what it computes.
  static bool IsSaid(const tenon_node_services& services, const tenon_node* node);
  bool is_said() const { return is_said_; }
  // Whether code can be made of it; else why not, and for which of TENON_REFUSE_*.
  bool is_generated() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  uint32_t refusal() const { return refusal_; }
  // Whether the generator has all of its functions, for some types.
  bool is_of_known() const { return is_of_known_; }
  // A power, whose exponent is input 1.
  bool is_power() const { return is_power_; }
  // Channels, the last dim, of input 1 (BiasAdd).
  bool is_bias() const { return is_bias_; }

  // Each behind its operands, which are numbers of values: the node's inputs, then these. The last one is the output.
  const std::vector<Node>& nodes() const { return nodes_; }
  // Whether an input of this shape is one of which the formula can be made: else the op's kernel looks at it.
  bool Fits(size_t input, std::span<const int64_t> shape, std::span<const int64_t> output) const;

 private:
  bool is_said_ = false, is_of_known_ = false, is_power_ = false, is_bias_ = false, broadcasts_ = false;
  uint64_t elements_ = 0;  // inputs of the output's shape
  uint32_t refusal_ = TENON_REFUSE_DTYPE;
  std::string why_;
  std::vector<Node> nodes_;
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REGION_NODE_FORMULA_H_
