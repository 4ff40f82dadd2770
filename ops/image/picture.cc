// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include <algorithm>
#include <cstring>

#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Magic {
  std::string_view bytes;
  Format format;
};
constexpr Magic kMagics[] = {{"\xff\xd8\xff", Format::kJpeg},
                             {"\x89PNG\r\n\x1a\n", Format::kPng},
                             {"GIF8", Format::kGif},
                             {"BM", Format::kBmp},
                             {"\xff\x0a", Format::kJpegXl}};

}  // namespace

Format FormatOf(std::string_view bytes) {
  for (const Magic& magic : kMagics)
    if (bytes.starts_with(magic.bytes)) return magic.format;
  return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP" ? Format::kWebp
                                                                                         : Format::kUnknown;
}

std::string_view NameOf(Format format) {
  switch (format) {
    case Format::kJpeg: return "JPEG";
    case Format::kPng: return "PNG";
    case Format::kGif: return "GIF";
    case Format::kBmp: return "BMP";
    case Format::kWebp: return "WebP";
    case Format::kJpegXl: return "JPEG XL";
    case Format::kUnknown: break;
  }
  return "unknown format";
}

std::string BeginningOf(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char each : bytes.substr(0, 8)) {
    if (!text.empty()) text += ' ';
    text += kDigits[static_cast<uint8_t>(each) >> 4];
    text += kDigits[static_cast<uint8_t>(each) & 15];
  }
  const Format format = FormatOf(bytes);
  return format == Format::kUnknown ? text : Concat(text, ", which is a ", NameOf(format));
}

void CheckSize(std::string_view what, int64_t height, int64_t width, int64_t channels) {
  int64_t samples = 0;
  const bool fits = height > 0 && width > 0 && !__builtin_mul_overflow(height, width, &samples) &&
                    !__builtin_mul_overflow(samples, channels, &samples);
  if (!fits || samples > kMostSamples) {
    Fail(TENON_INVALID_ARGUMENT, "the ", what, " says that it is of ", width, " x ", height, " pixels of ", channels,
         " channels; a picture has 1 to 2^30 samples");
  }
}

uint8_t* Samples::Take(Dims dims, size_t bytes) {
  c_.AllocOutput(0, dims);
  bytes_ = bytes;
  count_ = Count(dims);
  // At the end, so that what they become, which is larger, may be written from the beginning on.
  return c_.output<uint8_t>(0) + static_cast<size_t>(count_) * (ElementSize(dtype_) - bytes);
}

template <class From, class To, class Function>
void Samples::Widen(const Function& function) {
  To* out = c_.output<To>(0);
  const auto* in = reinterpret_cast<const uint8_t*>(out) + static_cast<size_t>(count_) * (sizeof(To) - sizeof(From));
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < count_; begin += kBlock) {
    From block[kBlock];
    const int64_t size = std::min(kBlock, count_ - begin);
    std::memcpy(block, in + static_cast<size_t>(begin) * sizeof(From), static_cast<size_t>(size) * sizeof(From));
    for (int64_t i = 0; i < size; ++i) out[begin + i] = function(block[i]);
  }
}

void Samples::Finish(bool exact) {
  const auto wide = exact ? uint16_t{257} : uint16_t{256};
  if (dtype_ == TENON_DT_UINT16 && bytes_ == 1)
    Widen<uint8_t, uint16_t>([wide](uint8_t x) { return static_cast<uint16_t>(x * wide); });
  if (dtype_ != TENON_DT_FLOAT) return;
  constexpr float kOfByte = 1.0f / 255, kOfWord = 1.0f / 65535;
  if (bytes_ == 2) return Widen<uint16_t, float>([](uint16_t x) { return static_cast<float>(x) * kOfWord; });
  if (exact) return Widen<uint8_t, float>([](uint8_t x) { return static_cast<float>(x * 257) * kOfWord; });
  Widen<uint8_t, float>([](uint8_t x) { return static_cast<float>(x) * kOfByte; });
}

}  // namespace tenon::ops
