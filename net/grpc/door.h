// SPDX-License-Identifier: Apache-2.0
// GrpcDoor: a listener: one endpoint's completion queue, its threads and, where it listens, its server. Makes pipes.
//
// Rules. It is destroyed when all its pipes are closed; afterwards nothing of it runs. Threads begin with the first
// Listen or Connect.
#ifndef TENON_NET_GRPC_DOOR_H_
#define TENON_NET_GRPC_DOOR_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "pipe.h"
#include "security.h"
#include "tenon/extras/transport/endpoint.h"

namespace tenon::grpc_net {

class GrpcDoor final : public sdk::Door {
 public:
  // silence_ns: as of tenon_endpoint_options.
  GrpcDoor(Security security, uint64_t silence_ns) : security_(std::move(security)), silence_ns_(silence_ns) {}
  ~GrpcDoor() override;
  [[nodiscard]] tenon_status* Listen(std::string_view address, Accept accept, std::string* out_address) override;
  void StopListening() override;
  [[nodiscard]] tenon_status* Connect(std::string_view address, uint64_t deadline_ns,
                                      std::unique_ptr<sdk::Pipe>* out_pipe) override;

 private:
  class Guest;

  [[nodiscard]] tenon_status* StartServer(const Address& address, std::string* out_address);
  void StartThreads();
  // A guest is awaited, unless the door is shut.
  void AwaitGuest();
  void GuestGone();
  bool IsShut();
  bool BeginAccept();
  void EndAccept();
  std::string PeerName(const grpc::AuthContext& proven, const std::string& otherwise) const;

  const Security security_;
  const uint64_t silence_ns_;
  Accept accept_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  grpc::ServerCompletionQueue* server_queue_ = nullptr;  // queue_, where the door listens
  std::unique_ptr<grpc::Server> server_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<QueueThreads> threads_;
  bool shut_ = false;
  size_t accepting_ = 0;
  size_t guests_ = 0;  // awaited, or on the threshold
};

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_DOOR_H_
