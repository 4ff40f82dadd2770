// SPDX-License-Identifier: Apache-2.0
// Pictures for tests, as bytes, by this package's own encoders where it has them; and what decodes them.
#ifndef TENON_OPS_IMAGE_PICTURES_FOR_TEST_H_
#define TENON_OPS_IMAGE_PICTURES_FOR_TEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {

extern const tenon_kernel_registration kDecodeJpegKernel, kDecodePngKernel, kDecodeGifKernel, kDecodeBmpKernel,
    kDecodeImageKernel, kDecodeAndCropJpegKernel, kExtractJpegShapeKernel, kEncodeJpegKernel, kEncodePngKernel;

struct Decoded {
  testing::Outcome outcome;
  std::vector<testing::Tensor> outputs;
  const testing::Tensor& image() const { return outputs.at(0); }
};

inline Decoded RunKernel(const tenon_kernel_registration& kernel, testing::Node node,
                         const std::vector<const testing::Tensor*>& inputs, bool cancelled = false) {
  testing::KernelRunner step;
  step.is_cancelled = [cancelled] { return cancelled; };
  for (const testing::Tensor* input : inputs) node.input_types.push_back(input->dtype);
  Decoded result;
  result.outcome = step.Run(kernel, node, inputs);
  if (result.outcome.ok()) result.outputs = std::move(step.outputs);
  return result;
}

// kernel, and the name of its op.
inline testing::Node NodeOf(std::string op, testing::Attributes more = {}, uint32_t dtype = TENON_DT_UINT8) {
  testing::Attributes attributes = {{"channels", int64_t{0}}, {"expand_animations", true}};
  if (op == "DecodeJpeg" || op == "DecodeAndCropJpeg") {
    attributes.merge(testing::Attributes{{"ratio", int64_t{1}},
                                         {"fancy_upscaling", true},
                                         {"try_recover_truncated", false},
                                         {"acceptable_fraction", 1.0f},
                                         {"dct_method", std::string()}});
  }
  if (op != "DecodeImage") attributes.erase("expand_animations");
  if (op == "DecodeGif") attributes.erase("channels");
  for (auto& [name, value] : more) attributes[name] = value;
  return {std::move(op), std::move(attributes), {}, {dtype}};
}
inline Decoded Decode(const tenon_kernel_registration& kernel, std::string op, const std::string& bytes,
                      testing::Attributes more = {}, uint32_t dtype = TENON_DT_UINT8) {
  const testing::Tensor contents = testing::Strings({}, {bytes});
  return RunKernel(kernel, NodeOf(std::move(op), std::move(more), dtype), {&contents});
}

// Waves, [height, width, channels].
inline testing::Tensor Waves(int64_t height, int64_t width, int64_t channels) {
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < height * width * channels; ++i)
    values.push_back(static_cast<uint8_t>((i / channels % width) * 5 + (i / channels / width) * 7 + i % channels * 60));
  return testing::Make<uint8_t>({height, width, channels}, values);
}

inline std::string JpegOf(const testing::Tensor& image, testing::Attributes more = {}) {
  testing::Attributes attributes = {
      {"format", std::string()},   {"quality", int64_t{90}},      {"progressive", false},
      {"optimize_size", false},    {"chroma_downsampling", true}, {"density_unit", std::string("in")},
      {"x_density", int64_t{300}}, {"y_density", int64_t{300}},   {"xmp_metadata", std::string()}};
  for (auto& [name, value] : more) attributes[name] = value;
  return testing::Texts(
      RunKernel(kEncodeJpegKernel, {"EncodeJpeg", attributes, {}, {TENON_DT_STRING}}, {&image}).image())[0];
}
inline std::string PngOf(const testing::Tensor& image) {
  return testing::Texts(
      RunKernel(kEncodePngKernel, {"EncodePng", {{"compression", int64_t{-1}}}, {}, {TENON_DT_STRING}}, {&image})
          .image())[0];
}

inline std::string Little(uint32_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

inline std::string Big(uint32_t value) {
  const std::string out = Little(value, 4);
  return {out.rbegin(), out.rend()};
}
// As PNG's chunks end.
inline uint32_t Crc(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char each : bytes) {
    crc ^= static_cast<uint8_t>(each);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// A GIF of frames of four colours, pixel i of frame f being (i + f) % 4; no code is longer than 3 bits, since the table
// is cleared before it grows.
inline std::string GifOf(uint32_t height, uint32_t width, int frames, uint32_t claimed_height = 0) {
  std::string out = "GIF89a" + Little(width, 2) + Little(height, 2) + "\xf1" + std::string(2, '\0') +
                    std::string("\1\2\3\11\12\13\21\22\23\31\32\33", 12);
  for (int f = 0; f < frames; ++f) {
    std::string data;
    uint32_t held = 0, count = 0;
    const auto put = [&](uint32_t code) {
      for (held |= code << count, count += 3; count >= 8; held >>= 8, count -= 8) data += static_cast<char>(held);
    };
    for (uint32_t i = 0; i < height * width; ++i) {
      if (i % 2 == 0) put(4);
      put((i + static_cast<uint32_t>(f)) % 4);
    }
    put(5);
    if (count > 0) data += static_cast<char>(held);
    out += "," + std::string(4, '\0') + Little(width, 2) + Little(claimed_height != 0 ? claimed_height : height, 2) +
           std::string("\0\2", 2);
    for (size_t at = 0; at < data.size(); at += 255)
      out += static_cast<char>(std::min<size_t>(255, data.size() - at)) + data.substr(at, 255);
    out += '\0';
  }
  return out + ";";
}

inline std::string BmpOf(const testing::Tensor& image) {
  const auto height = static_cast<uint32_t>(image.dims[0]), width = static_cast<uint32_t>(image.dims[1]),
             channels = static_cast<uint32_t>(image.dims[2]);
  std::string data;
  for (uint32_t y = height; y-- > 0;) {
    data.append(image.bytes.data() + size_t{y} * width * channels, size_t{width} * channels);
    data.resize((data.size() + 3) / 4 * 4);
  }
  return "BM" + Little(static_cast<uint32_t>(data.size()) + 54, 4) + Little(0, 4) + Little(54, 4) + Little(40, 4) +
         Little(width, 4) + Little(height, 4) + Little(1, 2) + Little(8 * channels, 2) + std::string(24, '\0') + data;
}

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_PICTURES_FOR_TEST_H_
