// SPDX-License-Identifier: Apache-2.0
#include "handshake.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "tenon/extras/transport/keeper.h"

namespace tenon::shm {
namespace {

using sdk::Failure;

constexpr uint64_t kMagic = 0x326d68536e6e6554;  // "TennShm2"

// Each side's first message; the connecting side's carries the memory, and each side's first its bell.
struct Hello {
  uint64_t magic = kMagic;
  uint64_t word_address = 0;
  uint64_t word[2] = {};
  uint64_t may_read = 0;  // of the answer: the word was found at its address
};

// A word that only who may read this process's memory can find.
struct Secret {
  uint64_t word[2] = {};
  Secret() {
    if (getrandom(word, sizeof word, 0) != sizeof word) word[0] = sdk::Now();
  }
  Hello Tell() const { return {kMagic, reinterpret_cast<uint64_t>(word), {word[0], word[1]}, 0}; }
};

tenon_status* SystemFailure(uint32_t code, const char* what) { return Failure(code, what, ": ", std::strerror(errno)); }

tenon_status* WaitFor(int socket, short events, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now = sdk::Now();
    if (deadline_ns != 0 && now >= deadline_ns)
      return Failure(TENON_DEADLINE_EXCEEDED, "the other side did not answer by the deadline");
    const uint64_t left = deadline_ns == 0 ? 60'000 : std::min<uint64_t>((deadline_ns - now) / 1'000'000 + 1, 60'000);
    pollfd poll_for = {socket, events, 0};
    const int ready = poll(&poll_for, 1, static_cast<int>(left));
    if (ready > 0) return nullptr;
    if (ready < 0 && errno != EINTR) return SystemFailure(TENON_UNAVAILABLE, "waiting for the other side");
  }
}

constexpr size_t kMaxFiles = 2;

tenon_status* SendHello(int socket, const Hello& hello, std::initializer_list<int> files = {}) {
  iovec bytes = {const_cast<Hello*>(&hello), sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFiles * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (files.size() != 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), files.begin(), files.size() * sizeof(int));
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello)) return nullptr;
  return SystemFailure(TENON_UNAVAILABLE, "the other side is gone");
}

tenon_status* ReceiveHello(int socket, uint64_t deadline_ns, Hello* out_hello, std::vector<File>* out_files = nullptr) {
  TENON_SDK_RETURN_IF_ERROR(WaitFor(socket, POLLIN, deadline_ns));
  iovec bytes = {out_hello, sizeof *out_hello};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFiles * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size < 0)
    return SystemFailure(TENON_UNAVAILABLE, "the other side is gone");  // killed in the middle: the connection is reset
  std::vector<File> files;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= head->cmsg_len; at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(head) + at, sizeof file);
      files.emplace_back(file);
    }
  }
  if (size == 0) return Failure(TENON_UNAVAILABLE, "the other side has closed the socket");
  if (size != sizeof *out_hello || out_hello->magic != kMagic)
    return Failure(TENON_INVALID_ARGUMENT, "the other side does not speak this version of shm");
  if (out_files == nullptr) return nullptr;
  const size_t wanted = out_files->size();
  if (files.size() < wanted)
    return Failure(TENON_INVALID_ARGUMENT, "the other side sent ", files.size(), " pieces of memory instead of ",
                   wanted);
  *out_files = std::move(files);
  return nullptr;
}

tenon_status* CheckUser(int socket, pid_t* out_process) {
  ucred who = {};
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return SystemFailure(TENON_UNAVAILABLE, "asking who is there");
  if (who.uid != geteuid()) {
    return Failure(TENON_PERMISSION_DENIED, "the other side is user ", who.uid, "; shm connects processes of one user");
  }
  *out_process = who.pid;
  return nullptr;
}

bool CanRead(pid_t process, const Hello& hello) {
  uint64_t word[2] = {};
  const iovec here = {word, sizeof word};
  const iovec there = {reinterpret_cast<void*>(hello.word_address), sizeof word};
  return process_vm_readv(process, &here, 1, &there, 1, 0) == sizeof word && std::equal(word, word + 2, hello.word);
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}
File NewSocket() { return File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

// The folder of names: this user's alone.
tenon_status* FolderOfNames(std::string* out_folder) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string folder = runtime != nullptr && runtime[0] == '/' && std::strlen(runtime) < 48
                           ? sdk::Concat(runtime, "/tenon-shm")
                           : sdk::Concat("/tmp/tenon-shm-", geteuid());
  mkdir(folder.c_str(), 0700);
  struct stat about = {};
  if (lstat(folder.c_str(), &about) != 0) return SystemFailure(TENON_UNAVAILABLE, folder.c_str());
  if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 022) != 0) {
    return Failure(TENON_PERMISSION_DENIED, folder, " is not a folder that this user alone may write");
  }
  *out_folder = std::move(folder);
  return nullptr;
}

bool IsName(std::string_view name) {
  constexpr std::string_view kOthers = "._-";
  return !name.empty() && name.size() <= 48 && name[0] != '.' && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

// Held as long as somebody listens; the system lets go of it when its process ends.
tenon_status* TakeLock(const std::string& path, File* out_lock) {
  const std::string lock_path = path + ".lock";
  for (int i = 0; i < 100; ++i) {
    File lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.ok()) return SystemFailure(TENON_UNAVAILABLE, lock_path.c_str());
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return Failure(TENON_ALREADY_EXISTS, "another process listens at ", path);
    struct stat held = {}, named = {};
    if (fstat(lock.get(), &held) == 0 && stat(lock_path.c_str(), &named) == 0 && held.st_ino == named.st_ino) {
      *out_lock = std::move(lock);
      return nullptr;
    }  // its last owner removed it meanwhile
  }
  return Failure(TENON_UNAVAILABLE, lock_path, " changes again and again");
}

}  // namespace

Listening::~Listening() {
  if (!socket.ok()) return;
  unlink(path.c_str());
  unlink((path + ".lock").c_str());
}

tenon_status* PathOf(std::string_view address, std::string* out_path) {
  if (!address.starts_with("/")) {
    if (!IsName(address)) {
      return Failure(TENON_INVALID_ARGUMENT, "'", address,
                     "' is no name: letters, digits, '_', '-' and '.' (not first), at most 48");
    }
    std::string folder;
    TENON_SDK_RETURN_IF_ERROR(FolderOfNames(&folder));
    *out_path = sdk::Concat(folder, "/", address);
    return nullptr;
  }
  constexpr size_t kMost = sizeof(sockaddr_un{}.sun_path) - 1;
  if (address.size() > kMost || sdk::Concat(address, "/").find("/../") != std::string::npos ||
      address.find('\0') != address.npos || address.ends_with("/")) {
    return Failure(TENON_INVALID_ARGUMENT, "'", address, "' is no path of a socket: at most ", kMost,
                   " bytes, no '..'");
  }
  *out_path = address;
  return nullptr;
}

tenon_status* ListenAt(const std::string& path, std::unique_ptr<Listening>* out_listening) {
  auto listening = std::make_unique<Listening>();
  TENON_SDK_RETURN_IF_ERROR(TakeLock(path, &listening->lock));
  struct stat about = {};
  if (lstat(path.c_str(), &about) == 0) {
    if (!S_ISSOCK(about.st_mode)) return Failure(TENON_ALREADY_EXISTS, path, " is there and is no socket");
    unlink(path.c_str());  // of a process that has died: this one holds the lock
  }
  File socket = NewSocket();
  const sockaddr_un address = AddressOf(path);
  if (!socket.ok() || bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(socket.get(), 128) != 0) {
    return SystemFailure(TENON_UNAVAILABLE, "listening");
  }
  listening->socket = std::move(socket);
  listening->path = path;
  *out_listening = std::move(listening);
  return nullptr;
}

tenon_status* Meet(const std::string& path, uint64_t deadline_ns, const Bell& own, Meeting* out_meeting) {
  File socket = NewSocket();
  if (!socket.ok()) return SystemFailure(TENON_RESOURCE_EXHAUSTED, "making a socket");
  const uint64_t left =
      deadline_ns == 0 ? 0 : std::max<uint64_t>(deadline_ns - std::min(deadline_ns, sdk::Now()), 1000);
  const timeval limit = {static_cast<time_t>(left / 1'000'000'000), static_cast<suseconds_t>(left / 1000 % 1'000'000)};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const sockaddr_un address = AddressOf(path);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return SystemFailure(errno == EAGAIN ? TENON_DEADLINE_EXCEEDED : TENON_UNAVAILABLE, path.c_str());
  }
  TENON_SDK_RETURN_IF_ERROR(CheckUser(socket.get(), &out_meeting->process));
  File memory;
  TENON_SDK_RETURN_IF_ERROR(Segment::Make(&out_meeting->segment, &memory));
  const Secret secret;
  TENON_SDK_RETURN_IF_ERROR(SendHello(socket.get(), secret.Tell(), {memory.get(), own.file().get()}));
  Hello answer;
  std::vector<File> files(1);
  TENON_SDK_RETURN_IF_ERROR(ReceiveHello(socket.get(), deadline_ns, &answer, &files));
  TENON_SDK_RETURN_IF_ERROR(Bell::Open(std::move(files[0]), &out_meeting->bell));
  out_meeting->peer_reads = answer.may_read != 0;
  out_meeting->may_read = CanRead(out_meeting->process, answer);
  Hello last = secret.Tell();
  last.may_read = out_meeting->may_read ? 1 : 0;
  TENON_SDK_RETURN_IF_ERROR(SendHello(socket.get(), last));
  TENON_SDK_RETURN_IF_ERROR(ReceiveHello(socket.get(), deadline_ns, &answer));  // it has seen all of this
  out_meeting->made_here = true;
  out_meeting->socket = std::move(socket);
  return nullptr;
}

tenon_status* Welcome(File socket, uint64_t deadline_ns, const Bell& own, Meeting* out_meeting) {
  TENON_SDK_RETURN_IF_ERROR(CheckUser(socket.get(), &out_meeting->process));
  Hello hello;
  std::vector<File> files(2);
  TENON_SDK_RETURN_IF_ERROR(ReceiveHello(socket.get(), deadline_ns, &hello, &files));
  TENON_SDK_RETURN_IF_ERROR(Segment::Open(files[0], &out_meeting->segment));
  TENON_SDK_RETURN_IF_ERROR(Bell::Open(std::move(files[1]), &out_meeting->bell));
  const Secret secret;
  Hello answer = secret.Tell();
  out_meeting->may_read = CanRead(out_meeting->process, hello);
  answer.may_read = out_meeting->may_read ? 1 : 0;
  TENON_SDK_RETURN_IF_ERROR(SendHello(socket.get(), answer, {own.file().get()}));
  TENON_SDK_RETURN_IF_ERROR(ReceiveHello(socket.get(), deadline_ns, &hello));
  out_meeting->peer_reads = hello.may_read != 0;
  TENON_SDK_RETURN_IF_ERROR(SendHello(socket.get(), answer));
  out_meeting->socket = std::move(socket);
  return nullptr;
}

}  // namespace tenon::shm
