// SPDX-License-Identifier: Apache-2.0
#include "fuse/source.h"

#include <algorithm>

#include "code/elementwise.h"
#include "tenon/extras/device/regions.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::gpu {
namespace {

// Whether all elements of a pack are one of the input's.
bool IsOneOfRow(const FusedKernel& kernel, const FusedInput& input) {
  return input.spread == FusedInput::kStrided && input.step == 0 && kernel.inner % PackOf(kernel) == 0;
}

// Offset<number>(i): where element i of the output finds its own in a strided input.
std::string OffsetFunction(const FusedKernel& kernel, const FusedInput& input, size_t number) {
  std::string text = sdk::Concat(
      "TENON_GPU_FUNCTION Index Offset", number, "(Index i) {\n  Index row = i / Index{", kernel.inner, "}, offset = ",
      input.step == 0 ? "0" : sdk::Concat("(i - row * Index{", kernel.inner, "}) * Index{", input.step, "}"), ";\n");
  for (size_t d = kernel.dims.size(); d-- > 1;) {
    text += sdk::Concat("  { const Index above = row / Index{", kernel.dims[d], "}; offset += (row - above * Index{",
                        kernel.dims[d], "}) * Index{", input.strides[d], "}; row = above; }\n");
  }
  return text + (kernel.dims.empty() ? "  return offset;\n}\n"
                                     : sdk::Concat("  return offset + row * Index{", input.strides[0], "};\n}\n"));
}

// What the loop over packs loads: "l<number>", and how element k of the pack is called.
std::string LoadOfPack(const FusedKernel& kernel, const FusedInput& input, size_t number, std::string* out_element) {
  const std::string head = sdk::Concat("      const auto l", number, " = ");
  const std::string_view type = FusedType(input.dtype);
  const bool strided = input.spread == FusedInput::kStrided;
  if (IsPacked(kernel, input)) {
    *out_element = sdk::Concat("l", number, ".at[k]");
    return sdk::Concat(head, "LoadPack<", type, ", kPack>(p.inputs[", number, "], ",
                       strided ? sdk::Concat("Offset", number, "(i)") : "i", ");\n");
  }
  *out_element = sdk::Concat("l", number);
  const std::string from = sdk::Concat("static_cast<const ", type, "*>(p.inputs[", number, "])[");
  if (!strided) return sdk::Concat(head, from, "0];\n");
  if (IsOneOfRow(kernel, input)) return sdk::Concat(head, from, "Offset", number, "(i)];\n");
  *out_element += ".at[k]";
  return sdk::Concat("      FusedPack<", type, ", kPack> l", number,
                     ";\n      TENON_GPU_UNROLL_ALL\n      for (int k = 0; k < kPack; ++k) l", number,
                     ".at[k] = ", from, "Offset", number, "(i + k)];\n");
}

std::string LoadOfOne(const FusedInput& input, size_t number) {
  return sdk::Concat("static_cast<const ", FusedType(input.dtype), "*>(p.inputs[", number, "])[",
                     input.spread == FusedInput::kEven     ? "i"
                     : input.spread == FusedInput::kSingle ? "0"
                                                           : sdk::Concat("Offset", number, "(i)"),
                     "]");
}

}  // namespace

std::string Operand(int number) { return number >= 0 ? sdk::Concat("v", number) : sdk::Concat("i", -1 - number); }

std::string Compute(const FusedNode& node, size_t number) {
  const std::string head = sdk::Concat("  const ", FusedType(node.result), " v", number, " = ");
  if (node.function == "Cast")
    return sdk::Concat(head, "Convert<", FusedType(node.result), ">(", Operand(node.operands[0]), ");\n");
  if (node.function == "Select") {
    return sdk::Concat(head, Operand(node.operands[0]), " ? ", Operand(node.operands[1]), " : ",
                       Operand(node.operands[2]), ";\n");
  }
  if (node.function == "Same") return sdk::Concat(head, Operand(node.operands[0]), ";\n");
  if (node.function == "AddN") {
    std::string sum = Operand(node.operands[0]);
    for (size_t i = 1; i < node.operands.size(); ++i)
      sum = sdk::Concat("Of(AddOp(), ", sum, ", ", Operand(node.operands[i]), ")");
    return sdk::Concat(head, sum, ";\n");
  }
  std::string arguments;
  for (int operand : node.operands) arguments += ", " + Operand(operand);
  // Bits of the number, which no text of decimals loses.
  const std::string alpha =
      node.alpha == 0 ? "0.0f"
                      : sdk::Concat("__builtin_bit_cast(float, ", __builtin_bit_cast(uint32_t, node.alpha), "u)");
  return sdk::Concat(head, "Of(MakeOp<", node.function, "Op>(", alpha, ")", arguments, ");\n");
}

int PackOf(const FusedKernel& kernel) {
  size_t largest = 2;
  for (const FusedInput& input : kernel.inputs) largest = std::max(largest, sdk::ElementSize(input.dtype));
  for (const int output : kernel.outputs)
    largest = std::max(largest, sdk::ElementSize(kernel.nodes[static_cast<size_t>(output)].result));
  return static_cast<int>(16 / largest);
}

bool IsPacked(const FusedKernel& kernel, const FusedInput& input) {
  if (input.spread != FusedInput::kStrided) return input.spread == FusedInput::kEven;
  const int64_t pack = PackOf(kernel);
  return input.step == 1 && kernel.inner % pack == 0 &&
         std::all_of(input.strides.begin(), input.strides.end(), [pack](int64_t stride) { return stride % pack == 0; });
}

std::string SourceOf(const FusedKernel& kernel) {
  std::string text = sdk::Concat(
      "#include \"code/apply.h\"\n#include \"code/fused.h\"\n#include \"code/fused_pack.h\"\nnamespace tenon::gpu "
      "{\nusing Index = ",
      kernel.wide ? "uint64_t" : "uint32_t", ";\nconstexpr int kPack = ", PackOf(kernel), ";\n");
  std::string parameters, loads, of_pack, of_one, stores, stores_of_one, results, results_of_one;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const FusedInput& input = kernel.inputs[i];
    if (input.spread == FusedInput::kStrided) text += OffsetFunction(kernel, input, i);
    parameters += sdk::Concat(FusedType(input.dtype), " i", i, ", ");
    std::string element;
    loads += LoadOfPack(kernel, input, i, &element);
    of_pack += element + ", ";
    of_one += LoadOfOne(input, i) + ", ";
  }
  std::string assignments;
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    const auto node = static_cast<size_t>(kernel.outputs[i]);
    const std::string_view type = FusedType(kernel.nodes[node].result);
    const std::string_view comma = i + 1 < kernel.outputs.size() ? ", " : "";
    parameters += sdk::Concat(type, "& o", i, comma);
    of_pack += sdk::Concat("s", i, ".at[k]", comma);
    of_one += sdk::Concat("s", i, comma);
    results += sdk::Concat("      FusedPack<", type, ", kPack> s", i, ";\n");
    results_of_one += sdk::Concat("    ", type, " s", i, ";\n");
    stores += sdk::Concat("      StorePack<", type, ", kPack>(p.outputs[", i, "], i, s", i, ");\n");
    stores_of_one += sdk::Concat("    static_cast<", type, "*>(p.outputs[", i, "])[i] = s", i, ";\n");
    assignments += sdk::Concat("  o", i, " = v", node, ";\n");
  }
  text += sdk::Concat("TENON_GPU_FUNCTION void Element(", parameters, ") {\n");
  for (size_t i = 0; i < kernel.nodes.size(); ++i) text += Compute(kernel.nodes[i], i);
  text += sdk::Concat(assignments,
                      "}\n"
                      "TENON_GPU_FUNCTION void Fused(const FusedParams& p) {\n"
                      "  const Index total = static_cast<Index>(p.total), first = static_cast<Index>(Thread()), "
                      "threads = static_cast<Index>(Threads());\n"
                      "  Index begin = 0;\n"
                      "  if (p.even != 0) {\n"
                      "    const Index packs = total / kPack;\n"
                      "    for (Index at = first; at < packs; at += threads) {\n"
                      "      const Index i = at * kPack;\n",
                      loads, results, "      TENON_GPU_UNROLL_ALL\n      for (int k = 0; k < kPack; ++k) Element(",
                      of_pack, ");\n", stores,
                      "    }\n"
                      "    begin = packs * kPack;\n"
                      "  }\n"
                      "  for (Index i = begin + first; i < total; i += threads) {\n",
                      results_of_one, "    Element(", of_one, ");\n", stores_of_one, "  }\n}\nTENON_GPU_KERNEL(",
                      kFusedName, ", FusedParams, Fused)\n}\n");
  return text;
}

std::string_view FusedType(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return "float";
    case TENON_DT_DOUBLE: return "double";
    case TENON_DT_HALF: return "Half";
    case TENON_DT_BFLOAT16: return "Bfloat16";
    case TENON_DT_INT32: return "int32_t";
    case TENON_DT_INT64: return "int64_t";
    case TENON_DT_BOOL: return "bool";
    default: return "";
  }
}

int32_t OperandsOf(std::string_view op, int32_t inputs) {
  return sdk::IsOneOf(op, {"BroadcastTo", "Sum", "Mean"}) ? 1 : inputs;
}

std::string_view FusedFunction(std::string_view op) {
  if (op == "AddV2" || op == "BiasAdd") return "Add";
  if (op == "RealDiv") return "Div";
  if (op == "LogicalAnd") return "And";
  if (op == "LogicalOr") return "Or";
  if (op == "LogicalNot") return "Not";
  if (op == "SelectV2") return "Select";
  if (op == "Cast") return "Cast";
  if (op == "AddN") return "AddN";
  if (op == "BroadcastTo") return "Same";
#define TENON_GPU_NAME(name) #name,
  static constexpr std::string_view kFunctions[] = {
      TENON_GPU_UNARY_OF_NUMBERS(TENON_GPU_NAME) TENON_GPU_UNARY_OF_FLOATS(TENON_GPU_NAME)
          TENON_GPU_UNARY_QUESTIONS(TENON_GPU_NAME) TENON_GPU_BINARY_OF_NUMBERS(TENON_GPU_NAME)
              TENON_GPU_BINARY_THAT_MAY_FAIL(TENON_GPU_NAME) TENON_GPU_BINARY_OF_FLOATS(TENON_GPU_NAME)
                  TENON_GPU_BINARY_QUESTIONS(TENON_GPU_NAME) TENON_GPU_BINARY_EQUALITIES(TENON_GPU_NAME)};
#undef TENON_GPU_NAME
  for (std::string_view name : kFunctions) {
    if (name == op) return name;
  }
  return "";
}

}  // namespace tenon::gpu
