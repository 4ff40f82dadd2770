// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/resources.h"
// Covers D1 to D3.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "core/exec/device/step.h"
#include "core/trace/trace.h"
#include "core/tensor/tensor.h"
#include "tenon/kernel.h"

namespace tenon::exec::resources_test {
namespace {

// A variable of floats, updated as kernels do.
class Variable : public testing::Test {
 protected:
  ~Variable() override {
    manager_.Clear("");
    EXPECT_EQ(pool_->bytes_in_use(), 0u);
    pool_->Close();
  }
  // One update by a frame of its own.
  struct Update {
    Status status;
    tenon_tensor_view before{}, after{};
  };
  Update Begin(const void* frame, uint32_t flags = 0, Shape shape = {2}, bool in_place = false,
               DType dtype = TENON_DT_FLOAT, uint64_t extra = 0) {
    Update update;
    update.status = BeginUpdate(variable_, {frame, &cancellation_, pool_, in_place}, flags, dtype, shape.c(), extra,
                                &update.before, &update.after);
    return update;
  }
  void End(const void* frame, uint32_t outcome) { EndUpdate(variable_, frame, outcome); }
  static void Write(const Update& update, float a, float b) {
    auto* data = static_cast<float*>(update.after.dl.data);
    data[0] = a;
    data[1] = b;
  }
  void Assign(float a, float b) {
    const Update update = Begin(&manager_, TENON_UPDATE_INITIALIZE);
    ASSERT_TRUE(update.status.ok()) << update.status.ToString();
    Write(update, a, b);
    End(&manager_, TENON_UPDATE_COMMIT);
  }
  // "1 2", or why it cannot be read.
  std::string Read() {
    tenon_tensor_view view;
    if (Status status = ReadVariable(variable_, nullptr, &view); !status.ok()) return status.ToString();
    const auto* data = static_cast<const float*>(view.dl.data);
    std::string text = StrCat(static_cast<int>(data[0]), " ", static_cast<int>(data[1]));
    Release(view.buffer);
    return text;
  }

  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  ResourceManager manager_;
  Cancellation cancellation_;
  Resource* variable_ = *manager_.Get("", "v", "variable");
  int a_ = 0, b_ = 0;  // frames
};

// Of a type that may be an index: what is read stays as it is, by a reference too.
TEST_F(Variable, OfIntegersIsNotWrittenWhereItIsRead) {
  const auto write = [this](const void* frame, uint32_t flags, int32_t value) {
    const Update update = Begin(frame, flags, {2}, true, TENON_DT_INT32);
    ASSERT_TRUE(update.status.ok()) << update.status.ToString();
    static_cast<int32_t*>(update.after.dl.data)[0] = static_cast<int32_t*>(update.after.dl.data)[1] = value;
    End(frame, TENON_UPDATE_COMMIT);
  };
  write(&a_, TENON_UPDATE_INITIALIZE, 1);
  tenon_tensor_view read;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
  const auto* seen = static_cast<const int32_t*>(read.dl.data);
  write(&a_, 0, 2);
  EXPECT_EQ(seen[0], 1) << "the reader's value was written";
  Release(read.buffer);
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
  EXPECT_EQ(static_cast<const int32_t*>(read.dl.data)[1], 2);
  Release(read.buffer);

  // Nobody reads now: the value itself is written, and who comes waits, as long as it may.
  const Update open = Begin(&a_, 0, {2}, true, TENON_DT_INT32);
  ASSERT_TRUE(open.status.ok());
  Cancellation given_up;
  given_up.Cancel(Status(Code::kDeadlineExceeded, "late"));
  const Status late = ReadVariable(variable_, nullptr, &read, nullptr, &given_up);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.ToString();
  End(&a_, TENON_UPDATE_COMMIT);
}

TEST_F(Variable, HasNoValueBeforeItsFirstAssignment) {
  EXPECT_EQ(Read(), "FAILED_PRECONDITION: variable 'v' has no value yet; run its initialiser, or restore it");
  EXPECT_FALSE(IsInitialized(variable_));
  EXPECT_EQ(Begin(&a_).status.ToString(),
            "FAILED_PRECONDITION: variable 'v' has no value yet; run its initialiser, or restore it");
  Assign(1, 2);
  EXPECT_TRUE(IsInitialized(variable_));
  EXPECT_EQ(Read(), "1 2");
}

TEST_F(Variable, IsWrittenWhereItStandsWhenNobodyElseHoldsIt) {
  Assign(1, 2);
  const uint64_t allocations = pool_->allocations();
  const Update update = Begin(&a_);
  ASSERT_TRUE(update.status.ok());
  EXPECT_EQ(update.before.dl.data, update.after.dl.data);
  Write(update, 3, 4);
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(Read(), "3 4");
  EXPECT_EQ(pool_->allocations(), allocations);
}

TEST_F(Variable, NeverChangesAValueThatWasRead) {
  Assign(1, 2);
  tenon_tensor_view read;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
  const Update update = Begin(&a_);
  ASSERT_TRUE(update.status.ok());
  EXPECT_NE(update.after.dl.data, read.dl.data);
  EXPECT_EQ(update.before.dl.data, read.dl.data);
  Write(update, 3, 4);
  EXPECT_EQ(Read(), "1 2") << "until the update is committed";
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(Read(), "3 4");
  EXPECT_EQ(static_cast<const float*>(read.dl.data)[0], 1.0f);
  Release(read.buffer);
}

TEST_F(Variable, WritesInTurnsIntoTwoBuffersWhileItIsRead) {
  Assign(1, 2);
  uint64_t allocations = 0;
  for (int turn = 0; turn < 10; ++turn) {
    tenon_tensor_view read;
    ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
    const Update update = Begin(&a_);
    ASSERT_TRUE(update.status.ok());
    Write(update, static_cast<float>(turn), 0);
    End(&a_, TENON_UPDATE_COMMIT);
    Release(read.buffer);
    if (turn == 1) allocations = pool_->allocations();
  }
  EXPECT_EQ(Read(), "9 0");
  EXPECT_EQ(pool_->allocations(), allocations);
}

TEST_F(Variable, BeginsWithTheOldValueWhenItIsToBePreserved) {
  Assign(1, 2);
  tenon_tensor_view read;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
  const Update update = Begin(&a_, TENON_UPDATE_PRESERVE);
  ASSERT_TRUE(update.status.ok());
  EXPECT_NE(update.after.dl.data, read.dl.data);
  static_cast<float*>(update.after.dl.data)[1] = 7;
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(Read(), "1 7");
  Release(read.buffer);
}

TEST_F(Variable, HasNothingToPreserveBeforeItsFirstValue) {
  const Update update = Begin(&a_, TENON_UPDATE_INITIALIZE | TENON_UPDATE_PRESERVE);
  ASSERT_TRUE(update.status.ok());
  EXPECT_EQ(update.before.dl.data, nullptr);
  Write(update, 1, 2);
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(Read(), "1 2");
}

TEST_F(Variable, KeepsItsValueWhenAnUpdateElsewhereFails) {
  Assign(1, 2);
  tenon_tensor_view read;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
  const Update update = Begin(&a_);
  Write(update, 9, 9);
  End(&a_, TENON_UPDATE_FAILED);
  EXPECT_EQ(Read(), "1 2");
  Release(read.buffer);
}

TEST_F(Variable, ReadsAsLostWhenAnUpdateInPlaceFailsUntilItIsAssignedAgain) {
  Assign(1, 2);
  Write(Begin(&a_), 9, 9);
  End(&a_, TENON_UPDATE_FAILED);
  EXPECT_EQ(Read(), "DATA_LOSS: variable 'v' lost its value when its last write failed; assign it again");
  Assign(3, 4);
  EXPECT_EQ(Read(), "3 4");
}

TEST_F(Variable, StaysAsItIsWhenNothingWasWritten) {
  Assign(1, 2);
  ASSERT_TRUE(Begin(&a_).status.ok());
  End(&a_, TENON_UPDATE_UNTOUCHED);
  EXPECT_EQ(Read(), "1 2");
}

TEST_F(Variable, HasNoValueStillWhenItsFirstAssignmentFails) {
  ASSERT_TRUE(Begin(&a_, TENON_UPDATE_INITIALIZE).status.ok());
  End(&a_, TENON_UPDATE_FAILED);
  EXPECT_FALSE(IsInitialized(variable_));
  EXPECT_EQ(Read(), "FAILED_PRECONDITION: variable 'v' has no value yet; run its initialiser, or restore it");
}

TEST_F(Variable, RefusesAnotherTypeOrShape) {
  Assign(1, 2);
  EXPECT_EQ(Begin(&a_, 0, {3}).status.ToString(), "INVALID_ARGUMENT: variable 'v' is float[2]; the update is float[3]");
  EXPECT_EQ(Begin(&a_, 0, {2}, false, TENON_DT_INT32).status.ToString(),
            "INVALID_ARGUMENT: variable 'v' is float[2]; the update is int32[2]");
  EXPECT_EQ(Begin(&a_, TENON_UPDATE_INITIALIZE, {2}, false, TENON_DT_INT32).status.ToString(),
            "INVALID_ARGUMENT: variable 'v' is float; a int32 cannot be assigned to it");
  EXPECT_TRUE(Begin(&a_, 0, Shape::Unknown()).status.ok())
      << "the variable's own shape; and a refused update takes no turn";
  End(&a_, TENON_UPDATE_UNTOUCHED);
  EXPECT_EQ(Read(), "1 2");
}

TEST_F(Variable, TakesAnotherShapeByAssignment) {
  Assign(1, 2);
  const Update update = Begin(&a_, TENON_UPDATE_INITIALIZE, {3, 1});
  ASSERT_TRUE(update.status.ok());
  Write(update, 5, 6);
  End(&a_, TENON_UPDATE_COMMIT);
  tenon_tensor_view view;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &view).ok());
  EXPECT_EQ(Shape(tenon_shape{view.dl.shape, view.dl.ndim, 0}), (Shape{3, 1}));
  EXPECT_EQ(view.byte_size, 12u);
  Release(view.buffer);
}

TEST_F(Variable, CountsTheCellsOfStringsAlone) {
  Resource* texts = *manager_.Get("", "texts", "variable");
  tenon_tensor_view before, after;
  const Shape shape{1};
  ASSERT_TRUE(BeginUpdate(texts, {&a_, &cancellation_, pool_, false}, TENON_UPDATE_INITIALIZE, TENON_DT_STRING,
                          shape.c(), 5, &before, &after)
                  .ok());
  EXPECT_EQ(after.byte_size, sizeof(tenon_string_cell));
  *static_cast<tenon_string_cell*>(after.dl.data) = {sizeof(tenon_string_cell), 5};
  std::memcpy(static_cast<char*>(after.dl.data) + sizeof(tenon_string_cell), "hello", 5);
  EndUpdate(texts, &a_, TENON_UPDATE_COMMIT);
  tenon_tensor_view view;
  ASSERT_TRUE(ReadVariable(texts, nullptr, &view).ok());
  EXPECT_EQ(view.byte_size, sizeof(tenon_string_cell)) << "as the ABI says; the bytes follow";
  EXPECT_EQ(StringAt(view, 0), "hello");
  Release(view.buffer);
  // With its bytes, too, when it is preserved in another buffer.
  ASSERT_TRUE(ReadVariable(texts, nullptr, &view).ok());
  ASSERT_TRUE(BeginUpdate(texts, {&a_, &cancellation_, pool_, false}, TENON_UPDATE_PRESERVE, TENON_DT_STRING, shape.c(),
                          5, &before, &after)
                  .ok());
  EXPECT_NE(after.dl.data, view.dl.data);
  EXPECT_EQ(StringAt(after, 0), "hello");
  EndUpdate(texts, &a_, TENON_UPDATE_COMMIT);
  Release(view.buffer);
}

TEST_F(Variable, HasOneUpdateAtATime) {
  Assign(0, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) {
        int frame = 0;
        const Update update = Begin(&frame);
        ASSERT_TRUE(update.status.ok()) << update.status.ToString();
        const auto* old = static_cast<const float*>(update.before.dl.data);
        Write(update, old[0] + 1, old[1] + 2);
        End(&frame, TENON_UPDATE_COMMIT);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Read(), "200 400");
}

TEST_F(Variable, LetsAReaderWaitForAWriterInTheValueItself) {
  Assign(1, 2);
  const Update update = Begin(&a_);
  ASSERT_TRUE(update.status.ok());
  static_cast<float*>(update.after.dl.data)[0] = 3;
  std::promise<void> asks;
  auto reader = std::async(std::launch::async, [&] {
    asks.set_value();
    return Read();
  });
  asks.get_future().wait();
  tenon_tensor_view own;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &own, &a_).ok()) << "the writer itself does not wait";
  Release(own.buffer);
  static_cast<float*>(update.after.dl.data)[1] = 4;
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(reader.get(), "3 4") << "no half of it";
}

// What waits in a traced step, and for what: a reader, and another update. Who need not wait leaves no trace.
TEST_F(Variable, WritesTheWaitForAnUpdateIntoTheTrace) {
  const auto waits = [](const trace::Trace& trace) {
    std::vector<std::string> names;
    trace.ForEach([&](const trace::Trace::Event& event) { names.push_back(StrCat(event.category, ": ", event.name)); });
    return names;
  };
  trace::Trace trace;
  Assign(1, 2);
  tenon_tensor_view view;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &view, nullptr, nullptr, &trace).ok());
  Release(view.buffer);
  EXPECT_TRUE(waits(trace).empty());
  ASSERT_TRUE(Begin(&a_).status.ok());
  auto reader = std::async(std::launch::async, [&] {
    tenon_tensor_view read;
    ASSERT_TRUE(ReadVariable(variable_, nullptr, &read, nullptr, nullptr, &trace).ok());
    Release(read.buffer);
  });
  auto writer = std::async(std::launch::async, [&] {
    tenon_tensor_view before, after;
    Updater updater{&b_, &cancellation_, pool_, false};
    updater.trace = &trace;
    ASSERT_TRUE(BeginUpdate(variable_, updater, 0, TENON_DT_FLOAT, Shape{2}.c(), 0, &before, &after).ok());
    EndUpdate(variable_, &b_, TENON_UPDATE_COMMIT);
  });
  const auto still = [](const auto& waiting) {
    return waiting.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
  };
  EXPECT_TRUE(still(reader) && still(writer)) << "the update has not ended";
  End(&a_, TENON_UPDATE_COMMIT);
  reader.get();
  writer.get();
  const std::string wait = "wait: wait for variable 'v'";
  EXPECT_GE(waits(trace).size(), 2u);
  for (const std::string& name : waits(trace)) EXPECT_EQ(name, wait);
}

TEST_F(Variable, LetsAWaitingUpdateGoWhenItsStepIsCancelled) {
  Assign(1, 2);
  ASSERT_TRUE(Begin(&a_).status.ok());
  std::promise<void> asks;
  auto waiting = std::async(std::launch::async, [&] {
    asks.set_value();
    return Begin(&b_).status.ToString();
  });
  asks.get_future().wait();
  cancellation_.Cancel(Status(Code::kCancelled, "stop"));
  EXPECT_EQ(waiting.get(), "CANCELLED: waiting for another update of variable 'v': stop");
  End(&a_, TENON_UPDATE_COMMIT);
}

TEST_F(Variable, RefusesTwoUpdatesOfOneFrame) {
  Assign(1, 2);
  ASSERT_TRUE(Begin(&a_).status.ok());
  EXPECT_EQ(Begin(&a_).status.ToString(), "ABORTED: variable 'v' is given twice to one update");
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_TRUE(Begin(&b_).status.ok());
  End(&b_, TENON_UPDATE_COMMIT);
}

TEST_F(Variable, IsWrittenInPlaceThroughAReferenceEvenWhileItIsRead) {
  Assign(1, 2);
  tenon_tensor_view read;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &read).ok());
  const Update first = Begin(&a_, 0, {2}, true), second = Begin(&b_, 0, {2}, true);
  ASSERT_TRUE(first.status.ok());
  ASSERT_TRUE(second.status.ok()) << "without a lock, updates of references do not exclude each other";
  EXPECT_EQ(first.after.dl.data, read.dl.data);
  EXPECT_EQ(second.after.dl.data, read.dl.data);
  Write(first, 3, 4);
  End(&a_, TENON_UPDATE_COMMIT);
  End(&b_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(static_cast<const float*>(read.dl.data)[0], 3.0f);
  Release(read.buffer);
}

TEST_F(Variable, ExcludesLockedUpdatesThroughReferences) {
  Assign(1, 2);
  ASSERT_TRUE(Begin(&a_, TENON_UPDATE_LOCK, {2}, true).status.ok());
  std::promise<void> asks;
  std::atomic<bool> ended{false};
  auto waiting = std::async(std::launch::async, [&] {
    asks.set_value();
    const Status status = Begin(&b_, TENON_UPDATE_LOCK, {2}, true).status;
    EXPECT_TRUE(ended.load());
    End(&b_, TENON_UPDATE_COMMIT);
    return status.ToString();
  });
  asks.get_future().wait();
  ended.store(true);
  End(&a_, TENON_UPDATE_COMMIT);
  EXPECT_EQ(waiting.get(), "OK");
}

// Unlocked assignments of other shapes race for the value, never for memory that went back to the pool.
TEST_F(Variable, KeepsTheMemoryOfEveryUnlockedUpdateUntilItsEnd) {
  Assign(1, 2);
  const Update add = Begin(&a_, 0, {2}, true), longer = Begin(&b_, TENON_UPDATE_INITIALIZE, {64}, true);
  int c = 0, d = 0;
  const Update other = Begin(&c, TENON_UPDATE_INITIALIZE, {32}, true),
               last = Begin(&d, TENON_UPDATE_INITIALIZE, {16}, true);
  for (const Update* update : {&add, &longer, &other, &last})
    ASSERT_TRUE(update->status.ok()) << update->status.ToString();
  for (const Update* a : {&add, &longer, &other, &last})
    for (const Update* b : {&add, &longer, &other, &last})
      EXPECT_EQ(a->after.dl.data == b->after.dl.data, a == b);
  End(&b_, TENON_UPDATE_COMMIT);
  End(&c, TENON_UPDATE_COMMIT);
  // The first one's memory is the value no more, and still its own.
  auto probe = pool_->Allocate(8, {nullptr, 0, 0});
  ASSERT_TRUE(probe.ok());
  EXPECT_NE((*probe)->data, add.after.dl.data);
  Release(*probe);
  Write(add, 9, 9);
  End(&a_, TENON_UPDATE_UNTOUCHED);
  std::memset(last.after.dl.data, 0, 64);
  End(&d, TENON_UPDATE_COMMIT);
  tenon_tensor_view view;
  ASSERT_TRUE(ReadVariable(variable_, nullptr, &view).ok());
  EXPECT_EQ(Shape(tenon_shape{view.dl.shape, view.dl.ndim, 0}), (Shape{16})) << "the last commit";
  EXPECT_EQ(view.byte_size, 64u);
  Release(view.buffer);
}

TEST_F(Variable, SaysWhenThereIsNoMemoryForAnUpdate) {
  BufferPool* small = BufferPool::Create(HostAllocator(), 64);
  tenon_tensor_view before, after;
  const Shape shape{1000};
  EXPECT_EQ(BeginUpdate(variable_, {&a_, &cancellation_, small, false}, TENON_UPDATE_INITIALIZE, TENON_DT_FLOAT,
                        shape.c(), 0, &before, &after)
                .ToString(),
            "RESOURCE_EXHAUSTED: variable 'v': 4352 more bytes would pass the memory limit of 64 bytes; 0 are in use; "
            "raise the limit or "
            "make the step smaller");
  small->Close();
  Assign(1, 2);
  EXPECT_EQ(Read(), "1 2") << "a refused update takes no turn";
}

TEST(ResourceManager, TellsNamesApartWhateverStandsInThem) {
  ResourceManager manager;
  const auto first = manager.Get("a", "b\x01" "c", "variable"), second = manager.Get("a\x01" "b", "c", "variable");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
}

TEST(ResourceManager, KeepsHandlesByContainerAndName) {
  ResourceManager manager;
  Resource* v = *manager.Get("", "v", "variable");
  EXPECT_EQ(*manager.Get("", "v", "variable"), v);
  EXPECT_NE(*manager.Get("c", "v", "variable"), v);
  EXPECT_EQ(manager.Get("c", "v", "queue").status().ToString(),
            "FAILED_PRECONDITION: variable 'c/v' is asked for as a queue; give one of them another name");
  EXPECT_EQ(manager.All().size(), 2u);
}

TEST(ResourceManager, ClearsOneContainerAndKeepsItsHandles) {
  static int destroyed;
  destroyed = 0;
  ResourceManager manager;
  int object = 0;
  for (const char* container : {"", "c"}) {
    Resource* resource = *manager.Get(container, "queue", "queue");
    resource->object = std::make_shared<PluginObject>("queue", "plugin");
    resource->object->Hold(&object, [](void*) { ++destroyed; });
  }
  Resource* handle = *manager.Get("c", "queue", "queue");
  manager.Clear("c");
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(*manager.Get("c", "queue", "queue"), handle);
  EXPECT_EQ(handle->object, nullptr);
  manager.Clear("c");
  EXPECT_EQ(destroyed, 1);
  Drop(*manager.Get("", "queue", "queue"));
  EXPECT_EQ(destroyed, 2);
}

TEST(ResourceManager, AStepKeepsWhatItAskedForWhenTheHandleLetsGoOfIt) {
  static int destroyed;
  destroyed = 0;
  int object = 0;
  ResourceManager manager;
  Resource* const handle = *manager.Get("", "table", "table");
  const auto hold = [&] {
    handle->object = std::make_shared<PluginObject>("table", "plugin");
    handle->object->Hold(&object, [](void*) { ++destroyed; });
    return handle->object;
  };
  std::shared_ptr<PluginObject> first = hold();
  Step step, other;
  for (int i = 0; i < 3; ++i) {  // by turns, so that neither is the last one that asked
    step.Keep(first);
    other.Keep(first);
  }
  EXPECT_EQ(step.objects.size(), 1u);
  first.reset();
  EXPECT_TRUE(Drop(handle));
  hold();
  step.Keep(handle->object);
  step.End();
  EXPECT_EQ(destroyed, 0) << "the first is the other step's still, the second the handle's";
  step.Keep(handle->object);
  EXPECT_EQ(step.objects.size(), 1u) << "another run of the step asks anew";
  manager.Clear("");
  other.End();
  EXPECT_EQ(destroyed, 1);
  step.End();
  EXPECT_EQ(destroyed, 2);
}

TEST(ResourceManager, AStepsOwnHandleKeepsWhatItLetsGoOf) {
  static int destroyed;
  destroyed = 0;
  int object = 0;
  {
    Resource handle;
    handle.of_step = true;
    handle.object = std::make_shared<PluginObject>("stack", "plugin");
    handle.object->Hold(&object, [](void*) { ++destroyed; });
    EXPECT_TRUE(Drop(&handle));
    EXPECT_FALSE(Drop(&handle));
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace tenon::exec::resources_test
