// SPDX-License-Identifier: Apache-2.0
#include "cause.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon::python {
namespace {

constexpr size_t kMost = 64;  // that wait at once: of a step that fails in many nodes one is told

struct Waiting {
  uint64_t number;  // calls with a lower one were under way, or had ended
  std::string words, node;
  nb::object exception;
};

struct Causes {
  std::mutex mutex;
  uint64_t last = 0;
  std::vector<uint64_t> calls;  // under way
  std::vector<Waiting> waiting;

  uint64_t Begin() {
    const std::lock_guard lock(mutex);
    calls.push_back(++last);
    return last;
  }
  void End(uint64_t call) {
    const std::lock_guard lock(mutex);
    std::erase(calls, call);
  }
};
// Never freed: threads of the engine may come when the process ends.
Causes& All() {
  static auto* const all = new Causes;
  return *all;
}

// Those that no call under way can have failed by. They are let go of without the mutex, as that may run anything.
std::vector<Waiting> TakeForgotten(Causes& all) {
  const std::lock_guard lock(all.mutex);
  const uint64_t first = all.calls.empty() ? UINT64_MAX : *std::min_element(all.calls.begin(), all.calls.end());
  const auto kept = std::stable_partition(all.waiting.begin(), all.waiting.end(),
                                          [&](const Waiting& each) { return each.number > first; });
  std::vector<Waiting> forgotten(std::make_move_iterator(kept), std::make_move_iterator(all.waiting.end()));
  all.waiting.erase(kept, all.waiting.end());
  return forgotten;
}

// This thread's call that failed and was not told yet.
struct Untold {
  ~Untold() { End(); }
  void End() {
    if (call != 0) All().End(std::exchange(call, 0));
  }
  uint64_t call = 0;
};
thread_local Untold untold;

}  // namespace

void KeepCause(nb::object exception, std::string words, std::string node) {
  Causes& all = All();
  const std::vector<Waiting> forgotten = TakeForgotten(all);
  Waiting dropped{};
  const std::lock_guard lock(all.mutex);
  if (all.waiting.size() == kMost) {
    dropped = std::move(all.waiting.front());
    all.waiting.erase(all.waiting.begin());
  }
  all.waiting.push_back({++all.last, std::move(words), std::move(node), std::move(exception)});
}

nb::object TakeCause(std::string_view message) {
  Causes& all = All();
  nb::object cause;
  {
    const std::lock_guard lock(all.mutex);
    size_t best = all.waiting.size();
    int best_score = -1;
    for (size_t i = 0; i < all.waiting.size(); ++i) {
      const Waiting& each = all.waiting[i];
      if (message.find(each.words) == std::string_view::npos) continue;
      const int score =
          !each.node.empty() && message.find("node '" + each.node + "'") != std::string_view::npos ? 1 : 0;
      if (score < best_score) continue;
      best = i;
      best_score = score;
    }
    if (best < all.waiting.size()) {
      cause = std::move(all.waiting[best].exception);
      all.waiting.erase(all.waiting.begin() + static_cast<ptrdiff_t>(best));
    }
  }
  untold.End();
  const std::vector<Waiting> forgotten = TakeForgotten(all);
  return cause;
}

CallInFlight::CallInFlight() : number_(All().Begin()) {}

CallInFlight::~CallInFlight() {
  if (failed_) {
    untold.End();
    untold.call = number_;
    return;
  }
  All().End(number_);
  const std::vector<Waiting> forgotten = TakeForgotten(All());
}

void ForgetOtherCalls() {
  Causes& all = All();
  {
    const std::lock_guard lock(all.mutex);
    all.calls.clear();
  }
  const std::vector<Waiting> forgotten = TakeForgotten(all);
}

}  // namespace tenon::python
