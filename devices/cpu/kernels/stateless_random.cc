// SPDX-License-Identifier: Apache-2.0
// Random numbers without a state, RandomShuffle, LogUniformCandidateSampler, ComputeAccidentalHits: TensorFlow's bits.
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/types.h"
#include "tenon/sdk/kernel/random.h"

namespace tenon::cpu {
namespace {

using sdk::KeyCounter;

template <class Distribution>
void Generate(sdk::RunContext c, const sdk::Philox& base) {
  Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
    T* out = c.output<T>(0);
    const int64_t n = sdk::Count(c.output_view(0));
    c.ParallelFor(sdk::GroupsOf<T>(n), std::is_same_v<Distribution, sdk::Uniform> ? 2 : 40, [&](int64_t begin, int64_t end) {
      sdk::GenerateGroups(base, Distribution(), n, begin, end, out);
    });
  });
}

struct SeededKernel {
  void Run(sdk::RunContext c) const { Generate<sdk::Uniform>(c, KeyCounter(c.input_view(1)).generator()); }
};

template <class Distribution>
struct KeyedKernel {
  void Run(sdk::RunContext c) const {
    if (sdk::Count(c.input_view(1)) != 1 || sdk::Count(c.input_view(2)) < 2) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "Philox needs a key of 1 number and a counter of 2; the shapes are ", sdk::DimsOf(c.input_view(1)), " and ",
                sdk::DimsOf(c.input_view(2)));
    }
    if (sdk::Count(c.output_view(0)) == 0) return;  // of any algorithm
    const int32_t algorithm = *c.input<int32_t>(3);
    // 1 is Philox, 3 leaves the choice to the device.
    if (algorithm != 1 && algorithm != 3) sdk::Fail(TENON_INVALID_ARGUMENT, "algorithm ", algorithm, "; the CPU has 1, Philox, and 3, its own choice");
    const uint64_t key = *c.input<uint64_t>(1), low = c.input<uint64_t>(2)[0], high = c.input<uint64_t>(2)[1];
    Generate<Distribution>(c, sdk::KeyedPhilox(key, low, high));
  }
};

struct KeyCounterKernel {
  void Run(sdk::RunContext c) const {
    const KeyCounter seeded(c.input_view(0));
    *c.output<uint64_t>(0) = seeded.key;
    c.output<uint64_t>(1)[0] = 0;
    c.output<uint64_t>(1)[1] = seeded.counter;
  }
};

// One number of a block after the other.
class Numbers32 {
 public:
  explicit Numbers32(sdk::Philox generator) : generator_(generator) {}
  uint32_t Next() {
    if (used_ == 4) block_ = generator_.Next(), used_ = 0;
    return block_[used_++];
  }
  double NextDouble() {
    const uint32_t first = Next();
    return sdk::UnitDouble(first, Next());
  }

 private:
  sdk::Philox generator_;
  sdk::Philox::Block block_ = {};
  size_t used_ = 4;
};

// So many 32-bit numbers are reserved for this run, in whole blocks.
Numbers32 Reserve(const sdk::Stream& stream, int64_t numbers) {
  sdk::Philox generator(stream.seed[0], stream.seed[1]);
  generator.Skip(stream.used.fetch_add(static_cast<uint64_t>(numbers + 3) / 4, std::memory_order_relaxed));
  return Numbers32(generator);
}

struct ShuffleKernel {
  explicit ShuffleKernel(sdk::CreateContext& c) : stream(c) {}
  struct Plan {
    Plan(const ShuffleKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      rows = dims.empty() ? 1 : dims[0];
      order = c.Workspace(sdk::Multiply(rows, sizeof(int64_t)));
    }
    int64_t rows, order;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t rows = plan.rows, bytes = static_cast<int64_t>(c.input_view(0).byte_size);
    if (bytes == 0) return;
    int64_t* order = c.workspace<int64_t>(plan.order);
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    if (rows > 1 && sdk::Count(c.input_view(0)) > 1) {
      Numbers32 numbers = Reserve(stream, rows - 1);
      for (int64_t i = 0; i + 1 < rows; ++i) std::swap(order[i], order[i + numbers.Next() % static_cast<uint32_t>(rows - i)]);
    }
    const int64_t row = bytes / rows;
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(c.output<char>(0) + i * row, c.input<char>(0) + order[i] * row, static_cast<size_t>(row));
    }
  }
  sdk::Stream stream;
};

// A class k is drawn with the probability log((k + 2) / (k + 1)) / log(range + 1).
struct LogUniformKernel {
  explicit LogUniformKernel(sdk::CreateContext& c)
      : stream(c), range(c.Int("range_max")), sampled(c.Int("num_sampled")), true_count(c.Int("num_true")), unique(c.Bool("unique")),
        log_range(std::log1p(static_cast<double>(range))) {
    if (unique && sampled > range) c.Invalid("Sampler's range is too small: ", sampled, " different classes of ", range);
  }
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims.size() != 2 || dims[1] != true_count) sdk::Fail(TENON_INVALID_ARGUMENT, "true_classes of shape ", dims, " must have ", true_count, " columns");
    for (int64_t i = 0; i < sdk::Count(dims); ++i) {
      const int64_t value = c.input<int64_t>(0)[i];
      if (value < 0 || value >= range) sdk::Fail(TENON_INVALID_ARGUMENT, "true_classes has ", value, ", which is not in [0, ", range, ")");
    }
    constexpr int64_t kNumbersPerSample = 2048;
    Numbers32 numbers = Reserve(stream, kNumbersPerSample * sampled);
    const int64_t tries = Draw(c, numbers, c.output<int64_t>(0));
    for (int64_t i = 0; i < sampled; ++i) c.output<float>(2)[i] = Expected(c.output<int64_t>(0)[i], tries);
    for (int64_t i = 0; i < sdk::Count(dims); ++i) c.output<float>(1)[i] = Expected(c.input<int64_t>(0)[i], tries);
  }

 private:
  int64_t One(Numbers32& numbers) const { return (static_cast<int64_t>(std::exp(numbers.NextDouble() * log_range)) - 1) % range; }
  // How often it drew.
  int64_t Draw(const sdk::RunContext& c, Numbers32& numbers, int64_t* out) const {
    std::unordered_set<int64_t> seen;
    int64_t tries = 0;
    for (int64_t i = 0; i < sampled; ++tries) {
      // The last of nearly all classes may take very long to find.
      if (tries % 65536 == 65535 && c.cancelled()) sdk::Fail(TENON_CANCELLED, "the step was cancelled while ", sampled, " different classes of ", range, " were drawn");
      const int64_t value = One(numbers);
      if (!unique || seen.insert(value).second) out[i++] = value;
    }
    return tries;
  }
  float Expected(int64_t value, int64_t tries) const {
    const auto k = static_cast<double>(value);
    const auto p = static_cast<float>(std::log((k + 2.0) / (k + 1.0)) / log_range);
    if (tries == sampled) return p * static_cast<float>(sampled);
    return -std::expm1(static_cast<float>(tries) * std::log1p(-p));
  }

  sdk::Stream stream;
  int64_t range, sampled, true_count;
  bool unique;
  double log_range;
};

struct HitsKernel {
  explicit HitsKernel(sdk::CreateContext& c) : true_count(c.Int("num_true")) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims.size() != 2 || dims[1] != true_count) sdk::Fail(TENON_INVALID_ARGUMENT, "true_classes of shape ", dims, " must have ", true_count, " columns");
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

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<Reals::Constraint<"dtype">>::list};
constexpr uint32_t kStateful = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL;

}  // namespace

TENON_CPU_KERNEL(StatelessRandomUniform) = CpuKernel<SeededKernel>("StatelessRandomUniform", kTraits);
TENON_CPU_KERNEL(StatelessRandomUniformV2) = CpuKernel<KeyedKernel<sdk::Uniform>>("StatelessRandomUniformV2", kTraits);
TENON_CPU_KERNEL(StatelessRandomNormalV2) = CpuKernel<KeyedKernel<sdk::Normal>>("StatelessRandomNormalV2", kTraits);
TENON_CPU_KERNEL(StatelessTruncatedNormalV2) = CpuKernel<KeyedKernel<sdk::Truncated>>("StatelessTruncatedNormalV2", kTraits);
TENON_CPU_KERNEL(StatelessRandomGetKeyCounter) = CpuKernel<KeyCounterKernel>("StatelessRandomGetKeyCounter", {});
TENON_CPU_KERNEL(RandomShuffle) =
    CpuKernel<ShuffleKernel>("RandomShuffle", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .flags = kStateful});
TENON_CPU_KERNEL(LogUniformCandidateSampler) = CpuKernel<LogUniformKernel>("LogUniformCandidateSampler", {.flags = kStateful});
TENON_CPU_KERNEL(ComputeAccidentalHits) = CpuKernel<HitsKernel>("ComputeAccidentalHits", {.dynamic_outputs = TENON_DYNAMIC_ALL});

}  // namespace tenon::cpu
