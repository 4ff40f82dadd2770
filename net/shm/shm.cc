// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.net.shm: processes of one user on one host, "shm://NAME" or "shm:///path/of/a/socket".
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "greeter.h"
#include "pipe.h"
#include "tenon/extras/transport/endpoint.h"

namespace tenon::shm {
namespace {

constexpr uint64_t kWelcomeTime = 2'000'000'000;  // for a client to say what it must

class ShmDoor final : public sdk::Door {
 public:
  explicit ShmDoor(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {}
  ~ShmDoor() override {
    StopListening();
    reader_->Stop();
  }

  tenon_status* Listen(std::string_view address, Accept accept, std::string* out_address) override {
    static std::atomic<uint64_t> chosen{0};
    address_ = address.empty() ? sdk::Concat("chosen-", getpid(), "-", ++chosen) : std::string(address);
    std::string path;
    TENON_SDK_RETURN_IF_ERROR(PathOf(address_, &path));
    TENON_SDK_RETURN_IF_ERROR(ListenAt(path, &listening_));
    *out_address = address_;
    accept_ = std::move(accept);
    stop_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    thread_ = std::thread([this] { Run(); });
    return nullptr;
  }
  void StopListening() override {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t woken = write(stop_.get(), &one, sizeof one);
    thread_.join();
    listening_ = nullptr;
  }
  tenon_status* Connect(std::string_view address, uint64_t deadline_ns, std::unique_ptr<sdk::Pipe>* out_pipe) override {
    std::string path;
    Meeting meeting;
    TENON_SDK_RETURN_IF_ERROR(PathOf(address, &path));
    TENON_SDK_RETURN_IF_ERROR(Meet(path, deadline_ns, reader_->bell(), &meeting));
    meeting.name = sdk::Concat("shm://", address);
    *out_pipe = std::make_unique<ShmPipe>(std::move(meeting), reader_);
    return nullptr;
  }

 private:
  void Run() {
    Greeter greeter([this](File socket, uint64_t count) { Receive(std::move(socket), count); });
    for (;;) {
      pollfd events[] = {{listening_->socket.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      poll(events, 2, -1);
      if (events[1].revents != 0) return;
      File socket(accept4(listening_->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      // No file or thread to be had, say: not again at once.
      if (!socket.ok() || !greeter.Receive(std::move(socket))) poll(&events[1], 1, 100);
    }
  }
  void Receive(File socket, uint64_t count) {
    Meeting meeting;
    tenon_status* refused =
        sdk::Guard([&] { return Welcome(std::move(socket), sdk::Now() + kWelcomeTime, reader_->bell(), &meeting); });
    if (refused != nullptr) {
      const std::string text =
          sdk::Concat("shm://", address_, " refused a connection: ", tenon_plugin_host->status_message(refused));
      tenon_plugin_host->status_release(refused);
      return tenon_plugin_host->log(TENON_LOG_WARNING, sdk::ToSpan(text));
    }
    meeting.name = sdk::Concat("shm://", address_, "#", count, " (process ", meeting.process, ")");
    accept_(std::make_unique<ShmPipe>(std::move(meeting), reader_));
  }

  const std::shared_ptr<Reader> reader_;
  std::string address_;
  std::unique_ptr<Listening> listening_;
  Accept accept_;
  File stop_;
  std::thread thread_;
};

struct Transport {
  static constexpr tenon_span kScheme = TENON_SPAN("shm");
  static tenon_status* Open(tenon_plugin_self*, const tenon_endpoint_options&, std::unique_ptr<sdk::Door>* out_door) {
    std::shared_ptr<Reader> reader;
    TENON_SDK_RETURN_IF_ERROR(Reader::Make(&reader));
    *out_door = std::make_unique<ShmDoor>(std::move(reader));
    return nullptr;
  }
};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(TRANSPORT, &sdk::kTransportTable<Transport>)};

}  // namespace
}  // namespace tenon::shm

TENON_PLUGIN("tenon.net.shm", "0.1.0", "Connections between processes of one user on one host, over shared memory.",
             tenon::shm::kCapabilities)
