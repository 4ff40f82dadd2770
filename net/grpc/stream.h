// SPDX-License-Identifier: Apache-2.0
// Stream: gRPC's bidirectional stream of byte buffers, alike on the side that connected and the side that listens.
//
// Rules: at most one read and one write (or HalfClose) are under way at a time; each function's operation is told once
// from a thread of the completion queue. Cancel may be called at any time, more than once.
#ifndef TENON_NET_GRPC_STREAM_H_
#define TENON_NET_GRPC_STREAM_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "queue.h"

namespace tenon::grpc_net {

inline constexpr char kPipeMethod[] = "/tenon.Transport/Pipe";

class Stream {
 public:
  virtual ~Stream() = default;  // with nothing under way
  virtual void Read(grpc::ByteBuffer* buffer, Operation* read) = 0;
  virtual void Write(const grpc::ByteBuffer& buffer, Operation* write) = 0;
  // False: this side ends the stream with Finish alone.
  virtual bool HalfClose(Operation* write) = 0;
  virtual void Finish(Operation* finish) = 0;
  // Why it ended, after Finish.
  virtual const grpc::Status& status() const = 0;
  virtual void Cancel() = 0;
};

class ClientStream final : public Stream {
 public:
  ClientStream(std::shared_ptr<grpc::Channel> channel, grpc::CompletionQueue* queue)
      : channel_(std::move(channel)), stub_(channel_), queue_(queue) {}
  grpc::ClientContext& context() { return context_; }
  void Begin(Operation* begin) {
    stream_ = stub_.PrepareCall(&context_, kPipeMethod, queue_);
    stream_->StartCall(begin);
  }
  void ReadMetadata(Operation* read) { stream_->ReadInitialMetadata(read); }

  void Read(grpc::ByteBuffer* buffer, Operation* read) override { stream_->Read(buffer, read); }
  void Write(const grpc::ByteBuffer& buffer, Operation* write) override { stream_->Write(buffer, write); }
  bool HalfClose(Operation* write) override {
    stream_->WritesDone(write);
    return true;
  }
  void Finish(Operation* finish) override { stream_->Finish(&status_, finish); }
  const grpc::Status& status() const override { return status_; }
  void Cancel() override { context_.TryCancel(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue* queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_;
};

class ServerStream final : public Stream {
 public:
  grpc::GenericServerContext& context() { return context_; }
  grpc::GenericServerAsyncReaderWriter& stream() { return stream_; }

  void Read(grpc::ByteBuffer* buffer, Operation* read) override { stream_.Read(buffer, read); }
  void Write(const grpc::ByteBuffer& buffer, Operation* write) override { stream_.Write(buffer, write); }
  bool HalfClose(Operation*) override { return false; }
  void Finish(Operation* finish) override { stream_.Finish(grpc::Status::OK, finish); }
  const grpc::Status& status() const override { return grpc::Status::OK; }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
};

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_STREAM_H_
