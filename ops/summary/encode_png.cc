// SPDX-License-Identifier: Apache-2.0
#include "encode_png.h"

#include <png.h>

#include <limits>

namespace tenon::ops {
namespace {

void Append(png_structp png, png_bytep data, size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), size);
}
void Flush(png_structp) {}
// libpng's errors do not return: they jump back to setjmp.
[[noreturn]] void Stop(png_structp png, png_const_charp) { png_longjmp(png, 1); }
void Ignore(png_structp, png_const_charp) {}

// Nothing with a destructor lives here, since an error jumps over it. False, too, when the step is given up.
bool Write(const sdk::RunContext& c, png_structp png, png_infop info, const uint8_t* pixels, uint32_t width,
           uint32_t height, int channels, std::string* out) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, out, &Append, &Flush);
  const int color = channels == 1 ? PNG_COLOR_TYPE_GRAY : channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGBA;
  png_set_IHDR(png, info, width, height, 8, color, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_mem_level(png, 9);  // the most memory, for speed
  png_write_info(png, info);
  for (uint32_t row = 0; row < height; ++row) {
    if (c.cancelled()) return false;
    png_write_row(png, pixels + static_cast<size_t>(row) * width * static_cast<size_t>(channels));
  }
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

std::string EncodePng(const sdk::RunContext& c, const uint8_t* pixels, int64_t width, int64_t height, int channels) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (width > kMost || height > kMost)
    sdk::Fail(TENON_INVALID_ARGUMENT, "an image of ", width, " x ", height, " pixels is too large for PNG");
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, &Stop, &Ignore);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  const bool written = info != nullptr && Write(c, png, info, pixels, static_cast<uint32_t>(width),
                                                static_cast<uint32_t>(height), channels, &out);
  png_destroy_write_struct(&png, &info);
  if (!written) c.CheckCancelled();
  if (!written)
    sdk::Fail(TENON_RESOURCE_EXHAUSTED, "libpng could not write an image of ", width, " x ", height, " pixels");
  return out;
}

}  // namespace tenon::ops
