// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "jpeg.h"
#include "jpeg_error.h"
#include "tenon/sdk/kernel/kept_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// The bytes of a picture, all in memory. After their end comes, where that is allowed, a marker that says so.
struct Source : jpeg_source_mgr {
  Source(std::string_view bytes, bool may_end_early) : jpeg_source_mgr{}, recovers(may_end_early) {
    next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    bytes_in_buffer = bytes.size();
    init_source = term_source = [](j_decompress_ptr) {};
    resync_to_restart = jpeg_resync_to_restart;
    skip_input_data = &Skip;
    fill_input_buffer = &Fill;
  }
  static void Skip(j_decompress_ptr info, long count) {
    const size_t skipped = std::min(info->src->bytes_in_buffer, static_cast<size_t>(std::max(count, 0L)));
    info->src->next_input_byte += skipped;
    info->src->bytes_in_buffer -= skipped;
    if (static_cast<long>(skipped) < count) (void)Fill(info);
  }
  static boolean Fill(j_decompress_ptr info) {
    static constexpr JOCTET kEnd[2] = {0xff, JPEG_EOI};
    auto* source = static_cast<Source*>(info->src);
    if (!source->recovers || source->ended)
      JpegErrors::Of(reinterpret_cast<j_common_ptr>(info)).Leave("it ends too early");
    source->ended = true;
    source->next_input_byte = kEnd;
    source->bytes_in_buffer = sizeof kEnd;
    return TRUE;
  }
  bool recovers, ended = false;
};

struct Info : jpeg_decompress_struct {
  Info() : jpeg_decompress_struct{} {}
  ~Info() { jpeg_destroy_decompress(this); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
};

class JpegReader {
 public:
  JpegReader(const RunContext& c, std::string_view bytes, const JpegOptions& options)
      : bytes_(bytes), options_(options), errors_(c), source_(bytes, options.try_recover_truncated) {
    info_.err = &errors_.manager;
    info_.client_data = &errors_;
    if (!errors_.Try([this] { jpeg_create_decompress(&info_); })) Throw();
    info_.progress = &errors_.progress;
    info_.src = &source_;
    Do([this] { jpeg_read_header(&info_, TRUE); });
  }
  JpegSize size() const { return {info_.image_height, info_.image_width, info_.num_components}; }
  void Decode(const std::optional<Window>& asked, bool four_dims, Samples* out) {
    ChooseColors();
    CheckPlausible();
    Do([this] { jpeg_calc_output_dimensions(&info_); });
    const Window window = WindowOf(asked);
    const KeptTensor coefficients = Coefficients();
    const int64_t dims[] = {1, window.height, window.width, channels_};
    uint8_t* const to = out->Take(Dims(dims).subspan(four_dims ? 0 : 1), 1);
    row_.resize(static_cast<size_t>(info_.output_width) * static_cast<size_t>(info_.out_color_components));
    ReadRows(window, to);
    out->Finish(false);
  }

 private:
  [[noreturn]] void Throw() {
    errors_.context.CheckCancelled();
    Fail(TENON_INVALID_ARGUMENT, "the JPEG of ", bytes_.size(),
         " bytes cannot be read: ", std::string_view(errors_.text));
  }
  template <class Step>
  void Do(Step step) {
    if (!errors_.Try(step)) Throw();
  }

  void ChooseColors();
  void CheckPlausible() const;
  int64_t Blocks(bool whole_units) const;
  KeptTensor Coefficients() const;
  Window WindowOf(const std::optional<Window>& asked) const;
  void ReadRows(const Window& window, uint8_t* out);
  void CopyRow(int64_t first, int64_t width, uint8_t* to) const;

  const std::string_view bytes_;
  const JpegOptions& options_;
  JpegErrors errors_;
  Source source_;
  Info info_;
  int64_t channels_ = 0;
  std::vector<uint8_t> row_;
};

void JpegReader::ChooseColors() {
  channels_ = options_.channels != 0 ? options_.channels : std::min(info_.num_components, 3);
  if (channels_ != 1 && channels_ != 3)
    Fail(TENON_INVALID_ARGUMENT, "a JPEG of ", info_.num_components, " components has no picture of ", channels_,
         " channels: 1 and 3 are possible");
  const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  info_.out_color_space = channels_ == 1 ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
  info_.scale_num = 1;
  info_.scale_denom = static_cast<unsigned>(options_.ratio);
  info_.do_fancy_upsampling = options_.fancy_upscaling ? TRUE : FALSE;
  info_.dct_method = options_.accurate_dct ? JDCT_ISLOW : JDCT_IFAST;
}

// Of all components. whole_units: with those that fill up the last units at the right and at the bottom, which a
// picture in several passes may leave out.
int64_t JpegReader::Blocks(bool whole_units) const {
  int64_t blocks = 0;
  for (int i = 0; i < info_.num_components; ++i) {
    const jpeg_component_info& component = info_.comp_info[i];
    const auto along = [whole_units](int64_t count, int64_t unit) {
      return whole_units ? (count + unit - 1) / unit * unit : count;
    };
    blocks += along(component.width_in_blocks, component.h_samp_factor) *
              along(component.height_in_blocks, component.v_samp_factor);
  }
  return blocks;
}

// Before memory is taken: Huffman's codes have a bit at least, and a block of a picture in one pass has two of them (in
// its first pass, of several, one). Arithmetic coding has no least size: of it a sixty-fourth of a bit is asked, less
// than any picture that is not of one colour. A file that was cut off may hold less, down to a sixteenth.
void JpegReader::CheckPlausible() const {
  constexpr int64_t kAlwaysTaken = int64_t{1} << 20;  // pixels, however short the file
  CheckSize("JPEG", info_.image_height, info_.image_width, std::max<int64_t>(channels_, info_.num_components));
  const int64_t pixels = int64_t{info_.image_height} * info_.image_width;
  if (pixels <= kAlwaysTaken) return;
  const int64_t blocks = Blocks(false), bits = info_.arith_code != 0         ? blocks / 64
                                               : info_.progressive_mode != 0 ? blocks
                                                                             : 2 * blocks;
  const int64_t bytes = bits / 8 / (options_.try_recover_truncated ? 16 : 1);
  if (static_cast<int64_t>(bytes_.size()) >= bytes) return;
  Fail(TENON_INVALID_ARGUMENT, "the JPEG of ", bytes_.size(), " bytes says that it is of ", info_.image_width, " x ",
       info_.image_height, " pixels, which take ", bytes, " bytes at least: its header is wrong, or it was cut off");
}

// libjpeg keeps all coefficients of a picture that comes in several passes, in memory that the session does not see: so
// much of the session's is held meanwhile.
KeptTensor JpegReader::Coefficients() const {
  const bool kept = jpeg_has_multiple_scans(const_cast<Info*>(&info_)) != 0;
  const int64_t bytes = kept ? Multiply(Blocks(true), int64_t{sizeof(JBLOCK)}) : 1;
  return NewTensor(errors_.context, TENON_DT_UINT8, {&bytes, 1});
}

Window JpegReader::WindowOf(const std::optional<Window>& asked) const {
  const int64_t height = info_.output_height, width = info_.output_width;
  if (!asked.has_value()) return {0, 0, height, width};
  const Window& w = *asked;
  const bool inside = w.top >= 0 && w.left >= 0 && w.height > 0 && w.width > 0 && w.top + w.height <= height &&
                      w.left + w.width <= width;
  if (!inside) {
    Fail(TENON_INVALID_ARGUMENT, "crop_window asks for ", w.height, " rows from ", w.top, " on and ", w.width,
         " columns from ", w.left, " on; the picture has ", height, " rows and ", width, " columns");
  }
  return w;
}

void JpegReader::ReadRows(const Window& window, uint8_t* out) {
  Do([this] { jpeg_start_decompress(&info_); });
  JDIMENSION first = static_cast<JDIMENSION>(window.left), width = static_cast<JDIMENSION>(window.width);
  if (width != info_.output_width) {
    Do([this, &first, &width] { jpeg_crop_scanline(&info_, &first, &width); });
  }
  const auto top = static_cast<JDIMENSION>(window.top);
  if (top > 0) {
    Do([this, top] { jpeg_skip_scanlines(&info_, top); });
  }
  // Whole rows are decoded where they belong, several at a time.
  const bool straight = static_cast<int64_t>(info_.output_width) == window.width && info_.out_color_space != JCS_CMYK;
  constexpr int64_t kRows = 16;
  int64_t y = 0;
  Do([&] {
    for (JDIMENSION read = 1; y < window.height && read != 0; y += read) {
      uint8_t* const to = out + static_cast<size_t>(y * window.width * channels_);
      JSAMPROW rows[kRows] = {row_.data()};
      const auto count = static_cast<JDIMENSION>(straight ? std::min(kRows, window.height - y) : 1);
      for (JDIMENSION i = 0; straight && i < count; ++i)
        rows[i] = to + static_cast<size_t>(i * window.width * channels_);
      read = jpeg_read_scanlines(&info_, rows, count);
      if (!straight && read != 0) CopyRow(window.left - first, window.width, to);
    }
  });
  if (y < window.height)
    Fail(TENON_INVALID_ARGUMENT, "the JPEG of ", bytes_.size(), " bytes ends at row ", window.top + y, " of ",
         info_.output_height);
}

void JpegReader::CopyRow(int64_t first, int64_t width, uint8_t* to) const {
  const uint8_t* from = row_.data() + static_cast<size_t>(first * info_.out_color_components);
  if (info_.out_color_space != JCS_CMYK) {
    std::memcpy(to, from, static_cast<size_t>(width * channels_));
    return;
  }
  // Adobe writes ink as its absence.
  const int none = info_.saw_Adobe_marker != 0 ? 0 : 255;
  for (int64_t x = 0; x < width; ++x, from += 4, to += 3) {
    const int black = std::abs(none - from[3]);
    for (int i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>(black * std::abs(none - from[i]) / 255);
  }
}

}  // namespace

void DecodeJpeg(const RunContext& c, std::string_view bytes, const JpegOptions& options,
                const std::optional<Window>& window, bool four_dims, Samples* out) {
  JpegReader(c, bytes, options).Decode(window, four_dims, out);
}

JpegSize JpegSizeOf(const RunContext& c, std::string_view bytes) {
  const JpegOptions options;
  return JpegReader(c, bytes, options).size();
}

}  // namespace tenon::ops
