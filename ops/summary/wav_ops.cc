// SPDX-License-Identifier: Apache-2.0
// DecodeWav and EncodeWav: sounds out of the bytes of a WAV file, and back.
#include <algorithm>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"
#include "wav.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Decode {
  explicit Decode(CreateContext& c) : channels(c.Int("desired_channels")), samples(c.Int("desired_samples")) {}
  void Run(RunContext c) const {
    const WavContents wav = ParseWav(StringAt(c.input_view(0), 0));
    const int64_t dims[] = {samples < 0 ? wav.frames : samples, channels < 0 ? wav.channels : channels};
    c.AllocOutput(0, dims);
    c.AllocOutput(1, Dims());
    c.output<int32_t>(1)[0] = static_cast<int32_t>(wav.rate);
    float* out = c.output<float>(0);
    CancelPoll poll(c);
    for (int64_t i = 0; i < dims[0]; ++i) {
      poll(dims[1] + 1);
      // Channels that are asked for beyond the file's are its last; what comes after its end is silence.
      for (int64_t k = 0; k < dims[1]; ++k)
        *out++ = i < wav.frames ? SampleOf(wav, i * wav.channels + std::min(k, wav.channels - 1)) : 0.0f;
    }
  }

 private:
  static float SampleOf(const WavContents& wav, int64_t i) {
    const auto low = static_cast<uint8_t>(wav.data[static_cast<size_t>(2 * i)]),
               high = static_cast<uint8_t>(wav.data[static_cast<size_t>(2 * i + 1)]);
    return static_cast<float>(static_cast<int16_t>(low | high << 8)) / 32768.0f;
  }
  const int64_t channels, samples;
};

struct Encode {
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    const int32_t rate = c.input<int32_t>(1)[0];
    if (rate <= 0) Fail(TENON_INVALID_ARGUMENT, "sample_rate must be positive; it is ", rate);
    if (dims[1] == 0) Fail(TENON_INVALID_ARGUMENT, "audio of shape ", dims, " has no channels");
    SetStrings(c, 0, Dims(), std::vector<std::string>{EncodeWav(c, c.input<float>(0), dims[0], dims[1], rate)});
  }
};

void DecodeShape(ShapeContext& c) {
  c.WithRank(0, 0);
  const int64_t channels = c.Int("desired_channels"), samples = c.Int("desired_samples");
  if (channels < -1) c.Invalid("desired_channels must be -1 or a number of channels; it is ", channels);
  if (samples < -1) c.Invalid("desired_samples must be -1 or a number of samples; it is ", samples);
  if (!c.ok()) return;
  c.SetOutput(0, {samples, channels});
  c.SetOutput(1, Shape::Scalar());
}
void EncodeShape(ShapeContext& c) {
  c.WithRank(0, 2);
  c.WithRank(1, 0);
  c.SetOutput(0, Shape::Scalar());
}

constexpr Traits kGivesWaves = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kDecodeWavKernel) = Registration<Decode>("DecodeWav", kGivesWaves);
TENON_KERNEL(kEncodeWavKernel) = Registration<Encode>("EncodeWav", kGivesWaves);

TENON_OP(kDecodeWav) = DefineOp({
    .name = "DecodeWav",
    .inputs = "contents: string",
    .outputs = "audio: float, sample_rate: int32",
    .attrs = "desired_channels: int = -1; desired_samples: int = -1",
    .constraints = "rank(contents) == 0",
    .doc = "The sound of a WAV of 16 bits, [samples, channels], in [-1, 1). Where it has fewer channels than are "
           "wanted its last one comes again; where it is "
           "shorter silence follows.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecodeShape>,
});

TENON_OP(kEncodeWav) = DefineOp({
    .name = "EncodeWav",
    .inputs = "audio: float, sample_rate: int32",
    .outputs = "contents: string",
    .constraints = "rank(audio) == 2; rank(sample_rate) == 0",
    .doc = "The sound [samples, channels] in [-1, 1] as the bytes of a WAV of 16 bits.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<EncodeShape>,
});

}  // namespace tenon::ops
