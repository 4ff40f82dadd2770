// SPDX-License-Identifier: Apache-2.0
#include "event_file.h"

#include <utility>

#include "tenon/bytes/event.h"
#include "tenon/extras/file/records.h"

namespace tenon::ops {
using namespace sdk;

std::string EventFile::NewPath(const tenon_files& files, const Options& options) {
  EventFileNames fresh;
  const auto note = [](void* names, tenon_span name) { static_cast<EventFileNames*>(names)->Note(ToText(name)); };
  // Where the folder's files cannot be listed the time has to do.
  if (TENON_CALLABLE(&files, list))
    if (tenon_status* bad = files.list(ToSpan(options.folder), note, &fresh); bad != nullptr)
      tenon_plugin_host->status_release(bad);
  for (;;) {
    const std::string path =
        Concat(options.folder, options.folder.ends_with('/') ? "" : "/", fresh.Next(), options.suffix);
    if (files.exists(ToSpan(path)) == 0) return path;
  }
}

static const tenon_files& WithFolder(const std::string& folder) {
  const tenon_files& files = HostFiles();
  MakeFolders(files, folder.ends_with('/') && folder.size() > 1 && !folder.ends_with("://")
                         ? std::string_view(folder).substr(0, folder.size() - 1)
                         : std::string_view(folder));
  return files;
}

EventFile::EventFile(const RunContext& c, const Options& options)
    : options_(options),
      path_(NewPath(WithFolder(options.folder), options)),
      file_(File::ForAppending(HostFiles(), path_)),
      written_ns_(c.services().now_ns(c.frame())) {
  AppendRecord(waiting_, EventOf(0, kEventFileVersion, kEventFormat));
  Write();
}

EventFile::~EventFile() {
  try {
    Flush();
  } catch (const KernelError&) {  // nobody is there who could be told; who wants to know closes or flushes
  }
}

void EventFile::Add(const RunContext& c, int64_t step, uint32_t field, std::string_view message) {
  AddEvent(c, EventOf(step, field, message));
}

void EventFile::AddEvent(const RunContext& c, std::string_view event) {
  const std::lock_guard lock(mutex_);
  AppendRecord(waiting_, event);
  const uint64_t now = c.services().now_ns(c.frame());
  if (++waiting_count_ > options_.most_waiting || waiting_.size() >= kMostBytes ||
      now - written_ns_ >= static_cast<uint64_t>(options_.longest_ms) * 1'000'000)
    Write();
  if (waiting_.empty()) written_ns_ = now;
}

void EventFile::Flush() {
  const std::lock_guard lock(mutex_);
  Write();
}

void EventFile::Write() {
  if (failed_)
    Fail(TENON_FAILED_PRECONDITION, "the event file ", path_,
         " could not be written before; close the writer and make another");
  if (waiting_.empty()) return;
  failed_ = true;
  const std::string waiting = std::exchange(waiting_, {});
  waiting_count_ = 0;
  file_.Write(waiting.data(), waiting.size());
  failed_ = false;
}

}  // namespace tenon::ops
