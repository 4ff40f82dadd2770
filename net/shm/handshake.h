// SPDX-License-Identifier: Apache-2.0
// How two processes meet: at a Unix socket they check each other's user, share memory, and find out who may read whose
// memory.
//
// The side that connects makes the memory and sends it; the sides exchange their bells; each shows a random word and
// where it stands, and the other tries to read it there (process_vm_readv). The socket stays open as long as the
// connection: its end is how a killed peer is noticed. Rules: another user is refused (SO_PEERCRED). Names are letters,
// digits, '.', '_' and '-', and stand in a folder that is this user's alone; a listener holds the lock of its address,
// so that a socket without one is left over and is replaced.
#ifndef TENON_NET_SHM_HANDSHAKE_H_
#define TENON_NET_SHM_HANDSHAKE_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "segment.h"

namespace tenon::shm {

// What a pipe is made of.
struct Meeting {
  File socket;
  std::unique_ptr<Segment> segment;
  std::unique_ptr<Bell> bell;  // the other side's
  bool made_here = false;    // the segment's direction 0 is from this side
  pid_t process = 0;         // the other side's
  bool peer_reads = false;   // it may read this process's memory
  bool may_read = false;     // this side may read its memory
  std::string name;
};

// An address that is listened at, until it dies.
struct Listening {
  File lock, socket;
  std::string path;
  ~Listening();
};

// The socket's file of an address ("NAME" or "/path").
[[nodiscard]] tenon_status* PathOf(std::string_view address, std::string* out_path);
[[nodiscard]] tenon_status* ListenAt(const std::string& path, std::unique_ptr<Listening>* out_listening);
// Both wait until the deadline. own: this side's bell.
[[nodiscard]] tenon_status* Meet(const std::string& path, uint64_t deadline_ns, const Bell& own, Meeting* out_meeting);
[[nodiscard]] tenon_status* Welcome(File socket, uint64_t deadline_ns, const Bell& own, Meeting* out_meeting);

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_HANDSHAKE_H_
