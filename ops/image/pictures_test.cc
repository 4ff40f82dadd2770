// SPDX-License-Identifier: Apache-2.0
// Files of pictures that goldens cannot show: headers that lie, files that end early, steps that are given up, what
// errors say.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/image/pictures_for_test.h"

namespace tenon::ops::pictures_test {
namespace {

using testing::Make;
using testing::Tensor;
using testing::Values;
using Bytes8 = std::vector<uint8_t>;

void ExpectRefused(const Decoded& result, const std::string& words, uint32_t code = TENON_INVALID_ARGUMENT) {
  EXPECT_EQ(result.outcome.code, code) << result.outcome.message;
  EXPECT_NE(result.outcome.message.find(words), std::string::npos) << result.outcome.message;
}
Decoded Jpeg(const std::string& bytes, testing::Attributes more = {}) {
  return Decode(kDecodeJpegKernel, "DecodeJpeg", bytes, std::move(more));
}
Decoded Png(const std::string& bytes, uint32_t dtype = TENON_DT_UINT8) {
  return Decode(kDecodePngKernel, "DecodePng", bytes, {}, dtype);
}

// Height and width in a JPEG's frame header.
std::string Claiming(std::string jpeg, uint16_t height, uint16_t width) {
  for (size_t at = 2; at + 9 < jpeg.size();) {
    const auto marker = static_cast<uint8_t>(jpeg[at + 1]);
    if (marker == 0xc0 || marker == 0xc2) {
      const uint16_t sides[] = {height, width};
      for (size_t i = 0; i < 2; ++i) {
        jpeg[at + 5 + 2 * i] = static_cast<char>(sides[i] >> 8);
        jpeg[at + 6 + 2 * i] = static_cast<char>(sides[i]);
      }
      return jpeg;
    }
    at += 2 + (static_cast<uint8_t>(jpeg[at + 2]) << 8 | static_cast<uint8_t>(jpeg[at + 3]));
  }
  ADD_FAILURE() << "the JPEG has no frame";
  return jpeg;
}

std::string PngClaiming(std::string png, uint32_t height, uint32_t width) {
  png.replace(16, 8, Big(width) + Big(height));
  return png.replace(29, 4, Big(Crc(std::string_view(png).substr(12, 17))));
}

TEST(Pictures, PngsComeBackAsTheyWere) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = Waves(7, 9, channels);
    const Decoded back = Png(PngOf(image));
    ASSERT_TRUE(back.outcome.ok()) << back.outcome.message;
    EXPECT_EQ(back.image().dims, image.dims);
    EXPECT_EQ(Values<uint8_t>(back.image()), Values<uint8_t>(image));
  }
  const Tensor words = Make<uint16_t>({1, 2, 1}, {258, 65535});
  EXPECT_EQ(Values<uint16_t>(Png(PngOf(words), TENON_DT_UINT16).image()), (std::vector<uint16_t>{258, 65535}));
}

TEST(Pictures, JpegsComeBackNearly) {
  const Tensor image = Waves(10, 12, 1);  // which has no edges
  const Decoded back = Jpeg(JpegOf(image, {{"quality", int64_t{100}}}));
  ASSERT_TRUE(back.outcome.ok()) << back.outcome.message;
  ASSERT_EQ(back.image().dims, image.dims);
  const Bytes8 x = Values<uint8_t>(image), y = Values<uint8_t>(back.image());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 6) << i;
}

TEST(Pictures, AnErrorSaysWhatThereIsAndWhatReadsIt) {
  const std::string png = PngOf(Waves(3, 3, 3));
  const Tensor contents = testing::Strings({}, {png}), window = Make<int32_t>({4}, {0, 0, 1, 1});
  ExpectRefused(RunKernel(kDecodeAndCropJpegKernel, NodeOf("DecodeAndCropJpeg"), {&contents, &window}),
                "contents is no JPEG: it begins with 89 50 4e 47 0d 0a 1a 0a, which is a PNG; DecodePng and "
                "DecodeImage read that");
  ExpectRefused(Decode(kDecodeBmpKernel, "DecodeBmp", png), "contents is no BMP");
  ExpectRefused(Jpeg(BmpOf(Waves(2, 2, 3))), "which is a BMP; DecodeBmp and DecodeImage read that");
  ExpectRefused(Jpeg("RIFF\x10\1\1\1WEBPVP8 "), "which is a WebP");
  ExpectRefused(Jpeg(""), "contents is empty");
  ExpectRefused(Jpeg("hello"), "it begins with 68 65 6c 6c 6f");
}

TEST(Pictures, AHeaderThatLiesIsRefusedBeforeMemoryIsTaken) {
  for (const bool progressive : {false, true}) {
    const std::string jpeg = JpegOf(Waves(16, 16, 3), {{"progressive", progressive}});
    ExpectRefused(Jpeg(Claiming(jpeg, 65000, 65000)), "a picture has 1 to 2^30 samples");
    ExpectRefused(Jpeg(Claiming(jpeg, 12000, 12000)), "12000 x 12000 pixels, which take ");
    ExpectRefused(Jpeg(Claiming(jpeg, 18000, 18000), {{"try_recover_truncated", true}}), "which take ");
  }
  const std::string png = PngOf(Waves(16, 16, 3));
  ExpectRefused(Png(PngClaiming(png, 900000, 900000)), "a picture has 1 to 2^30 samples");
  ExpectRefused(Png(PngClaiming(png, 10000, 10000)), "10000 x 10000 pixels, which take ");
  ExpectRefused(Decode(kDecodeGifKernel, "DecodeGif", GifOf(4, 65535, 0) + GifOf(4, 9, 1, 65535).substr(25)),
                "no whole frame");
  std::string bmp = BmpOf(Waves(4, 4, 3));
  bmp.replace(18, 4, Little(30000, 4));
  ExpectRefused(Decode(kDecodeBmpKernel, "DecodeBmp", bmp), "there are 102");
}

TEST(Pictures, OfAFileThatWasCutOffTheBeginningIsRight) {
  const Tensor image = Waves(64, 64, 1);
  const std::string whole = JpegOf(image), cut = whole.substr(0, whole.size() / 2);
  ExpectRefused(Jpeg(cut), "it ends too early");
  const Decoded all = Jpeg(whole), part = Jpeg(cut, {{"try_recover_truncated", true}});
  ASSERT_TRUE(part.outcome.ok()) << part.outcome.message;
  const Bytes8 x = Values<uint8_t>(all.image()), y = Values<uint8_t>(part.image());
  ASSERT_EQ(x.size(), y.size());
  EXPECT_TRUE(std::equal(x.begin(), x.begin() + 8 * 64, y.begin()));
  EXPECT_NE(x, y);
  ExpectRefused(Jpeg(whole.substr(0, 3), {{"try_recover_truncated", true}}), "cannot be read");
}

TEST(Pictures, APictureOfThousandsOfScansEnds) {
  const std::string jpeg = JpegOf(Waves(16, 16, 1), {{"progressive", true}});
  const size_t scan = jpeg.rfind("\xff\xda"), end = jpeg.size() - 2;
  std::string many = jpeg.substr(0, end);
  for (int i = 0; i < 600; ++i) many += jpeg.substr(scan, end - scan);
  ExpectRefused(Jpeg(many + "\xff\xd9"), "it has more than 500 scans");
}

TEST(Pictures, AFrameOfAnAnimationThatIsDamagedEndsIt) {
  const std::string gif = GifOf(3, 5, 3);
  const Decoded all = Decode(kDecodeGifKernel, "DecodeGif", gif),
                less = Decode(kDecodeGifKernel, "DecodeGif", gif.substr(0, gif.size() - 4));
  ASSERT_TRUE(all.outcome.ok()) << all.outcome.message;
  ASSERT_TRUE(less.outcome.ok()) << less.outcome.message;
  EXPECT_EQ(all.image().dims, (std::vector<int64_t>{3, 3, 5, 3}));
  EXPECT_EQ(less.image().dims, (std::vector<int64_t>{2, 3, 5, 3}));
  EXPECT_EQ(Values<uint8_t>(all.image())[0], 1);
  EXPECT_EQ(Values<uint8_t>(all.image())[45], 9);
  ExpectRefused(Jpeg(gif), "the GIF has 3 frames");
}

TEST(Pictures, AStepThatIsGivenUpEndsThere) {
  const Tensor contents = testing::Strings({}, {JpegOf(Waves(300, 300, 3), {{"progressive", true}})});
  ExpectRefused(RunKernel(kDecodeJpegKernel, NodeOf("DecodeJpeg"), {&contents}, true), "given up", TENON_CANCELLED);
}

TEST(Pictures, WhatCannotBeWrittenIsRefused) {
  const Tensor none(TENON_DT_UINT8, {0, 3, 3}), tall(TENON_DT_UINT8, {65501, 1, 1});
  const testing::Attributes png = {{"compression", int64_t{-1}}};
  ExpectRefused(RunKernel(kEncodePngKernel, {"EncodePng", png, {}, {TENON_DT_STRING}}, {&none}),
                "cannot be written as PNG");
  const testing::Attributes jpeg = {
      {"format", std::string()},   {"quality", int64_t{90}},      {"progressive", false},
      {"optimize_size", false},    {"chroma_downsampling", true}, {"density_unit", std::string("in")},
      {"x_density", int64_t{300}}, {"y_density", int64_t{300}},   {"xmp_metadata", std::string(70000, 'x')}};
  ExpectRefused(RunKernel(kEncodeJpegKernel, {"EncodeJpeg", jpeg, {}, {TENON_DT_STRING}}, {&tall}), "cannot be a JPEG");
  const Tensor small = Waves(2, 2, 1);
  ExpectRefused(RunKernel(kEncodeJpegKernel, {"EncodeJpeg", jpeg, {}, {TENON_DT_STRING}}, {&small}),
                "xmp_metadata has 70000 bytes");
}

}  // namespace
}  // namespace tenon::ops::pictures_test
