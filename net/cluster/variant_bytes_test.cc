// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/variant_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/base/plugin_instance.h"
#include "core/tensor/variant.h"

namespace tenon::cluster::variant_bytes_test {
namespace {

// "numbers": elements are of the type that its metadata name.
tenon_status* CheckNumbers(tenon_plugin_self*, const tenon_variant_info* info, const tenon_tensor_view* elements,
                           uint64_t told) {
  if (info->metadata.size != 1) return InvalidArgument("metadata").release();
  for (uint64_t i = 0; i < told; ++i) {
    if (elements[i].dl.data != nullptr) return InvalidArgument("data are shown").release();
    if (elements[i].dtype != TENON_DT_INVALID && elements[i].dtype != static_cast<uint8_t>(info->metadata.data[0]))
      return InvalidArgument("type").release();
  }
  return nullptr;
}
constexpr tenon_variant_type kNumbers = {TENON_HEAD(tenon_variant_type), TENON_SPAN("numbers"),
                                         TENON_SPAN("Make,  Change ,"), &CheckNumbers};
constexpr const tenon_variant_type* kTypes[] = {&kNumbers};
constexpr tenon_variant_package kPackage = {TENON_HEAD(tenon_variant_package), kTypes, 1};

class VariantBytes : public ::testing::Test {
 protected:
  VariantBytes() { EXPECT_TRUE(types_.Register(&kPackage, std::make_shared<PluginInstance>("test.numbers")).ok()); }
  ~VariantBytes() override {
    EXPECT_EQ(pool_->bytes_in_use(), 0u);
    pool_->Close();
  }
  // A scalar of one variant of these elements; those without a type are empty places.
  Tensor Of(DType dtype, const std::vector<Tensor>& elements, uint64_t count = 0, std::string_view type = "numbers") {
    std::vector<tenon_tensor_view> views;
    for (const Tensor& element : elements) views.push_back(element.has_value() ? element.view() : tenon_tensor_view{});
    Tensor out = *Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape());
    const char metadata = static_cast<char>(dtype);
    out.as<tenon_variant*>()[0] =
        *variant::New(pool_, type, {&metadata, 1}, views.data(), std::max<uint64_t>(count, views.size()), views.size());
    return out;
  }
  Tensor Floats(const std::vector<float>& values, Shape shape) {
    return *Tensor::FromValues<float>(pool_, TENON_DT_FLOAT, std::move(shape), std::span(values));
  }
  Tensor Texts(const std::vector<std::string_view>& values) {
    return *Tensor::Strings(pool_, Shape{static_cast<int64_t>(values.size())}, values);
  }
  // Variants of variants, `depth` in one another.
  Tensor Nested(int depth) {
    Tensor out = Of(TENON_DT_FLOAT, {});
    for (int i = 1; i < depth; ++i) out = Of(TENON_DT_VARIANT, {out});
    return out;
  }
  // What it holds, as a text.
  static std::string Text(const tenon_tensor_view& cells) {
    std::string out = StrCat(ShapeOf(cells).ToString(), "(");
    for (int64_t i = 0; i < NumElements(cells); ++i) {
      const tenon_variant* each = static_cast<tenon_variant* const*>(DataOf(cells))[i];
      if (each == nullptr) {
        out += "none;";
        continue;
      }
      out += StrCat(each->type, " ", int{each->metadata[0]}, " ", each->count, ":");
      for (uint64_t k = 0; k < variant::Told(*each); ++k) {
        const tenon_tensor_view element = variant::Element(*each, k);
        out += StrCat(" ", TypeName(element.dtype));
        if (element.dtype == TENON_DT_INVALID) continue;
        if (element.dtype == TENON_DT_VARIANT) {
          out += Text(element);
          continue;
        }
        out += ShapeOf(element).ToString();
        for (int64_t n = 0; n < NumElements(element); ++n)
          out += element.dtype == TENON_DT_STRING ? StrCat("'", StringAt(element, n), "'")
                                                  : StrCat(",", static_cast<const float*>(DataOf(element))[n]);
      }
      out += ";";
    }
    return out + ")";
  }
  Result<Tensor> Write(const Tensor& cells) { return WriteVariants(cells.view(), &types_, pool_); }
  Result<Tensor> Read(const Tensor& bytes, const Shape& shape = Shape()) {
    return ReadVariants(bytes, shape, &types_, pool_);
  }
  void ExpectTheSame(const Tensor& cells) {
    auto bytes = Write(cells);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    auto made = Read(*bytes, cells.shape());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    bytes = Tensor();  // elements keep what they need
    EXPECT_EQ(Text(made->view()), Text(cells.view()));
  }
  // The bytes of a list, changed.
  Status StatusOf(const std::string& bytes, const Shape& shape = Shape()) {
    Tensor copy = *Tensor::Allocate(pool_, TENON_DT_UINT8, Shape{static_cast<int64_t>(bytes.size())});
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return Read(copy, shape).status();
  }
  std::string BytesOf(const Tensor& cells) {
    const Tensor bytes = *Write(cells);
    return {bytes.as<char>(), bytes.byte_size()};
  }
  void ExpectRefused(const std::string& bytes, std::string_view why, const Shape& shape = Shape()) {
    const uint64_t before = pool_->peak_bytes();
    const Status status = StatusOf(bytes, shape);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString() << ", wanted: " << why;
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString() << ", wanted: " << why;
    EXPECT_LT(pool_->peak_bytes() - before, uint64_t{1} << 20) << "memory was taken for what is not there: " << why;
  }
  template <typename T>
  static std::string With(std::string bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  }

  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  variant::Types types_;
};

TEST_F(VariantBytes, AreMadeAnewAsTheyWere) {
  ExpectTheSame(Of(TENON_DT_FLOAT, {}));
  ExpectTheSame(Of(TENON_DT_FLOAT, {Floats({1, 2, 3}, {3}), Floats({4}, {}), Floats({}, {0, 7}),
                                    Floats({5, 6, 7, 8, 9, 10}, {1, 2, 3})}));
  ExpectTheSame(Of(TENON_DT_STRING, {Texts({"one", "", "a longer text than the others"}), Texts({}), Texts({"x"})}));
  ExpectTheSame(Of(TENON_DT_FLOAT, {Tensor(), Floats({1}, {}), Tensor(), Tensor(), Floats({2}, {})}, 9));
  const Tensor list = Of(TENON_DT_FLOAT, {Floats({1, 2}, {2}), Tensor()}),
               texts = Of(TENON_DT_STRING, {Texts({"a", "bc"})});
  ExpectTheSame(Of(TENON_DT_VARIANT, {list, Tensor(), texts, Of(TENON_DT_VARIANT, {texts, list})}));
  ExpectTheSame(Nested(kMostDepth));
  ExpectTheSame(*Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape{2, 0}));
  ExpectTheSame(*Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape{2, 3}));
  Tensor several = *Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape{3});
  for (const int i : {0, 2}) {
    several.as<tenon_variant*>()[i] = list.as<tenon_variant*>()[0];
    variant::Retain(several.as<tenon_variant*>()[i]);
  }
  ExpectTheSame(several);
}

TEST_F(VariantBytes, EmptyPlacesBehindTheLastCostNothing) {
  const Tensor list = Of(TENON_DT_FLOAT, {Floats({1}, {})}, uint64_t{1} << 31);
  EXPECT_LT(BytesOf(list).size(), 100u);
  ExpectTheSame(list);
}

TEST_F(VariantBytes, ElementsOfAValueThatWasChangedAreThoseOfItsOwnVersion) {
  const Tensor list = Of(TENON_DT_FLOAT, {Floats({1}, {})}, 4);
  const Tensor later = Floats({2}, {});
  const tenon_tensor_view element = later.view();
  tenon_variant* const derived =
      *variant::Derive(pool_, *list.as<tenon_variant*>()[0], list.as<tenon_variant*>()[0]->metadata, 4, 2, &element);
  ExpectTheSame(list);
  EXPECT_EQ(variant::Told(*list.as<tenon_variant*>()[0]), 1u);
  EXPECT_EQ(variant::Told(*derived), 3u);
  variant::Release(derived);
}

TEST_F(VariantBytes, WhatDoesNotLeaveItsProcessIsNamed) {
  const auto refused = [&](const Tensor& cells, std::string_view why) {
    const Status status = Write(cells).status();
    EXPECT_EQ(status.code(), Code::kUnimplemented) << status.ToString();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString();
  };
  refused(Of(TENON_DT_FLOAT, {}, 0, "a dataset"),
          "a variant of type 'a dataset' does not leave its process: no plugin says");
  refused(Of(TENON_DT_VARIANT, {Of(TENON_DT_FLOAT, {}, 0, "a dataset")}),
          "a variant of type 'a dataset' does not leave");
  refused(Of(TENON_DT_RESOURCE, {Tensor(), *Tensor::Allocate(pool_, TENON_DT_RESOURCE, Shape())}),
          "element 1 of a variant of type 'numbers' is of type resource");
  refused(Nested(kMostDepth + 1), "deeper than 16");
  Tensor held = *Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape());
  held.as<tenon_variant*>()[0] = *variant::Hold("numbers", "", &held, [](void*) {});
  refused(held, "a variant of type 'numbers' does not leave its process: it holds an object");
}

// A list of a string and a float: where its numbers stand.
constexpr size_t kNameBytes = 0, kMetadataBytes = 4, kPlaces = 8, kTold = 16, kFirst = 32, kRank = 36, kDataBytes = 40,
                 kDim = 48, kCell = 64;

TEST_F(VariantBytes, LiesOfAPeerAreRefusedByNameBeforeMemoryIsTaken) {
  const std::string texts = BytesOf(Of(TENON_DT_STRING, {Texts({"some text", "more"})}));
  ASSERT_TRUE(StatusOf(texts).ok()) << StatusOf(texts).ToString();
  constexpr auto kHuge = uint64_t{1} << 40;
  ExpectRefused(With(texts, kNameBytes, ~0u), "4294967295 bytes of text");
  ExpectRefused(With(texts, kMetadataBytes, ~0u), "4294967295 bytes of text");
  ExpectRefused(With(texts, kNameBytes, 6u), "of type 'number' came, which no plugin here says how to make anew");
  ExpectRefused(With(texts, 24, '\x01'), "without a type's name");
  ExpectRefused(With(texts, kNameBytes, 0u), "without a type's name");
  ExpectRefused(With(texts, kPlaces, kHuge), "is said to have 1099511627776 places");
  ExpectRefused(With(texts, kPlaces, uint64_t{0}), "is said to have 0 places, of which 1 follow");
  ExpectRefused(With(With(texts, kPlaces, uint64_t{1} << 30), kTold, uint64_t{1} << 30), "1073741824 places");
  ExpectRefused(With(texts, 31, char{TENON_DT_FLOAT}), "no numbers: type");  // the metadata
  ExpectRefused(With(texts, kFirst, uint32_t{TENON_DT_RESOURCE}), "an element of type resource came");
  ExpectRefused(With(texts, kFirst, 999u), "came from another process");
  ExpectRefused(With(texts, kFirst, uint32_t{TENON_DT_INVALID}), "an empty place has dims or bytes");
  ExpectRefused(With(texts, kFirst, uint32_t{TENON_DT_VARIANT}), "variants within variants are said to have");
  ExpectRefused(With(texts, kRank, 300u), "an element of rank 300");
  ExpectRefused(With(texts, kRank, 200u), "200 dims");
  ExpectRefused(With(texts, kDataBytes, kHuge), "is said to have 1099511627776");
  ExpectRefused(With(texts, kDataBytes, uint64_t{3}), "an element of 32 bytes is said to have 3");
  ExpectRefused(With(texts, kDim, int64_t{-1}), "an element has the shape");
  ExpectRefused(With(texts, kDim, int64_t{-7}), "");
  ExpectRefused(With(texts, kDim, int64_t{1} << 20), "an element of 16777216 bytes is said to have");
  ExpectRefused(With(texts, kCell, uint64_t{1} << 20), "string 0 lies outside of its tensor");
  ExpectRefused(With(texts, kCell, uint64_t{0}), "string 0 lies outside of its tensor");
  ExpectRefused(texts + std::string(8, '\0'), "8 of ");
  ExpectRefused(texts, "cells", Shape{1000000});
  EXPECT_FALSE(StatusOf(With(texts, kDim, int64_t{1} << 60)).ok());
  for (size_t size = 0; size < texts.size(); ++size)
    EXPECT_EQ(StatusOf(texts.substr(0, size)).code(), Code::kInvalidArgument) << size;
  // Deeper than is sent.
  std::string deep = BytesOf(Nested(kMostDepth));
  ASSERT_TRUE(StatusOf(deep).ok());
  const std::string shell = BytesOf(Of(TENON_DT_VARIANT, {Nested(1)}));
  ExpectRefused(shell.substr(0, shell.size() - BytesOf(Nested(1)).size()) + deep, "deeper than 16");
}

TEST_F(VariantBytes, AnyBytesAreRefusedOrAValue) {
  std::mt19937 random(11);
  const Tensor list = Of(TENON_DT_FLOAT, {Floats({1, 2}, {2}), Tensor(), Floats({3}, {})}),
               texts = Of(TENON_DT_STRING, {Texts({"a", "bc"})});
  const std::string good = BytesOf(Of(TENON_DT_VARIANT, {list, texts, Of(TENON_DT_VARIANT, {texts, list})}));
  int made = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? random() : random() % 4);
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    Tensor copy = *Tensor::Allocate(pool_, TENON_DT_UINT8, Shape{static_cast<int64_t>(bytes.size())});
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    const uint64_t before = pool_->bytes_in_use();
    if (const auto value = Read(copy); value.ok()) {
      ++made;
      EXPECT_FALSE(Text(value->view()).empty());
    }
    EXPECT_EQ(pool_->bytes_in_use(), before);
  }
  EXPECT_GT(made, 100);
  EXPECT_LT(made, 15000);
}

TEST_F(VariantBytes, TheMemoryOfWhatComesIsChargedToTheSession) {
  std::vector<Tensor> elements(1000);
  elements.back() = Floats({1}, {});
  const std::string bytes = BytesOf(Of(TENON_DT_FLOAT, elements));
  for (const uint64_t limit : {uint64_t{20} << 10, uint64_t{1} << 20}) {
    BufferPool* const small = BufferPool::Create(HostAllocator(), limit);
    {
      Tensor copy = *Tensor::Allocate(small, TENON_DT_UINT8, Shape{static_cast<int64_t>(bytes.size())});
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      const auto made = ReadVariants(copy, Shape(), &types_, small);
      EXPECT_EQ(made.ok(), limit > bytes.size() * 10) << made.status().ToString();
      if (!made.ok()) {
        EXPECT_EQ(made.status().code(), Code::kResourceExhausted) << made.status().ToString();
      }
    }
    EXPECT_EQ(small->bytes_in_use(), 0u);
    small->Close();
  }
}

TEST_F(VariantBytes, TypesAreTheirPluginsAndGoWithIt) {
  EXPECT_TRUE(types_.AreMadeBy("Make"));
  EXPECT_TRUE(types_.AreMadeBy("Change"));
  EXPECT_FALSE(types_.AreMadeBy("Mak"));
  EXPECT_FALSE(types_.AreMadeBy(""));
  const Status twice = types_.Register(&kPackage, std::make_shared<PluginInstance>("test.other"));
  EXPECT_EQ(twice.code(), Code::kAlreadyExists) << twice.ToString();
  EXPECT_NE(twice.message().find("the variants of type 'numbers' are plugin 'test.numbers'"), std::string::npos)
      << twice.ToString();
  int opened = 0;
  types_.SetOpener([&] { ++opened; });
  EXPECT_NE(types_.Find("numbers"), nullptr);
  EXPECT_EQ(opened, 0);
  EXPECT_EQ(types_.Find("others"), nullptr);
  EXPECT_EQ(types_.Find("others"), nullptr);
  EXPECT_EQ(opened, 1) << "others may bring it, and say so once";
  types_.Unregister("test.numbers");
  EXPECT_EQ(types_.Find("numbers"), nullptr);
  EXPECT_FALSE(types_.AreMadeBy("Make"));
}

TEST_F(VariantBytes, WrongTablesOfPluginsAreRefused) {
  const auto plugin = std::make_shared<PluginInstance>("test.wrong");
  tenon_variant_type type = kNumbers;
  const tenon_variant_type* types[] = {&type};
  tenon_variant_package package = {TENON_HEAD(tenon_variant_package), types, 1};
  const auto refused = [&](std::string_view why) {
    const Status status = types_.Register(&package, plugin);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString();
  };
  type.check = nullptr;
  refused("the variants of type 'numbers' lacks check");
  type = kNumbers;
  type.name = TENON_SPAN("");
  refused("the name of a type of variants");
  types[0] = nullptr;
  refused("a type of variants is NULL");
  package.count = 0;
  refused("has 0 types");
  package.count = 1;
  package.types = nullptr;
  refused("the types of variants");
}

}  // namespace
}  // namespace tenon::cluster::variant_bytes_test
