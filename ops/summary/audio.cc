// SPDX-License-Identifier: Apache-2.0
// AudioSummary and AudioSummaryV2: sounds as WAV in serialized Summary messages.
#include <algorithm>
#include <cmath>
#include <string>

#include "encode.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"
#include "tenon/bytes/wire.h"
#include "wav.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Fields of Summary, of Summary.Value and of Summary.Audio.
constexpr uint32_t kValueField = 1, kTagField = 1, kAudio = 6, kRate = 1, kChannels = 2, kFrames = 3, kEncoded = 4,
                   kType = 5;

}  // namespace

std::string EncodeSounds(const RunContext& c, std::string_view tag, const tenon_tensor_view& sounds, float rate,
                         int64_t most) {
  const Dims dims = DimsOf(sounds);
  if (!(rate > 0 && rate < 0x1p32f))
    Fail(TENON_INVALID_ARGUMENT, "sample_rate must be positive, and below 2^32; it is ", std::to_string(rate));
  if (dims.size() != 2 && dims.size() != 3)
    Fail(TENON_INVALID_ARGUMENT, "tensor must be [batch, frames] or [batch, frames, channels]; its shape is ", dims);
  const int64_t frames = dims[1], channels = dims.size() == 2 ? 1 : dims[2];
  if (channels == 0) Fail(TENON_INVALID_ARGUMENT, "tensor of shape ", dims, " has no channels");
  WireWriter summary;
  for (int64_t i = 0; i < std::min(most, dims[0]); ++i) {
    WireWriter audio, value;
    audio.Float(kRate, rate);
    audio.Varint(kChannels, static_cast<uint64_t>(channels));
    if (frames > 0) audio.Varint(kFrames, static_cast<uint64_t>(frames));
    audio.Bytes(kEncoded, EncodeWav(c, Data<const float>(sounds) + i * frames * channels, frames, channels,
                                    std::max(1L, std::lrint(rate))));
    audio.Bytes(kType, "audio/wav");
    value.Bytes(kTagField, Concat(tag, "/audio", most > 1 ? Concat("/", i) : std::string()));
    value.Bytes(kAudio, audio.bytes());
    summary.Bytes(kValueField, value.bytes());
  }
  return summary.bytes();
}

namespace {

struct SoundSummaries {
  explicit SoundSummaries(CreateContext& c)
      : most(c.Int("max_outputs")), rate(c.Has("sample_rate") ? c.Float("sample_rate") : 0) {}
  void Run(RunContext c) const {
    const std::string summary = EncodeSounds(c, StringAt(c.input_view(0), 0), c.input_view(1),
                                             c.input_count() > 2 ? c.input<float>(2)[0] : rate, most);
    SetStrings(c, 0, Dims(), std::vector<std::string_view>{summary});
  }

 private:
  const int64_t most;
  const float rate;
};

constexpr Traits kGivesSounds = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kAudioSummaryKernel) = Registration<SoundSummaries>("AudioSummary", kGivesSounds);
TENON_KERNEL(kAudioSummaryV2Kernel) = Registration<SoundSummaries>("AudioSummaryV2", kGivesSounds);

TENON_OP(kAudioSummary) = DefineOp({
    .name = "AudioSummary",
    .inputs = "tag: string, tensor: float",
    .outputs = "summary: string",
    .attrs = "sample_rate: float; max_outputs: int >= 1 = 3",
    .constraints = "rank(tag) == 0; rank(tensor) >= 2; rank(tensor) <= 3",
    .doc = "A summary of the first max_outputs sounds of tensor [batch, frames] or [batch, frames, channels], in [-1, "
           "1], as WAV.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
    .deprecated_at = 15,
    .deprecation = "Use AudioSummaryV2.",
});

TENON_OP(kAudioSummaryV2) = DefineOp({
    .name = "AudioSummaryV2",
    .inputs = "tag: string, tensor: float, sample_rate: float",
    .outputs = "summary: string",
    .attrs = "max_outputs: int >= 1 = 3",
    .constraints = "rank(tag) == 0; rank(tensor) >= 2; rank(tensor) <= 3; numel(sample_rate) == 1",
    .doc = "A summary of the first max_outputs sounds of tensor [batch, frames] or [batch, frames, channels], in [-1, "
           "1], as WAV.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
