// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "jpeg.h"
#include "jpeg_error.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kXmpName("http://ns.adobe.com/xap/1.0/\0", 29);

// A growing piece of memory as libjpeg writes into it. It is malloc's: an error jumps over what would be a vector's
// growth.
struct Destination : jpeg_destination_mgr {
  Destination() : jpeg_destination_mgr{} {
    init_destination = [](j_compress_ptr info) {
      auto* self = static_cast<Destination*>(info->dest);
      self->next_output_byte = self->block;
      self->free_in_buffer = sizeof self->block;
    };
    empty_output_buffer = [](j_compress_ptr info) -> boolean {
      static_cast<Destination*>(info->dest)->Append(info, sizeof block);
      return TRUE;
    };
    term_destination = [](j_compress_ptr info) {
      auto* self = static_cast<Destination*>(info->dest);
      self->Append(info, sizeof self->block - self->free_in_buffer);
    };
  }
  ~Destination() { std::free(written); }
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  void Append(j_compress_ptr info, size_t count) {
    if (size + count > room) {
      const size_t wanted = (size + count) * 2;
      void* larger = std::realloc(written, wanted);
      if (larger == nullptr) JpegErrors::Of(reinterpret_cast<j_common_ptr>(info)).Leave("there is no memory for it");
      written = static_cast<char*>(larger);
      room = wanted;
    }
    __builtin_memcpy(written + size, block, count);
    size += count;
    next_output_byte = block;
    free_in_buffer = sizeof block;
  }

  JOCTET block[16384];
  char* written = nullptr;
  size_t size = 0, room = 0;
};

struct EncodeInfo : jpeg_compress_struct {
  EncodeInfo() : jpeg_compress_struct{} {}
  ~EncodeInfo() { jpeg_destroy_compress(this); }
  EncodeInfo(const EncodeInfo&) = delete;
  EncodeInfo& operator=(const EncodeInfo&) = delete;
};

class JpegWriter {
 public:
  explicit JpegWriter(const RunContext& c) : errors_(c) {
    info_.err = &errors_.manager;
    info_.client_data = &errors_;
    Do([this] { jpeg_create_compress(&info_); });
    info_.progress = &errors_.progress;
    info_.dest = &destination_;
  }

  std::string Write(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
                    const JpegEncoding& encoding) {
    info_.image_height = static_cast<JDIMENSION>(height);
    info_.image_width = static_cast<JDIMENSION>(width);
    info_.input_components = static_cast<int>(channels);
    info_.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    Do([this, &encoding] { Begin(encoding); });
    for (int64_t y = 0; y < height; ++y) {
      auto* row = const_cast<JSAMPROW>(pixels + static_cast<size_t>(y * width * channels));
      Do([this, &row] { jpeg_write_scanlines(&info_, &row, 1); });
      if (y % 64 == 0) errors_.context.CheckCancelled();
    }
    Do([this] { jpeg_finish_compress(&info_); });
    return {destination_.written, destination_.size};
  }

 private:
  template <class Step>
  void Do(Step step) {
    if (errors_.Try(step)) return;
    errors_.context.CheckCancelled();
    Fail(TENON_INTERNAL, "libjpeg could not write the picture: ", std::string_view(errors_.text));
  }
  void Begin(const JpegEncoding& encoding) {
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, encoding.quality, TRUE);
    info_.optimize_coding = encoding.optimize_size ? TRUE : FALSE;
    info_.density_unit = static_cast<UINT8>(encoding.density_unit);
    info_.X_density = static_cast<UINT16>(encoding.x_density);
    info_.Y_density = static_cast<UINT16>(encoding.y_density);
    if (encoding.progressive) jpeg_simple_progression(&info_);
    if (!encoding.chroma_downsampling) {
      for (int i = 0; i < info_.num_components; ++i)
        info_.comp_info[i].h_samp_factor = info_.comp_info[i].v_samp_factor = 1;
    }
    jpeg_start_compress(&info_, TRUE);
    if (encoding.xmp_metadata.empty()) return;
    jpeg_write_m_header(&info_, JPEG_APP0 + 1, static_cast<unsigned>(kXmpName.size() + encoding.xmp_metadata.size()));
    for (const char each : kXmpName) jpeg_write_m_byte(&info_, each);
    for (const char each : encoding.xmp_metadata) jpeg_write_m_byte(&info_, each);
  }

  JpegErrors errors_;
  Destination destination_;
  EncodeInfo info_;
};

}  // namespace

std::string EncodeJpeg(const RunContext& c, const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
                       const JpegEncoding& encoding) {
  if (height < 1 || width < 1 || height > JPEG_MAX_DIMENSION || width > JPEG_MAX_DIMENSION) {
    Fail(TENON_INVALID_ARGUMENT, "a picture of ", width, " x ", height, " pixels cannot be a JPEG, which has 1 to ",
         int64_t{JPEG_MAX_DIMENSION}, " each way");
  }
  const size_t most = 65533 - kXmpName.size();
  if (encoding.xmp_metadata.size() > most)
    Fail(TENON_INVALID_ARGUMENT, "xmp_metadata has ", encoding.xmp_metadata.size(), " bytes; a JPEG holds ", most);
  return JpegWriter(c).Write(pixels, height, width, channels, encoding);
}

}  // namespace tenon::ops
