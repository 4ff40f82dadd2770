// SPDX-License-Identifier: Apache-2.0
// WAV files that lie, end early or are mutated.
#include <gtest/gtest.h>

#include <random>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kDecodeWavKernel, kEncodeWavKernel;
}  // namespace tenon::ops

namespace tenon::ops::wav_test {
namespace {

using testing::KernelRunner;
using testing::Make;
using testing::Outcome;
using testing::Tensor;
using testing::Values;

std::string Encode(const Tensor& audio, int32_t rate) {
  const Tensor per_second = testing::Scalar(rate);
  KernelRunner step;
  EXPECT_TRUE(step.Run(kEncodeWavKernel, {"EncodeWav", {}, {TENON_DT_FLOAT, TENON_DT_INT32}, {TENON_DT_STRING}},
                       {&audio, &per_second})
                  .ok());
  return testing::Texts(step.outputs.at(0))[0];
}
Outcome Decode(const std::string& bytes, std::vector<Tensor>* out = nullptr) {
  const Tensor contents = testing::Strings({}, {bytes});
  KernelRunner step;
  const Outcome outcome = step.Run(kDecodeWavKernel,
                                   {"DecodeWav",
                                    {{"desired_channels", int64_t{-1}}, {"desired_samples", int64_t{-1}}},
                                    {TENON_DT_STRING},
                                    {TENON_DT_FLOAT, TENON_DT_INT32}},
                                   {&contents});
  if (out != nullptr && outcome.ok()) *out = std::move(step.outputs);
  return outcome;
}
std::string Sound() { return Encode(Make<float>({3, 2}, {0, 0.5f, -1, 0.25f, -0.125f, 0.75f}), 8000); }

TEST(Wav, ComesBackAsItWas) {
  std::vector<Tensor> out;
  ASSERT_TRUE(Decode(Sound(), &out).ok());
  EXPECT_EQ(out[0].dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{0, 0.5f, -1, 0.25f, -0.125f, 0.75f}));
  EXPECT_EQ(Values<int32_t>(out[1]), std::vector<int32_t>{8000});
}

TEST(Wav, ASizeThatLiesIsMetByWhatIsThere) {
  std::string wav = Sound();
  wav.replace(40, 4, "\xff\xff\xff\xff");
  const Outcome outcome = Decode(wav);
  EXPECT_EQ(outcome.code, TENON_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("ends within data, which takes 4294967295 bytes; 12 are left"), std::string::npos)
      << outcome.message;
  EXPECT_EQ(Decode("").code, TENON_INVALID_ARGUMENT);
}

TEST(Wav, MutationsAreDecodedOrRefused) {
  std::mt19937_64 random(7);
  const std::string whole = Sound();
  int decoded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string wav = whole;
    for (int edits = static_cast<int>(random() % 3) + 1; edits > 0 && !wav.empty(); --edits) {
      const size_t at = random() % wav.size();
      if (random() % 4 == 0) wav.resize(at);
      else wav[at] = static_cast<char>(random());
    }
    const Outcome outcome = Decode(wav);
    decoded += outcome.ok() ? 1 : 0;
    EXPECT_TRUE(outcome.ok() || outcome.code == TENON_INVALID_ARGUMENT) << outcome.message;
  }
  EXPECT_GT(decoded, 1000);
}

}  // namespace
}  // namespace tenon::ops::wav_test
