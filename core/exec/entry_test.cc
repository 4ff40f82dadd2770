// SPDX-License-Identifier: Apache-2.0
// No value enters a slot as another type than it is: each pair of types at each place that CheckEntry serves.
#include "core/tensor/entry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/exec/device/queue_work.h"
#include "core/exec/device/resources.h"
#include "core/exec/device/transfer.h"
#include "core/exec/exchange/values.h"
#include "tenon/kernel.h"

namespace tenon::exec::entry_test {
namespace {

// Plain ones of one size as a cell of a string or of a variant too, and of others.
const std::vector<DType> kTypes = {TENON_DT_FLOAT,  TENON_DT_INT64,   TENON_DT_COMPLEX128, TENON_DT_BOOL,
                                   TENON_DT_STRING, TENON_DT_VARIANT, TENON_DT_RESOURCE};

class Entry : public testing::Test {
 protected:
  ~Entry() override {
    manager_.Clear("");
    EXPECT_EQ(pool_->bytes_in_use(), 0u);
    pool_->Close();
  }
  Tensor Value(DType dtype) {
    Result<Tensor> made = Tensor::Allocate(pool_, dtype, Shape{2}, 0);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    std::memset(made->data(), 0, made->view().byte_size);
    return *std::move(made);
  }

  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  ResourceManager manager_;
  Cancellation cancellation_;
};

TEST_F(Entry, ATypeIsItselfAlone) {
  for (const DType is : kTypes)
    for (const DType declared : kTypes) {
      const Status status = CheckEntry(Value(is).view(), declared);
      EXPECT_EQ(status.ok(), is == declared)
          << TypeName(is) << " as " << TypeName(declared) << ": " << status.ToString();
    }
  EXPECT_EQ(CheckEntry(Value(TENON_DT_COMPLEX128).view(), TENON_DT_STRING).message(),
            "the value is complex128[2], and it is read as string");
}

TEST_F(Entry, ASizeIsThatOfTheShape) {
  const Tensor value = Value(TENON_DT_FLOAT);
  tenon_tensor_view view = value.view();
  int64_t many[] = {1 << 20};
  view.dl.shape = many;
  EXPECT_EQ(CheckEntry(view, TENON_DT_FLOAT).code(), Code::kInvalidArgument);
  view.byte_size = 4 << 20;
  EXPECT_EQ(CheckEntry(view, TENON_DT_FLOAT).code(), Code::kInvalidArgument) << "it does not lie in its buffer";
  view.dl.ndim = 1'000'000;
  EXPECT_EQ(CheckEntry(view, TENON_DT_FLOAT).code(), Code::kInvalidArgument);
}

TEST_F(Entry, AVariableIsReadAsWhatWasWritten) {
  for (const DType is : kTypes) {
    Resource* const variable = *manager_.Get("", StrCat("v", is), "variable");
    tenon_tensor_view before, after;
    const int frame = 0;
    ASSERT_TRUE(BeginUpdate(variable, {&frame, &cancellation_, pool_, true}, TENON_UPDATE_INITIALIZE, is, Shape{2}.c(),
                            0, &before, &after)
                    .ok())
        << TypeName(is);
    std::memset(after.dl.data, 0, after.byte_size);
    EndUpdate(variable, &frame, TENON_UPDATE_COMMIT);
    for (const DType declared : kTypes) {
      tenon_tensor_view read{};
      const Status status = Dereference(variable, declared, nullptr, nullptr, QueueId(), &cancellation_, &read);
      EXPECT_EQ(status.ok(), is == declared) << TypeName(is) << " as " << TypeName(declared);
      if (status.ok()) Release(read.buffer);
      else EXPECT_EQ(read.buffer, nullptr);
    }
  }
}

TEST_F(Entry, WhatComesFromAnotherPartIsWhatItsReceiverWants) {
  for (const DType is : kTypes)
    for (const DType declared : kTypes) {
      const Tensor value = Value(is);
      Result<Message> sent = Message::Of(value.view(), pool_);
      ASSERT_TRUE(sent.ok());
      const Result<Message> came = Unpacked(*std::move(sent), declared, pool_);
      EXPECT_EQ(came.ok(), is == declared) << TypeName(is) << " as " << TypeName(declared);
    }
  EXPECT_TRUE(Unpacked(Message(), TENON_DT_VARIANT, pool_).ok()) << "a dead value has no type";
  // What was shortened on its way is what it was.
  const Tensor half = Value(TENON_DT_BFLOAT16);
  EXPECT_TRUE(Unpacked(*Message::Of(half.view(), pool_), TENON_DT_FLOAT, pool_).ok());
  EXPECT_FALSE(Unpacked(*Message::Of(half.view(), pool_), TENON_DT_HALF, pool_).ok());
}

}  // namespace
}  // namespace tenon::exec::entry_test
