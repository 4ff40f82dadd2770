// SPDX-License-Identifier: Apache-2.0
// Sampled classes of losses over many classes, and which of them are true classes by accident: TensorFlow's bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/random.h"
#include "tenon/extras/kernel/step_memory.h"

namespace tenon::cpu {
namespace {

using sdk::Numbers32;

// What the samplers differ in: how a class is drawn, and how likely it is. For one run at a time; Learn may change what
// is likely in the next one.
struct LogUniform {
  explicit LogUniform(sdk::CreateContext& c)
      : range(c.Int("range_max")), log_range(std::log1p(static_cast<double>(range))) {}
  // A class k is drawn with the probability log((k + 2) / (k + 1)) / log(range + 1).
  int64_t Draw(Numbers32& numbers) const {
    return (static_cast<int64_t>(std::exp(numbers.NextDouble() * log_range)) - 1) % range;
  }
  float Likely(int64_t value) const {
    const auto k = static_cast<double>(value);
    return static_cast<float>(std::log((k + 2.0) / (k + 1.0)) / log_range);
  }
  int64_t range;
  double log_range;
};

struct EquallyLikely {
  explicit EquallyLikely(sdk::CreateContext& c)
      : range(c.Int("range_max")), each(static_cast<float>(1.0 / static_cast<double>(range))) {}
  int64_t Draw(Numbers32& numbers) const { return static_cast<int64_t>(numbers.Below64(static_cast<uint64_t>(range))); }
  float Likely(int64_t) const { return each; }
  int64_t range;
  float each;
};

// Each class is as likely as its weight, which is given: Walker's aliases, made as TensorFlow makes them.
struct Weighted {
  explicit Weighted(sdk::CreateContext& c) : range(c.Int("range_max")) {
    const tenon_attr_value unigrams = c.Raw("unigrams");
    const int64_t reserved = c.Int("num_reserved_ids"), shards = c.Int("num_shards"), shard = c.Int("shard");
    const float distortion = c.Float("distortion");
    if (!c.String("vocab_file").empty())
      c.Fail(TENON_UNIMPLEMENTED, "vocab_file '", c.String("vocab_file"),
             "' is not read: a path must come by an input, where who runs a stranger's graph can check it; give its "
             "weights as unigrams");
    if (c.ok() && unigrams.count == 0) c.Invalid("Must provide unigrams, a weight for each class");
    if (c.ok() && (shards < 1 || shard < 0 || shard >= shards)) c.Invalid("shard ", shard, " of ", shards);
    if (c.ok() && (reserved < 0 || reserved > range * shards))
      c.Invalid("num_reserved_ids is ", reserved, ", for ", range, " classes");
    if (c.ok()) Load(c, unigrams, distortion, reserved, shards, shard);
  }
  int64_t Draw(Numbers32& numbers) const {
    const float chance = numbers.NextFloat();
    const size_t at = numbers.Below(static_cast<uint32_t>(range));
    return chance < aliases[at].chance ? static_cast<int64_t>(at) : aliases[at].other;
  }
  float Likely(int64_t value) const { return weights[static_cast<size_t>(value)] / total; }

  void Load(sdk::CreateContext& c, const tenon_attr_value& unigrams, float distortion, int64_t reserved, int64_t shards,
            int64_t shard) {
    int64_t word = 0;
    for (; word < reserved; ++word)
      if (word % shards == shard) weights.push_back(0);
    word = static_cast<int64_t>(weights.size());  // as TensorFlow counts on
    const auto* given = static_cast<const float*>(unigrams.data);
    for (uint64_t i = 0; i < unigrams.count; ++i, ++word) {
      if (word % shards != shard) continue;
      if (!(given[i] >= 0) || !std::isfinite(given[i]))
        return c.Invalid("unigrams[", i, "] is ", std::to_string(given[i]), "; weights are not negative, and finite");
      weights.push_back(std::pow(given[i], distortion));
      total += weights.back();
    }
    if (static_cast<int64_t>(weights.size()) != range)
      return c.Invalid("range is ", range, " must be equal to weights size ", weights.size());
    if (!(total > 0) || !std::isfinite(total)) return c.Invalid("the weights add up to ", std::to_string(total));
    MakeAliases();
  }
  void MakeAliases() {
    const size_t n = weights.size();
    double sum = 0;
    for (const float weight : weights) sum += weight;
    std::vector<double> share(n);
    std::vector<size_t> high, low;
    for (size_t i = 0; i < n; ++i) {
      share[i] = static_cast<double>(weights[i] * static_cast<float>(static_cast<int>(n))) / sum;
      (share[i] < 1.0 ? low : high).push_back(i);
    }
    aliases.resize(n);
    while (!high.empty() && !low.empty()) {
      const size_t l = low.back(), h = high.back();
      low.pop_back(), high.pop_back();
      aliases[l].other = static_cast<int64_t>(h);
      share[h] -= 1.0 - share[l];
      (share[h] < 1.0 ? low : high).push_back(h);
    }
    for (size_t i = 0; i < n; ++i) aliases[i].chance = static_cast<float>(share[i]);
    // What rounding left over is nearly 1.
    for (const auto& rest : {high, low})
      for (const size_t i : rest) aliases[i] = {1.0f, static_cast<int64_t>(i)};
  }

  struct Alias {
    float chance = 0;
    int64_t other = 0;
  };
  int64_t range;
  float total = 0;
  std::vector<float> weights;
  std::vector<Alias> aliases;
};

// Each class begins with the weight 1, and has one more for each time that it was a true class. A tree of sums, of
// which only what differs from 1 for each class is kept.
class Learned {
 public:
  explicit Learned(sdk::CreateContext& c) : range(c.Int("range_max")) {
    if (range >= std::numeric_limits<int32_t>::max())
      c.Invalid("range_max is ", range, "; classes that are learned are fewer than ",
                std::numeric_limits<int32_t>::max());
    while (c.ok() && (int64_t{1} << levels_) < range) ++levels_;
  }
  int64_t Draw(Numbers32& numbers) const {
    int64_t position = numbers.Below(static_cast<uint32_t>(total())), index = 0;
    for (int level = 1; level <= levels_; ++level) {
      index *= 2;
      if (const int64_t left = Weight(level, index); position >= left) {
        position -= left;
        ++index;
      }
    }
    return index;
  }
  float Likely(int64_t value) const { return static_cast<float>(Weight(levels_, value)) / static_cast<float>(total()); }
  // The classes were true ones. As in TensorFlow no weights are added beyond what 32 bits count.
  void Learn(const sdk::RunContext& c, const int64_t* classes, int64_t count) {
    if (kept_ == nullptr) kept_ = std::make_unique<Kept>(c);
    kept_->memory.AskOf(c);
    count = std::min(count, std::numeric_limits<int32_t>::max() - total());
    for (int64_t i = 0; i < count; ++i) {
      for (int level = levels_; level >= 0; --level)
        kept_->more.try_emplace(Node(level, classes[i] >> (levels_ - level)),
                                0);  // nothing is added when the memory does not suffice
      for (int level = levels_; level >= 0; --level) ++kept_->more[Node(level, classes[i] >> (levels_ - level))];
    }
  }
  int64_t range;

 private:
  struct Kept {
    explicit Kept(const sdk::RunContext& c) : memory(c) {}
    sdk::StepMemory memory;
    std::pmr::unsynchronized_pool_resource pool{&memory};
    std::pmr::unordered_map<int64_t, int64_t> more{&pool};
  };
  static int64_t Node(int level, int64_t index) { return (int64_t{1} << level) + index; }
  int64_t Weight(int level, int64_t index) const {
    const int below = levels_ - level;
    const int64_t classes = std::clamp<int64_t>(range - (index << below), 0, int64_t{1} << below);
    if (kept_ == nullptr) return classes;
    const auto found = kept_->more.find(Node(level, index));
    return classes + (found == kept_->more.end() ? 0 : found->second);
  }
  int64_t total() const { return Weight(0, 0); }
  int levels_ = 0;
  std::unique_ptr<Kept> kept_;
};

int64_t CheckTrueClasses(const sdk::RunContext& c, int64_t true_count, int64_t range) {
  const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
  if (dims.size() != 2 || dims[1] != true_count)
    sdk::Fail(TENON_INVALID_ARGUMENT, "true_classes of shape ", dims, " must have ", true_count, " columns");
  const int64_t count = sdk::Count(dims);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = c.input<int64_t>(0)[i];
    if (value < 0 || value >= range)
      sdk::Fail(TENON_INVALID_ARGUMENT, "true_classes has ", value, ", which is not in [0, ", range, ")");
  }
  return count;
}

template <class Sampler>
struct SamplerKernel {
  static constexpr bool kLearns = std::is_same_v<Sampler, Learned>;
  explicit SamplerKernel(sdk::CreateContext& c)
      : stream(c), sampled(c.Int("num_sampled")), true_count(c.Int("num_true")), unique(c.Bool("unique")), sampler(c) {
    if (c.ok() && unique && sampled > Possible())
      c.Invalid("Sampler's range is too small: ", sampled, " different classes of ", Possible());
  }
  void Run(sdk::RunContext c) const {
    const int64_t count = CheckTrueClasses(c, true_count, sampler.range);
    std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
    if constexpr (kLearns) lock.lock();  // one run after the other
    constexpr uint64_t kNumbersPerSample = 2048;
    Numbers32 numbers = stream.ReserveNumbers(kNumbersPerSample * static_cast<uint64_t>(sampled));
    const int64_t tries = Draw(c, numbers, c.output<int64_t>(0));
    for (int64_t i = 0; i < sampled; ++i) c.output<float>(2)[i] = Expected(c.output<int64_t>(0)[i], tries);
    for (int64_t i = 0; i < count; ++i) c.output<float>(1)[i] = Expected(c.input<int64_t>(0)[i], tries);
    if constexpr (kLearns) sampler.Learn(c, c.input<int64_t>(0), count);
  }

 private:
  // How many classes can be drawn at all.
  int64_t Possible() const {
    if constexpr (std::is_same_v<Sampler, Weighted>)
      return std::ranges::count_if(sampler.weights, [](float weight) { return weight > 0; });
    else return sampler.range;
  }
  // How often it drew.
  int64_t Draw(const sdk::RunContext& c, Numbers32& numbers, int64_t* out) const {
    std::unordered_set<int64_t> seen;
    int64_t tries = 0;
    for (int64_t i = 0; i < sampled; ++tries) {
      // The last of nearly all classes may take very long to find.
      if (tries % 65536 == 65535 && c.cancelled())
        sdk::Fail(TENON_CANCELLED, "the step was cancelled while ", sampled, " different classes of ", sampler.range,
                  " were drawn");
      const int64_t value = sampler.Draw(numbers);
      if (!unique || seen.insert(value).second) out[i++] = value;
    }
    return tries;
  }
  float Expected(int64_t value, int64_t tries) const {
    const float p = sampler.Likely(value);
    if (tries == sampled) return p * static_cast<float>(sampled);
    return -std::expm1(static_cast<float>(tries) * std::log1p(-p));
  }

  sdk::Stream stream;
  int64_t sampled, true_count;
  bool unique;
  mutable std::mutex mutex;
  mutable Sampler sampler;
};

// All classes, once each.
struct AllKernel {
  explicit AllKernel(sdk::CreateContext& c) : sampled(c.Int("num_sampled")), true_count(c.Int("num_true")) {}
  void Run(sdk::RunContext c) const {
    const int64_t count = CheckTrueClasses(c, true_count, sampled);
    for (int64_t i = 0; i < sampled; ++i) c.output<int64_t>(0)[i] = i;
    std::fill_n(c.output<float>(1), count, 1.0f);
    std::fill_n(c.output<float>(2), sampled, 1.0f);
  }
  int64_t sampled, true_count;
};

struct HitsKernel {
  explicit HitsKernel(sdk::CreateContext& c) : true_count(c.Int("num_true")) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims.size() != 2 || dims[1] != true_count)
      sdk::Fail(TENON_INVALID_ARGUMENT, "true_classes of shape ", dims, " must have ", true_count, " columns");
    std::unordered_map<int64_t, int64_t> places;
    for (int64_t i = 0; i < sdk::Count(c.input_view(1)); ++i) places[c.input<int64_t>(1)[i]] = i;
    std::vector<std::pair<int32_t, int64_t>> hits;
    for (int64_t i = 0; i < sdk::Count(dims); ++i) {
      const auto found = places.find(c.input<int64_t>(0)[i]);
      if (found != places.end()) hits.emplace_back(static_cast<int32_t>(i / true_count), found->second);
    }
    const int64_t count = static_cast<int64_t>(hits.size());
    for (int32_t i = 0; i < 3; ++i) c.AllocOutput(i, {&count, 1});
    for (size_t i = 0; i < hits.size(); ++i) {
      c.output<int32_t>(0)[i] = hits[i].first;
      c.output<int64_t>(1)[i] = hits[i].second;
      c.output<float>(2)[i] = -std::numeric_limits<float>::max();
    }
  }
  int64_t true_count;
};

constexpr sdk::Traits kDrawsCandidates = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL};

}  // namespace

TENON_CPU_KERNEL(LogUniformCandidateSampler) = CpuKernel<SamplerKernel<LogUniform>>("LogUniformCandidateSampler",
                                                                                    kDrawsCandidates);
TENON_CPU_KERNEL(UniformCandidateSampler) = CpuKernel<SamplerKernel<EquallyLikely>>("UniformCandidateSampler",
                                                                                    kDrawsCandidates);
TENON_CPU_KERNEL(FixedUnigramCandidateSampler) = CpuKernel<SamplerKernel<Weighted>>("FixedUnigramCandidateSampler",
                                                                                    kDrawsCandidates);
TENON_CPU_KERNEL(LearnedUnigramCandidateSampler) = CpuKernel<SamplerKernel<Learned>>("LearnedUnigramCandidateSampler",
                                                                                     kDrawsCandidates);
TENON_CPU_KERNEL(ThreadUnsafeUnigramCandidateSampler) =
    CpuKernel<SamplerKernel<Learned>>("ThreadUnsafeUnigramCandidateSampler", kDrawsCandidates);
TENON_CPU_KERNEL(AllCandidateSampler) = CpuKernel<AllKernel>("AllCandidateSampler", kDrawsCandidates);
TENON_CPU_KERNEL(ComputeAccidentalHits) = CpuKernel<HitsKernel>("ComputeAccidentalHits",
                                                                {.dynamic_outputs = TENON_DYNAMIC_ALL});

}  // namespace tenon::cpu
