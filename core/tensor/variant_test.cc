// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/variant.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/tensor/tensor.h"

namespace tenon::variant::variant_test {
namespace {

class VariantTest : public ::testing::Test {
 protected:
  ~VariantTest() override {
    for (Variant* made : made_) Release(made);
    EXPECT_EQ(pool_->bytes_in_use(), 0u);
    pool_->Close();
  }
  Variant* Keep(Result<Variant*> made) {
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    made_.push_back(*made);
    return *made;
  }
  Variant* Empty(uint64_t count) { return Keep(New(pool_, "a list", "of numbers", nullptr, count)); }
  Variant* Set(const Variant* base, uint64_t index, float value) {
    return With(base, std::max(base->count, index + 1), index, value);
  }
  Variant* With(const Variant* base, uint64_t count, uint64_t index, float value) {
    auto tensor = Tensor::FromValues<float>(pool_, TENON_DT_FLOAT, Shape(), std::span<const float>(&value, 1));
    EXPECT_TRUE(tensor.ok());
    const tenon_tensor_view view = tensor->view();
    return Keep(Derive(pool_, *base, base->metadata, count, index, &view));
  }
  Variant* Resized(const Variant* base, uint64_t count) {
    return Keep(Derive(pool_, *base, base->metadata, count, 0, nullptr));
  }
  // Its elements; -1 for an empty place.
  static std::vector<float> Of(const Variant* variant) {
    std::vector<float> out;
    for (uint64_t i = 0; i < variant->count; ++i) {
      const tenon_tensor_view element = Element(*variant, i);
      out.push_back(element.dtype == TENON_DT_INVALID ? -1 : *static_cast<const float*>(DataOf(element)));
    }
    return out;
  }
  void LetGo(Variant* variant) {
    std::erase(made_, variant);
    Release(variant);
  }

  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  std::vector<Variant*> made_;
};

using Numbers = std::vector<float>;

TEST_F(VariantTest, SaysWhatItIs) {
  const tenon_variant_info info = Info(*Empty(2));
  EXPECT_EQ(std::string_view(info.type.data, info.type.size), "a list");
  EXPECT_EQ(std::string_view(info.metadata.data, info.metadata.size), "of numbers");
  EXPECT_EQ(info.element_count, 2u);
  EXPECT_EQ(Element(*made_[0], 0).dtype, uint32_t{TENON_DT_INVALID});
  EXPECT_EQ(Element(*made_[0], 2).dtype, uint32_t{TENON_DT_INVALID});
}

TEST_F(VariantTest, ValuesThatComeOfOneAnotherSeeTheirOwnElements) {
  Variant* none = Empty(0);
  Variant* one = Set(none, 0, 1);
  Variant* two = Set(one, 1, 2);
  Variant* other = Set(one, 1, 3);  // a second one after `one`
  Variant* back = Resized(two, 1);
  Variant* again = Set(back, 1, 4);
  EXPECT_EQ(Of(none), Numbers{});
  EXPECT_EQ(Of(one), (Numbers{1}));
  EXPECT_EQ(Of(two), (Numbers{1, 2}));
  EXPECT_EQ(Of(other), (Numbers{1, 3}));
  EXPECT_EQ(Of(back), (Numbers{1}));
  EXPECT_EQ(Of(again), (Numbers{1, 4}));
}

TEST_F(VariantTest, AnEmptyPlaceThatIsFilledStaysEmptyInOlderValues) {
  Variant* base = Empty(3);
  Variant* first = Set(base, 1, 5);
  Variant* second = Set(first, 0, 6);
  Variant* branch = Set(first, 0, 7);
  Variant* changed = Set(second, 1, 8);
  EXPECT_EQ(Of(base), (Numbers{-1, -1, -1}));
  EXPECT_EQ(Of(first), (Numbers{-1, 5, -1}));
  EXPECT_EQ(Of(second), (Numbers{6, 5, -1}));
  EXPECT_EQ(Of(branch), (Numbers{7, 5, -1}));
  EXPECT_EQ(Of(changed), (Numbers{6, 8, -1}));
}

TEST_F(VariantTest, ANewPlaceIsEmptyAlsoWhereALongerValueHasAnElement) {
  Variant* two = Set(Set(Empty(0), 0, 1), 1, 2);
  EXPECT_EQ(Of(Resized(Resized(two, 1), 2)), (Numbers{1, -1}));
  EXPECT_EQ(Of(Resized(two, 4)), (Numbers{1, 2, -1, -1}));
  EXPECT_EQ(Of(Resized(two, 3)), (Numbers{1, 2, -1}));
}

TEST_F(VariantTest, AppendingToTheNewestCopiesNothing) {
  Variant* list = Empty(0);
  const Row* row = list->row.get();
  for (int i = 0; i < 1000; ++i) {
    Variant* next = Set(list, static_cast<uint64_t>(i), static_cast<float>(i));
    LetGo(list);
    list = next;
    EXPECT_EQ(list->row.get(), row);
  }
  EXPECT_EQ(Of(list).back(), 999);
}

TEST_F(VariantTest, ManyReservedPlacesTakeNoMemory) {
  Variant* list = Empty(uint64_t{1} << 31);
  EXPECT_LT(pool_->bytes_in_use(), 1000u);
  EXPECT_EQ(Element(*list, (uint64_t{1} << 31) - 1).dtype, uint32_t{TENON_DT_INVALID});
}

TEST_F(VariantTest, ThePlacesCountAgainstTheLimit) {
  BufferPool* small = BufferPool::Create(HostAllocator(), 4096);
  auto made = New(small, "a list", "", nullptr, 1000);
  ASSERT_TRUE(made.ok());
  auto tensor = Tensor::Allocate(GlobalPool(), TENON_DT_FLOAT, Shape());
  const tenon_tensor_view view = tensor->view();
  const auto set = Derive(small, **made, "", 1000, 999, &view);
  EXPECT_EQ(set.status().code(), Code::kResourceExhausted) << set.status().ToString();
  EXPECT_EQ(Element(**made, 999).dtype, uint32_t{TENON_DT_INVALID});
  Release(*made);
  small->Close();
}

TEST_F(VariantTest, AnElementMustLiveInABuffer) {
  float value = 1;
  const tenon_tensor_view borrowed = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, &value, sizeof value, nullptr);
  EXPECT_EQ(Derive(pool_, *Empty(1), "", 1, 0, &borrowed).status().code(), Code::kInternal);
}

TEST_F(VariantTest, DeeplyNestedValuesAreLetGoOfWithoutRecursion) {
  Variant* inner = nullptr;
  for (int depth = 0; depth < 200000; ++depth) {
    auto cell = Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape());
    ASSERT_TRUE(cell.ok());
    *cell->as<Variant*>() = inner;  // taken over
    const tenon_tensor_view view = cell->view();
    auto outer = New(pool_, "nested", "", &view, 1);
    ASSERT_TRUE(outer.ok());
    inner = *outer;
  }
  Keep(inner);
}

TEST_F(VariantTest, ATensorOfVariantsGivesItsReferencesBack) {
  Variant* value = Empty(1);
  {
    auto tensor = Tensor::Allocate(pool_, TENON_DT_VARIANT, Shape({2}));
    ASSERT_TRUE(tensor.ok());
    Retain(value);
    tensor->as<Variant*>()[1] = value;
    auto copy = Tensor::CopyOf(pool_, tensor->view());
    ASSERT_TRUE(copy.ok());
    EXPECT_EQ(copy->as<Variant*>()[0], nullptr);
    EXPECT_EQ(copy->as<Variant*>()[1], value);
    EXPECT_EQ(value->references.load(), 3);
  }
  EXPECT_EQ(value->references.load(), 1);
}

TEST_F(VariantTest, ThreadsMayDeriveFromOneValue) {
  Variant* base = Set(Empty(0), 0, 1);
  std::vector<std::vector<Variant*>> made(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < made.size(); ++t) {
    threads.emplace_back([&, t] {
      const float value = static_cast<float>(t);
      auto tensor = Tensor::FromValues<float>(pool_, TENON_DT_FLOAT, Shape(), std::span<const float>(&value, 1));
      const tenon_tensor_view view = tensor->view();
      const Variant* at = base;
      for (uint64_t i = 1; i < 200; ++i) {
        made[t].push_back(*Derive(pool_, *at, "", i + 1, i, &view));
        at = made[t].back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < made.size(); ++t) {
    for (size_t i = 0; i < made[t].size(); ++i) {
      Numbers want(i + 2, static_cast<float>(t));
      want[0] = 1;
      ASSERT_EQ(Of(made[t][i]), want);
    }
    for (Variant* each : made[t]) Release(each);
  }
  EXPECT_EQ(Of(base), (Numbers{1}));
}

// ---- Values that hold an object ----

void CountDown(void* object) { --*static_cast<int*>(object); }

TEST_F(VariantTest, AnObjectGoesWithTheLastReferenceAndIsSeenByItsTypeAlone) {
  int alive = 1;
  Variant* held = Keep(Hold("test.Thing/1", "a thing", &alive, &CountDown));
  EXPECT_EQ(Held(*held, "test.Thing/1"), &alive);
  EXPECT_EQ(Held(*held, "test.Thing/2"), nullptr);
  EXPECT_EQ(Held(*Empty(1), "a list"), nullptr);
  EXPECT_EQ(Info(*held).element_count, 0u);
  EXPECT_EQ(Element(*held, 0).dtype, uint32_t{TENON_DT_INVALID});
  Retain(held);
  LetGo(held);
  EXPECT_EQ(alive, 1);
  Release(held);
  EXPECT_EQ(alive, 0);
}

TEST_F(VariantTest, NothingIsDerivedFromAnObjectAndNothingHeldWithoutAnEnd) {
  int alive = 2;
  const Variant* held = Keep(Hold("test.Thing/1", "", &alive, &CountDown));
  EXPECT_EQ(Derive(pool_, *held, "", 1, 0, nullptr).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Hold("test.Thing/1", "", &alive, nullptr).status().code(), Code::kInternal);
  EXPECT_EQ(Hold("test.Thing/1", "", nullptr, &CountDown).status().code(), Code::kInternal);
  EXPECT_EQ(Hold("", "", &alive, &CountDown).status().code(), Code::kInternal);
  EXPECT_EQ(alive, 2);
}

struct Link {
  Variant* next = nullptr;
};

TEST_F(VariantTest, AMillionObjectsInOneAnotherGoWithoutRecursion) {
  Variant* chain = nullptr;
  for (int i = 0; i < 1'000'000; ++i) {
    auto made = Hold("test.Link/1", "", new Link{chain}, [](void* object) {
      Variant* next = static_cast<Link*>(object)->next;
      delete static_cast<Link*>(object);
      if (next != nullptr) Release(next);
    });
    ASSERT_TRUE(made.ok());
    chain = *made;
  }
  Release(chain);
}

}  // namespace
}  // namespace tenon::variant::variant_test
