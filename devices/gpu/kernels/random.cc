// SPDX-License-Identifier: Apache-2.0
// Random numbers, with a state and without: the streams of tenon/extras/kernel/random.h, which are the same on every
// device. A run of an op with a state takes its part of the stream when it is run on the device.
#include "code/random.h"

#include <memory>
#include <mutex>

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

// ---- With a state ----

// How many blocks of a stream were taken: a word of the device's memory, which kernels move on, so that work that is
// kept and done again draws other numbers each time.
class Position {
 public:
  explicit Position(Device& device) : device_(device.weak_from_this()) {
    void* word = nullptr;
    Outcome outcome = device.Allocate(kDeviceKind, sizeof(uint64_t), kDeviceAlignment, nullptr, &word);
    if (outcome.ok()) outcome = device.Note(SetToZero(device, word));
    if (!outcome.ok()) {
      if (word != nullptr) device.Free(kDeviceKind, word, nullptr);
      sdk::Fail(outcome.code, outcome.message);
    }
    word_ = static_cast<uint64_t*>(word);
  }
  ~Position() {
    if (const auto device = device_.lock()) device->Free(kDeviceKind, word_, nullptr);
  }
  Position(const Position&) = delete;
  Position& operator=(const Position&) = delete;
  uint64_t* word() const { return word_; }

 private:
  // Waits until it is: whatever queue reads it first.
  static Outcome SetToZero(Device& device, void* word) {
    Stream stream = nullptr;
    Outcome outcome = device.TakeCaptureStream(&stream);
    if (!outcome.ok()) return outcome;
    outcome = device.card().Fill(word, 0, 4, 2, stream);
    if (outcome.ok()) outcome = device.card().Synchronize(stream);
    device.ReturnCaptureStream(stream);
    return outcome;
  }
  const std::weak_ptr<Device> device_;
  uint64_t* word_ = nullptr;
};

// Made for a node on one device; shared by all runs, from any thread.
struct StreamKernel {
  StreamKernel(sdk::CreateContext& c, std::string_view code) : stream(c), code(code) {}
  struct Plan {
    Plan(const StreamKernel& kernel, sdk::PrepareContext& c) {
      const tenon_prepare_args& a = c.args();
      Shapes s(a.inputs, a.input_count, a.outputs, a.output_count, 0, RequireOwn(a.device), a.precision, {}, {});
      code = s.Code(kernel.code, s.output(0).dtype);
      take = s.Code("TakeOfStream");
      position = kernel.PositionOn(s.device());
      s.Workspace(sizeof(uint64_t));
      c.Workspace(s.workspace_bytes() + kDeviceAlignment);
    }
    Function code, take;
    std::shared_ptr<Position> position;
  };
  std::shared_ptr<Position> PositionOn(Device& device) const {
    const std::lock_guard lock(mutex);
    if (position == nullptr) position = std::make_shared<Position>(device);
    return position;
  }
  void Draw(const Plan& plan, const sdk::RunContext& c, int64_t low, uint64_t range) const {
    const View& view = c.output_view(0);
    const int64_t n = sdk::Count(view);
    if (n == 0) return;
    SubmitTo(*c.frame(), AlignedWorkspace(*c.frame()), [&](Launcher& on) {
      auto* const taken = on.Workspace<uint64_t>(0);
      on(plan.take, Flat(1),
         TakeParams{plan.position->word(), taken, static_cast<uint64_t>(n) * sdk::kReservedPerOutput});
      on(plan.code, Flat((n + 1) / 2),
         RandomParams{sdk::Philox(stream.seed[0], stream.seed[1]), taken, sdk::Data<void>(view), n, low, range});
    });
  }
  const sdk::Stream stream;
  const std::string_view code;
  mutable std::mutex mutex;
  mutable std::shared_ptr<Position> position;
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
  void Launch(Launcher& on, void* out) const {
    on(code, Flat((count + 1) / 2), RandomParams{base, nullptr, out, count, 0, 0});
  }
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
  static constexpr HostInput kHostInputs[] = {
      {TENON_SPAN("shape"), 0}, {TENON_SPAN("key"), 1}, {TENON_SPAN("counter"), 2}, {TENON_SPAN("alg"), 3}};
  struct Plan : Seeded {
    Plan(const KeyedKernel&, Shapes& s) : Seeded(kCode.data, s, Generator(s)) {}
    void Launch(Launcher& on, char* const* at) const { Seeded::Launch(on, at[4]); }
    static sdk::Philox Generator(const Shapes& s) {
      if (sdk::Count(s.input(1)) != 1 || sdk::Count(s.input(2)) < 2) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Philox needs a key of 1 number and a counter of 2; the shapes are ", s.in(1),
                  " and ", s.in(2));
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

constexpr uint32_t kFlags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL | TENON_KERNEL_CAPTURE_SAFE;
constexpr tenon_span kShape[] = {TENON_SPAN("shape")};
constexpr tenon_span kShapeAndBounds[] = {TENON_SPAN("shape"), TENON_SPAN("minval"), TENON_SPAN("maxval")};
constexpr tenon_span kSeedAndAnswers[] = {TENON_SPAN("seed"), TENON_SPAN("key"), TENON_SPAN("counter")};
constexpr sdk::Traits kTraits = {
    .constraints = sdk::Constraints<Floats::Constraint<"dtype">>::list, .host_memory = kShape, .flags = kFlags};
constexpr sdk::Traits kStateless = {.constraints = sdk::Constraints<Floats::Constraint<"dtype">>::list};

}  // namespace

TENON_GPU_KERNEL(RandomUniform) = PlainKernel<RandomKernel<"Uniform">>("RandomUniform", kTraits);
TENON_GPU_KERNEL(RandomStandardNormal) = PlainKernel<RandomKernel<"Normal">>("RandomStandardNormal", kTraits);
TENON_GPU_KERNEL(TruncatedNormal) = PlainKernel<RandomKernel<"Truncated">>("TruncatedNormal", kTraits);
TENON_GPU_KERNEL(RandomUniformInt) = PlainKernel<RandomIntKernel>(
    "RandomUniformInt", {.constraints = sdk::Constraints<sdk::Indices::Constraint<"Tout">>::list,
                         .host_memory = kShapeAndBounds,
                         .flags = kFlags});
TENON_GPU_KERNEL(StatelessRandomUniform) = Kernel<SeededKernel<"Uniform">>("StatelessRandomUniform", kStateless);
TENON_GPU_KERNEL(StatelessRandomNormal) = Kernel<SeededKernel<"Normal">>("StatelessRandomNormal", kStateless);
TENON_GPU_KERNEL(StatelessTruncatedNormal) = Kernel<SeededKernel<"Truncated">>("StatelessTruncatedNormal", kStateless);
TENON_GPU_KERNEL(StatelessRandomUniformV2) = Kernel<KeyedKernel<"Uniform">>("StatelessRandomUniformV2", kStateless);
TENON_GPU_KERNEL(StatelessRandomNormalV2) = Kernel<KeyedKernel<"Normal">>("StatelessRandomNormalV2", kStateless);
TENON_GPU_KERNEL(StatelessTruncatedNormalV2) = Kernel<KeyedKernel<"Truncated">>("StatelessTruncatedNormalV2",
                                                                                kStateless);
TENON_GPU_KERNEL(StatelessRandomGetKeyCounter) = PlainKernel<KeyCounterKernel>("StatelessRandomGetKeyCounter",
                                                                               {.host_memory = kSeedAndAnswers});

}  // namespace tenon::gpu
