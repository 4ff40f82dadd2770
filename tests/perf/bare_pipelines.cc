// SPDX-License-Identifier: Apache-2.0
#include "bare_pipelines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <jpeglib.h>

#include "tenon/bytes/crc32c.h"

namespace tenon::perf {
namespace {

[[noreturn]] void End(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

class Records {
 public:
  explicit Records(const std::string& path) : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) End("cannot open " + path);
  }
  ~Records() { close(descriptor_); }
  bool Next(std::string* record) {
    uint64_t length = 0;
    uint32_t crc = 0;
    char head[12];
    const ssize_t got = read(descriptor_, head, sizeof head);
    if (got == 0) return false;
    std::memcpy(&length, head, 8);
    std::memcpy(&crc, head + 8, 4);
    if (got != sizeof head || sdk::MaskCrc32c(sdk::Crc32c({head, 8})) != crc) End("a damaged record in " + path_);
    if (record->size() < length + 4) record->resize(length + 4);
    if (read(descriptor_, record->data(), length + 4) != static_cast<ssize_t>(length + 4))
      End("a short record in " + path_);
    std::memcpy(&crc, record->data() + length, 4);
    if (sdk::MaskCrc32c(sdk::Crc32c({record->data(), length})) != crc) End("a damaged record in " + path_);
    return true;
  }

 private:
  const std::string path_;
  const int descriptor_;
};

struct Distorted {
  std::vector<uint8_t> pixels;
  std::minstd_rand random;
  float Between(float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); }

  void Make(const std::string& bytes, float* out) {
    jpeg_decompress_struct info{};
    jpeg_error_mgr errors{};
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    info.dct_method = JDCT_IFAST;  // as TensorFlow decodes where nothing else is asked for
    jpeg_start_decompress(&info);
    const int64_t width = info.output_width, height = info.output_height;
    pixels.resize(static_cast<size_t>(width * height * 3));
    while (info.output_scanline < info.output_height) {
      JSAMPROW rows[16];
      const JDIMENSION count = std::min<JDIMENSION>(16, info.output_height - info.output_scanline);
      for (JDIMENSION i = 0; i < count; ++i)
        rows[i] = pixels.data() + static_cast<size_t>((info.output_scanline + i) * width * 3);
      (void)jpeg_read_scanlines(&info, rows, count);
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);

    const int64_t top = std::uniform_int_distribution<int64_t>(0, height - kCut)(random),
                  left = std::uniform_int_distribution<int64_t>(0, width - kCut)(random);
    const bool turned = Between(0, 1) < 0.5f;
    const float brighter = Between(-32, 32), contrast = Between(0.5f, 1.5f);
    double sums[3] = {0, 0, 0};
    for (int64_t y = 0; y < kCut; ++y) {
      const uint8_t* const from = pixels.data() + ((top + y) * width + left) * 3;
      float* const to = out + y * kCut * 3;
      if (turned) {
        for (int64_t x = 0; x < kCut; ++x)
          for (int64_t k = 0; k < 3; ++k) to[x * 3 + k] = static_cast<float>(from[(kCut - 1 - x) * 3 + k]) + brighter;
      } else {
        for (int64_t i = 0; i < kCut * 3; ++i) to[i] = static_cast<float>(from[i]) + brighter;
      }
      float row[3] = {0, 0, 0};
      for (int64_t x = 0; x < kCut; ++x)
        for (int64_t k = 0; k < 3; ++k) row[k] += to[x * 3 + k];
      for (int64_t k = 0; k < 3; ++k) sums[k] += static_cast<double>(row[k]);
    }
    float means[3];
    for (int64_t k = 0; k < 3; ++k) means[k] = static_cast<float>(sums[k] / (kCut * kCut));
    for (int64_t i = 0; i < kCut * kCut; ++i)
      for (int64_t k = 0; k < 3; ++k) out[i * 3 + k] = (out[i * 3 + k] - means[k]) * contrast + means[k];
  }
};

}  // namespace

int64_t BareRecords(const std::string& path) {
  Records records(path);
  std::string record;
  int64_t count = 0;
  while (records.Next(&record)) ++count;
  return count;
}

float BarePictures(const std::string& path, int64_t batch, int64_t batches, int threads) {
  constexpr int64_t kOne = kCut * kCut * 3;
  std::vector<Distorted> makers(static_cast<size_t>(threads));
  float some = 0;
  Records records(path);
  std::string record;
  static std::vector<float> memory;  // as whoever writes such a loop would keep it
  memory.resize(static_cast<size_t>(batch * kOne));
  for (int64_t done = 0; done < batches; ++done) {
    std::vector<std::string> bytes;
    while (static_cast<int64_t>(bytes.size()) < batch) {
      if (!records.Next(&record)) End("too few pictures in " + path);
      bytes.push_back(record);
    }
    const auto share = [&](int which) {
      for (int64_t i = which; i < batch; i += threads)
        makers[static_cast<size_t>(which)].Make(bytes[static_cast<size_t>(i)], memory.data() + i * kOne);
    };
    std::vector<std::thread> others;
    for (int which = 1; which < threads; ++which) others.emplace_back(share, which);
    share(0);
    for (std::thread& other : others) other.join();
    some += memory[0];
  }
  return some;
}

}  // namespace tenon::perf
