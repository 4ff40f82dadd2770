// SPDX-License-Identifier: Apache-2.0
#include "fuse/row_source.h"

#include <algorithm>
#include <set>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::gpu {
namespace {

// What a thread may keep of a row: a quarter of its registers, and no longer code than that is worth.
constexpr int64_t kMostHeldBytes = 256, kMostHeldElements = 64;

bool IsSum(const RowNode& node) {
  return node.kind == RowNode::kSum || node.kind == RowNode::kMean || node.kind == RowNode::kMost;
}

int64_t PackOf(const RowKernel& kernel) {
  size_t largest = 2;
  for (const FusedInput& input : kernel.inputs) {
    if (!IsOfRow(input)) largest = std::max(largest, sdk::ElementSize(input.dtype));
  }
  for (const int output : kernel.outputs)
    largest = std::max(largest, sdk::ElementSize(kernel.nodes[static_cast<size_t>(output)].result));
  int64_t pack = static_cast<int64_t>(16 / largest);
  while (kernel.width % pack != 0) pack /= 2;
  return pack;
}

// Writes the kernel. A value's level is the number of sums, one after the other, that it waits for: walk L sums what is
// of level L.
class Writer {
 public:
  explicit Writer(const RowKernel& kernel)
      : k_(kernel), pack_(PackOf(kernel)), turns_((kernel.width / pack_ + kernel.lanes - 1) / kernel.lanes) {
    for (size_t i = 0; i < k_.nodes.size(); ++i) {
      int level = 0;
      for (const int operand : k_.nodes[i].operands)
        level = std::max(level, operand < 0 ? 0 : levels_[static_cast<size_t>(operand)]);
      levels_.push_back(level + (IsSum(k_.nodes[i]) ? 1 : 0));
      walks_ = std::max(walks_, levels_.back());
    }
    ChooseHeld();
  }

  std::string Write() {
    std::string text = sdk::Concat(
        "#include \"code/apply.h\"\n#include \"code/fused.h\"\n#include \"code/fused_row.h\"\nnamespace tenon::gpu "
        "{\nusing Index = ",
        k_.wide ? "uint64_t" : "uint32_t", ";\nconstexpr int kPack = ", pack_, ", kLanes = ", k_.lanes,
        ", kTurns = ", turns_, ";\nconstexpr uint32_t kWidth = ", k_.width, ";\n");
    for (size_t i = 0; i < k_.inputs.size(); ++i) {
      if (k_.inputs[i].spread != FusedInput::kSingle) text += RowFunction(k_.inputs[i], i);
    }
    text += "TENON_GPU_FUNCTION void Rows(const FusedParams& p) {\n"
            "  const bool even = p.even != 0;\n"
            "  ForEachItem(p.total, kLanes, [&](int64_t item, uint32_t lane, bool valid) {\n"
            "    const Index row = valid ? static_cast<Index>(item) : Index{0};\n"
            "    const uint32_t packs = valid ? kWidth / kPack : 0;\n";
    for (size_t i = 0; i < k_.inputs.size(); ++i) text += Begin(i);
    text += Ones(0);
    for (int walk = 0; walk < walks_; ++walk) text += Walk(walk) + Ones(walk + 1);
    return text + LastWalk() + "  });\n}\nTENON_GPU_BLOCK_KERNEL(" + kFusedName + ", FusedParams, Rows)\n}\n";
  }

 private:
  // What a walk needs: all that its results are computed from, element by element.
  struct Needs {
    std::set<size_t> nodes, inputs;
  };
  void Need(int operand, Needs* needs) const {
    if (operand < 0) {
      const auto input = static_cast<size_t>(-1 - operand);
      if (!IsOfRow(k_.inputs[input])) needs->inputs.insert(input);
      return;
    }
    const auto node = static_cast<size_t>(operand);
    if (k_.nodes[node].kind != RowNode::kElements || !needs->nodes.insert(node).second) return;
    for (const int each : k_.nodes[node].operands) Need(each, needs);
  }
  std::vector<size_t> SumsOf(int walk) const {
    std::vector<size_t> sums;
    for (size_t i = 0; i < k_.nodes.size(); ++i) {
      if (IsSum(k_.nodes[i]) && levels_[i] == walk + 1) sums.push_back(i);
    }
    return sums;
  }
  Needs NeedsOf(int walk) const {
    Needs needs;
    for (const size_t sum : SumsOf(walk)) Need(k_.nodes[sum].operands[0], &needs);
    return needs;
  }
  Needs NeedsOfLast() const {
    Needs needs;
    for (const int output : k_.outputs) Need(output, &needs);
    return needs;
  }

  void ChooseHeld() {
    std::vector<int> uses(k_.inputs.size(), 0);
    for (int walk = 0; walk <= walks_; ++walk) {
      for (const size_t input : (walk < walks_ ? NeedsOf(walk) : NeedsOfLast()).inputs) ++uses[input];
    }
    held_.assign(k_.inputs.size(), false);
    if (turns_ * pack_ > kMostHeldElements) return;
    int64_t bytes = 0;
    for (size_t i = 0; i < uses.size(); ++i) {
      const int64_t own = turns_ * pack_ * static_cast<int64_t>(sdk::ElementSize(k_.inputs[i].dtype));
      if (uses[i] < 2 || bytes + own > kMostHeldBytes) continue;
      held_[i] = true;
      bytes += own;
    }
  }

  // Row<number>(row): where an input's part of a row begins.
  std::string RowFunction(const FusedInput& input, size_t number) const {
    std::string text = sdk::Concat("TENON_GPU_FUNCTION Index Row", number, "(Index row) {\n  Index offset = 0;\n");
    for (size_t d = k_.dims.size(); d-- > 1;) {
      text += sdk::Concat("  { const Index above = row / Index{", k_.dims[d], "}; offset += (row - above * Index{",
                          k_.dims[d], "}) * Index{", input.strides[d], "}; row = above; }\n");
    }
    return text + sdk::Concat("  return offset + row * Index{", k_.dims.empty() ? 0 : input.strides[0], "};\n}\n");
  }

  std::string Begin(size_t i) const {
    const FusedInput& input = k_.inputs[i];
    const std::string_view type = FusedType(input.dtype);
    const std::string from = sdk::Concat("static_cast<const ", type, "*>(p.inputs[", i, "])");
    const std::string at = input.spread == FusedInput::kSingle ? "0" : sdk::Concat("Row", i, "(row)");
    // A group without a row reads nothing: what it would read may be written meanwhile.
    if (IsOfRow(input))
      return sdk::Concat("    const ", type, " i", i, " = valid ? ", from, "[", at, "] : ", type, "();\n");
    std::string text = sdk::Concat("    const ", type, "* const b", i, " = ", from, " + ", at, ";\n");
    if (!held_[i]) return text;
    return text + sdk::Concat("    FusedPack<", type, ", kPack> h", i,
                              "[kTurns];\n    TENON_GPU_UNROLL_ALL\n    for (int n = 0; n < kTurns; ++n) {\n",
                              "      const uint32_t pack = lane + n * kLanes;\n      if (pack < packs) h", i,
                              "[n] = LoadOfRow<", type, ", kPack>(b", i, ", pack * kPack, even);\n    }\n");
  }

  // Of the rows' own values, those of a level.
  std::string Ones(int level) const {
    std::string text;
    for (size_t i = 0; i < k_.nodes.size(); ++i) {
      if (levels_[i] != level || k_.nodes[i].kind == RowNode::kElements) continue;
      const std::string_view type = FusedType(k_.nodes[i].result);
      text += k_.nodes[i].kind == RowNode::kOne ? "  " + Compute(k_.nodes[i], i)
              : k_.nodes[i].kind == RowNode::kMost
                  ? sdk::Concat("    const ", type, " v", i, " = static_cast<", type, ">(t", i, ");\n")
              : k_.nodes[i].kind == RowNode::kMean
                  ? sdk::Concat("    const ", type, " v", i, " = RoundedSum<", type, ">(t", i, " / double(kWidth));\n")
                  : sdk::Concat("    const ", type, " v", i, " = RoundedSum<", type, ">(t", i, ");\n");
    }
    return text;
  }

  // The head of a walk's loop, with what is loaded, down to the loop over a pack's elements.
  std::string Head(const Needs& needs, const std::string& before_elements) const {
    const bool unrolled = std::find(held_.begin(), held_.end(), true) != held_.end();
    std::string text = sdk::Concat(unrolled ? "    TENON_GPU_UNROLL_ALL\n" : "    TENON_GPU_UNROLL(1)\n",
                                   "    for (int n = 0; n < kTurns; ++n) {\n      const uint32_t pack = lane + n * "
                                   "kLanes;\n      if (pack >= packs) continue;\n");
    for (const size_t i : needs.inputs) {
      if (held_[i]) continue;
      text += sdk::Concat("      const auto l", i, " = LoadOfRow<", FusedType(k_.inputs[i].dtype), ", kPack>(b", i,
                          ", pack * kPack, even);\n");
    }
    text += before_elements + "      TENON_GPU_UNROLL_ALL\n      for (int k = 0; k < kPack; ++k) {\n";
    for (const size_t i : needs.inputs) {
      text += sdk::Concat("      const ", FusedType(k_.inputs[i].dtype), " i", i, " = ", held_[i] ? "h" : "l", i,
                          held_[i] ? "[n]" : "", ".at[k];\n");
    }
    for (const size_t node : needs.nodes) text += Compute(k_.nodes[node], node);
    return text;
  }

  std::string Walk(int walk) const {
    std::string totals, parts, added, ends, groups;
    for (const size_t sum : SumsOf(walk)) {
      const std::string type = sdk::Concat("Wide<", FusedType(k_.nodes[sum].result), ">");
      if (k_.nodes[sum].kind == RowNode::kMost) {
        totals += sdk::Concat("    ", type, " t", sum, " = Lowest<", type, ">();\n");
        added += sdk::Concat("      t", sum, " = Larger(t", sum, ", static_cast<", type, ">(",
                             Operand(k_.nodes[sum].operands[0]), "));\n");
        groups += sdk::Concat("    t", sum, " = MostOfGroup<kLanes>(t", sum, ");\n");
        continue;
      }
      totals += sdk::Concat("    double t", sum, " = 0;\n");
      parts += sdk::Concat("      ", type, " a", sum, ";\n");
      added += sdk::Concat("      const auto x", sum, " = static_cast<", type, ">(", Operand(k_.nodes[sum].operands[0]),
                           ");\n      a", sum, " = k == 0 ? x", sum, " : a", sum, " + x", sum, ";\n");
      ends += sdk::Concat("      t", sum, " += static_cast<double>(a", sum, ");\n");
      groups += sdk::Concat("    t", sum, " = SumOfGroup<kLanes>(t", sum, ");\n");
    }
    return totals + Head(NeedsOf(walk), parts) + added + "      }\n" + ends + "    }\n" + groups;
  }

  std::string LastWalk() const {
    std::string results, set, stores, ones;
    for (size_t i = 0; i < k_.outputs.size(); ++i) {
      const auto node = static_cast<size_t>(k_.outputs[i]);
      const std::string_view type = FusedType(k_.nodes[node].result);
      const std::string to = sdk::Concat("static_cast<", type, "*>(p.outputs[", i, "])");
      if (k_.nodes[node].kind != RowNode::kElements) {
        ones += sdk::Concat("      ", to, "[row] = v", node, ";\n");
        continue;
      }
      results += sdk::Concat("      FusedPack<", type, ", kPack> s", i, ";\n");
      set += sdk::Concat("      s", i, ".at[k] = v", node, ";\n");
      stores += sdk::Concat("      StoreOfRow<", type, ", kPack>(", to, " + row * Index{kWidth}, pack * kPack, s", i,
                            ", even);\n");
    }
    const std::string of_row = ones.empty() ? "" : sdk::Concat("    if (valid && lane == 0) {\n", ones, "    }\n");
    return stores.empty() ? of_row : Head(NeedsOfLast(), results) + set + "      }\n" + stores + "    }\n" + of_row;
  }

  const RowKernel& k_;
  const int64_t pack_, turns_;
  std::vector<int> levels_;  // of nodes
  int walks_ = 0;            // that sum
  std::vector<bool> held_;   // inputs
};

}  // namespace

bool IsOfRow(const FusedInput& input) { return input.spread == FusedInput::kSingle || input.step == 0; }

std::string SourceOf(const RowKernel& kernel) { return Writer(kernel).Write(); }

}  // namespace tenon::gpu
