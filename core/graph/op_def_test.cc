// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_def.h"
// Covers A2, A7, A8.
#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::op_def_test {
namespace {

using fakes::DefineOp;

Result<OpDef> Parse(std::string_view inputs, std::string_view outputs, std::string_view attrs,
                    std::string_view constraints = {}) {
  tenon_op_definition definition = DefineOp("Op", inputs, outputs, attrs);
  definition.constraints = Span(constraints);
  return ParseOpDef(definition);
}

TEST(OpDef, ReadsEveryFormOfAnArgument) {
  const auto good = Parse("x: T, values: N*T, ref: Ref(T), some: Ref(N * float), indices: int32, rest: Tlist",
                          "y: string", "T: {float, double}; N: int >= 1; Tlist: list(type)");
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  const std::vector<ArgDef> wanted = {{"x", 0, "T", "", "", false},
                                      {"values", 0, "T", "", "N", false},
                                      {"ref", 0, "T", "", "", true},
                                      {"some", TENON_DT_FLOAT, "", "", "N", true},
                                      {"indices", TENON_DT_INT32, "", "", "", false},
                                      {"rest", 0, "", "Tlist", "", false}};
  EXPECT_EQ(good->inputs, wanted);
  EXPECT_EQ(good->outputs, (std::vector<ArgDef>{{"y", TENON_DT_STRING, "", "", "", false}}));
}

TEST(OpDef, ReadsEveryKindOfAttributeWithItsDefault) {
  const auto op =
      Parse("", "",
            "s: string = 'a b'; i: int = -3; f: float = 2.5; b: bool = true; t: type = DT_INT32; "
            "h: shape = [2,?]; u: shape = unknown; v: tensor; g: func = other; "
            "li: list(int) >= 1 = [1, 2]; lf: list(float) = []; ls: list(string) = ['x', \"y\"]; "
            "lb: list(bool) = [true, false]; lt: list({int32, int64}) = [int64]; lh: list(shape) = [[1], {}]");
  ASSERT_TRUE(op.ok()) << op.status().ToString();
  const auto value = [&](const char* name) { return *op->FindAttr(name)->default_value; };
  EXPECT_EQ(value("s").s(), "a b");
  EXPECT_EQ(value("i").i(), -3);
  EXPECT_EQ(value("f").f(), 2.5f);
  EXPECT_TRUE(value("b").b());
  EXPECT_EQ(value("t").type(), DType{TENON_DT_INT32});
  EXPECT_EQ(value("h").shape(), (Shape{2, -1}));
  EXPECT_EQ(value("u").shape(), Shape::Unknown());
  EXPECT_FALSE(op->FindAttr("v")->default_value.has_value());
  EXPECT_EQ(value("g").function().name, "other");
  EXPECT_EQ(value("li").ToString(), "[1, 2]");
  EXPECT_EQ(op->FindAttr("li")->minimum, 1);
  EXPECT_EQ(op->FindAttr("lf")->kind, TENON_ATTR_FLOAT | TENON_ATTR_LIST);
  EXPECT_EQ(value("lf").size(), 0u);
  EXPECT_EQ(value("ls").ToString(), "['x', 'y']");
  EXPECT_EQ(value("lb").ToString(), "[true, false]");
  EXPECT_EQ(value("lt").ToString(), "[int64]");
  EXPECT_EQ(op->FindAttr("lt")->allowed_types, (std::vector<DType>{TENON_DT_INT32, TENON_DT_INT64}));
  EXPECT_EQ(value("lh").ToString(), "[[1], ?]");
}

TEST(OpDef, KnowsGroupsOfTypesAndListsOfStrings) {
  const auto op = Parse(
      "", "",
      "a: numbertype; b: realnumbertype; c: quantizedtype; d: {'VALID', 'SAME'} = 'SAME'; e: {realnumbertype, bool}");
  ASSERT_TRUE(op.ok()) << op.status().ToString();
  EXPECT_EQ(op->FindAttr("a")->allowed_types.size(), 19u);
  EXPECT_EQ(op->FindAttr("b")->allowed_types.size(), 12u);
  EXPECT_EQ(op->FindAttr("c")->allowed_types.size(), 5u);
  EXPECT_EQ(op->FindAttr("e")->allowed_types.size(), 13u);
  EXPECT_EQ(op->FindAttr("d")->kind, uint32_t{TENON_ATTR_STRING});
  EXPECT_EQ(op->FindAttr("d")->allowed_strings, (std::vector<std::string>{"VALID", "SAME"}));
  EXPECT_EQ(op->FindAttr("none"), nullptr);
}

TEST(OpDef, SaysWhichPieceOfASignatureIsWrong) {
  struct Case {
    const char *inputs, *attrs, *text;
  };
  const Case cases[] = {
      {"x T", "", "expected 'name:' before 'T' in 'x T'"},
      {"x: T", "", "argument 'x' names 'T', which is neither a type nor a type attribute"},
      {"x: N * float", "", "argument 'x' names 'N', which is no int attribute"},
      {"x: N * float", "N: type", "argument 'x' names 'N', which is no int attribute"},
      {"x: T", "T: int", "argument 'x' names 'T', which is neither a type nor a type attribute"},
      {"x: Ref(float", "", "expected ')' before '' in 'x: Ref(float'"},
      {"x: float y: float", "", "expected ',' before 'y: float' in 'x: float y: float'"},
      {"x: ", "", "expected a type before '' in 'x: '"},
      {"", "a: integer", "expected an attribute's type before '' in 'a: integer'"},
      {"", "a int", "expected 'name:' before 'int' in 'a int'"},
      {"", "a: int = x", "expected an integer before 'x' in 'a: int = x'"},
      {"", "a: int >= x", "expected the minimum before 'x' in 'a: int >= x'"},
      {"", "a: bool = yes", "expected true or false before 'yes' in 'a: bool = yes'"},
      {"", "a: string = x", "expected a quoted string before 'x' in 'a: string = x'"},
      {"", "a: string = 'x", "expected a quoted string before ''x' in 'a: string = 'x'"},
      {"", "a: {float, 7}", "expected a type or a quoted string before '7}' in 'a: {float, 7}'"},
      {"", "a: {float", "expected '}' before '' in 'a: {float'"},
      {"", "a: list(int", "expected ')' before '' in 'a: list(int'"},
      {"", "a: list(list(int))",
       "expected what a list is of, which is no list before '(int))' in 'a: list(list(int))'"},
      {"", "a: list int", "expected '(' before 'int' in 'a: list int'"},
      {"", "a: list(int) = 3", "expected '[' before '3' in 'a: list(int) = 3'"},
      {"", "a: list(int) = [3", "expected an integer before '' in 'a: list(int) = [3'"},
      {"", "a: shape = 3", "expected a shape before '3' in 'a: shape = 3'"},
      {"", "a: tensor = 3", "expected a type of integers before '3' in 'a: tensor = 3'"},
      {"", "a: tensor = float [3]", "expected a type of integers before '[3]' in 'a: tensor = float [3]'"},
      {"", "a: tensor = uint8 [3", "expected an integer before '' in 'a: tensor = uint8 [3'"},
      {"", "a: int = 3 4", "expected the end before '4' in 'a: int = 3 4'"},
      {"", "a: int; a: float", "attribute 'a' stands twice"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(Parse(c.inputs, "", c.attrs).status().ToString(),
              StrCat("INVALID_ARGUMENT: definition of op 'Op': ", c.text));
  EXPECT_EQ(Parse("x: float", "", "", "rank(x) ! 3").status().ToString(),
            "INVALID_ARGUMENT: definition of op 'Op': expected a comparison before '! 3' in 'rank(x) ! 3'");
  EXPECT_EQ(ParseOpDef(DefineOp("", "", "")).status().ToString(), "INVALID_ARGUMENT: an op definition has no name");
}

TEST(OpDef, KeepsTraitsRolesAndDeprecation) {
  tenon_op_definition definition = DefineOp("Old", "", "", "", TENON_OP_STATEFUL | TENON_OP_IO, "first, second");
  definition.deprecated_at = 9;
  definition.deprecation = TENON_SPAN("use New");
  const auto op = ParseOpDef(definition);
  ASSERT_TRUE(op.ok());
  EXPECT_TRUE(op->has(TENON_OP_STATEFUL));
  EXPECT_FALSE(op->has(TENON_OP_SWITCH));
  EXPECT_EQ(op->roles, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(op->deprecated_at, 9);
  EXPECT_EQ(op->deprecation, "use New");
  EXPECT_EQ(op->c, &definition);
}

TEST(OpDef, SaysWhichInputsNameFiles) {
  const auto op = Parse("from: string, names: string, to: string", "", "", "path(from); rank(names) == 1; path(to)");
  ASSERT_TRUE(op.ok()) << op.status().ToString();
  EXPECT_EQ(op->paths, "from, to");
  EXPECT_EQ(op->constraints.size(), 3u);
  EXPECT_EQ(Parse("x: string", "", "", "path(y)").status().ToString(),
            "INVALID_ARGUMENT: definition of op 'Op': 'path(y)' names no input");
}

TEST(OpDef, IsComparedByWhatItMeans) {
  const auto compare = [](const Result<OpDef>& a, const Result<OpDef>& b, std::string* difference) {
    return Compare(*a, *b, difference);
  };
  std::string what;
  const auto base = Parse("x: T", "y: T", "T: {float, double}");
  EXPECT_EQ(compare(base, Parse("x: T", "y: T", "T: {double, float}"), &what), Sameness::kEqual);
  EXPECT_EQ(compare(base, Parse("x: T", "y: T", "T: {float, double}; n: int = 3"), &what), Sameness::kSecondLarger);
  EXPECT_EQ(compare(Parse("x: T", "y: T", "T: {float, double}; n: int = 3"), base, &what), Sameness::kFirstLarger);
  EXPECT_EQ(compare(base, Parse("x: T", "y: T", "T: {float, double}; n: int"), &what), Sameness::kDifferent);
  EXPECT_EQ(what, "attribute 'n', which has no default");
  EXPECT_EQ(compare(base, Parse("x: T", "y: T", "T: {float}"), &what), Sameness::kDifferent);
  EXPECT_EQ(what, "attribute 'T'");
  EXPECT_EQ(compare(base, Parse("z: T", "y: T", "T: {float, double}"), &what), Sameness::kDifferent);
  EXPECT_EQ(what, "inputs");
  EXPECT_EQ(compare(base, Parse("x: T", "y: float", "T: {float, double}"), &what), Sameness::kDifferent);
  EXPECT_EQ(what, "outputs");
}

}  // namespace
}  // namespace tenon::graph::op_def_test
