// SPDX-License-Identifier: Apache-2.0
#include "core/exec/exchange/rendezvous.h"
// Covers H5, H6, H12, J1.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/clock.h"

namespace tenon::exec::rendezvous_test {
namespace {

class RendezvousTest : public testing::Test {
 protected:
  ~RendezvousTest() override {
    meeting_.Clear();
    got_.clear();
    EXPECT_EQ(pool_->bytes_in_use(), 0u) << "a value leaked";
    pool_->Close();
  }
  static RendezvousKey Channel(int32_t channel) { return {channel, 0, {}}; }
  // Of a value of floats whose memory is the sender's.
  Message Floats(std::vector<float> values) {
    int64_t dims[] = {static_cast<int64_t>(values.size())};
    auto message = Message::Of(
        MakeView(TENON_DT_FLOAT, {dims, 1, 0}, values.data(), values.size() * sizeof(float), nullptr), pool_);
    EXPECT_TRUE(message.ok());
    return *std::move(message);
  }
  static std::vector<float> ValuesOf(const Result<Message>& message) {
    EXPECT_TRUE(message.ok()) << message.status().ToString();
    if (!message.ok()) return {};
    const auto* data = static_cast<const float*>(DataOf((*message).view()));
    return {data, data + NumElements((*message).view())};
  }
  // Receives into `got`.
  void Note(const RendezvousKey& key) {
    meeting_.Receive(key, [this](Result<Message> message) { got_.push_back(std::move(message)); });
  }

  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  const std::vector<std::string> names_ = {"edge_0_a", "edge_1_b", "edge_2_c"};
  Rendezvous meeting_{pool_, &names_};
  std::vector<Result<Message>> got_;
};

TEST_F(RendezvousTest, GivesAValueThatWaitedToItsReceiver) {
  ASSERT_TRUE(meeting_.Send(Channel(0), Floats({1, 2})).ok());
  EXPECT_EQ(ValuesOf(meeting_.Await(Channel(0))), (std::vector<float>{1, 2}));
}

TEST_F(RendezvousTest, CallsAReceiverThatWaitedWhenItsValueComes) {
  Note(Channel(1));
  EXPECT_TRUE(got_.empty());
  ASSERT_TRUE(meeting_.Send(Channel(1), Floats({3})).ok());
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(ValuesOf(got_[0]), std::vector<float>{3});
}

TEST_F(RendezvousTest, KeepsChannelsAndTurnsApartInAnyOrder) {
  const RendezvousKey loop = Channel(0).Within(4);
  ASSERT_TRUE(meeting_.Send(loop.Within(1), Floats({41})).ok());
  ASSERT_TRUE(meeting_.Send(loop.Within(0), Floats({40})).ok());
  ASSERT_TRUE(meeting_.Send(Channel(0).Within(1), Floats({1})).ok());
  ASSERT_TRUE(meeting_.Send(Channel(2), Floats({2})).ok());
  EXPECT_EQ(ValuesOf(meeting_.Await(Channel(2))), std::vector<float>{2});
  EXPECT_EQ(ValuesOf(meeting_.Await(loop.Within(0))), std::vector<float>{40});
  EXPECT_EQ(ValuesOf(meeting_.Await(Channel(0).Within(1))), std::vector<float>{1});
  EXPECT_EQ(ValuesOf(meeting_.Await(loop.Within(1))), std::vector<float>{41});
}

TEST_F(RendezvousTest, LetsADeadValueTravelAsOneBit) {
  ASSERT_TRUE(meeting_.Send(Channel(0), Message()).ok());
  const Result<Message> message = meeting_.Await(Channel(0));
  ASSERT_TRUE(message.ok());
  EXPECT_TRUE((*message).dead());
  EXPECT_EQ(meeting_.counts().messages, 1);
  EXPECT_EQ(meeting_.counts().dead, 1);
  EXPECT_EQ(meeting_.counts().bytes, 0u);
}

TEST_F(RendezvousTest, SharesMemoryThatHasABufferAndCopiesOther) {
  auto tensor = Tensor::FromValues<float>(pool_, TENON_DT_FLOAT, {3}, std::vector<float>{1, 2, 3});
  ASSERT_TRUE(tensor.ok());
  auto shared = Message::Of((*tensor).view(), pool_);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(DataOf((*shared).view()), (*tensor).data());
  float own[] = {4};
  auto copied = Message::Of(MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, own, sizeof own, nullptr), pool_);
  ASSERT_TRUE(copied.ok());
  own[0] = 5;
  EXPECT_EQ(ValuesOf(std::move(copied)), std::vector<float>{4});
}

TEST_F(RendezvousTest, KeepsTheDimsOfAViewThatAreNotItsBuffers) {
  auto tensor = Tensor::FromValues<float>(pool_, TENON_DT_FLOAT, {4}, std::vector<float>{1, 2, 3, 4});
  ASSERT_TRUE(tensor.ok());
  tenon_tensor_view view = (*tensor).view();
  int64_t dims[] = {2, 2};
  view.dl.shape = dims;
  view.dl.ndim = 2;
  auto message = Message::Of(view, pool_);
  ASSERT_TRUE(message.ok());
  dims[0] = 99;
  EXPECT_EQ(ShapeOf((*message).view()), (Shape{2, 2}));
}

TEST_F(RendezvousTest, CarriesStringsWithTheirBytes) {
  const std::string_view words[] = {"a word that is longer than its cell could ever be", ""};
  auto tensor = Tensor::Strings(pool_, {2}, words);
  ASSERT_TRUE(tensor.ok());
  tenon_tensor_view view = (*tensor).view();
  view.buffer = nullptr;  // as in an arena
  auto message = Message::Of(view, pool_);
  ASSERT_TRUE(message.ok());
  *tensor = Tensor();
  EXPECT_EQ(StringAt((*message).view(), 0), words[0]);
  EXPECT_EQ(StringAt((*message).view(), 1), "");
}

TEST_F(RendezvousTest, RefusesASecondValueAndASecondReceiverForAKey) {
  ASSERT_TRUE(meeting_.Send(Channel(1).Within(7), Floats({1})).ok());
  const Status twice = meeting_.Send(Channel(1).Within(7), Floats({2}));
  EXPECT_EQ(twice.code(), Code::kAlreadyExists);
  EXPECT_EQ(twice.message(), "channel 1 ('edge_1_b'), turn 7 was sent twice");
  Note(Channel(2));
  Note(Channel(2));
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(got_[0].status().message(), "channel 2 ('edge_2_c') is received twice");
  ASSERT_TRUE(meeting_.Send(Channel(2), Floats({3})).ok());
  EXPECT_EQ(got_.size(), 2u);
}

TEST_F(RendezvousTest, TellsAllWhoWaitAndAllWhoComeLaterWhyItWasAborted) {
  Note(Channel(0));
  Note(Channel(1));
  ASSERT_TRUE(meeting_.Send(Channel(2), Floats({1})).ok());
  meeting_.Abort(Status(Code::kUnavailable, "the other one fell"));
  meeting_.Abort(Internal("too late"));
  ASSERT_EQ(got_.size(), 2u);
  for (const auto& got : got_) EXPECT_EQ(got.status().message(), "the other one fell");
  EXPECT_EQ(meeting_.Send(Channel(0), Floats({1})).message(), "the other one fell");
  EXPECT_EQ(meeting_.Await(Channel(2)).status().message(), "the other one fell");
  meeting_.Clear();
  EXPECT_TRUE(meeting_.Send(Channel(0), Floats({1})).ok());
}

TEST_F(RendezvousTest, DoesNotCallAReceiverThatWasCancelled) {
  Note(Channel(0));
  EXPECT_TRUE(meeting_.Cancel(Channel(0)));
  EXPECT_FALSE(meeting_.Cancel(Channel(0)));
  ASSERT_TRUE(meeting_.Send(Channel(0), Floats({1})).ok());
  EXPECT_TRUE(got_.empty());
  EXPECT_FALSE(meeting_.Cancel(Channel(0))) << "a value is no receiver";
}

TEST_F(RendezvousTest, GivesUpAtTheDeadline) {
  const Result<Message> message = meeting_.Await(Channel(1), NowNs() + 1000);
  EXPECT_EQ(message.status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(message.status().message(), "channel 1 ('edge_1_b') was not sent in time");
  // The one who gave up is in nobody's way.
  ASSERT_TRUE(meeting_.Send(Channel(1), Floats({1})).ok());
  EXPECT_EQ(ValuesOf(meeting_.Await(Channel(1), NowNs() + 1'000'000'000)), std::vector<float>{1});
}

TEST_F(RendezvousTest, ReleasesWhatIsNeverReceived) {
  ASSERT_TRUE(meeting_.Send(Channel(0), Floats(std::vector<float>(1000, 1))).ok());
  EXPECT_GT(pool_->bytes_in_use(), 0u);
  meeting_.Clear();
  EXPECT_EQ(pool_->bytes_in_use(), 0u);
  ASSERT_TRUE(meeting_.Send(Channel(0), Floats({1})).ok()) << "the key is free again";
  meeting_.Abort(Internal("over"));
  EXPECT_EQ(pool_->bytes_in_use(), 0u);
}

TEST_F(RendezvousTest, BringsThreadsTogetherWhateverComesFirst) {
  constexpr int kTurns = 2000;
  std::thread sender([this] {
    for (int turn = 0; turn < kTurns; ++turn)
      EXPECT_TRUE(meeting_.Send(Channel(0).Within(turn), Floats({static_cast<float>(turn)})).ok());
  });
  std::thread echo([this] {
    for (int turn = 0; turn < kTurns; ++turn) {
      Result<Message> message = meeting_.Await(Channel(0).Within(turn));
      EXPECT_TRUE(message.ok());
      EXPECT_TRUE(meeting_.Send(Channel(1).Within(turn), *std::move(message)).ok());
    }
  });
  for (int turn = 0; turn < kTurns; ++turn)
    ASSERT_EQ(ValuesOf(meeting_.Await(Channel(1).Within(turn))), std::vector<float>{static_cast<float>(turn)});
  sender.join();
  echo.join();
  EXPECT_EQ(meeting_.counts().messages, 2 * kTurns);
  EXPECT_EQ(meeting_.counts().bytes, 2u * kTurns * sizeof(float));
}

TEST_F(RendezvousTest, WakesThreadsThatWaitWhenItIsAborted) {
  std::atomic<int> woken{0};
  std::vector<std::thread> waiting;
  for (int32_t channel = 0; channel < 3; ++channel)
    waiting.emplace_back(
        [this, channel, &woken] { woken += meeting_.Await(Channel(channel)).status().code() == Code::kCancelled; });
  meeting_.Abort(Status(Code::kCancelled, "enough"));
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(woken, 3);
}

}  // namespace
}  // namespace tenon::exec::rendezvous_test
