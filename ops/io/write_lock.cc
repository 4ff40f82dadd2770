// SPDX-License-Identifier: Apache-2.0
#include "write_lock.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

namespace tenon::ops::io {
namespace {

std::string ThisProcess() {
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return "process " + std::to_string(getpid()) + (host[0] == '\0' ? "" : std::string(" on ") + host);
}

// What the holder wrote there; anybody may have.
std::string Holder(const tenon_files& files, const std::string& path) {
  constexpr uint64_t kMost = 100;
  try {
    const sdk::File file = sdk::File::ForReading(files, path);
    std::string text(std::min(file.size(), kMost), '\0');
    file.ReadAt(0, text.data(), text.size());
    std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
    if (!text.empty()) return text;
  } catch (const sdk::KernelError&) {
    // It has just been given back, or cannot be read.
  }
  return "another process";
}

}  // namespace

WriteLock::WriteLock(const tenon_files& files, std::string_view prefix)
    : files_(files), path_(std::string(prefix) + ".lock") {
  if (auto file = sdk::File::IfNobodyWrites(files_, path_)) file_.emplace(*std::move(file));
  if (!file_) {
    sdk::Fail(TENON_ABORTED, "the checkpoint ", prefix, " is being written by ", Holder(files_, path_), ", which has ",
              path_, " open; nothing was changed");
  }
  try {
    const std::string holder = ThisProcess() + "\n";
    file_->Write(holder.data(), holder.size());
  } catch (...) {
    sdk::RemoveIfThere(files_, path_);
    throw;
  }
}

// While it is open: nobody else has it yet.
void WriteLock::Release() {
  if (!file_) return;
  tenon_status* const removed = files_.remove(sdk::ToSpan(path_));
  file_.reset();
  sdk::Check(removed);
}

WriteLock::~WriteLock() {
  try {
    Release();
  } catch (const sdk::KernelError&) {
    // It stays, and means nothing.
  }
}

}  // namespace tenon::ops::io
