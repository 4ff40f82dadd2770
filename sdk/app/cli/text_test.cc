// SPDX-License-Identifier: Apache-2.0
// What the command line reads and writes as text: sizes, times, options, signatures, tables, tensors, wrappers.
#include <gtest/gtest.h>

#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/generate_ops.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/print_tensor.h"
#include "sdk/app/cli/signature.h"
#include "sdk/app/cli/signature_json.h"
#include "sdk/app/cli/table.h"

namespace tenon::cli::text_test {
namespace {

using host::Result;
using host::Tensor;

TEST(ParseSize, KnowsItsUnits) {
  EXPECT_EQ(1000u, *ParseSize("1000"));
  EXPECT_EQ(64u << 10, *ParseSize("64k"));
  EXPECT_EQ(512u << 20, *ParseSize("512MiB"));
  EXPECT_EQ(uint64_t{3} << 29, *ParseSize("1.5G"));
  for (const char* bad : {"", "M", "-1", "1X", "1e300", "nan", "0"}) EXPECT_FALSE(ParseSize(bad).ok()) << bad;
}

TEST(ParseTime, KnowsItsUnits) {
  EXPECT_EQ(std::chrono::seconds(2), *ParseTime("2"));
  EXPECT_EQ(std::chrono::milliseconds(500), *ParseTime("500ms"));
  EXPECT_EQ(std::chrono::microseconds(1500), *ParseTime("1.5ms"));
  EXPECT_EQ(std::chrono::hours(1), *ParseTime("1h"));
  for (const char* bad : {"", "ms", "-1s", "1 s", "5parsecs", "1e300"}) EXPECT_FALSE(ParseTime(bad).ok()) << bad;
}

TEST(ParsePluginOption, SplitsAtTheLastDotBeforeTheEquals) {
  Result<host::PluginOption> option = ParsePluginOption("tenon.cpu.pin=a.b=c");
  ASSERT_TRUE(option.ok()) << option.status();
  EXPECT_EQ("tenon.cpu", option->plugin);
  EXPECT_EQ("pin", option->key);
  EXPECT_EQ("a.b=c", option->value);
  for (const char* bad : {"", "x", "x=1", ".x=1", "x.=1"}) EXPECT_FALSE(ParsePluginOption(bad).ok()) << bad;
}

TEST(Table, MakesColumnsAsWideAsTheirWidestCell) {
  Table table({"A", "LONG"});
  table.Add({"wide cell", "x"});
  table.Add({"\xc3\xa9", ""});
  EXPECT_EQ("A          LONG\nwide cell  x\n\xc3\xa9\n", table.Format());
}

TEST(Table, FitsATerminalAndKeepsTheEndsOfNames) {
  Table table({"NODE", "OP", "WHY"});
  table.Add(
      {"StatefulPartitionedCall/functional/dense/MatMul", "MatMul", "the step is shortest so, as far as is known"});
  table.Add({"x", "Cast", "only device"});
  const std::string fitted = table.Format(0, 50);
  EXPECT_EQ(fitted,
            "NODE                      OP      WHY\n"
            "\xe2\x80\xa6"
            "functional/dense/MatMul  MatMul  the step is\n"
            "                                  shortest so, as\n"
            "                                  far as is known\n"
            "x                         Cast    only device\n")
      << fitted;
  EXPECT_EQ(table.Format(0, 200), table.Format());
  EXPECT_NE(table.Format(0, 1).find("the"), std::string::npos)
      << "narrower than anything: no crash, nothing lost of the last column";
}

TEST(Table, BreaksWhatHasNoSpacesAndNoCharacter) {
  Table table({"A", "B"});
  table.Add({"a", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"});
  EXPECT_EQ(table.Format(0, 11),
            "A  B\na  \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\n   \xc3\xa9\xc3\xa9\n");
}

TEST(Table, OfDevicesFitsEightyColumns) {
  Table table({"DEVICE", "TYPE", "PLUGIN", "MEMORY", "KINDS", "QUEUES", "MODEL"});
  table.Add({"/job:worker/replica:0/task:12/device:CPU:0", "CPU", "tenon.cpu", "23.5 GiB", "host", "", "AMD EPYC"});
  table.Add({"/job:worker/replica:0/task:12/device:TPU:15", "TPU", "tenon.tpu_sim", "1.0 GiB", "device, staging",
             "1 compute, 2 copy", "Simulated TPU-style accelerator"});
  EXPECT_EQ(table.Format(0, 80),
            "DEVICE     TYPE  PLUGIN         MEMORY    KINDS     QUEUES      MODEL\n"
            "\xe2\x80\xa6"
            "CPU:0     CPU   tenon.cpu      23.5 GiB  host                  AMD EPYC\n"
            "\xe2\x80\xa6"
            "TPU:15    TPU   tenon.tpu_sim  1.0 GiB   device,   1 compute,  Simulated\n"
            "                                          staging   2 copy      TPU-style\n"
            "                                                                accelerator\n")
      << table.Format(0, 80);
}

TEST(Table, PartsNamesBetweenTheirParts) {
  Table table({"A", "FILE"});
  table.Add({"a", "libtenon_ops_collective.so"});
  EXPECT_EQ(table.Format(0, 22), "A  FILE\na  libtenon_ops_\n   collective.so\n");
  EXPECT_EQ(KeepEnd("/job:ps/replica:0/task:3/device:GPU:1", 20), "\xe2\x80\xa6task:3/device:GPU:1");
  EXPECT_EQ(KeepEnd("/job:ps/task:3/device:GPU:1", 8), "\xe2\x80\xa6GPU:1");
  EXPECT_EQ(KeepEnd("StatefulPartitionedCall", 8), "\xe2\x80\xa6nedCall") << "one part";
  EXPECT_EQ(KeepEnd("short", 5), "short");
  EXPECT_EQ(KeepEnd("\xc3\xa9\xc3\xa9\xc3\xa9", 2), "\xe2\x80\xa6\xc3\xa9");
  EXPECT_EQ(KeepEnd("abc", 1), "\xe2\x80\xa6");
}

TEST(Lines, AreBrokenBetweenWords) {
  EXPECT_EQ(Lines("  what helps: install the package of it", 30), "  what helps: install the\n    package of it\n");
  EXPECT_EQ(Lines("as long as it is", 0), "as long as it is\n");
  EXPECT_EQ(Lines("", 80), "\n");
}

TEST(Printable, LetsNothingThroughThatActsOnATerminal) {
  EXPECT_EQ(Printable("plain \xc3\xa9 \xe6\xbc\xa2"), "plain \xc3\xa9 \xe6\xbc\xa2");
  EXPECT_EQ(Printable("\x1b[31m\n\t\x7f"), "\\x1b[31m\\x0a\\x09\\x7f");
  EXPECT_EQ(Printable("\xff\xc3"), "\\xff\\xc3") << "no UTF-8";
  EXPECT_EQ(Printable("\xc0\xaf \xed\xa0\x80"), "\\xc0\\xaf \\xed\\xa0\\x80") << "too long, and half of a pair";
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m \xe2\x80\xae"),
            "\\xc2\\x9b31m \\xe2\\x80\\xae")
      << "C1, and what turns the text around";
}

TEST(FormatTensor, NestsBrackets) {
  const std::vector<float> values = {1, 2.5f, -0.1f, 4};
  EXPECT_EQ("[[1, 2.5],\n [-0.1, 4]]", FormatTensor(*Tensor::From(std::span<const float>(values), {2, 2})));
  EXPECT_EQ("7", FormatTensor(*Tensor::Scalar(int64_t{7})));
  EXPECT_EQ("[\"a\\\"b\", \"\\x01\"]", FormatTensor(*Tensor::Strings({"a\"b", "\x01"})));
}

TEST(FormatTensor, LeavesTheMiddleOut) {
  std::vector<int32_t> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
  EXPECT_EQ("[0, 1, 2, ..., 97, 98, 99]", FormatTensor(*Tensor::From(std::span<const int32_t>(values), {100}), 10));
}

TEST(FormatTensor, ReadsHalves) {
  EXPECT_EQ(1.0f, HalfToFloat(0x3c00));
  EXPECT_EQ(-2.0f, HalfToFloat(0xc000));
  EXPECT_EQ(65504.0f, HalfToFloat(0x7bff));
  EXPECT_EQ(5.9604645e-8f, HalfToFloat(0x0001));
  EXPECT_EQ(1.0f, Bfloat16ToFloat(0x3f80));
}

tenon_op_info Info(const char* name, const char* inputs, const char* outputs, const char* attrs) {
  tenon_op_info info = {};
  info.name = host::Span(name);
  info.inputs = host::Span(inputs);
  info.outputs = host::Span(outputs);
  info.attrs = host::Span(attrs);
  return info;
}

TEST(Signature, ReadsArgumentsAndAttributes) {
  Result<OpSignature> signature = ParseSignature(
      Info("X", "a: T, values: N * T, ref: Ref(T), rest: Tlist, i: int32", "y: T",
           "T: {float, double}; N: int >= 2; Tlist: list(type) >= 1; axis: int = -1; mode: {'A', 'B'} = 'B'; "
           "k: list(int) >= 4 = [1, 2]; s: shape = unknown; f: func"));
  ASSERT_TRUE(signature.ok()) << signature.status();
  ASSERT_EQ(5u, signature->inputs.size());
  EXPECT_EQ("N", signature->inputs[1].number_attr);
  EXPECT_EQ("T", signature->inputs[2].type);
  EXPECT_TRUE(signature->inputs[3].is_type_list);
  EXPECT_EQ("int32", signature->inputs[4].type);
  EXPECT_TRUE(signature->IsInferred("N"));
  EXPECT_TRUE(signature->IsInferred("Tlist"));
  EXPECT_FALSE(signature->IsInferred("axis"));
  EXPECT_EQ("type", signature->FindAttribute("T")->type);
  EXPECT_EQ("string", signature->FindAttribute("mode")->type);
  EXPECT_EQ("'B'", *signature->FindAttribute("mode")->default_text);
  EXPECT_EQ("[1, 2]", *signature->FindAttribute("k")->default_text);
  EXPECT_FALSE(signature->FindAttribute("N")->default_text.has_value());
}

TEST(Signature, IsGivenAsJson) {
  const auto json = SignatureJson(*ParseSignature(
      Info("X", "a: T, values: N * T, ref: Ref(T), rest: Tlist, i: half, n: K * int32", "y: Ref(N * T), z: N * Ref(T)",
           "T: {float, half} = float; N: int >= 2; K: int >= 1 = 3; Tlist: list(type) >= 1; Q: quantizedtype; mode: "
           "{'A', 'B=,'} = 'B=,'; rate: float = 1e-3; big: float = inf; "
           "k: list(int) >= 4 = [1, -2]; s: shape = unknown; d: shape = [?, 3]; b: bool = true; f: func; seed: tensor "
           "= uint8 [7, 8]; L: list({int32, quantizedtype}) = [int32]")));
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(
      (*json)["inputs"].dump(),
      R"([{"name":"a","dtype":null,"type_attr":"T","number_attr":null,"type_list_attr":null,"is_ref":false},)"
      R"({"name":"values","dtype":null,"type_attr":"T","number_attr":"N","type_list_attr":null,"is_ref":false},)"
      R"({"name":"ref","dtype":null,"type_attr":"T","number_attr":null,"type_list_attr":null,"is_ref":true},)"
      R"({"name":"rest","dtype":null,"type_attr":null,"number_attr":null,"type_list_attr":"Tlist","is_ref":false},)"
      R"({"name":"i","dtype":"float16","type_attr":null,"number_attr":null,"type_list_attr":null,"is_ref":false},)"
      R"({"name":"n","dtype":"int32","type_attr":null,"number_attr":"K","type_list_attr":null,"is_ref":false}])");
  EXPECT_EQ((*json)["outputs"].dump(),
            R"([{"name":"y","dtype":null,"type_attr":"T","number_attr":"N","type_list_attr":null,"is_ref":true},)"
            R"({"name":"z","dtype":null,"type_attr":"T","number_attr":"N","type_list_attr":null,"is_ref":true}])");
  const auto attr = [&](const std::string& name) {
    for (const Json& each : (*json)["attrs"])
      if (each["name"] == name) return each;
    return Json();
  };
  EXPECT_EQ(
      attr("T").dump(),
      R"({"name":"T","type":"type","is_list":false,"allowed":["float32","float16"],"minimum":null,"inferred":true,"default":"float32"})");
  EXPECT_EQ(attr("N").dump(),
            R"({"name":"N","type":"int","is_list":false,"allowed":null,"minimum":2,"inferred":true})");
  EXPECT_EQ(attr("K")["default"], 3);
  EXPECT_EQ(attr("Tlist").dump(),
            R"({"name":"Tlist","type":"type","is_list":true,"allowed":null,"minimum":1,"inferred":true})");
  EXPECT_EQ(attr("Q")["allowed"].dump(), R"(["qint8","quint8","qint32","qint16","quint16"])");
  EXPECT_EQ(
      attr("mode").dump(),
      R"({"name":"mode","type":"string","is_list":false,"allowed":["A","B=,"],"minimum":null,"inferred":false,"default":"B=,"})");
  EXPECT_EQ(attr("rate")["default"], 1e-3);
  EXPECT_EQ(attr("big")["default"], "inf");
  EXPECT_EQ(attr("k")["default"].dump(), "[1,-2]");
  EXPECT_EQ(attr("k")["minimum"], 4);
  EXPECT_TRUE(attr("s").contains("default") && attr("s")["default"].is_null());
  EXPECT_EQ(attr("d")["default"].dump(), "[-1,3]");
  EXPECT_EQ(attr("b")["default"], true);
  EXPECT_FALSE(attr("f").contains("default"));
  EXPECT_EQ(attr("seed")["default"].dump(), R"({"dtype":"uint8","shape":[2],"value":[7,8]})");
  EXPECT_EQ(attr("L")["allowed"].dump(), R"(["int32","qint8","quint8","qint32","qint16","quint16"])");
  EXPECT_EQ(attr("L")["default"].dump(), R"(["int32"])");
  EXPECT_EQ(KernelTypesJson("T: float, double; Index: int32").dump(),
            R"({"T":["float32","float64"],"Index":["int32"]})");
  EXPECT_EQ(KernelTypesJson("").dump(), "{}");
  const auto bad = SignatureJson(*ParseSignature(Info("Odd", "", "", "n: int = many")));
  EXPECT_EQ(bad.status().message(), "op 'Odd', attribute 'n': the default 'many' is no integer");
}

TEST(Signature, NamesThePieceThatItCannotRead) {
  Result<OpSignature> signature = ParseSignature(Info("Odd", "x", "", ""));
  ASSERT_FALSE(signature.ok());
  EXPECT_EQ("op 'Odd': its signature's 'x' cannot be understood", signature.status().message());
  EXPECT_FALSE(ParseSignature(Info("Odd", "", "", "a: nonsense")).ok());
}

TEST(GenerateOp, AsksForWhatNothingDetermines) {
  Result<std::string> text = GenerateOp(*ParseSignature(Info("Odd>Op", "class: T, values: N * T", "a: T, rest: N * T",
                                                             "T: type; N: int >= 1; out: type; axis: int = 0")));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(R"(
struct Odd_OpOptions {
  int64_t axis = 0;
  std::string name;
};
struct Odd_OpOutputs {
  host::Output a;
  std::vector<host::Output> rest;
};
inline Odd_OpOutputs Odd_Op(host::Graph& graph, const host::Output& class_, const std::vector<host::Output>& values, host::DType out, const Odd_OpOptions& options = {}) {
  const host::Operation node = graph.AddNode("Odd>Op", internal::Join(class_, values), {{"N", static_cast<int64_t>(values.size())}, {"out", out}, {"axis", options.axis}}, options.name);
  return {node.output(0), internal::Outputs(node, 1, static_cast<int64_t>(values.size()))};
}
)",
            *text);
}

TEST(GenerateOps, LeavesTheEnginesOwnOpsOut) {
  Result<std::string> text = GenerateOps({*ParseSignature(Info("_Send", "x: T", "", "T: type"))});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(std::string::npos, text->find("_Send"));
}

}  // namespace
}  // namespace tenon::cli::text_test
