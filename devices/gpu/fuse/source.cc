// SPDX-License-Identifier: Apache-2.0
#include "fuse/source.h"

#include "code/elementwise.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::gpu {
namespace {

std::string Operand(int number) { return number >= 0 ? sdk::Concat("v", number) : sdk::Concat("i", -1 - number); }

std::string Load(const FusedInput& input, size_t number) {
  const char* const at = input.spread == FusedInput::kEven ? "i" : input.spread == FusedInput::kSingle ? "0" : "OffsetOf(p, ";
  const std::string index = input.spread == FusedInput::kStrided ? sdk::Concat(at, number, ", i)") : std::string(at);
  return sdk::Concat("    const ", FusedType(input.dtype), " i", number, " = static_cast<const ", FusedType(input.dtype), "*>(p.inputs[", number, "])[",
                     index, "];\n");
}

std::string Compute(const FusedNode& node, size_t number) {
  const std::string head = sdk::Concat("    const ", FusedType(node.result), " v", number, " = ");
  if (node.function == "Cast") return sdk::Concat(head, "Convert<", FusedType(node.result), ">(", Operand(node.operands[0]), ");\n");
  if (node.function == "Select") {
    return sdk::Concat(head, Operand(node.operands[0]), " ? ", Operand(node.operands[1]), " : ", Operand(node.operands[2]), ";\n");
  }
  std::string arguments;
  for (int operand : node.operands) arguments += ", " + Operand(operand);
  // Bits of the number, which no text of decimals loses.
  const std::string alpha = node.alpha == 0 ? "0.0f" : sdk::Concat("__builtin_bit_cast(float, ", __builtin_bit_cast(uint32_t, node.alpha), "u)");
  return sdk::Concat(head, "Of(MakeOp<", node.function, "Op>(", alpha, ")", arguments, ");\n");
}

}  // namespace

std::string SourceOf(const FusedKernel& kernel) {
  std::string text =
      "#include \"code/apply.h\"\n"
      "#include \"code/fused.h\"\n"
      "namespace tenon::gpu {\n"
      "TENON_GPU_FUNCTION int64_t OffsetOf(const FusedParams& p, int input, int64_t i) {\n"
      "  int64_t row = i / p.inner;\n"
      "  int64_t offset = (i - row * p.inner) * p.steps[input];\n"
      "  for (int64_t d = p.rank - 1; d >= 0; --d) {\n"
      "    const int64_t above = row / p.dims[d];\n"
      "    offset += (row - above * p.dims[d]) * p.strides[input][d];\n"
      "    row = above;\n"
      "  }\n"
      "  return offset;\n"
      "}\n"
      "TENON_GPU_FUNCTION void Fused(const FusedParams& p) {\n"
      "  for (int64_t i = Thread(); i < p.total; i += Threads()) {\n";
  for (size_t i = 0; i < kernel.inputs.size(); ++i) text += Load(kernel.inputs[i], i);
  for (size_t i = 0; i < kernel.nodes.size(); ++i) text += Compute(kernel.nodes[i], i);
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    const auto node = static_cast<size_t>(kernel.outputs[i]);
    text += sdk::Concat("    static_cast<", FusedType(kernel.nodes[node].result), "*>(p.outputs[", i, "])[i] = v", node, ";\n");
  }
  text += sdk::Concat("  }\n}\nTENON_GPU_KERNEL(", kFusedName, ", FusedParams, Fused)\n}\n");
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

std::string_view FusedFunction(std::string_view op) {
  if (op == "AddV2" || op == "BiasAdd") return "Add";
  if (op == "RealDiv") return "Div";
  if (op == "LogicalAnd") return "And";
  if (op == "LogicalOr") return "Or";
  if (op == "LogicalNot") return "Not";
  if (op == "SelectV2") return "Select";
  if (op == "Cast") return "Cast";
#define TENON_GPU_NAME(name) #name,
  static constexpr std::string_view kFunctions[] = {
      TENON_GPU_UNARY_OF_NUMBERS(TENON_GPU_NAME) TENON_GPU_UNARY_OF_FLOATS(TENON_GPU_NAME) TENON_GPU_UNARY_QUESTIONS(TENON_GPU_NAME)
          TENON_GPU_BINARY_OF_NUMBERS(TENON_GPU_NAME) TENON_GPU_BINARY_THAT_MAY_FAIL(TENON_GPU_NAME) TENON_GPU_BINARY_OF_FLOATS(TENON_GPU_NAME)
              TENON_GPU_BINARY_QUESTIONS(TENON_GPU_NAME) TENON_GPU_BINARY_EQUALITIES(TENON_GPU_NAME)};
#undef TENON_GPU_NAME
  for (std::string_view name : kFunctions) {
    if (name == op) return name;
  }
  return "";
}

}  // namespace tenon::gpu
