// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/tuning_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/exec/kernel/tuning_files.h"

namespace tenon::exec {
namespace {

// A file: this, the key's size and the value's (8 bytes each), the hash of key and value, key, value.
constexpr std::string_view kMagic = "tenon-tuning 1\n";

uint64_t Hash(std::string_view text, uint64_t hash = 0xCBF29CE484222325ull) {  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return hash;
}

std::string Header(std::string_view key, std::string_view value) {
  const uint64_t numbers[3] = {key.size(), value.size(), Hash(value, Hash(key))};
  std::string header(kMagic);
  header.append(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  return header;
}

// Whether this user alone may write it.
bool IsOurs(const struct stat& info) { return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  const int number_;
};

bool ReadAll(int descriptor, char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(descriptor, out, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

Status TuningCache::UseFolder(std::string folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return FailedPrecondition(
        StrCat("the folder '", folder, "' for what kernels find out cannot be made: ", std::strerror(errno)));
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return FailedPrecondition(StrCat("'", folder, "' for what kernels find out is no folder"));
  if (!IsOurs(info))
    return FailedPrecondition(
        StrCat("others may write to the folder '", folder,
               "', so that it cannot be trusted with what kernels find out; take another, or chmod 700"));
  std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
  return Status::Ok();
}

std::string TuningCache::PathOf(const std::string& key) const {
  char name[32];
  std::snprintf(name, sizeof(name), "/%016llx.tuning", static_cast<unsigned long long>(Hash(key)));
  return folder_ + name;
}

Result<std::string> TuningCache::Read(const std::string& key) const {
  const Status none = NotFound("nothing is kept for this key");
  const Descriptor file(open(PathOf(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || !IsOurs(info)) return Status(none);
  const size_t head = Header("", "").size(), bytes = static_cast<size_t>(info.st_size);
  if (bytes < head + key.size() || bytes > head + key.size() + kLargestValue) return Status(none);
  std::string text(bytes, '\0');
  if (!ReadAll(file.get(), text.data(), bytes)) return Status(none);
  std::string value = text.substr(head + key.size());
  if (text.compare(0, head, Header(key, value)) != 0 || text.compare(head, key.size(), key) != 0) return Status(none);
  return value;
}

// Through a file beside it, so that a reader sees all of it or nothing.
Status TuningCache::Write(const std::string& key, std::string_view value) const {
  const std::string path = PathOf(key);
  std::string beside = path + ".XXXXXX";
  const Descriptor file(mkostemp(beside.data(), O_CLOEXEC));
  const bool written = file.get() >= 0 && WriteAll(file.get(), Header(key, value)) && WriteAll(file.get(), key) &&
                       WriteAll(file.get(), value) && rename(beside.c_str(), path.c_str()) == 0;
  if (written) return Status::Ok();
  const int why = errno;
  if (file.get() >= 0) unlink(beside.c_str());
  return Status(Code::kUnavailable, StrCat("'", path, "' cannot be written: ", std::strerror(why)));
}

Result<std::string> TuningCache::Get(const std::string& key) {
  std::lock_guard lock(mutex_);
  if (const auto it = values_.find(key); it != values_.end()) return it->second;
  if (folder_.empty()) return NotFound("nothing is kept for this key");
  TENON_ASSIGN_OR_RETURN(std::string value, Read(key));
  Keep(key, value);
  return value;
}

void TuningCache::Keep(const std::string& key, std::string value) {
  const auto [it, fresh] = values_.try_emplace(key);
  if (fresh) order_.push_back(key);
  bytes_ += value.size() + (fresh ? 2 * key.size() : 0) - it->second.size();
  it->second = std::move(value);
  while (bytes_ > kMostBytes && order_.size() > 1) {
    const auto oldest = values_.find(order_.front());
    bytes_ -= oldest->second.size() + 2 * oldest->first.size();
    values_.erase(oldest);
    order_.pop_front();
  }
}

void TuningCache::MakeRoomFor(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) return;
  const size_t dropped = DropOldest(folder_, most_files_);
  if (dropped == 0 || std::exchange(dropped_, true)) return;
  Log(TENON_LOG_INFO,
      StrCat("the folder '", folder_, "' has ", most_files_,
             " files of what kernels found out, as many as it may; the ", dropped, " oldest were removed"));
}

void TuningCache::Put(const std::string& key, std::string_view value) {
  std::lock_guard lock(mutex_);
  Keep(key, std::string(value));
  if (folder_.empty()) return;
  MakeRoomFor(PathOf(key));
  if (Status status = Write(key, value); !status.ok() && !std::exchange(complained_, true))
    Log(TENON_LOG_WARNING, std::move(status).Annotate("what a kernel found out stays in this process").message());
}

}  // namespace tenon::exec
