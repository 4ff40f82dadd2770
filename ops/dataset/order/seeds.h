// SPDX-License-Identifier: Apache-2.0
// Random numbers of datasets, which are TensorFlow's: Philox's words one by one, and the seeds that each pass over a
// dataset gets.
#ifndef TENON_OPS_DATASET_ORDER_SEEDS_H_
#define TENON_OPS_DATASET_ORDER_SEEDS_H_

#include <memory>
#include <mutex>
#include <utility>

#include "base/archive.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/kernel/random.h"

namespace tenon::ops {

// The words of Philox's blocks, one after the other.
class OneByOne {
 public:
  OneByOne(uint64_t seed, uint64_t seed2) : seed_(seed), seed2_(seed2), philox_(seed, seed2) {}
  uint32_t Next() {
    ++drawn_;
    if (used_ == block_.size()) {
      block_ = philox_.Next();
      used_ = 0;
    }
    return block_[used_++];
  }
  void State(Archive& archive) {
    archive.Word(seed_);
    archive.Word(seed2_);
    archive.Word(drawn_);
    if (!archive.reading()) return;
    philox_ = sdk::Philox(seed_, seed2_);
    philox_.Skip(drawn_ / block_.size());
    used_ = drawn_ % block_.size();
    if (used_ == 0) used_ = block_.size();
    else block_ = philox_.Next();
  }

 private:
  uint64_t seed_, seed2_;
  uint64_t drawn_ = 0;  // words
  sdk::Philox philox_;
  sdk::Philox::Block block_ = {};
  size_t used_ = 4;
};

// Gives each pass its two seeds: new ones each time, which the first two fix, or those two always. Any thread.
class Seeds {
 public:
  Seeds(uint64_t seed, uint64_t seed2, bool again) : again_(again), seed_(seed), seed2_(seed2), random_(seed, seed2) {}
  std::pair<uint64_t, uint64_t> Next() {
    const std::lock_guard lock(mutex_);
    if (!again_) return {seed_, seed2_};
    const uint64_t first = random_.Next();
    return {first, random_.Next()};
  }
  // For the passes to come.
  void State(Archive& archive) {
    const std::lock_guard lock(mutex_);
    archive.Word(seed_);
    archive.Word(seed2_);
    random_.State(archive);
  }

 private:
  const bool again_;
  std::mutex mutex_;  // guards all below
  uint64_t seed_, seed2_;
  OneByOne random_;
};
using SeedsPtr = std::shared_ptr<Seeds>;

// What a node uses where both its seeds are 0: the session's seed decides, if it has one.
struct OwnSeeds {
  explicit OwnSeeds(sdk::CreateContext& c) { c.Check(c.args().services->random_seed(c.args().context, values)); }
  uint64_t values[2] = {};
};
SeedsPtr NewSeeds(const OwnSeeds& own, int64_t seed, int64_t seed2, bool again);
// Those of the generator in input `input`; where that is none (DummySeedGenerator), new ones.
SeedsPtr SeedsOf(const sdk::RunContext& c, int32_t input, const OwnSeeds& own, int64_t seed, int64_t seed2, bool again);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_ORDER_SEEDS_H_
