// SPDX-License-Identifier: Apache-2.0
// Pictures of every format with a few bytes changed, cut out or repeated: each is decoded, or refused with a text,
// within time and memory that its size is worth. TENON_PICTURE_MUTATIONS says how many of each format.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <jpeglib.h>

#include "ops/image/pictures_for_test.h"

namespace tenon::ops::mutations_test {
namespace {

using testing::Tensor;

int Mutations() {
  const char* asked = std::getenv("TENON_PICTURE_MUTATIONS");
  return asked != nullptr ? std::atoi(asked) : 5000;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  std::string operator()(std::string bytes) {
    for (int edits = Below(4) + 1; edits > 0 && !bytes.empty(); --edits) Edit(&bytes);
    return bytes;
  }
  int Below(size_t n) { return static_cast<int>(random_() % n); }

 private:
  void Edit(std::string* bytes) {
    // Headers stand at the beginning.
    const size_t at = Below(3) == 0 ? random_() % bytes->size() : random_() % std::min<size_t>(bytes->size(), 64);
    switch (Below(7)) {
      case 0: (*bytes)[at] = static_cast<char>(random_()); break;
      case 1: (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1 << Below(8)); break;
      case 2: (*bytes)[at] = Below(2) == 0 ? '\xff' : '\0'; break;
      case 3: bytes->resize(at); break;
      case 4: bytes->erase(at, random_() % 16 + 1); break;
      case 5: bytes->insert(at, bytes->substr(random_() % bytes->size(), random_() % 64)); break;
      default: bytes->replace(at, 2, Little(static_cast<uint32_t>(random_()), 2)); break;
    }
  }
  std::mt19937_64 random_;
};

// With the checksums of what is there, so that what stands in the chunks is looked at.
std::string WithChecksums(std::string png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<uint8_t>(png[at + i]);
    if (size > png.size() - at - 12) break;
    png.replace(at + 8 + size, 4, Big(Crc(std::string_view(png).substr(at + 4, size + 4))));
    at += 12 + size;
  }
  return png;
}

// Through every op that takes such bytes, with attributes in turn. How many gave a picture.
int Try(const std::string& bytes, int turn) {
  constexpr int64_t kChannels[] = {0, 1, 3, 4};
  const int64_t channels = kChannels[turn % 4];
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Decoded> results;
  results.push_back(Decode(kDecodeImageKernel, "DecodeImage", bytes,
                           {{"channels", channels}, {"expand_animations", turn % 3 != 0}},
                           turn % 5 == 0   ? TENON_DT_FLOAT
                           : turn % 5 == 1 ? TENON_DT_UINT16
                                           : TENON_DT_UINT8));
  results.push_back(Decode(kDecodeJpegKernel, "DecodeJpeg", bytes,
                           {{"channels", channels},
                            {"ratio", int64_t{1} << turn % 4},
                            {"fancy_upscaling", turn % 2 == 0},
                            {"try_recover_truncated", turn % 3 != 1}}));
  const Tensor contents = testing::Strings({}, {bytes}),
               window = testing::Make<int32_t>({4}, {turn % 5, turn % 7, 3 + turn % 11, 2 + turn % 6});
  results.push_back(
      RunKernel(kDecodeAndCropJpegKernel, NodeOf("DecodeAndCropJpeg", {{"channels", channels}}), {&contents, &window}));
  int given = 0;
  for (const Decoded& result : results) {
    given += result.outcome.ok() ? 1 : 0;
    if (result.outcome.ok()) continue;
    EXPECT_EQ(result.outcome.code, TENON_INVALID_ARGUMENT) << result.outcome.message;
    EXPECT_FALSE(result.outcome.message.empty());
  }
  const auto spent = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(std::chrono::duration_cast<std::chrono::seconds>(spent).count(), 20)
      << "a picture of " << bytes.size() << " bytes";
  return given;
}

void TryAll(const std::vector<std::string>& pictures, uint64_t seed, std::string (*mend)(std::string) = nullptr) {
  Mutator mutate(seed);
  int given = 0;
  for (int i = 0; i < Mutations(); ++i) {
    std::string bytes = mutate(pictures[static_cast<size_t>(i) % pictures.size()]);
    if (mend != nullptr && i % 4 != 0) bytes = mend(std::move(bytes));
    given += Try(bytes, mutate.Below(1000));
  }
  std::printf("%d mutations, %d pictures\n", Mutations(), given);
  EXPECT_GT(given, Mutations() / 50) << "next to nothing of what was tried is a picture still";
}

// A kind of JPEG that no op writes: with arithmetic codes, markers between rows, or four inks.
std::string OtherJpeg(J_COLOR_SPACE colors, bool arithmetic, unsigned restart, bool progressive) {
  const int64_t channels = colors == JCS_CMYK ? 4 : 3;
  const Tensor image = Waves(19, 23, channels);
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = 19;
  info.image_width = 23;
  info.input_components = static_cast<int>(channels);
  info.in_color_space = colors;
  jpeg_set_defaults(&info);
  info.arith_code = arithmetic ? TRUE : FALSE;
  info.restart_interval = restart;
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < 19; ++y) {
    auto* row = reinterpret_cast<JSAMPROW>(image.bytes.data() + y * 23 * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return out;
}

TEST(Mutations, OfJpegs) {
  std::vector<std::string> pictures;
  for (const bool progressive : {false, true}) {
    for (const int64_t channels : {1, 3}) {
      for (const bool sampled : {false, true}) pictures.push_back(JpegOf(Waves(19, 23, channels),
          {{"progressive", progressive}, {"chroma_downsampling", sampled}, {"optimize_size", sampled}}));
    }
  }
  for (const bool progressive : {false, true}) {
    pictures.push_back(OtherJpeg(JCS_CMYK, false, 0, progressive));
    pictures.push_back(OtherJpeg(JCS_RGB, true, 0, progressive));
    pictures.push_back(OtherJpeg(JCS_RGB, false, 1, progressive));
  }
  TryAll(pictures, 1);
}

TEST(Mutations, OfPngs) {
  std::vector<std::string> pictures;
  for (const int64_t channels : {1, 2, 3, 4}) pictures.push_back(PngOf(Waves(7, 9, channels)));
  pictures.push_back(PngOf(Waves(30, 40, 3)));
  pictures.push_back(PngOf(testing::Make<uint16_t>({2, 2, 1}, {1, 300, 5000, 65535})));
  TryAll(pictures, 2, &WithChecksums);
}

TEST(Mutations, OfGifs) { TryAll({GifOf(5, 7, 1), GifOf(9, 4, 3), GifOf(1, 1, 2)}, 3); }

TEST(Mutations, OfBmps) { TryAll({BmpOf(Waves(5, 7, 1)), BmpOf(Waves(4, 3, 3)), BmpOf(Waves(3, 3, 4))}, 4); }

}  // namespace
}  // namespace tenon::ops::mutations_test
