// SPDX-License-Identifier: Apache-2.0
// Pictures as PNG files, through libpng, which who includes this links.
#ifndef TENON_EXTRAS_IMAGE_ENCODE_PNG_H_
#define TENON_EXTRAS_IMAGE_ENCODE_PNG_H_

#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {
namespace internal {

// libpng's errors do not return: they jump back to setjmp, over what has a destructor. So what is written is malloc's
// memory.
class PngWriter {
 public:
  explicit PngWriter(const RunContext& c) : c_(c) {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, &Stop, [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_write_struct(&png_, &info_);
      Fail(TENON_RESOURCE_EXHAUSTED, "there is no memory to write a PNG");
    }
    png_set_write_fn(png_, this, &Append, [](png_structp) {});
  }
  ~PngWriter() {
    png_destroy_write_struct(&png_, &info_);
    std::free(written_);
  }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  std::string Write(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels, int bits, int compression) {
    constexpr int kKinds[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
    const int kind = kKinds[channels - 1];
    Do([=, this] {
      png_set_IHDR(png_, info_, static_cast<uint32_t>(width), static_cast<uint32_t>(height), bits, kind,
                   PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
      png_set_compression_level(png_, compression);
      png_set_compression_mem_level(png_, 9);  // the most memory, for speed
      png_write_info(png_, info_);
      if (bits == 16) png_set_swap(png_);
    });
    const auto row = static_cast<size_t>(width * channels * (bits / 8));
    CancelPoll poll(c_);
    for (int64_t y = 0; y < height; ++y) {
      poll(static_cast<int64_t>(row) * 20);
      const uint8_t* at = pixels + static_cast<size_t>(y) * row;
      Do([this, at] { png_write_row(png_, at); });
    }
    Do([this] { png_write_end(png_, nullptr); });
    return {written_, size_};
  }

 private:
  [[noreturn]] static void Stop(png_structp png, png_const_charp text) {
    auto* self = static_cast<PngWriter*>(png_get_error_ptr(png));
    std::snprintf(self->text_, sizeof self->text_, "%s", text);
    std::longjmp(self->jump_, 1);
  }
  static void Append(png_structp png, png_bytep data, size_t count) {
    auto* self = static_cast<PngWriter*>(png_get_error_ptr(png));
    if (self->size_ + count > self->room_) {
      const size_t wanted = (self->size_ + count) * 2;
      void* larger = std::realloc(self->written_, wanted);
      if (larger == nullptr) Stop(png, "there is no memory for it");
      self->written_ = static_cast<char*>(larger);
      self->room_ = wanted;
    }
    std::memcpy(self->written_ + self->size_, data, count);
    self->size_ += count;
  }
  template <class Step>
  bool Try(Step step) {
    if (setjmp(jump_) != 0) return false;
    step();
    return true;
  }
  template <class Step>
  void Do(Step step) {
    if (!Try(step)) Fail(TENON_RESOURCE_EXHAUSTED, "libpng could not write the picture: ", std::string_view(text_));
  }

  const RunContext& c_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char* written_ = nullptr;
  size_t size_ = 0, room_ = 0;
  char text_[128] = {};
  std::jmp_buf jump_ = {};
};

}  // namespace internal

// pixels: rows from the top of 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA) samples of `bits`, 8 or 16, a pixel.
// compression: -1 (zlib's choice) to 9. Throws failures of Fail: INVALID_ARGUMENT for a size that PNG has not,
// RESOURCE_EXHAUSTED, and CANCELLED once the step of `c` was given up.
inline std::string EncodePng(const RunContext& c, const uint8_t* pixels, int64_t height, int64_t width,
                             int64_t channels, int bits, int compression) {
  constexpr int64_t kMost = 1'000'000;  // libpng's own bound
  if (height < 1 || width < 1 || height > kMost || width > kMost) {
    Fail(TENON_INVALID_ARGUMENT, "a picture of ", width, " x ", height,
         " pixels cannot be written as PNG, which has 1 to ", kMost, " each way");
  }
  return internal::PngWriter(c).Write(pixels, height, width, channels, bits, compression);
}

}  // namespace tenon::sdk

#endif  // TENON_EXTRAS_IMAGE_ENCODE_PNG_H_
