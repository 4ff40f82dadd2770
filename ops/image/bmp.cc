// SPDX-License-Identifier: Apache-2.0
#include "bmp.h"

#include <cstring>

namespace tenon::ops {
using namespace sdk;

namespace {

template <class T>
T Load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Header {
  explicit Header(std::string_view bytes) {
    constexpr size_t kLeast = 32;
    if (bytes.size() < kLeast)
      Fail(TENON_INVALID_ARGUMENT, "a BMP's header has ", kLeast, " bytes at least; there are ", bytes.size());
    begin = Load<uint32_t>(bytes, 10);
    width = Load<int32_t>(bytes, 18);
    height = Load<int32_t>(bytes, 22);
    top_down = height < 0;
    height = height < 0 ? -height : height;
    const int bits = Load<uint16_t>(bytes, 28);
    channels = bits / 8;
    if (channels != 1 && channels != 3 && channels != 4)
      Fail(TENON_INVALID_ARGUMENT, "the BMP has ", bits, " bits a pixel; 8, 24 and 32 can be read");
    CheckSize("BMP", height, width, channels);
    stride = (width * channels + 3) / 4 * 4;
    const int64_t size = begin + stride * height;
    if (size == static_cast<int64_t>(bytes.size())) return;
    Fail(TENON_INVALID_ARGUMENT, "the BMP says that it is of ", width, " x ", height, " pixels of ", bits,
         " bits from byte ", begin, " on, which makes ", size, " bytes; there are ", bytes.size());
  }
  int64_t begin, width, height, channels, stride;
  bool top_down;
};

// Blue comes first.
void CopyPixels(const uint8_t* from, int64_t width, int64_t given, int64_t wanted, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x, from += given, to += wanted) {
    if (given == 1) {
      to[0] = from[0];
      if (wanted >= 3) to[1] = to[2] = from[0];
    } else {
      to[0] = from[2];
      to[1] = from[1];
      to[2] = from[0];
    }
    if (wanted == 4) to[3] = given == 4 ? from[3] : 255;
  }
}

}  // namespace

void DecodeBmp(const RunContext& c, std::string_view bytes, int64_t channels, bool four_dims, Samples* out) {
  if (channels == 1) Fail(TENON_INVALID_ARGUMENT, "channels may be 0, 3 or 4 for a BMP; it is 1");
  const Header header(bytes);
  if (channels == 0) channels = header.channels;
  CheckSize("BMP", header.height, header.width, channels);
  const int64_t dims[] = {1, header.height, header.width, channels};
  uint8_t* const to = out->Take(Dims(dims).subspan(four_dims ? 0 : 1), 1);
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data()) + header.begin;
  c.ParallelFor(header.height, static_cast<double>(header.width), [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      const int64_t row = header.top_down ? y : header.height - 1 - y;
      CopyPixels(from + row * header.stride, header.width, header.channels, channels, to + y * header.width * channels);
    }
  });
  out->Finish(false);
}

}  // namespace tenon::ops
