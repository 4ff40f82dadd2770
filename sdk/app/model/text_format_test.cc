// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/text_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sdk/app/model/message_table.h"
#include "tenon/data/graph_def.h"
#include "tenon/bytes/wire.h"

namespace tenon::model::text_format_test {
namespace {

using sdk::FindBytes;
using sdk::FindNumber;
using sdk::WireReader;

std::string Wire(std::string_view text, std::string_view message = "GraphDef") {
  const Result<WireMessage> wire = TextToWire(text, message);
  EXPECT_TRUE(wire.ok()) << wire.status();
  return wire.ok() ? wire->bytes : std::string();
}

std::string WhyNot(std::string_view text, std::string_view message = "GraphDef") {
  return TextToWire(text, message).status().message();
}

// The numbers of a field, in the order in which they stand.
std::vector<uint64_t> Numbers(std::string_view bytes, uint32_t field) {
  std::vector<uint64_t> numbers;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == field) numbers.push_back(reader.number());
  }
  EXPECT_TRUE(reader.ok());
  return numbers;
}

TEST(TextFormat, ReadsAGraphInEachWayThatMessagesMayBeWritten) {
  const std::string bytes = Wire(R"(
    # a comment { with a brace
    node { name: "x" op: 'Placeholder' attr { key: "dtype" value { type: DT_FLOAT } } }
    node: < name: "y"; op: "Relu", input: ["x", "^x"] attr <key: "T" value: {type: 1}> >
    versions { producer: 27 }  # and one at the end)");
  const auto graph = data::ParseGraphDef(bytes);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->nodes.size(), 2u);
  EXPECT_EQ(graph->nodes[0].TypeAttr("dtype"), DType::kFloat);
  EXPECT_EQ(graph->nodes[1].name, "y");
  EXPECT_EQ(graph->nodes[1].op, "Relu");
  EXPECT_EQ(graph->nodes[1].inputs, (std::vector<std::string_view>{"x", "^x"}));
  EXPECT_EQ(graph->nodes[1].TypeAttr("T"), DType::kFloat);
  EXPECT_EQ(graph->producer, 27);
}

TEST(TextFormat, UnderstandsEveryEscapeAndStringsInPieces) {
  const std::string bytes = Wire(R"(s: "a\n\t\"\'\\\?\001\x7f\377" 'b\u00e4\U0001F600\0' "c")", "AttrValue");
  using namespace std::string_literals;
  EXPECT_EQ(FindBytes(bytes, 2), "a\n\t\"'\\?\x01\x7f\xff"s + "b\xc3\xa4\xf0\x9f\x98\x80\0"s + "c"s);
}

TEST(TextFormat, ReadsNumbersOfEachKind) {
  const std::string bytes = Wire(
      "int_val: [1, -2, 0x10, 010] int_val: - 7 bool_val: [true, false, 1, 0, t, False] uint64_val: "
      "18446744073709551615",
      "TensorProto");
  EXPECT_EQ(Numbers(bytes, 7), (std::vector<uint64_t>{1, static_cast<uint64_t>(-2), 16, 8, static_cast<uint64_t>(-7)}));
  EXPECT_EQ(Numbers(bytes, 11), (std::vector<uint64_t>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(Numbers(bytes, 17), (std::vector<uint64_t>{UINT64_MAX}));
}

// The last numbers that fit are read, those behind them refused, as protobuf does.
TEST(TextFormat, HoldsWholeNumbersAgainstTheirFieldsWidth) {
  const std::string bytes = Wire(
      "int_val: [2147483647, -2147483648] int64_val: [9223372036854775807, -9223372036854775808] uint32_val: "
      "4294967295",
      "TensorProto");
  EXPECT_EQ(Numbers(bytes, 7), (std::vector<uint64_t>{INT32_MAX, static_cast<uint64_t>(int64_t{INT32_MIN})}));
  EXPECT_EQ(Numbers(bytes, 10), (std::vector<uint64_t>{INT64_MAX, static_cast<uint64_t>(INT64_MIN)}));
  EXPECT_EQ(Numbers(bytes, 16), (std::vector<uint64_t>{UINT32_MAX}));
  const auto refused = [](std::string_view number, std::string_view holds) {
    return "the number " + std::string(number) + " does not fit its field, which holds " + std::string(holds);
  };
  const std::string int32s = "-2147483648 to 2147483647", int64s = "-9223372036854775808 to 9223372036854775807";
  EXPECT_EQ(WhyNot("int_val: 2147483648", "TensorProto"), "line 1, column 10: " + refused("2147483648", int32s));
  EXPECT_EQ(WhyNot("int_val: -2147483649", "TensorProto"), "line 1, column 11: " + refused("-2147483649", int32s));
  EXPECT_EQ(WhyNot("int64_val: [1, 9223372036854775808]", "TensorProto"),
            "line 1, column 16: " + refused("9223372036854775808", int64s));
  EXPECT_EQ(WhyNot("int64_val: -9223372036854775809", "TensorProto"),
            "line 1, column 13: " + refused("-9223372036854775809", int64s));
  EXPECT_EQ(WhyNot("uint32_val: 4294967296", "TensorProto"),
            "line 1, column 13: " + refused("4294967296", "0 to 4294967295"));
  EXPECT_EQ(WhyNot("uint32_val: -1", "TensorProto"), "line 1, column 14: " + refused("-1", "0 to 4294967295"));
  EXPECT_EQ(WhyNot("uint64_val: -1", "TensorProto"),
            "line 1, column 14: " + refused("-1", "0 to 18446744073709551615"));
  EXPECT_EQ(WhyNot("dtype: 2147483648", "TensorProto"), "line 1, column 8: " + refused("2147483648", int32s));
}

TEST(TextFormat, ReadsFloatingNumbersToTheLastBit) {
  const std::string bytes =
      Wire("float_val: [0.1, -1.5e3f, .5, inf, -infinity, nan, 1e60, 1e-60, 16777217] double_val: 0.1", "TensorProto");
  std::vector<float> values;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 5) values.push_back(reader.as_float());
    if (reader.field() == 6) {
      EXPECT_EQ(reader.as_double(), 0.1);
    }
  }
  ASSERT_EQ(values.size(), 9u);
  EXPECT_EQ(values[0], 0.1f);
  EXPECT_EQ(values[1], -1500.0f);
  EXPECT_EQ(values[2], 0.5f);
  EXPECT_EQ(values[3], INFINITY);
  EXPECT_EQ(values[4], -INFINITY);
  EXPECT_TRUE(std::isnan(values[5]));
  EXPECT_EQ(values[6], INFINITY);
  EXPECT_EQ(values[7], 0.0f);
  EXPECT_EQ(values[8], 16777216.0f);
}

TEST(TextFormat, PassesOverWhatItDoesNotKnowAndSaysSo) {
  const auto wire = TextToWire(R"(
    gone { a: [1, { b: "}" }] c < d: - 3 > }
    gone: "a" "b"
    other: -1.5
    more: [ 1, 2 ]
    versions { producer: 3 newer: NAME })", "GraphDef");
  ASSERT_TRUE(wire.ok()) << wire.status();
  EXPECT_EQ(FindNumber(FindBytes(wire->bytes, 4), 1), 3u);
  EXPECT_EQ(wire->notes, (std::vector<std::string>{
                             "field 'gone' of GraphDef is passed over", "field 'other' of GraphDef is passed over",
                             "field 'more' of GraphDef is passed over", "field 'newer' of VersionDef is passed over"}));
}

TEST(TextFormat, ReadsMessagesOfAnyType) {
  const std::string bytes =
      Wire(R"(value { [type.googleapis.com/tensorflow.AssetFileDef] { filename: "vocabulary.txt" } })",
           "CollectionDef.AnyList");
  const std::string_view any = FindBytes(bytes, 1);
  EXPECT_EQ(FindBytes(any, 1), "type.googleapis.com/tensorflow.AssetFileDef");
  EXPECT_EQ(FindBytes(FindBytes(any, 2), 2), "vocabulary.txt");
}

TEST(TextFormat, NamesLineAndColumnOfWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"node {\n  name \"x\"\n}", "line 2, column 8: expected ':' after 'name', found '\"x\"'"},
      {"node {\n  name: 3 }", "line 2, column 9: expected a string, found '3'"},
      {"node { name: \"x\" ", "line 1, column 18: expected a field of NodeDef, found the end of the text"},
      {"node { name: \"x }", "line 1, column 14: expected a string, found a string without an end"},
      {"node { name: \"\\q\" }", "line 1, column 14: the string has an escape that is none"},
      {"node { attr { value { type: DT_FLAOT } } }",
       "line 1, column 29: expected a value of DataType, found 'DT_FLAOT'"},
      {"node { attr { value { b: maybe } } }", "line 1, column 26: expected true or false, found 'maybe'"},
      {"versions { producer: 1.5 }", "line 1, column 22: expected a whole number, found '1.5'"},
      {"versions { producer: 99999999999999999999 }",
       "line 1, column 22: expected a whole number, found '99999999999999999999'"},
      {"versions { bad_consumers: [1 2] }", "line 1, column 30: expected ',' or ']', found '2'"},
      {"versions > producer: 1", "line 1, column 10: expected '{', found '>'"},
      {"@", "line 1, column 1: expected a field of GraphDef, found '@'"},
      {"unknown { ]", "line 1, column 11: expected '}', found ']'"},
      {"unknown", "line 1, column 8: expected a value, found the end of the text"},
  };
  for (const auto& [text, why] : cases) EXPECT_EQ(WhyNot(text), why) << text;
}

TEST(TextFormat, BoundsTheDepthOfMessages) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "tensors { variant_val { ";
    for (int i = 0; i < depth; ++i) text += "} }";
    return text;
  };
  EXPECT_TRUE(TextToWire(nested(50), "VariantTensorDataProto").ok());
  EXPECT_EQ(WhyNot(nested(51), "VariantTensorDataProto"),
            "line 1, column 1211: messages stand in messages more than 100 deep");
  std::string unknown = "unknown ";
  for (int i = 0; i < 1000000; ++i) unknown += "{a ";
  EXPECT_FALSE(TextToWire(unknown, "GraphDef").ok()) << "but without a stack for each";
}

TEST(TextFormat, TellsTextFromBytes) {
  EXPECT_TRUE(LooksLikeText("# a graph\nnode { }"));
  EXPECT_TRUE(LooksLikeText("saved_model_schema_version: 1"));
  EXPECT_FALSE(LooksLikeText("this is no graph at all"));
  EXPECT_FALSE(LooksLikeText(std::string_view("\n\x04\n\x01x\x12\x01y", 8)));
  EXPECT_FALSE(LooksLikeText(""));
  EXPECT_EQ(FirstField("  # comment\n meta_graphs { }"), "meta_graphs");
}

TEST(MessageTable, HasEveryMessageOfAModel) {
  const MessageTable& table = MessageTable::The();
  for (const char* name :
       {"GraphDef", "MetaGraphDef", "SavedModel", "OpDef.AttrDef", "TensorShapeProto.Dim", "CollectionDef.AnyList"}) {
    EXPECT_NE(table.FindMessage(name), nullptr) << name;
  }
  const MessageEntry& attr = *table.FindMessage("AttrValue");
  EXPECT_EQ(attr.at("list").type, "AttrValue.ListValue");
  EXPECT_EQ(attr.at("type").kind, FieldKind::kEnum);
  EXPECT_EQ(attr.at("placeholder").number, 9u);
  EXPECT_EQ(table.FindEnum("DataType")->at("DT_FLOAT_REF"), 101);
  const MessageEntry& entry = *table.FindMessage(table.FindMessage("NodeDef")->at("attr").type);
  EXPECT_EQ(entry.at("value").type, "AttrValue");
}

}  // namespace
}  // namespace tenon::model::text_format_test
