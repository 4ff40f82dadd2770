// SPDX-License-Identifier: Apache-2.0
#include "wav.h"

#include <algorithm>
#include <cmath>

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr int64_t kBytes = 2;  // of a sample

std::string Little(int64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}
int64_t Number(std::string_view bytes) {
  int64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Takes pieces off the front.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}
  bool AtEnd() const { return rest_.empty(); }
  std::string_view Take(int64_t count, std::string_view what) {
    if (count > static_cast<int64_t>(rest_.size()))
      Fail(TENON_INVALID_ARGUMENT, "the WAV ends within ", what, ", which takes ", count, " bytes; ", rest_.size(),
           " are left");
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(count));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  void Expect(std::string_view text) {
    const std::string_view found = Take(static_cast<int64_t>(text.size()), text);
    if (found != text) Fail(TENON_INVALID_ARGUMENT, "contents is no WAV: '", text, "' is missing");
  }
  // Chunks begin at even places; who writes them forgets that.
  void SkipPadding() {
    if (!rest_.empty() && rest_.front() == '\0') rest_.remove_prefix(1);
  }

 private:
  std::string_view rest_;
};

void ReadFormat(Cursor& cursor, WavContents* out) {
  cursor.Expect("fmt ");
  const int64_t size = Number(cursor.Take(4, "its format"));
  if (size != 16 && size != 18)
    Fail(TENON_INVALID_ARGUMENT, "the WAV's format has ", size, " bytes; 16 and 18 are known");
  const std::string_view format = cursor.Take(size, "its format");
  const auto at = [&](size_t begin, size_t count) { return Number(format.substr(begin, count)); };
  if (at(0, 2) != 1)
    Fail(TENON_INVALID_ARGUMENT, "the WAV's samples are coded by format ", at(0, 2), "; 1 (PCM) is known");
  out->channels = at(2, 2);
  out->rate = at(4, 4);
  if (out->channels < 1) Fail(TENON_INVALID_ARGUMENT, "the WAV has no channels");
  if (at(14, 2) != 8 * kBytes)
    Fail(TENON_INVALID_ARGUMENT, "the WAV has ", at(14, 2), " bits a sample; 16 can be read");
  if (at(12, 2) != out->channels * kBytes)
    Fail(TENON_INVALID_ARGUMENT, "the WAV says that a frame of ", out->channels, " channels has ", at(12, 2), " bytes");
  if (at(8, 4) != (out->rate * out->channels * kBytes & UINT32_MAX)) {
    Fail(TENON_INVALID_ARGUMENT, "the WAV says that ", out->rate, " frames of ", out->channels, " channels have ",
         at(8, 4), " bytes");
  }
}

}  // namespace

std::string EncodeWav(const RunContext& c, const float* samples, int64_t frames, int64_t channels, int64_t rate) {
  constexpr int64_t kHeader = 44;
  const int64_t size = Multiply(Multiply(frames, channels), kBytes);
  if (size > UINT32_MAX - kHeader || channels > UINT16_MAX / kBytes || rate > UINT32_MAX) {
    Fail(TENON_INVALID_ARGUMENT, "a WAV holds 4 GB, 32767 channels and a rate of 32 bits; ", frames, " frames of ",
         channels, " channels at ", rate, " a second are more");
  }
  std::string out = "RIFF" + Little(size + kHeader - 8, 4) + "WAVEfmt " + Little(16, 4) + Little(1, 2) +
                    Little(channels, 2) + Little(rate, 4) + Little(rate * channels * kBytes, 4) +
                    Little(channels * kBytes, 2) + Little(8 * kBytes, 2) + "data" + Little(size, 4);
  out.resize(static_cast<size_t>(kHeader + size));
  char* to = out.data() + kHeader;
  constexpr int64_t kPiece = 1 << 14;
  CancelPoll poll(c);
  for (int64_t first = 0; first < frames * channels; first += kPiece, poll(kPiece)) {
    for (int64_t i = first; i < std::min(first + kPiece, frames * channels); ++i, to += kBytes) {
      const float loud = std::clamp(std::isnan(samples[i]) ? 0.0f : samples[i] * 32768.0f, -32768.0f, 32767.0f);
      // Halves away from 0; a double adds one half to any float of this size exactly.
      const auto sample = static_cast<uint32_t>(
          static_cast<int32_t>(static_cast<double>(loud) + std::copysign(0.5, static_cast<double>(loud))));
      to[0] = static_cast<char>(sample & 0xff);
      to[1] = static_cast<char>(sample >> 8 & 0xff);
    }
  }
  return out;
}

WavContents ParseWav(std::string_view bytes) {
  Cursor cursor(bytes);
  WavContents out;
  cursor.Expect("RIFF");
  cursor.Take(4, "its size");
  cursor.Expect("WAVE");
  ReadFormat(cursor, &out);
  bool found = false;
  while (!cursor.AtEnd()) {
    const std::string_view name = cursor.Take(4, "the name of a chunk");
    const int64_t size = Number(cursor.Take(4, "a chunk's size"));
    const std::string_view content = cursor.Take(size, name);
    if (size % 2 != 0) cursor.SkipPadding();
    if (name != "data") continue;
    if (found) Fail(TENON_INVALID_ARGUMENT, "the WAV has two data chunks");
    found = true;
    out.data = content;
    out.frames = size / (kBytes * out.channels);
  }
  if (!found) Fail(TENON_INVALID_ARGUMENT, "the WAV has no data chunk");
  return out;
}

}  // namespace tenon::ops
