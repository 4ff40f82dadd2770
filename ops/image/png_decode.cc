// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <algorithm>
#include <cstring>
#include <vector>

#include "png_picture.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// libpng's errors do not return: they jump back to where a step was begun. A step calls C functions alone and makes
// nothing with a destructor.
class PngReader {
 public:
  PngReader(const RunContext& c, std::string_view bytes) : c_(c), bytes_(bytes), rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &Stop, [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      Fail(TENON_RESOURCE_EXHAUSTED, "there is no memory to read a PNG");
    }
    png_set_read_fn(png_, this, &Read);
    // What no pixel needs is not kept: texts may be a thousand times longer than they are in the file.
    static constexpr png_byte kUnread[] = "tEXt\0zTXt\0iTXt\0sPLT\0eXIf\0hIST\0pCAL\0sCAL";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kUnread, 8);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  void Decode(int64_t channels, bool words, bool four_dims, Samples* out) {
    Do([this] { png_read_info(png_, info_); });
    CheckPlausible(channels);
    Do([this, channels, words] { Choose(channels, words); });
    const int64_t dims[] = {1, Height(), Width(), png_get_channels(png_, info_)};
    const size_t sample = png_get_bit_depth(png_, info_) == 16 ? 2 : 1;
    uint8_t* const to = out->Take(Dims(dims).subspan(four_dims ? 0 : 1), sample);
    const size_t row = png_get_rowbytes(png_, info_);
    for (int pass = 0; pass < passes_; ++pass) {
      CancelPoll poll(c_);
      for (int64_t y = 0; y < Height(); ++y) {
        poll(static_cast<int64_t>(row));
        png_bytep at = to + static_cast<size_t>(y) * row;
        Do([this, at] { png_read_row(png_, at, nullptr); });
      }
    }
    Do([this] { png_read_end(png_, nullptr); });
    out->Finish(true);
  }

 private:
  static PngReader& Of(png_structp png) { return *static_cast<PngReader*>(png_get_error_ptr(png)); }
  [[noreturn]] static void Stop(png_structp png, png_const_charp text) {
    PngReader& self = Of(png);
    std::snprintf(self.text_, sizeof self.text_, "%s", text);
    std::longjmp(self.jump_, 1);
  }
  static void Read(png_structp png, png_bytep to, size_t count) {
    PngReader& self = Of(png);
    if (count > self.rest_.size()) Stop(png, "it ends too early");
    std::memcpy(to, self.rest_.data(), count);
    self.rest_.remove_prefix(count);
  }
  template <class Step>
  bool Try(Step step) {
    if (setjmp(jump_) != 0) return false;
    step();
    return true;
  }
  template <class Step>
  void Do(Step step) {
    if (!Try(step))
      Fail(TENON_INVALID_ARGUMENT, "the PNG of ", bytes_.size(), " bytes cannot be read: ", std::string_view(text_));
  }
  int64_t Height() const { return png_get_image_height(png_, info_); }
  int64_t Width() const { return png_get_image_width(png_, info_); }

  // Before memory is taken: deflate makes at most 1032 bytes of one.
  void CheckPlausible(int64_t channels) const {
    constexpr int64_t kMostOfAByte = 1032;
    CheckSize("PNG", Height(), Width(), channels != 0 ? channels : 4);
    const int64_t raw = Height() * (1 + static_cast<int64_t>(png_get_rowbytes(png_, info_)));
    if (png_get_interlace_type(png_, info_) == PNG_INTERLACE_NONE &&
        raw / kMostOfAByte > static_cast<int64_t>(bytes_.size()))
      Implausible(raw / kMostOfAByte);
    const int64_t interlaced = raw - Height();  // at least so many
    if (interlaced / kMostOfAByte > static_cast<int64_t>(bytes_.size())) Implausible(interlaced / kMostOfAByte);
  }
  [[noreturn]] void Implausible(int64_t least) const {
    Fail(TENON_INVALID_ARGUMENT, "the PNG of ", bytes_.size(), " bytes says that it is of ", Width(), " x ", Height(),
         " pixels, which take ", least, " bytes at least: its header is wrong, or it was cut off");
  }
  // What libpng makes of the samples.
  void Choose(int64_t channels, bool words) {
    const int depth = png_get_bit_depth(png_, info_), kind = png_get_color_type(png_, info_);
    const bool transparent = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0,
               has_alpha = (kind & PNG_COLOR_MASK_ALPHA) != 0, grey = (kind & PNG_COLOR_MASK_COLOR) == 0;
    if (channels == 0)
      channels = kind == PNG_COLOR_TYPE_PALETTE ? (transparent ? 4 : 3) : png_get_channels(png_, info_);
    const bool wants_alpha = channels % 2 == 0, wants_grey = channels < 3;
    if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (wants_alpha && !has_alpha && transparent) png_set_tRNS_to_alpha(png_);
    if (wants_alpha && !has_alpha && !transparent)
      png_set_add_alpha(png_, (1u << depth) - 1, PNG_FILLER_AFTER);  // as TensorFlow: of 2 bits 3, not 255
    if (!wants_alpha && (has_alpha || transparent)) png_set_strip_alpha(png_);
    if (depth == 16 && !words) png_set_strip_16(png_);
    png_set_packing(png_);
    passes_ = png_set_interlace_handling(png_);
    if (depth == 16 && words) png_set_swap(png_);
    if (grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (wants_grey && !grey) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    if (!wants_grey && grey) png_set_gray_to_rgb(png_);
    png_read_update_info(png_, info_);
  }

  const RunContext& c_;
  const std::string_view bytes_;
  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  char text_[128] = {};
  std::jmp_buf jump_ = {};
};

}  // namespace

void DecodePng(const RunContext& c, std::string_view bytes, int64_t channels, bool words, bool four_dims,
               Samples* out) {
  PngReader(c, bytes).Decode(channels, words, four_dims, out);
}

}  // namespace tenon::ops
