// SPDX-License-Identifier: Apache-2.0
// RandomUniform, RandomStandardNormal, TruncatedNormal, RandomUniformInt: the streams of tenon/extras/kernel/random.h,
// which are the same on every device. A run takes its part of the stream when it is submitted.
#include "tenon/extras/kernel/random.h"

#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

struct StreamKernel {
  explicit StreamKernel(sdk::CreateContext& c) : op(OpName(c.op())), stream(c) {}
  static Cycles CyclesOf(const Machine& machine, const View& view) {
    constexpr int64_t kOperations = 40;  // of the vector unit for one element
    return VectorCycles(machine, sdk::Multiply(sdk::Count(view), kOperations), 0, static_cast<int64_t>(view.byte_size));
  }
  static double Cost(sdk::KernelQuery& question) {
    return SecondsOf(question, [&question](const Machine& machine) { return CyclesOf(machine, question.output(0)); });
  }
  template <class T, class Distribution>
  void Draw(const sdk::RunContext& c, const Distribution& distribution) const {
    const View& view = c.output_view(0);
    const int64_t n = sdk::Count(view);
    const Cycles cost = CyclesOf(Device::Of(c.frame()->device)->options().machine, view);
    Submit(c, op, cost, [base = stream.Reserve(n), distribution, n, out = Address(c, view, "output", 0)] {
      sdk::GenerateGroups(base, distribution, n, 0, sdk::GroupsOf<T>(n), reinterpret_cast<T*>(out));
    });
  }
  const char* op;
  sdk::Stream stream;
};

template <class Distribution>
struct RandomKernel : StreamKernel {
  using StreamKernel::StreamKernel;
  void Run(sdk::RunContext c) const {
    Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) { Draw<T>(c, Distribution()); });
  }
};

// The bounds lie on the host, as the shape does.
struct RandomIntKernel : StreamKernel {
  using StreamKernel::StreamKernel;
  void Run(sdk::RunContext c) const {
    sdk::Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      using U = std::make_unsigned_t<T>;
      const T low = *c.input<T>(1), high = *c.input<T>(2);
      if (low >= high) sdk::Fail(TENON_INVALID_ARGUMENT, "Need minval < maxval, got ", low, " >= ", high);
      Draw<T>(c, sdk::UniformInteger<T>{low, static_cast<U>(static_cast<U>(high) - static_cast<U>(low))});
    });
  }
};

constexpr uint32_t kFlags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL;
constexpr tenon_span kShape[] = {TENON_SPAN("shape")};
constexpr tenon_span kShapeAndBounds[] = {TENON_SPAN("shape"), TENON_SPAN("minval"), TENON_SPAN("maxval")};
constexpr sdk::Traits kRandomTraits = {
    .constraints = sdk::Constraints<Reals::Constraint<"dtype">>::list, .host_memory = kShape, .flags = kFlags};

}  // namespace

TENON_TPU_PLAIN_KERNEL(RandomUniform) = PlainKernel<RandomKernel<sdk::Uniform>>("RandomUniform", kRandomTraits);
TENON_TPU_PLAIN_KERNEL(RandomStandardNormal) = PlainKernel<RandomKernel<sdk::Normal>>("RandomStandardNormal",
                                                                                      kRandomTraits);
TENON_TPU_PLAIN_KERNEL(TruncatedNormal) = PlainKernel<RandomKernel<sdk::Truncated>>("TruncatedNormal", kRandomTraits);
TENON_TPU_PLAIN_KERNEL(RandomUniformInt) = PlainKernel<RandomIntKernel>(
    "RandomUniformInt", {.constraints = sdk::Constraints<sdk::Indices::Constraint<"Tout">>::list,
                         .host_memory = kShapeAndBounds,
                         .flags = kFlags});

}  // namespace tenon::tpu_sim
