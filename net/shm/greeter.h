// SPDX-License-Identifier: Apache-2.0
// Greeter: serves the handshakes of those that come, side by side, so that one who says nothing keeps nobody waiting.
//
// There are at most kMost at once; one more ends the oldest that has not said all yet. Rules. One thread calls; `greet`
// runs on a thread of each guest's own, and owns the socket. After Stop() none runs.
#ifndef TENON_NET_SHM_GREETER_H_
#define TENON_NET_SHM_GREETER_H_

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

#include "segment.h"

namespace tenon::shm {

class Greeter {
 public:
  using Greet = std::function<void(File socket, uint64_t number)>;
  static constexpr size_t kMost = 64;

  explicit Greeter(Greet greet) : greet_(std::move(greet)) {}
  ~Greeter() { Stop(); }

  // False: no thread or descriptor is to be had for it, and it is sent away.
  bool Receive(File socket) {
    Forget();
    if (guests_.size() >= kMost) SendAway(guests_.begin());
    Guest& guest = guests_.emplace_back();
    guest.line = File(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    try {
      if (guest.line.ok()) {
        guest.thread = std::thread([this, &guest, number = ++count_, own = std::move(socket)]() mutable {
          greet_(std::move(own), number);
          guest.done = true;
        });
        return true;
      }
    } catch (const std::system_error&) {
    }
    guests_.pop_back();
    return false;
  }
  void Stop() {
    while (!guests_.empty()) SendAway(guests_.begin());
  }

 private:
  struct Guest {
    File line;  // the same socket, to end it
    std::thread thread;
    std::atomic<bool> done{false};
  };
  void SendAway(std::list<Guest>::iterator guest) {
    if (!guest->done) shutdown(guest->line.get(), SHUT_RDWR);
    guest->thread.join();
    guests_.erase(guest);
  }
  void Forget() {
    for (auto at = guests_.begin(); at != guests_.end();) {
      const auto guest = at++;
      if (guest->done) SendAway(guest);
    }
  }

  const Greet greet_;
  uint64_t count_ = 0;
  std::list<Guest> guests_;  // the oldest first
};

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_GREETER_H_
