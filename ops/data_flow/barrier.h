// SPDX-License-Identifier: Apache-2.0
// Barriers: elements whose components come one by one, each under the element's key; whole ones may be taken.
//
// Rules, which are TensorFlow's:
// - Whole elements are taken in the order of the inserts that began them, as from a priority queue (queue.h), which
// they stand in.
// - A closed barrier takes no new keys, but what is missing of those that it has; when nothing is, or the close cancels
// them, nothing more comes: a take that
//   cannot be filled is OUT_OF_RANGE, and one that may be small gets what is left.
// What differs: an insert that fails half-way leaves what it has completed to be taken.
#ifndef TENON_OPS_DATA_FLOW_BARRIER_H_
#define TENON_OPS_DATA_FLOW_BARRIER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "queue.h"
#include "tenon/extras/kernel/charge.h"

namespace tenon::ops {

struct BarrierOptions {
  std::string name;
  std::vector<uint32_t> types;
  std::vector<sdk::Shape> shapes;  // of the components, known
};

class Barrier {
 public:
  explicit Barrier(const BarrierOptions& options);

  const std::vector<uint32_t>& types() const { return options_.types; }
  std::string Describe() const { return ready_->Describe(); }
  // INVALID_ARGUMENT when another node that shares the barrier describes it otherwise.
  void CheckSame(const BarrierOptions& other) const;

  // The rows of `values` as component `component` of the elements with these keys, a vector of strings.
  void Insert(const sdk::RunContext& c, int64_t component, const tenon_tensor_view& keys,
              const tenon_tensor_view& values);
  // Ends with done, at once or later, unless it throws. fewer: a closed barrier gives what is there.
  void Take(sdk::RunContext c, sdk::Done done, int64_t count, bool fewer);
  void Close(bool cancel);
  void Abandon() { ready_->Abandon(); }
  int64_t ReadySize() const { return ready_->Size(); }
  int64_t IncompleteSize() const;

 private:
  struct Begun {
    sdk::Charge charge;  // for this, and places for all components, however few have come
    Element leading;     // index and key
    std::vector<std::optional<Component>> components;
  };
  // Below: under the mutex.
  void CheckOpen(size_t inserts) const;
  void InsertOne(const sdk::RunContext& c, int64_t component, std::string_view key, Component value,
                 std::vector<Element>* whole, bool* begun);
  Begun& Begin(const sdk::RunContext& c, std::string_view key);

  const BarrierOptions options_;
  const std::shared_ptr<Queue> ready_;
  mutable std::mutex mutex_;  // guards all below; taken before the queue's
  std::map<std::string, Begun, std::less<>> incomplete_;
  int64_t next_index_ = INT64_MIN;
  bool closed_ = false, cancelled_ = false;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_BARRIER_H_
