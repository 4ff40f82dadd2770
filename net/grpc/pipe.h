// SPDX-License-Identifier: Apache-2.0
// GrpcPipe: frames over one stream, in messages of a bounded size.
//
// Idea: one write is under way; what is written meanwhile goes together into the next message. Small bodies are copied
// into it; large ones are lent to gRPC as slices, and written() is called when gRPC has let go of the last of them.
// What comes is copied once, into the sink's memory. Close first ends the stream in good order, so that what was
// written before arrives, and after kGrace cancels it. Rules. mutex_ guards all but what reading alone touches; no
// function of the sink and no written() is called under it.
#ifndef TENON_NET_GRPC_PIPE_H_
#define TENON_NET_GRPC_PIPE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framing.h"
#include "stream.h"
#include "tenon/extras/transport/pipe.h"

namespace tenon::grpc_net {

inline constexpr size_t kMessageBytes = size_t{1} << 20;  // a message has at most these, and a lead
inline constexpr size_t kCopiedBytes = size_t{16} << 10;  // a smaller body is copied
inline constexpr std::chrono::milliseconds kGrace{500};

class GrpcPipe final : public sdk::Pipe {
 public:
  // lends: large bodies are lent; otherwise every body is copied.
  GrpcPipe(std::unique_ptr<Stream> stream, grpc::CompletionQueue* queue, std::string name, bool lends)
      : stream_(std::move(stream)), queue_(queue), name_(std::move(name)), lends_(lends) {}
  ~GrpcPipe() override;

  void Start(sdk::FrameSink* sink) override;
  void Write(std::string_view head, std::span<const tenon_span> body, void (*written)(void* argument, bool ok),
             void* argument) override;
  void Close() override;
  std::string_view name() const override { return name_; }

 private:
  struct Frame;
  struct LateFrame;
  using Frames = std::vector<Frame*>;

  void Read(bool ok);
  void Wrote(bool ok);
  void Finished(bool ok);
  // Under mutex_.
  void WriteNext();
  void TakeInto(std::vector<grpc::Slice>& slices);
  Frames Advance();
  bool Idle() const { return finished_ && !reading_ && !writing_ && !telling_; }
  void ReadMore();
  // Not under it.
  void Fail(const Frames& frames);
  static void LetGo(Frame* frame);
  static void SliceGone(void* frame);
  void FrameEnded(Frame* frame);
  tenon_status* WhyBroken() const;

  std::unique_ptr<Stream> stream_;
  grpc::CompletionQueue* const queue_;
  const std::string name_;
  const bool lends_;

  // Reading alone.
  grpc::ByteBuffer incoming_;
  std::vector<grpc::Slice> pieces_;
  FrameParser parser_;

  std::mutex mutex_;
  std::condition_variable changed_;
  sdk::FrameSink* sink_ = nullptr;
  std::deque<Frame*> waiting_;  // the first may be written in part
  Frames sent_;                 // whole in the message that is under way, or before
  size_t frames_ = 0;           // written() not called yet
  bool reading_ = false;
  bool read_ended_ = false;
  bool misread_ = false;
  bool writing_ = false;
  bool half_closed_ = false;
  bool closing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool telling_ = false;

  MemberOperation<GrpcPipe, &GrpcPipe::Read> read_{this};
  MemberOperation<GrpcPipe, &GrpcPipe::Wrote> write_{this};
  MemberOperation<GrpcPipe, &GrpcPipe::Finished> finish_{this};
};

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_PIPE_H_
