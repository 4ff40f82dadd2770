// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/program.h"

#include <algorithm>
#include <atomic>

#include "core/exec/program/side_by_side.h"

namespace tenon::exec {
namespace {

uint64_t NextSerial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// The first step warms up.
constexpr int kTrials = 2;

bool IsFixed(const ProgramCode& code) {
  using Kind = Operation::Kind;
  return std::none_of(code.operations.begin(), code.operations.end(), [](const Operation& operation) {
    return operation.kind == Kind::kLoop || operation.kind == Kind::kBranch || operation.kind == Kind::kDynamic;
  });
}

}  // namespace

Program::Program(const Plan* plan, ProgramCode code)
    : plan_(plan),
      code_(std::move(code)),
      serial_(NextSerial()),
      fixed_(IsFixed(code_)),
      trials_(MayGainSideBySide(*plan, code_) ? kTrials : 0) {}

bool AreShapes(const tenon_tensor_view* const* feeds, const std::vector<Shape>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<int64_t>& dims = shapes[i].dims();
    const tenon_dl_tensor& dl = feeds[i]->dl;
    if (dl.ndim != shapes[i].rank()) return false;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dl.shape[d] != dims[d]) return false;
  }
  return true;
}

std::string Program::DescribeLargest() const {
  uint64_t largest = 0;
  std::string text = "the memory of a step";
  code_.ForEachBlock([&](const std::vector<Operation>& block) {
    for (const Operation& operation : block)
      for (SlotId slot : operation.outputs)
        if (code_.at(slot).bytes > largest) {
          largest = code_.at(slot).bytes;
          text = StrCat("the memory of a step, of which ", plan_->graph().node(operation.node).Describe(), " takes ",
                        largest, " bytes");
        }
  });
  return text;
}

}  // namespace tenon::exec
