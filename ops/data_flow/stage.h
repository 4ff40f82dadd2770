// SPDX-License-Identifier: Apache-2.0
// Staging areas: elements that one step lays ready for another (place.h), in their order, or each under a key.
//
// Rules, which are TensorFlow's:
// - A capacity bounds the elements, a memory limit their bytes; 0: no bound. Who brings more waits for room; what would
// never fit is RESOURCE_EXHAUSTED.
// - Under a key an element may come in pieces: it can be taken when all have come, and then again in pieces. Pieces
// that wait for others count for the memory limit alone.
//   One that comes whole while another has its key is dropped.
// What differs, so that an error loses nothing and leaves nothing behind: a take of other types than an element has, or
// of values of which some were taken, takes nothing; pieces of which some are there are refused as a whole. Indices are
// checked for an element that comes whole, too. A map gives the smallest key, where any would do.
#ifndef TENON_OPS_DATA_FLOW_STAGE_H_
#define TENON_OPS_DATA_FLOW_STAGE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "element.h"
#include "place.h"
#include "tenon/extras/kernel/charge.h"

namespace tenon::ops {

struct StageOptions {
  std::string op;  // "Stage" or "MapStage", for messages
  std::string name;
  int64_t capacity = 0;
  int64_t memory_limit = 0;
};

// As TensorFlow counts them: 24 for a string, besides its text.
int64_t BytesOf(const tenon_tensor_view& view);
int64_t BytesOf(const Element& element);

// What both kinds are.
class Stage : public Place {
 public:
  std::string Describe() const { return sdk::Concat(options_.op, " '", options_.name, "'"); }

 protected:
  explicit Stage(StageOptions options, Order puts) : Place(puts, Order::kAny), options_(std::move(options)) {}
  // RESOURCE_EXHAUSTED: so many bytes will never fit.
  void CheckFits(int64_t bytes) const;
  // Below: under the mutex.
  bool HasMemory(int64_t bytes) const { return options_.memory_limit == 0 || bytes <= options_.memory_limit - bytes_; }
  bool HasRoom(size_t elements) const {
    return options_.capacity == 0 || static_cast<int64_t>(elements) < options_.capacity;
  }

  const StageOptions options_;
  int64_t bytes_ = 0;  // of all that is in; guarded by the mutex
};

class QueueStage final : public Stage {
 public:
  explicit QueueStage(StageOptions options) : Stage(std::move(options), Order::kInOrder) {}
  // Each ends with done, at once or later, unless it throws.
  void Put(sdk::RunContext c, sdk::Done done, Element element);
  void Take(sdk::RunContext c, sdk::Done done, std::vector<uint32_t> types);
  // A copy of the element before which there are `index` >= 0 others.
  void Peek(sdk::RunContext c, sdk::Done done, std::vector<uint32_t> types, int64_t index);
  int64_t Size() const;
  void Clear();

 private:
  class Putting;
  class Taking;
  std::deque<Element> elements_;  // guarded by the mutex
};

class MapStage final : public Stage {
 public:
  explicit MapStage(StageOptions options) : Stage(std::move(options), Order::kAny) {}

  // Each ends with done, at once or later, unless it throws. places: which values of an element are meant; they grow.
  // width: how many it has.
  void Put(sdk::RunContext c, sdk::Done done, int64_t key, std::vector<int64_t> places, Element values, size_t width);
  // types: of those values.
  void Take(sdk::RunContext c, sdk::Done done, int64_t key, std::vector<int64_t> places, std::vector<uint32_t> types);
  void Peek(sdk::RunContext c, sdk::Done done, int64_t key, std::vector<int64_t> places, std::vector<uint32_t> types);
  // Any key, which is output 0.
  void TakeAny(sdk::RunContext c, sdk::Done done, std::vector<int64_t> places, std::vector<uint32_t> types);
  int64_t Size() const;
  int64_t IncompleteSize() const;
  void Clear();

 private:
  class Putting;
  class Taking;
  using Pieces =
      std::vector<std::optional<Component>,
                  sdk::ChargingAllocator<std::optional<Component>>>;  // places for all, however few have come
  void CheckPlaces(const std::vector<int64_t>& places, size_t width) const;

  // The mutex guards both.
  std::map<int64_t, Pieces> whole_, incomplete_;
  size_t width_ = 0;  // of all elements; 0 until the first comes
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_STAGE_H_
