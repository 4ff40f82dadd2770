// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/crossings/left_out.h"

namespace tenon::crossings {
namespace {

using host::Code, host::Status, host::Tensor;

std::string Show(const Tensor& tensor) {
  std::string text = host::DTypeName(tensor.dtype()) + tensor.shape().ToString() + " {";
  for (int64_t i = 0; i < std::min<int64_t>(tensor.element_count(), 9); ++i) {
    const auto at = static_cast<size_t>(i);
    if (i > 0) text += ' ';
    char number[40] = "";
    switch (tensor.dtype()) {
      case DType::kFloat:
        std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(tensor.data<float>()[at]));
        break;
      case DType::kDouble: std::snprintf(number, sizeof(number), "%.17g", tensor.data<double>()[at]); break;
      case DType::kInt32: std::snprintf(number, sizeof(number), "%d", tensor.data<int32_t>()[at]); break;
      case DType::kInt64:
        std::snprintf(number, sizeof(number), "%lld", static_cast<long long>(tensor.data<int64_t>()[at]));
        break;
      case DType::kBool: std::snprintf(number, sizeof(number), "%d", tensor.bytes()[at]); break;
      default: break;
    }
    text +=
        tensor.dtype() == DType::kString ? "\"" + std::string(tensor.string(static_cast<uint64_t>(i))) + "\"" : number;
  }
  return text + "}";
}

template <typename T>
bool IsNear(const Tensor& a, const Tensor& b, double bound) {
  const auto x = a.data<T>(), y = b.data<T>();
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = static_cast<double>(x[i]), q = static_cast<double>(y[i]);
    if (std::isnan(p) && std::isnan(q)) continue;
    if (p == q) continue;
    if (!(std::fabs(p - q) <= bound * (1 + std::fabs(q)))) return false;
  }
  return true;
}

// To the bit, signs of zero aside; where a smooth program's floats are rounded on the way, to a bound.
bool IsSame(const Tensor& a, const Tensor& b, bool smooth) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kFloat) return IsNear<float>(a, b, smooth ? 1e-4 : 0);
  if (a.dtype() == DType::kDouble) return IsNear<double>(a, b, smooth ? 1e-9 : 0);
  if (a.dtype() == DType::kString) {
    for (int64_t i = 0; i < a.element_count(); ++i)
      if (a.string(static_cast<uint64_t>(i)) != b.string(static_cast<uint64_t>(i))) return false;
    return true;
  }
  return a.bytes().size() == b.bytes().size() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}

// Says which node or op it is about, and is no fault of the engine's own.
bool IsByName(const Status& status) {
  const bool code = status.code() == Code::kUnimplemented || status.code() == Code::kInvalidArgument ||
                    status.code() == Code::kResourceExhausted;
  return code && status.message().find('\'') != std::string::npos;
}
// A refusal without its names and numbers, to be counted by.
std::string KindOf(const std::string& what, const Status& status) {
  std::string text = what + ": " + std::string(host::CodeName(status.code())) + ": ", message = status.message();
  bool quoted = false;
  for (const char c : message) {
    if (c == '\'') quoted = !quoted;
    if (!quoted && !(c >= '0' && c <= '9')) text += c;
  }
  return text.substr(0, 160);
}

}  // namespace

Finding Compare(const Program& program, const Manner& manner, const Outcome& found, const Outcome& right,
                Explained* explained) {
  const auto finding = [&](const std::string& kind, const std::string& text) {
    return Finding{kind, manner.name, text};
  };
  if (found.status.code() == Code::kInternal) return finding("internal", found.stage + ": " + found.status.ToString());
  if (found.status.code() == Code::kDeadlineExceeded)
    return finding("hang", found.stage + ": " + found.status.ToString());
  if (right.status.code() == Code::kInternal || right.status.code() == Code::kDeadlineExceeded)
    return {};  // its own finding
  for (const auto& [what, status] : found.refused) {
    if (!IsByName(status)) return finding("refusal", what + ": " + status.ToString());
    ++(*explained)[KindOf(what, status)];
  }
  if (right.status.ok() && !found.status.ok() && IsByName(found.status) && IsRefused(found.status.message())) {
    ++(*explained)[KindOf(found.stage, found.status)];
    return {};
  }
  if (found.status.ok() != right.status.ok())
    return finding("refusal", (found.status.ok() ? "answers, where " + manner.against + " refuses at " + right.stage +
                                                       ": " + right.status.ToString()
                                                 : "refuses at " + found.stage + ": " + found.status.ToString()));
  if (!found.status.ok()) ++(*explained)[KindOf("both at " + found.stage, found.status)];
  std::map<std::string, const Item*> rights;
  for (const Item& item : right.items) rights[item.label] = &item;
  for (const Item& item : found.items) {
    const auto at = rights.find(item.label);
    if (item.refusal.code() == Code::kInternal) return finding("internal", item.label + ": " + item.refusal.ToString());
    if (at == rights.end()) continue;
    // Where one has a gradient and the other none, it trains, and they part.
    if (found.refused.size() != right.refused.size() &&
        !(item.label.starts_with("step 1: v") || item.label == "step 1: loss"))
      continue;
    const Item& other = *at->second;
    const std::string note = item.label + (item.note.empty() ? "" : " (" + item.note + ")");
    if (item.refusal.ok() != other.refusal.ok())
      return finding("refusal", note + (item.refusal.ok() ? " is answered, and refused in " + manner.against + ": " +
                                                                other.refusal.ToString()
                                                          : " is refused: " + item.refusal.ToString()));
    if (item.refusal.ok() && !IsSame(item.value, other.value, program.smooth))
      return finding("value", note + " is " + Show(item.value) + ", in " + manner.against + " " + Show(other.value));
  }
  return {};
}

std::vector<Finding> Check(World& world, const Program& program, const std::vector<const Manner*>& manners, bool first,
                           Explained* explained, const std::function<void(const std::string& manner)>& tell) {
  world.BeginProgram();
  std::vector<Finding> findings;
  std::map<std::string, Outcome> outcomes;
  const auto outcome = [&](const Manner& manner) -> const Outcome& {
    if (!outcomes.contains(manner.name)) {
      if (tell) tell(manner.name);
      outcomes[manner.name] = Run(world, manner, program);
    }
    return outcomes[manner.name];
  };
  for (const Manner* manner : manners) {
    if (!Fits(*manner, program)) continue;
    Finding finding = Compare(program, *manner, outcome(*manner), outcome(ByName(manner->against)), explained);
    const bool is_written_anew = manner->name == "plain" || manner->name == "functions" ||
                                 manner->name == "references" || manner->name == "by value";
    if (!finding && is_written_anew) {
      if (tell) tell(manner->name + ", differences");
      if (const std::string why = CheckDifferences(world, *manner, program); !why.empty())
        finding = {"gradient", manner->name, why};
    }
    if (!finding) continue;
    findings.push_back(finding);
    if (first) break;
  }
  return findings;
}

uint32_t FindPlant(World& world, const Plant& plant, uint32_t seed, uint32_t count,
                   const std::function<Program(uint32_t seed)>& generate) {
  Manner whole = ByName(std::string(plant.manner));
  whole.options.debug.schedule_seed = whole.options.executor == TENON_EXECUTOR_DYNAMIC ? 7 : 0;
  Manner faulty = whole;
  faulty.form.plant = plant.name;
  for (uint32_t at = seed; at < seed + count; ++at) {
    const Program program = generate(at);
    world.BeginProgram();
    if (!Fits(whole, program)) continue;
    Explained explained;
    const Outcome right = Run(world, whole, program);
    if (right.status.ok() && Compare(program, faulty, Run(world, faulty, program), right, &explained).kind == "value")
      return at;
  }
  return 0;
}

}  // namespace tenon::crossings
