// SPDX-License-Identifier: Apache-2.0
#include "gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace tenon::ops {
using namespace sdk;

namespace {

// Goes through a file once, frame by frame. giflib would take memory for a frame as its header says; here a row is read
// at a time.
class GifReader {
 public:
  explicit GifReader(std::string_view bytes) : rest_(bytes) {
    int error = 0;
    gif_.reset(DGifOpen(this, &Read, &error));
    if (gif_ == nullptr)
      Fail(TENON_INVALID_ARGUMENT, "the GIF of ", bytes.size(),
           " bytes cannot be read: ", std::string_view(Text(error)));
  }

  // The next frame, its rows not yet read. False: there is none, or the file is damaged, which problem() says.
  bool NextFrame() {
    transparent_ = NO_TRANSPARENT_COLOR;
    bool controlled = false;
    for (GifRecordType type = UNDEFINED_RECORD_TYPE; DGifGetRecordType(gif_.get(), &type) == GIF_OK;) {
      if (type == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(gif_.get()) == GIF_OK && height() > 0 && width() > 0;
      if (type == TERMINATE_RECORD_TYPE) return false;
      if (type == EXTENSION_RECORD_TYPE && !SkipExtension(&controlled)) return false;
    }
    return false;
  }
  // The rows in the order of the file.
  bool ReadRow(GifPixelType* row) { return DGifGetLine(gif_.get(), row, static_cast<int>(width())) == GIF_OK; }
  // Which row of the frame the i-th of the file is.
  int64_t RowOf(int64_t i) const {
    if (!gif_->Image.Interlace) return i;
    for (const auto& [first, step] : {std::pair<int64_t, int64_t>{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
      const int64_t rows = first < height() ? (height() - first + step - 1) / step : 0;
      if (i < rows) return first + i * step;
      i -= rows;
    }
    return height() - 1;
  }

  int64_t height() const { return gif_->Image.Height; }
  int64_t width() const { return gif_->Image.Width; }
  int64_t left() const { return gif_->Image.Left; }
  int64_t top() const { return gif_->Image.Top; }
  int transparent() const { return transparent_; }
  const ColorMapObject* colors() const {
    return gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
  }
  const char* problem() const { return gif_->Error == 0 ? "it has no frame" : Text(gif_->Error); }

 private:
  struct Close {
    void operator()(GifFileType* gif) const { (void)DGifCloseFile(gif, nullptr); }
  };
  static const char* Text(int error) {
    const char* text = GifErrorString(error);
    return text != nullptr ? text : "it is damaged";
  }
  static int Read(GifFileType* gif, GifByteType* to, int count) {
    std::string_view& rest = static_cast<GifReader*>(gif->UserData)->rest_;
    const size_t given = std::min(static_cast<size_t>(std::max(count, 0)), rest.size());
    std::memcpy(to, rest.data(), given);
    rest.remove_prefix(given);
    return static_cast<int>(given);
  }
  // The first control block before a frame says which colour is transparent.
  bool SkipExtension(bool* controlled) {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif_.get(), &code, &block) != GIF_OK) return false;
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE && !*controlled &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent_ = control.TransparentColor;
        *controlled = true;
      }
      if (DGifGetExtensionNext(gif_.get(), &block) != GIF_OK) return false;
    }
    return true;
  }

  std::string_view rest_;
  std::unique_ptr<GifFileType, Close> gif_;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

// What is in a file: its whole frames, up to the first damage.
struct Contents {
  int64_t frames = 0, height = 0, width = 0;
};
Contents Look(const RunContext& c, std::string_view bytes) {
  Contents found;
  GifReader reader(bytes);
  std::vector<GifPixelType> row(65536);
  CancelPoll poll(c);
  while (reader.NextFrame()) {
    int64_t y = 0;
    for (; y < reader.height() && reader.ReadRow(row.data()); ++y) poll(5 * reader.width());
    if (y < reader.height()) break;
    found = {found.frames + 1, std::max(found.height, reader.height()), std::max(found.width, reader.width())};
  }
  if (found.frames == 0)
    Fail(TENON_INVALID_ARGUMENT, "the GIF of ", bytes.size(),
         " bytes has no whole frame: ", std::string_view(reader.problem()));
  return found;
}

// Puts a frame over what is there.
class Painter {
 public:
  Painter(const RunContext& c, const Contents& contents) : contents_(contents), poll_(c), row_(65536) {}

  void Paint(GifReader& reader, int64_t frame, uint8_t* picture) {
    const ColorMapObject* colors = reader.colors();
    if (colors == nullptr)
      Fail(TENON_INVALID_ARGUMENT, "frame ", frame, " of the GIF has no table of colours, nor has the file");
    for (int64_t i = 0; i < reader.height(); ++i) {
      poll_(5 * reader.width());
      if (!reader.ReadRow(row_.data()))
        Fail(TENON_INVALID_ARGUMENT, "frame ", frame,
             " of the GIF cannot be read: ", std::string_view(reader.problem()));
      const int64_t y = reader.top() + reader.RowOf(i),
                    width = std::min(reader.width(), contents_.width - reader.left());
      if (y < contents_.height && width > 0)
        PaintRow(reader, *colors, frame, width, picture + 3 * (y * contents_.width + reader.left()));
    }
  }

 private:
  void PaintRow(const GifReader& reader, const ColorMapObject& colors, int64_t frame, int64_t width,
                uint8_t* to) const {
    for (int64_t x = 0; x < width; ++x, to += 3) {
      const int index = row_[static_cast<size_t>(x)];
      if (index == reader.transparent()) continue;
      if (index >= colors.ColorCount)
        Fail(TENON_INVALID_ARGUMENT, "frame ", frame, " of the GIF has colour ", index, " of ", colors.ColorCount);
      const GifColorType& color = colors.Colors[index];
      to[0] = color.Red;
      to[1] = color.Green;
      to[2] = color.Blue;
    }
  }

  const Contents contents_;
  CancelPoll poll_;
  std::vector<GifPixelType> row_;
};

}  // namespace

void DecodeGif(const RunContext& c, std::string_view bytes, Frames frames, Samples* out) {
  Contents contents = Look(c, bytes);
  if (frames == Frames::kOnly && contents.frames > 1) {
    Fail(TENON_INVALID_ARGUMENT, "the GIF has ", contents.frames,
         " frames, which are one picture no more; DecodeGif and DecodeImage read all of them");
  }
  if (frames != Frames::kAll) contents.frames = 1;
  CheckSize("GIF", contents.height, contents.width, 3);
  const int64_t dims[] = {contents.frames, contents.height, contents.width, 3},
                picture = 3 * contents.height * contents.width;
  uint8_t* to = out->Take(Dims(dims).subspan(frames == Frames::kAll ? 0 : 1), 1);
  GifReader reader(bytes);
  Painter painter(c, contents);
  CancelPoll poll(c);
  std::memset(to, 0, static_cast<size_t>(picture));
  for (int64_t frame = 0; frame < contents.frames; ++frame, to += picture) {
    poll(picture);
    if (frame > 0) std::memcpy(to, to - picture, static_cast<size_t>(picture));
    if (!reader.NextFrame()) Fail(TENON_INTERNAL, "the GIF was read twice and has fewer frames the second time");
    painter.Paint(reader, frame, to);
  }
  out->Finish(false);
}

}  // namespace tenon::ops
