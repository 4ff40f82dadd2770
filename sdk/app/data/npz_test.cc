// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/npz.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <random>

#include "tenon/data/file.h"
#include "tenon/data/npy.h"

namespace tenon::data::npz_test {
namespace {

std::string TemporaryFile() { return testing::TempDir() + "tenon_npz_" + std::to_string(getpid()) + ".npz"; }

std::string Written(const NamedTensors& tensors) {
  const std::string path = TemporaryFile();
  EXPECT_TRUE(WriteNpz(path, tensors).ok());
  Result<std::string> bytes = ReadFile(path);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  unlink(path.c_str());
  return *bytes;
}

NamedTensors Two() { return {{"a:0", *Tensor::Scalar(3.5f)}, {"words", *Tensor::Strings({"x", "yz"})}}; }

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// An archive of one deflated member, as numpy.savez_compressed makes it.
std::string Deflated(const std::string& content, uint32_t claimed_size) {
  std::string packed(compressBound(content.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(Z_STREAM_END, deflate(&stream, Z_FINISH));
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
  const std::string name = "a.npy";
  std::string sizes;
  Put<uint16_t>(sizes, 20), Put<uint16_t>(sizes, 0), Put<uint16_t>(sizes, 8), Put<uint32_t>(sizes, 0);
  Put(sizes, crc), Put(sizes, static_cast<uint32_t>(packed.size())), Put(sizes, claimed_size);
  Put(sizes, static_cast<uint16_t>(name.size())), Put<uint16_t>(sizes, 0);
  std::string file;
  Put<uint32_t>(file, 0x04034b50);
  file += sizes + name + packed;
  const auto directory = static_cast<uint32_t>(file.size());
  Put<uint32_t>(file, 0x02014b50), Put<uint16_t>(file, 20);
  file += sizes + std::string(14, '\0') + name;
  const auto directory_size = static_cast<uint32_t>(file.size() - directory);
  Put<uint32_t>(file, 0x06054b50), Put<uint32_t>(file, 0), Put<uint16_t>(file, 1), Put<uint16_t>(file, 1);
  Put(file, directory_size), Put(file, directory), Put<uint16_t>(file, 0);
  return file;
}

std::string NpyBytes(const Tensor& tensor) {
  std::string storage;
  return *NpyHeader(tensor) + std::string(NpyElements(tensor, &storage));
}

TEST(Npz, ReadsBackWhatItWrote) {
  Result<NamedTensors> tensors = ParseNpz(Written(Two()));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(2u, tensors->size());
  EXPECT_EQ("a:0", (*tensors)[0].first);
  EXPECT_EQ(3.5f, (*tensors)[0].second.scalar<float>());
  EXPECT_EQ("yz", (*tensors)[1].second.string(1));
}

TEST(Npz, ReadsDeflatedMembers) {
  const std::vector<float> values(1000, 2.0f);
  const std::string content = NpyBytes(*Tensor::From(std::span<const float>(values), {1000}));
  Result<NamedTensors> tensors = ParseNpz(Deflated(content, static_cast<uint32_t>(content.size())));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ("a", (*tensors)[0].first);
  EXPECT_EQ(1000u, (*tensors)[0].second.data<float>().size());
}

TEST(Npz, RefusesADeflatedMemberThatLiesAboutItsSize) {
  const std::string content = NpyBytes(*Tensor::Scalar(1.0f));
  for (uint32_t claimed :
       {uint32_t{0}, uint32_t{10}, static_cast<uint32_t>(content.size()) + 1, uint32_t{0xfffffffe}}) {
    EXPECT_FALSE(ParseNpz(Deflated(content, claimed)).ok()) << claimed;
  }
}

TEST(Npz, NoticesADamagedMember) {
  std::string bytes = Written(Two());
  const size_t at = bytes.find("NUMPY") + 130;  // inside the first member's elements
  bytes[at] ^= 1;
  Result<NamedTensors> tensors = ParseNpz(bytes);
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(Code::kDataLoss, tensors.status().code());
}

TEST(Npz, RefusesWhatWasCutOff) {
  const std::string bytes = Written(Two());
  for (size_t size = 0; size < bytes.size(); size += 7) EXPECT_FALSE(ParseNpz(bytes.substr(0, size)).ok()) << size;
}

TEST(Npz, SurvivesDamagedBytes) {
  const std::string good = Written(Two());
  const std::string packed = Deflated(NpyBytes(*Tensor::Scalar(1.0f)), 132);
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string bad = i % 2 == 0 ? good : packed;
    for (int flips = 0; flips < 4; ++flips) bad[random() % bad.size()] = static_cast<char>(random());
    refused += !ParseNpz(bad).ok();
  }
  EXPECT_GT(refused, 2000);
}

// An archive whose directory names its only member so often.
std::string Repeated(const std::string& one, uint16_t times) {
  const size_t end = one.size() - 22;
  uint32_t directory_size = 0, directory = 0;
  std::memcpy(&directory_size, one.data() + end + 12, 4);
  std::memcpy(&directory, one.data() + end + 16, 4);
  std::string file = one.substr(0, directory);
  for (int i = 0; i < times; ++i) file += one.substr(directory, directory_size);
  Put<uint32_t>(file, 0x06054b50), Put<uint32_t>(file, 0), Put<uint16_t>(file, times), Put<uint16_t>(file, times);
  Put(file, static_cast<uint32_t>(directory_size * times)), Put(file, directory), Put<uint16_t>(file, 0);
  return file;
}

TEST(Npz, RefusesMembersThatOverlap) {
  const std::string content = NpyBytes(*Tensor::From(std::vector<float>(1 << 20, 1), {1 << 20}));
  const std::string one = Deflated(content, static_cast<uint32_t>(content.size()));
  ASSERT_TRUE(ParseNpz(one).ok());
  const Result<NpzArchive> archive = NpzArchive::Parse(Repeated(one, 20));
  ASSERT_FALSE(archive.ok());
  EXPECT_NE(archive.status().message().find("overlaps another one"), std::string::npos) << archive.status();
}

TEST(Npz, UnpacksWhatIsAskedForWithinTheLimit) {
  const std::vector<float> values(1000, 1);
  const std::string bytes =
      Written({{"large", *Tensor::From(std::span<const float>(values), {1000})}, {"small", *Tensor::Scalar(2.0f)}});
  const Result<NpzArchive> archive = NpzArchive::Parse(bytes);
  ASSERT_TRUE(archive.ok()) << archive.status();
  ReadLimit limit(1000);
  EXPECT_TRUE(archive->Read(1, limit).ok());
  EXPECT_EQ(limit.left(), 996u);
  const Result<Tensor> large = archive->Read(0, limit);
  EXPECT_EQ(large.status().code(), Code::kResourceExhausted);
  EXPECT_NE(large.status().message().find("'large'"), std::string::npos) << large.status();
  ReadLimit enough(9000);
  EXPECT_TRUE(archive->Read(0, enough).ok());
  EXPECT_TRUE(archive->Read(0, enough).ok());
  EXPECT_FALSE(archive->Read(0, enough).ok()) << "all together";
}

TEST(Npz, TextsAreChargedWithWhatTheyTake) {
  const std::string bytes = Written({{"words", *Tensor::Strings(std::vector<std::string>(1000, "x"), Shape{1000})}});
  ReadLimit limit(20000);
  EXPECT_EQ(NpzArchive::Parse(bytes)->Read(0, limit).status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace tenon::data::npz_test
