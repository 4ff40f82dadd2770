// SPDX-License-Identifier: Apache-2.0
// Random numbers without a state, and with one in a variable; RandomShuffle and StatelessShuffle: TensorFlow's bits.
#include <cstring>
#include <utility>

#include "kernels/common/string_copy.h"
#include "kernels/common/types.h"
#include "tenon/extras/kernel/random.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

using sdk::KeyCounter;

template <class T, class Distribution>
void GenerateAs(const sdk::RunContext& c, const sdk::Philox& base, const Distribution& distribution) {
  T* out = c.output<T>(0);
  const int64_t n = sdk::Count(c.output_view(0));
  c.ParallelFor(sdk::GroupsOf<T>(n),
                Distribution::template kBlocks<T> == 1 && !std::is_same_v<Distribution, sdk::Normal> ? 2 : 40,
                [&](int64_t begin, int64_t end) { sdk::GenerateGroups(base, distribution, n, begin, end, out); });
}

// What is drawn. Each says which dtypes it has, and checks what else the op is given, from input `more` on, before it
// fills output 0.
template <class Distribution>
struct Real {
  using Constraints = sdk::Constraints<Reals::Constraint<"dtype">>;
  static void Check(const sdk::RunContext&, int32_t) {}
  static void Fill(const sdk::RunContext& c, const sdk::Philox& base, int32_t) {
    Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) { GenerateAs<T>(c, base, Distribution()); });
  }
};

using AllWords = Types<int32_t, int64_t, uint32_t, uint64_t>;

struct AnyInteger {
  using Constraints = sdk::Constraints<AllWords::Constraint<"dtype">>;
  static void Check(const sdk::RunContext&, int32_t) {}
  static void Fill(const sdk::RunContext& c, const sdk::Philox& base, int32_t) {
    AllWords::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) { GenerateAs<T>(c, base, sdk::FullInteger<T>()); });
  }
};

struct IntegerBetween {
  using Constraints = sdk::Constraints<Indices::Constraint<"dtype">>;
  static void Check(const sdk::RunContext& c, int32_t more) {
    Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      if (*c.input<T>(more) >= *c.input<T>(more + 1))
        sdk::Fail(TENON_INVALID_ARGUMENT, "Need minval < maxval, got ", *c.input<T>(more),
                  " >= ", *c.input<T>(more + 1));
    });
  }
  static void Fill(const sdk::RunContext& c, const sdk::Philox& base, int32_t more) {
    Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      using U = std::make_unsigned_t<T>;
      const T low = *c.input<T>(more), high = *c.input<T>(more + 1);
      GenerateAs<T>(c, base, sdk::UniformInteger<T>{low, static_cast<U>(static_cast<U>(high) - static_cast<U>(low))});
    });
  }
};

// Inputs: shape, seed.
template <class Drawn>
struct SeededKernel {
  void Run(sdk::RunContext c) const {
    Drawn::Check(c, 2);
    Drawn::Fill(c, KeyCounter(c.input_view(1)).generator(), 2);
  }
};

// 1 is Philox, 3 leaves the choice to the device.
void CheckAlgorithm(int64_t algorithm) {
  if (algorithm != 1 && algorithm != 3)
    sdk::Fail(TENON_INVALID_ARGUMENT, "algorithm ", algorithm, "; the CPU has 1, Philox, and 3, its own choice");
}

// Of the inputs `first`, key, counter and algorithm.
sdk::Philox KeyedGenerator(const sdk::RunContext& c, int32_t first) {
  if (sdk::Count(c.input_view(first)) != 1 || sdk::Count(c.input_view(first + 1)) < 2) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "Philox needs a key of 1 number and a counter of 2; the shapes are ",
              sdk::DimsOf(c.input_view(first)), " and ", sdk::DimsOf(c.input_view(first + 1)));
  }
  return sdk::KeyedPhilox(*c.input<uint64_t>(first), c.input<uint64_t>(first + 1)[0], c.input<uint64_t>(first + 1)[1]);
}

// Inputs: shape, key, counter, algorithm.
template <class Drawn>
struct KeyedKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Philox generator = KeyedGenerator(c, 1);
    if (sdk::Count(c.output_view(0)) == 0) return;  // of any algorithm
    CheckAlgorithm(*c.input<int32_t>(3));
    Drawn::Check(c, 4);
    Drawn::Fill(c, generator, 4);
  }
};

// ---- With a state, in a variable of int64: the counter's two numbers and the key ----

// What the state was; it has gone so many blocks further when this returns.
struct State {
  uint64_t low, high, key;
  sdk::Philox generator() const { return sdk::KeyedPhilox(key, low, high); }
};
State Advance(const sdk::RunContext& c, uint64_t blocks) {
  sdk::Update update(c, c.resource(0), TENON_UPDATE_LOCK, TENON_DT_INT64);
  if (update.dims().size() != 1 || update.dims()[0] < 3)
    sdk::Fail(TENON_INVALID_ARGUMENT,
              "the state of a random generator must be a vector of 3 numbers at least, for Philox a counter of 2 and a "
              "key; its shape is ",
              update.dims());
  const auto* before = update.old_data<uint64_t>();
  const State state = {before[0], before[1], before[2]};
  update.BeginWriting();
  auto* after = update.new_data<uint64_t>();
  after[0] = state.low + blocks;
  // TensorFlow adds by halves, and loses the carry of nearly 2^64, which is how far a negative number skips.
  const bool lost =
      blocks >> 32 == 0xffffffffu && static_cast<uint32_t>(state.low) > 0xffffffffu - static_cast<uint32_t>(blocks);
  after[1] = state.high + (after[0] < state.low && !lost ? 1 : 0);
  update.Commit();
  return state;
}

// Inputs: resource, algorithm, shape.
template <class Drawn>
struct StatefulKernel {
  void Run(sdk::RunContext c) const {
    CheckAlgorithm(*c.input<int64_t>(1));
    Drawn::Check(c, 3);
    Drawn::Fill(
        c, Advance(c, static_cast<uint64_t>(sdk::Count(c.output_view(0))) * sdk::kReservedPerOutput).generator(), 3);
  }
};

struct SkipKernel {
  void Run(sdk::RunContext c) const {
    CheckAlgorithm(*c.input<int64_t>(1));
    Advance(c, static_cast<uint64_t>(*c.input<int64_t>(2)) * sdk::kReservedPerOutput);
  }
};

struct ReadAndSkipKernel {
  void Run(sdk::RunContext c) const {
    CheckAlgorithm(*c.input<int32_t>(1));
    const State before = Advance(c, *c.input<uint64_t>(2) * sdk::kReservedPerOutput);
    auto* out = c.output<uint64_t>(0);
    out[0] = before.low, out[1] = before.high, out[2] = before.key;
  }
};

// Philox's number, wherever it is asked.
struct AlgorithmKernel {
  void Run(sdk::RunContext c) const { *c.output<int32_t>(0) = 1; }
};

struct KeyCounterKernel {
  void Run(sdk::RunContext c) const {
    const KeyCounter seeded(c.input_view(0));
    *c.output<uint64_t>(0) = seeded.key;
    c.output<uint64_t>(1)[0] = 0;
    c.output<uint64_t>(1)[1] = seeded.counter;
    if (c.output_count() > 2) *c.output<int32_t>(2) = 1;
  }
};

// The rows of input 0 in another order.
struct ShufflePlan {
  template <class Kernel>
  ShufflePlan(const Kernel&, sdk::PrepareContext& c) {
    const sdk::Dims dims = sdk::DimsOf(c.input(0));
    rows = dims.empty() ? 1 : dims[0];
    order = c.Workspace(sdk::Multiply(rows, sizeof(int64_t)));
  }
  bool Moves(const sdk::RunContext& c) const { return rows > 1 && sdk::Count(c.input_view(0)) > 1; }
  void Copy(const sdk::RunContext& c, sdk::Numbers32* numbers) const {
    const auto bytes = static_cast<int64_t>(c.input_view(0).byte_size);
    if (bytes == 0) return;
    int64_t* at = c.workspace<int64_t>(order);
    const int64_t row = bytes / rows;
    const char* from = c.input<char>(0);
    char* to = c.output<char>(0);
    sdk::CancelPoll poll(c);
    constexpr int64_t kPiece = 4096;
    const auto in_pieces = [&](int64_t cost, const auto& each) {
      for (int64_t i = 0; i < rows;) {
        const int64_t end = std::min(rows, i + kPiece);
        poll((end - i) * cost);
        for (; i < end; ++i) each(i);
      }
    };
    in_pieces(2, [&](int64_t i) { at[i] = i; });
    if (numbers != nullptr) {
      in_pieces(40, [&](int64_t i) {
        if (i + 1 < rows) std::swap(at[i], at[i + numbers->Next() % static_cast<uint32_t>(rows - i)]);
      });
    }
    if (row == 4) return in_pieces(20, [&](int64_t i) { std::memcpy(to + i * 4, from + at[i] * 4, 4); });
    if (row == 8) return in_pieces(20, [&](int64_t i) { std::memcpy(to + i * 8, from + at[i] * 8, 8); });
    in_pieces(20 + row / 4,
              [&](int64_t i) { std::memcpy(to + i * row, from + at[i] * row, static_cast<size_t>(row)); });
  }
  int64_t rows, order;
};

struct ShuffleKernel {
  explicit ShuffleKernel(sdk::CreateContext& c) : stream(c) {}
  using Plan = ShufflePlan;
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (!plan.Moves(c)) return plan.Copy(c, nullptr);
    sdk::Numbers32 numbers = stream.ReserveNumbers(static_cast<uint64_t>(plan.rows - 1));
    plan.Copy(c, &numbers);
  }
  sdk::Stream stream;
};

// Inputs: value, key, counter, algorithm.
struct KeyedShuffleKernel {
  using Plan = ShufflePlan;
  void Run(const Plan& plan, sdk::RunContext c) const {
    CheckAlgorithm(*c.input<int32_t>(3));
    sdk::Numbers32 numbers(KeyedGenerator(c, 1));
    plan.Copy(c, plan.Moves(c) ? &numbers : nullptr);
  }
};

constexpr uint32_t kStateful = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL;
template <class Drawn>
constexpr sdk::Traits kOf = {.constraints = Drawn::Constraints::list};

using Uniform = Real<sdk::Uniform>;
using Normal = Real<sdk::Normal>;
using Truncated = Real<sdk::Truncated>;

}  // namespace

TENON_CPU_KERNEL(StatelessRandomUniform) = CpuKernel<SeededKernel<Uniform>>("StatelessRandomUniform", kOf<Uniform>);
TENON_CPU_KERNEL(StatelessRandomNormal) = CpuKernel<SeededKernel<Normal>>("StatelessRandomNormal", kOf<Normal>);
TENON_CPU_KERNEL(StatelessTruncatedNormal) = CpuKernel<SeededKernel<Truncated>>("StatelessTruncatedNormal",
                                                                                kOf<Truncated>);
TENON_CPU_KERNEL(StatelessRandomUniformInt) = CpuKernel<SeededKernel<IntegerBetween>>("StatelessRandomUniformInt",
                                                                                      kOf<IntegerBetween>);
TENON_CPU_KERNEL(StatelessRandomUniformFullInt) = CpuKernel<SeededKernel<AnyInteger>>("StatelessRandomUniformFullInt",
                                                                                      kOf<AnyInteger>);
TENON_CPU_KERNEL(StatelessRandomUniformV2) = CpuKernel<KeyedKernel<Uniform>>("StatelessRandomUniformV2", kOf<Uniform>);
TENON_CPU_KERNEL(StatelessRandomNormalV2) = CpuKernel<KeyedKernel<Normal>>("StatelessRandomNormalV2", kOf<Normal>);
TENON_CPU_KERNEL(StatelessTruncatedNormalV2) = CpuKernel<KeyedKernel<Truncated>>("StatelessTruncatedNormalV2",
                                                                                 kOf<Truncated>);
TENON_CPU_KERNEL(StatelessRandomUniformIntV2) = CpuKernel<KeyedKernel<IntegerBetween>>("StatelessRandomUniformIntV2",
                                                                                       kOf<IntegerBetween>);
TENON_CPU_KERNEL(StatelessRandomUniformFullIntV2) =
    CpuKernel<KeyedKernel<AnyInteger>>("StatelessRandomUniformFullIntV2", kOf<AnyInteger>);
TENON_CPU_KERNEL(StatelessRandomGetKeyCounter) = CpuKernel<KeyCounterKernel>("StatelessRandomGetKeyCounter", {});
TENON_CPU_KERNEL(StatelessRandomGetKeyCounterAlg) = CpuKernel<KeyCounterKernel>("StatelessRandomGetKeyCounterAlg", {});
TENON_CPU_KERNEL(StatelessRandomGetAlg) = CpuKernel<AlgorithmKernel>("StatelessRandomGetAlg", {});
TENON_CPU_KERNEL(StatefulUniform) = CpuKernel<StatefulKernel<Uniform>>("StatefulUniform", kOf<Uniform>);
TENON_CPU_KERNEL(StatefulStandardNormalV2) = CpuKernel<StatefulKernel<Normal>>("StatefulStandardNormalV2", kOf<Normal>);
TENON_CPU_KERNEL(StatefulTruncatedNormal) = CpuKernel<StatefulKernel<Truncated>>("StatefulTruncatedNormal",
                                                                                 kOf<Truncated>);
TENON_CPU_KERNEL(StatefulUniformInt) = CpuKernel<StatefulKernel<IntegerBetween>>("StatefulUniformInt",
                                                                                 kOf<IntegerBetween>);
TENON_CPU_KERNEL(StatefulUniformFullInt) = CpuKernel<StatefulKernel<AnyInteger>>("StatefulUniformFullInt",
                                                                                 kOf<AnyInteger>);
TENON_CPU_KERNEL(RngSkip) = CpuKernel<SkipKernel>("RngSkip", {});
TENON_CPU_KERNEL(RngReadAndSkip) = CpuKernel<ReadAndSkipKernel>("RngReadAndSkip", {});
TENON_CPU_KERNEL(RandomShuffle) = CpuKernel<ShuffleKernel>("RandomShuffle",
                                                           {.constraints = sdk::Constraints<PlainConstraint<"T">>::list,
                                                            .flags = kStateful});
TENON_CPU_KERNEL(RandomShuffleString) = CpuKernel<StringKernel<ShuffleKernel>>(
    "RandomShuffle", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list,
                      .flags = kStateful,
                      .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(StatelessShuffleString) = CpuStringKernel<KeyedShuffleKernel>("StatelessShuffle");
TENON_CPU_KERNEL(StatelessShuffle) =
    CpuKernel<KeyedShuffleKernel>("StatelessShuffle", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list});

}  // namespace tenon::cpu
