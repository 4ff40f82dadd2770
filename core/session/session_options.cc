// SPDX-License-Identifier: Apache-2.0
#include "core/session/session_options.h"

#include <limits>
#include <type_traits>

namespace tenon::session {
namespace {

enum class Reach { EVERYWHERE, HERE, IN_PROCESS, ON_CLUSTER };

// visit(name, reach, names, member) for each option; member(options) is its value in those options, which may be const.
template <typename Visit>
void ForEachOption(Visit&& visit) {
#define TENON_VISIT(name, kind, value, reach, flag, help, names)      \
  visit(                                                              \
      std::string_view(#name), Reach::reach, std::string_view(names), \
      [](auto& options) -> auto& { return options.TENON_OPTION_MEMBER(kind, name); });
  TENON_SESSION_OPTIONS(TENON_VISIT)
#undef TENON_VISIT
#define TENON_VISIT(name, kind, value, reach, flag, help, names)               \
  visit(                                                                       \
      std::string_view("debug." #name), Reach::reach, std::string_view(names), \
      [](auto& options) -> auto& { return options.debug.TENON_OPTION_MEMBER(kind, name); });
  TENON_DEBUG_OPTIONS(TENON_VISIT)
#undef TENON_VISIT
}

// names: "a|b|c", of 0, 1, 2.
Status CheckChoice(std::string_view name, std::string_view names, uint64_t value) {
  if (names.empty()) return Status::Ok();
  std::string known;
  for (uint64_t number = 0;; ++number) {
    if (number == value) return Status::Ok();
    const size_t end = names.find('|');
    known += StrCat(known.empty()                   ? ""
                    : end == std::string_view::npos ? " or "
                                                    : ", ",
                    number, " (", names.substr(0, end), ")");
    if (end == std::string_view::npos) break;
    names.remove_prefix(end + 1);
  }
  return InvalidArgument(StrCat("the session option '", name, "' is ", value, "; it may be ", known));
}

}  // namespace

Status CheckOptions(const SessionOptions& options) {
  const SessionOptions unset;
  const bool on_cluster = !options.master.empty();
  Status status;
  const auto refuse = [&](std::string_view name, const char* why) {
    if (status.ok()) status = Unimplemented(StrCat("the session option '", name, "' ", why, "; leave it out"));
  };
  ForEachOption([&](std::string_view name, Reach reach, std::string_view names, auto member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member(options))>, uint32_t>)
      if (status.ok()) status = CheckChoice(name, names, member(options));
    if (member(options) == member(unset)) return;
    if (reach == Reach::IN_PROCESS && on_cluster) refuse(name, "is not for sessions whose steps run on a cluster");
    if (reach == Reach::ON_CLUSTER && !on_cluster)
      refuse(name, "is for sessions whose steps run on a cluster, and no master is named");
  });
  // Of a worker the master has it.
  if (status.ok() && options.precision == TENON_PRECISION_INT8 && options.calibration.empty() && !options.one_task)
    status = InvalidArgument(
        "the session option 'precision' is int8, and 'calibration' is empty: 8-bit integers need the ranges of the "
        "graph's values, which `tenon run --calibrate` finds");
  if (status.ok() && options.precision != TENON_PRECISION_INT8 && !options.calibration.empty())
    status = InvalidArgument(
        "the session option 'calibration' is for precision int8, and 'precision' is another; leave it out");
  if (options.debug.partition && options.record_costs)
    refuse("record_costs", "is not for sessions with 'debug.partition'");
  return status;
}

std::vector<CarriedOption> Carried(const SessionOptions& options) {
  const SessionOptions unset;
  std::vector<CarriedOption> carried;
  ForEachOption([&](std::string_view name, Reach reach, std::string_view, auto member) {
    if (reach != Reach::EVERYWHERE || member(options) == member(unset)) return;
    if constexpr (std::is_convertible_v<decltype(member(options)), std::string_view>)
      carried.push_back({name, 0, member(options)});
    else carried.push_back({name, static_cast<uint64_t>(member(options)), {}});
  });
  return carried;
}

Status SetCarried(const CarriedOption& option, SessionOptions* options) {
  bool found = false;
  Status status;
  ForEachOption([&](std::string_view name, Reach reach, std::string_view names, auto member) {
    if (name != option.name || reach != Reach::EVERYWHERE) return;
    found = true;
    auto& value = member(*options);
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, std::string>) {
      value = option.text;
    } else {
      status = CheckChoice(name, names, option.number);
      if (status.ok() && option.number > std::numeric_limits<Value>::max())
        status = InvalidArgument(StrCat("the session option '", name, "' is ", option.number, "; it may be at most ",
                                        static_cast<uint64_t>(std::numeric_limits<Value>::max())));
      value = static_cast<Value>(option.number);
    }
  });
  if (!found)
    return Unimplemented(
        StrCat("the session option '", option.name, "' is not known here; the other side is of another version"));
  return status;
}

}  // namespace tenon::session
