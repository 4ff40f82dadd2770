// SPDX-License-Identifier: Apache-2.0
// DecodeJpeg of a picture of 256 x 256 pixels beside libjpeg alone, with the same settings, into memory that is there.
#include <benchmark/benchmark.h>

#include <malloc.h>

#include <cstdio>

#include <jpeglib.h>

#include "ops/image/pictures_for_test.h"

namespace tenon::ops {
namespace {

// Waves with some noise, as photographs have: about 1.6 bits a pixel.
const std::string& Picture(bool progressive) {
  static const auto make = [](bool with_scans) {
    testing::Tensor image = Waves(256, 256, 3);
    uint32_t state = 1;
    for (char& each : image.bytes) {
      state = state * 1664525 + 1013904223;
      each = static_cast<char>(static_cast<uint8_t>(each) / 2 + (state >> 27));
    }
    return JpegOf(image, {{"progressive", with_scans}, {"quality", int64_t{75}}});
  };
  static const std::string kPlain = make(false), kProgressive = make(true);
  return progressive ? kProgressive : kPlain;
}

void Ours(benchmark::State& state) {
  // The memory of an output is had again, as the engine has its own again.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const testing::Tensor contents = testing::Strings({}, {Picture(state.range(0) != 0)});
  const testing::Node node = NodeOf("DecodeJpeg");
  for (auto _ : state) {
    const Decoded decoded = RunKernel(kDecodeJpegKernel, node, {&contents});
    if (!decoded.outcome.ok()) state.SkipWithError(decoded.outcome.message.c_str());
    benchmark::DoNotOptimize(decoded.image().bytes.data());
  }
}

void Libjpeg(benchmark::State& state) {
  const std::string& bytes = Picture(state.range(0) != 0);
  std::vector<uint8_t> out(256 * 256 * 3);
  for (auto _ : state) {
    jpeg_decompress_struct info = {};
    jpeg_error_mgr errors = {};
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    info.dct_method = JDCT_IFAST;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = out.data() + size_t{info.output_scanline} * 256 * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    benchmark::DoNotOptimize(out.data());
  }
}

BENCHMARK(Ours)->ArgName("progressive")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(Libjpeg)->ArgName("progressive")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon::ops
