// SPDX-License-Identifier: Apache-2.0
// Random numbers, with a state and without: the streams of tenon/sdk/kernel/random.h, which are the same on every device. A run of an
// op with a state takes its part of the stream when it is submitted, so that its work cannot be kept and done again.
#include "code/random.h"

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

// ---- With a state ----

struct StreamKernel {
  StreamKernel(sdk::CreateContext& c, std::string_view code) : stream(c), code(code) {}
  struct Plan {
    Plan(const StreamKernel& kernel, sdk::PrepareContext& c) {
      const tenon_prepare_args& a = c.args();
      const Shapes s(a.inputs, a.input_count, a.outputs, a.output_count, 0, RequireOwn(a.device), a.precision, {}, {});
      code = s.Code(kernel.code, s.output(0).dtype);
    }
    Function code;
  };
  void Draw(const Plan& plan, const sdk::RunContext& c, int64_t low, uint64_t range) const {
    const View& view = c.output_view(0);
    const int64_t n = sdk::Count(view);
    const RandomParams params = {stream.Reserve(n), sdk::Data<void>(view), n, low, range};
    SubmitTo(*c.frame(), [&](Launcher& on) { on(plan.code, Flat((n + 1) / 2), params); });
  }
  sdk::Stream stream;
  const std::string_view code;
};

template <sdk::FixedString kCode>
struct RandomKernel : StreamKernel {
  explicit RandomKernel(sdk::CreateContext& c) : StreamKernel(c, kCode.data) {}
  void Run(const Plan& plan, sdk::RunContext c) const { Draw(plan, c, 0, 0); }
};

// The bounds lie on the host, as the shape does.
struct RandomIntKernel : StreamKernel {
  explicit RandomIntKernel(sdk::CreateContext& c) : StreamKernel(c, "UniformInteger") {}
  void Run(const Plan& plan, sdk::RunContext c) const {
    sdk::Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      using U = std::make_unsigned_t<T>;
      const T low = *c.input<T>(1), high = *c.input<T>(2);
      if (low >= high) sdk::Fail(TENON_INVALID_ARGUMENT, "Need minval < maxval, got ", low, " >= ", high);
      Draw(plan, c, low, static_cast<U>(static_cast<U>(high) - static_cast<U>(low)));
    });
  }
};

// ---- Without ----

struct Seeded {
  Seeded(std::string_view code, Shapes& s, const sdk::Philox& base)
      : base(base), count(sdk::Count(s.out(0))), code(s.Code(code, s.output(0).dtype)) {}
  void Launch(Launcher& on, void* out) const { on(code, Flat((count + 1) / 2), RandomParams{base, out, count, 0, 0}); }
  sdk::Philox base;
  int64_t count;
  Function code;
};

template <sdk::FixedString kCode>
struct SeededKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("shape"), 0}, {TENON_SPAN("seed"), 1}};
  struct Plan : Seeded {
    Plan(const SeededKernel&, Shapes& s) : Seeded(kCode.data, s, sdk::KeyCounter(s.input(1)).generator()) {}
    void Launch(Launcher& on, char* const* at) const { Seeded::Launch(on, at[2]); }
  };
};

template <sdk::FixedString kCode>
struct KeyedKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("shape"), 0}, {TENON_SPAN("key"), 1}, {TENON_SPAN("counter"), 2}, {TENON_SPAN("alg"), 3}};
  struct Plan : Seeded {
    Plan(const KeyedKernel&, Shapes& s) : Seeded(kCode.data, s, Generator(s)) {}
    void Launch(Launcher& on, char* const* at) const { Seeded::Launch(on, at[4]); }
    static sdk::Philox Generator(const Shapes& s) {
      if (sdk::Count(s.input(1)) != 1 || sdk::Count(s.input(2)) < 2) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Philox needs a key of 1 number and a counter of 2; the shapes are ", s.in(1), " and ", s.in(2));
      }
      const auto* counter = sdk::Data<const uint64_t>(s.input(2));
      const sdk::Philox generator = sdk::KeyedPhilox(*sdk::Data<const uint64_t>(s.input(1)), counter[0], counter[1]);
      if (sdk::Count(s.out(0)) == 0) return generator;  // of any algorithm
      const int64_t algorithm = s.Integer(3);
      // 1 is Philox, 3 leaves the choice to the device.
      if (algorithm != 1 && algorithm != 3) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "algorithm ", algorithm, "; GPUs have 1, Philox, and 3, their own choice");
      }
      return generator;
    }
  };
};

// Of a seed on the host for the kernels above, whose keys lie there too.
struct KeyCounterKernel {
  void Run(sdk::RunContext c) const {
    const sdk::KeyCounter seeded(c.input_view(0));
    *c.output<uint64_t>(0) = seeded.key;
    c.output<uint64_t>(1)[0] = 0;
    c.output<uint64_t>(1)[1] = seeded.counter;
  }
};

constexpr uint32_t kFlags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL;
constexpr tenon_span kShape[] = {TENON_SPAN("shape")};
constexpr tenon_span kShapeAndBounds[] = {TENON_SPAN("shape"), TENON_SPAN("minval"), TENON_SPAN("maxval")};
constexpr tenon_span kSeedAndAnswers[] = {TENON_SPAN("seed"), TENON_SPAN("key"), TENON_SPAN("counter")};
constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<Floats::Constraint<"dtype">>::list, .host_memory = kShape, .flags = kFlags};
constexpr sdk::Traits kStateless = {.constraints = sdk::Constraints<Floats::Constraint<"dtype">>::list};

}  // namespace

TENON_GPU_KERNEL(RandomUniform) = PlainKernel<RandomKernel<"Uniform">>("RandomUniform", kTraits);
TENON_GPU_KERNEL(RandomStandardNormal) = PlainKernel<RandomKernel<"Normal">>("RandomStandardNormal", kTraits);
TENON_GPU_KERNEL(TruncatedNormal) = PlainKernel<RandomKernel<"Truncated">>("TruncatedNormal", kTraits);
TENON_GPU_KERNEL(RandomUniformInt) = PlainKernel<RandomIntKernel>(
    "RandomUniformInt", {.constraints = sdk::Constraints<sdk::Indices::Constraint<"Tout">>::list, .host_memory = kShapeAndBounds, .flags = kFlags});
TENON_GPU_KERNEL(StatelessRandomUniform) = Kernel<SeededKernel<"Uniform">>("StatelessRandomUniform", kStateless);
TENON_GPU_KERNEL(StatelessRandomNormal) = Kernel<SeededKernel<"Normal">>("StatelessRandomNormal", kStateless);
TENON_GPU_KERNEL(StatelessTruncatedNormal) = Kernel<SeededKernel<"Truncated">>("StatelessTruncatedNormal", kStateless);
TENON_GPU_KERNEL(StatelessRandomUniformV2) = Kernel<KeyedKernel<"Uniform">>("StatelessRandomUniformV2", kStateless);
TENON_GPU_KERNEL(StatelessRandomNormalV2) = Kernel<KeyedKernel<"Normal">>("StatelessRandomNormalV2", kStateless);
TENON_GPU_KERNEL(StatelessTruncatedNormalV2) = Kernel<KeyedKernel<"Truncated">>("StatelessTruncatedNormalV2", kStateless);
TENON_GPU_KERNEL(StatelessRandomGetKeyCounter) = PlainKernel<KeyCounterKernel>("StatelessRandomGetKeyCounter", {.host_memory = kSeedAndAnswers});

}  // namespace tenon::gpu
