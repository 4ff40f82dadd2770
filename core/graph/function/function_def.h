// SPDX-License-Identifier: Apache-2.0
// FunctionDef: a function of a graph's library.
#ifndef TENON_CORE_GRAPH_FUNCTION_FUNCTION_DEF_H_
#define TENON_CORE_GRAPH_FUNCTION_FUNCTION_DEF_H_

#include <map>
#include <string>
#include <vector>

#include "core/graph/op_def.h"

namespace tenon::graph {

// As it stood in the file: its body is checked when it is used.
struct FunctionDef {
  struct Arg {
    std::string name;
    DType type = TENON_DT_INVALID;
    std::string type_attr, number_attr, type_list_attr;
  };
  struct BodyNode {
    std::string name, op, device;
    std::vector<std::string> inputs;  // "arg", "arg:i", "node:out_arg:i", "^node"
    AttrMap attrs;
  };
  std::string name, description;
  std::vector<Arg> inputs, outputs;
  std::vector<AttrDef> attrs;  // that a caller binds
  AttrMap labels;              // what is said of the function itself, as "_noinline"; nothing here depends on it
  std::vector<BodyNode> nodes;
  std::map<std::string, std::string> returns;          // output -> body input syntax
  std::map<std::string, std::string> control_returns;  // control output -> body node that must run
  std::string gradient;  // the function that is its gradient (GradientDef); empty: it is made of the body
  bool is_stateful = false;
  // Of a function that was read: its bytes in the file, which hold more than is known here and are what is written
  // again. Empty: made here.
  std::string file_bytes;
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_FUNCTION_FUNCTION_DEF_H_
