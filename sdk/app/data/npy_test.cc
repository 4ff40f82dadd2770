// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/npy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tenon/data/file.h"

namespace tenon::data::npy_test {
namespace {

std::string Npy(const std::string& header, const std::string& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  const size_t size_bytes = version == 1 ? 2 : 4;
  for (size_t i = 0; i < size_bytes; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string Header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  return std::vector<T>(tensor.data<T>().begin(), tensor.data<T>().end());
}

TEST(Npy, ReadsFloatsInRowMajorOrder) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("<f4", "(2, 3)"), Raw<float>({1, 2, 3, 4, 5, 6})));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Shape({2, 3}), tensor->shape());
  EXPECT_EQ((std::vector<float>{1, 2, 3, 4, 5, 6}), Values<float>(*tensor));
}

TEST(Npy, ReadsVersionTwoAndAScalar) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("<i8", "()"), Raw<int64_t>({-7}), 2));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(0, tensor->shape().rank());
  EXPECT_EQ(-7, tensor->scalar<int64_t>());
}

TEST(Npy, TurnsColumnMajorArraysRound) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("<i4", "(2, 3)", true), Raw<int32_t>({1, 4, 2, 5, 3, 6})));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ((std::vector<int32_t>{1, 2, 3, 4, 5, 6}), Values<int32_t>(*tensor));
}

TEST(Npy, SwapsBigEndianElements) {
  Result<Tensor> tensor = ParseNpy(Npy(Header(">i2", "(2,)"), std::string("\x01\x02\xff\xfe", 4)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ((std::vector<int16_t>{0x0102, -2}), Values<int16_t>(*tensor));
}

TEST(Npy, SwapsEachPartOfAComplexNumber) {
  Result<Tensor> tensor = ParseNpy(Npy(Header(">c8", "(1,)"), std::string("\x3f\x80\0\0\x40\0\0\0", 8)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(std::complex<float>(1, 2), tensor->scalar<std::complex<float>>());
}

TEST(Npy, ReadsBytesAsStringsWithoutThePadding) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("|S3", "(3,)"), std::string("ab\0\0\0\0x\0y", 9)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ("ab", tensor->string(0));
  EXPECT_EQ("", tensor->string(1));
  EXPECT_EQ(std::string_view("x\0y", 3), tensor->string(2));
}

TEST(Npy, ReadsUnicodeAsUtf8) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("<U2", "(2,)"), Raw<uint32_t>({'a', 0xe9, 0x1f600, 0})));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ("a\xc3\xa9", tensor->string(0));
  EXPECT_EQ("\xf0\x9f\x98\x80", tensor->string(1));
}

TEST(Npy, MakesTruthOfAnyByteThatIsNotZero) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("|b1", "(3,)"), std::string("\0\1\7", 3)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ((std::vector<uint8_t>{0, 1, 1}), std::vector<uint8_t>(tensor->bytes().begin(), tensor->bytes().end()));
}

TEST(Npy, ReadsAnArrayWithoutElements) {
  Result<Tensor> tensor = ParseNpy(Npy(Header("<f4", "(0, 9223372036854775807, 5)"), ""));
  if (!tensor.ok()) return;  // the engine may refuse a shape whose product is beyond int64; it may not crash
  EXPECT_EQ(0u, tensor->bytes().size());
}

TEST(Npy, WritesWhatItReads) {
  const std::vector<double> values = {0.5, -1, 3e300};
  Tensor tensor = *Tensor::From(std::span<const double>(values), {3, 1});
  std::string storage;
  Result<std::string> header = NpyHeader(tensor);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(0u, header->size() % 64);
  Result<Tensor> read = ParseNpy(*header + std::string(NpyElements(tensor, &storage)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(tensor.shape(), read->shape());
  EXPECT_EQ(values, Values<double>(*read));
}

TEST(Npy, WritesStringsAsWideAsTheLongest) {
  Tensor tensor = *Tensor::Strings({"a", "four", ""});
  std::string storage;
  Result<std::string> header = NpyHeader(tensor);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_NE(std::string::npos, header->find("'descr': '|S4'"));
  Result<Tensor> read = ParseNpy(*header + std::string(NpyElements(tensor, &storage)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ("four", read->string(1));
  EXPECT_EQ("", read->string(2));
}

struct Hostile {
  const char* what;
  std::string bytes;
};

TEST(Npy, RefusesHostileFilesWithAReason) {
  const std::string ones = Raw<float>({1, 1});
  const Hostile kFiles[] = {
      {"empty", ""},
      {"no magic", "PK\3\4 something else entirely"},
      {"only the magic", "\x93NUMPY"},
      {"unknown version", Npy(Header("<f4", "(2,)"), ones, 9)},
      {"header beyond the end", std::string("\x93NUMPY\1\0\xff\xff", 10) + "{'descr'"},
      {"4 GiB header", std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)},
      {"no dictionary", Npy("[1, 2]", ones)},
      {"unclosed dictionary", Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", ones)},
      {"missing shape", Npy("{'descr': '<f4', 'fortran_order': False}", ones)},
      {"unknown key", Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", ones)},
      {"truncated data", Npy(Header("<f4", "(3,)"), ones)},
      {"negative size", Npy(Header("<f4", "(-1,)"), ones)},
      {"size beyond 64 bits", Npy(Header("<f4", "(99999999999999999999,)"), ones)},
      {"product beyond 64 bits", Npy(Header("<f4", "(4294967296, 4294967296, 2)"), ones)},
      {"terabytes", Npy(Header("<f8", "(1000000, 1000000)"), ones)},
      {"objects", Npy(Header("|O", "(2,)"), ones)},
      {"records", Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", ones)},
      {"long double", Npy(Header("<f16", "(1,)"), std::string(16, 'x'))},
      {"enormous strings", Npy(Header("|S99999999999999999999", "(1,)"), ones)},
      {"endless empty strings", Npy(Header("|S0", "(1000000000000,)"), ones)},
  };
  for (const Hostile& file : kFiles) {
    Result<Tensor> tensor = ParseNpy(file.bytes);
    EXPECT_FALSE(tensor.ok()) << file.what;
    EXPECT_GT(tensor.status().message().size(), 20u) << file.what;
  }
}

TEST(Npy, RefusesMoreDimensionsThanATensorMayHave) {
  std::string shape = "(";
  for (int i = 0; i < 300; ++i) shape += "1, ";
  EXPECT_FALSE(ParseNpy(Npy(Header("<f4", shape + ")"), Raw<float>({1}))).ok());
}

// Whatever one flips in a good file, the answer is a tensor or a reason.
TEST(Npy, SurvivesDamagedBytes) {
  const std::string good = Npy(Header("<f4", "(2, 2)"), Raw<float>({1, 2, 3, 4}));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips) bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(random() % 4 == 0 ? random() % bad.size() : bad.size());
    refused += !ParseNpy(bad).ok();
  }
  EXPECT_GT(refused, 1000);
}

TEST(Npy, NamesTheFileThatIsMissing) {
  Result<Tensor> tensor = ReadNpy("/nowhere/x.npy");
  ASSERT_FALSE(tensor.ok());
  EXPECT_EQ(Code::kNotFound, tensor.status().code());
  EXPECT_NE(std::string::npos, tensor.status().message().find("/nowhere/x.npy"));
}

TEST(Npy, ReadsTheDigits) {
  Result<Tensor> tensor = ReadNpy(TENON_TEST_SOURCE_DIR "/sdk/app/train/data/digits.npy");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Shape({1797, 65}), tensor->shape());
  EXPECT_EQ(DType::kUint8, tensor->dtype());
}

}  // namespace
}  // namespace tenon::data::npy_test
