// SPDX-License-Identifier: Apache-2.0
// Every op of ops/ has TensorFlow's signature, and says of itself what the engine can use. Covers A7, B9.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/golden/packages.h"

namespace tenon::golden {
namespace {

using graph::ArgDef;
using graph::AttrDef;
using graph::AttrValue;
using graph::OpDef;
using graph::Term;

// [name, type or attribute, number attribute, is_ref], as make_signatures.py writes it.
Json Describe(const ArgDef& arg) {
  Json type;
  if (arg.type != TENON_DT_INVALID) {
    type = arg.type;
  } else {
    type = arg.type_attr.empty() ? arg.type_list_attr : arg.type_attr;
  }
  return {arg.name, type, arg.number_attr.empty() ? Json() : Json(arg.number_attr), arg.is_ref};
}

Json Scalar(const AttrValue& value, size_t i) {
  switch (value.kind() & ~TENON_ATTR_LIST) {
    case TENON_ATTR_STRING: return value.s(i);
    case TENON_ATTR_INT: return value.i(i);
    case TENON_ATTR_FLOAT: return value.f(i);
    case TENON_ATTR_BOOL: return value.b(i);
    case TENON_ATTR_TYPE: return value.type(i);
    case TENON_ATTR_SHAPE:
      if (!value.shape(i).known_rank()) return "unknown";
      {
        Json dims = Json::array();
        for (int d = 0; d < value.shape(i).rank(); ++d) dims.push_back(value.shape(i).dim(d));
        return dims;
      }
    case TENON_ATTR_TENSOR:
      return Json(std::vector<uint8_t>(value.tensor().as<uint8_t>(),
                                       value.tensor().as<uint8_t>() + value.tensor().byte_size()));
    default: return "?";
  }
}

// [name, type, minimum, default, allowed values].
Json Describe(const AttrDef& attr) {
  Json fallback, allowed;
  if (attr.default_value) {
    if (attr.kind & TENON_ATTR_LIST) {
      fallback = Json::array();
      for (size_t i = 0; i < attr.default_value->size(); ++i) fallback.push_back(Scalar(*attr.default_value, i));
    } else {
      fallback = Scalar(*attr.default_value, 0);
    }
  }
  if (!attr.allowed_types.empty()) {
    allowed = std::set(attr.allowed_types.begin(), attr.allowed_types.end());
  } else if (!attr.allowed_strings.empty()) {
    allowed = attr.allowed_strings;
  }
  return {attr.name, graph::AttrKindName(attr.kind), attr.minimum ? Json(*attr.minimum) : Json(), fallback, allowed};
}

template <class Def>
Json DescribeAll(const std::vector<Def>& defs) {
  Json all = Json::array();
  for (const Def& def : defs) all.push_back(Describe(def));
  return all;
}

// TensorFlow says "at least 0" of lists where we say nothing.
Json Normalized(Json attrs) {
  for (Json& attr : attrs) {
    if (attr[1].get<std::string>().rfind("list(", 0) == 0 && attr[2] == 0) attr[2] = Json();
  }
  return attrs;
}

Json FlagsOf(const OpDef& op) {
  Json flags = Json::array();
  if (op.has(TENON_OP_STATEFUL)) flags.push_back("is_stateful");
  if (op.has(TENON_OP_COMMUTATIVE)) flags.push_back("is_commutative");
  if (op.has(TENON_OP_AGGREGATE)) flags.push_back("is_aggregate");
  if (op.has(TENON_OP_UNINITIALIZED)) flags.push_back("allows_uninitialized_input");
  return flags;
}

TEST(Signatures, AreThoseOfTensorFlow) {
  std::set<std::string> known;
  for (const Json& want : ReadLines("signatures.jsonl")) {
    const std::string name = want["name"];
    known.insert(name);
    const OpDef* op = Registry().FindOrNull(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_EQ(DescribeAll(op->inputs), want["inputs"]) << name;
    EXPECT_EQ(DescribeAll(op->outputs), want["outputs"]) << name;
    EXPECT_EQ(DescribeAll(op->attrs), Normalized(want["attrs"])) << name;
    EXPECT_EQ(FlagsOf(*op), want["flags"]) << name;
  }
  EXPECT_GE(known.size(), 194u);
  for (const OpDef* op : Registry().All()) {
    if (op->name.starts_with("Tenon>")) continue;  // our own
    EXPECT_EQ(known.count(op->name), 1u) << op->name << " is not in signatures.jsonl; run make_signatures.py";
  }
}

TEST(Signatures, OfferEveryRoleThatTheEngineAsksForOnce) {
  std::map<std::string, std::string> players;
  for (const OpDef* op : Registry().All()) {
    for (const std::string& role : op->roles) {
      // What the engine only looks for, others may play too.
      const bool is_new = players.emplace(role, op->name).second;
      EXPECT_TRUE(is_new || role == "variable_handle" || role == "reference_variable" || role == "read_variable_rows")
          << role << ": " << players[role] << " and " << op->name;
    }
  }
  for (const char* role : {"variable_handle",
                           "read_variable",
                           "read_variable_rows",
                           "reference_variable",
                           "constant",
                           "identity",
                           "no_op",
                           "control_trigger",
                           "switch",
                           "merge",
                           "enter",
                           "exit",
                           "next_iteration",
                           "loop_condition",
                           "send",
                           "recv",
                           "sum",
                           "zeros_like",
                           "ones_like",
                           "add",
                           "subtract",
                           "less",
                           "greater_equal",
                           "logical_and",
                           "stack",
                           "stack_push",
                           "stack_pop",
                           "concat",
                           "unsorted_segment_sum",
                           "strided_slice",
                           "cast",
                           "argument"}) {
    EXPECT_EQ(players.count(role), 1u) << role;
  }
}

// Names in constraints are inputs, or int attributes where they stand alone.
void CheckTerm(const OpDef& op, const Term& term, const std::string& text) {
  switch (term.kind) {
    case Term::Kind::kName: {
      const AttrDef* attr = op.FindAttr(term.name);
      EXPECT_TRUE(attr != nullptr && attr->kind == TENON_ATTR_INT) << op.name << ": " << text << ": " << term.name;
      break;
    }
    case Term::Kind::kRank:
    case Term::Kind::kDim:
    case Term::Kind::kNumel:
    case Term::Kind::kValue:
    case Term::Kind::kElement:
      EXPECT_TRUE(
          std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& arg) { return arg.name == term.name; }))
          << op.name << ": " << text << ": " << term.name;
      break;
    default: break;
  }
  if (term.left) CheckTerm(op, *term.left, text);
  if (term.right) CheckTerm(op, *term.right, text);
}

TEST(Definitions, HaveADocAShapeFunctionAndConstraintsThatNameTheirInputs) {
  constexpr uint64_t kShapedByTrait = TENON_OP_CALL | TENON_OP_ARGUMENT | TENON_OP_RECV;
  for (const OpDef* op : Registry().All()) {
    EXPECT_FALSE(op->doc.empty()) << op->name;
    EXPECT_TRUE(op->outputs.empty() || op->c->shape != nullptr || op->has(kShapedByTrait)) << op->name;
    EXPECT_FALSE(op->c->gradient != nullptr && op->has(TENON_OP_NO_GRADIENT)) << op->name;
    for (const graph::Constraint& constraint : op->constraints) {
      CheckTerm(*op, constraint.left, constraint.text);
      CheckTerm(*op, constraint.right, constraint.text);
    }
  }
}

}  // namespace
}  // namespace tenon::golden
