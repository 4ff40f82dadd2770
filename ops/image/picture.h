// SPDX-License-Identifier: Apache-2.0
// What all pictures share: the format that their first bytes say, bounds on the size that they claim, and the output
// that their samples become.
#ifndef TENON_OPS_IMAGE_PICTURE_H_
#define TENON_OPS_IMAGE_PICTURE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

enum class Format { kUnknown, kJpeg, kPng, kGif, kBmp, kWebp, kJpegXl };

// By the first bytes.
Format FormatOf(std::string_view bytes);
// "JPEG", "PNG".
std::string_view NameOf(Format format);
// "89 50 4e 47, which is a PNG": how a text begins, for messages.
std::string BeginningOf(std::string_view bytes);

// INVALID_ARGUMENT unless the sides are at least 1 and the picture has at most 2^30 samples; most: of all frames
// together.
void CheckSize(std::string_view what, int64_t height, int64_t width, int64_t channels);
inline constexpr int64_t kMostSamples = int64_t{1} << 30;

// Output 0 of a decoder. Samples are decoded into it as they are, of one or two bytes, and then made what the output's
// type says.
class Samples {
 public:
  Samples(const sdk::RunContext& c, uint32_t dtype) : c_(c), dtype_(dtype) {}
  // Allocates the output, and gives the place of its samples, of `bytes` bytes each, no more than an element of the
  // output has.
  uint8_t* Take(sdk::Dims dims, size_t bytes);
  // exact: a byte becomes two by x * 257, as PNG says, and not by x * 256, as TensorFlow does where a format has bytes
  // alone.
  void Finish(bool exact);

 private:
  template <class From, class To, class Function>
  void Widen(const Function& function);

  const sdk::RunContext& c_;
  const uint32_t dtype_;
  size_t bytes_ = 0;  // of a sample
  int64_t count_ = 0;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_PICTURE_H_
