// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.test.crash: the files of files/memory as "crash://PATH", on a machine that loses its power when a
// test says so.
#include "files/memory/tree.h"
#include "tests/fakes/crash_control.h"

namespace tenon::fakes {
namespace {

using memory_files::Tree;

struct Machine {
  Tree tree;
  std::atomic<int64_t> changes{0}, reads{0}, crash_at{0};

  tenon_status* Works() const {
    if (crash_at == 0 || changes < crash_at) return nullptr;
    return sdk::Failure(TENON_UNAVAILABLE, "the power is gone");
  }
  template <typename Function>
  tenon_status* Change(Function function) {
    ++changes;
    TENON_SDK_RETURN_IF_ERROR(Works());
    return function();
  }
};
Machine& TheMachine() {
  static Machine* const machine = new Machine;
  return *machine;
}

class CrashFile {
 public:
  explicit CrashFile(std::unique_ptr<Tree::File> file) : file_(std::move(file)) {}
  tenon_status* Size(uint64_t* out_size) { return file_->Size(out_size); }
  tenon_status* ReadAt(uint64_t offset, void* target, uint64_t bytes) {
    TENON_SDK_RETURN_IF_ERROR(TheMachine().Works());
    return file_->ReadAt(offset, target, bytes);
  }
  tenon_status* Write(const void* source, uint64_t bytes) {
    return TheMachine().Change([&] { return file_->Write(source, bytes); });
  }
  tenon_status* Sync() {
    return TheMachine().Change([&] { return file_->Sync(); });
  }
  tenon_status* Close() { return TheMachine().Works(); }

 private:
  const std::unique_ptr<Tree::File> file_;
};

struct System {
  static constexpr tenon_span kScheme = TENON_SPAN("crash");
  using File = CrashFile;
  static System& Of(tenon_plugin_self*) {
    static System system;
    return system;
  }
  tenon_status* Open(std::string_view path, sdk::OpenMode mode, std::unique_ptr<File>* out_file) {
    Machine& machine = TheMachine();
    std::unique_ptr<Tree::File> file;
    const auto open = [&] { return machine.tree.Open(path, mode, &file); };
    if (mode == sdk::OpenMode::kRead) ++machine.reads;
    TENON_SDK_RETURN_IF_ERROR(machine.Works());
    TENON_SDK_RETURN_IF_ERROR(mode == sdk::OpenMode::kRead ? open() : machine.Change(open));
    *out_file = std::make_unique<File>(std::move(file));
    return nullptr;
  }
  tenon_status* Rename(std::string_view from, std::string_view to) {
    return TheMachine().Change([&] { return TheMachine().tree.Rename(from, to); });
  }
  tenon_status* Remove(std::string_view path) {
    return TheMachine().Change([&] { return TheMachine().tree.Remove(path); });
  }
  tenon_status* MakeDirectory(std::string_view path) {
    return TheMachine().Change([&] { return TheMachine().tree.MakeDirectory(path); });
  }
  tenon_status* SyncDirectory(std::string_view path) {
    return TheMachine().Change([&] { return TheMachine().tree.SyncDirectory(path); });
  }
  tenon_status* List(std::string_view path, std::vector<std::string>* out_names) {
    TENON_SDK_RETURN_IF_ERROR(TheMachine().Works());
    return TheMachine().tree.List(path, out_names);
  }
  bool Exists(std::string_view path) { return TheMachine().tree.Exists(path); }
};

void Restart(uint32_t lost) {
  Machine& machine = TheMachine();
  if (lost != 0) machine.tree.Crash();
  machine.crash_at = machine.changes = machine.reads = 0;
}

const tenon_test_crash kControl = {[] { return TheMachine().changes.load(); }, [] { return TheMachine().reads.load(); },
                                   [](int64_t change) { TheMachine().crash_at = change; }, Restart};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(FILESYSTEM, &sdk::kFilesystemTable<System>),
                                          {TENON_SPAN(TENON_TEST_CRASH), &kControl, 0}};

}  // namespace
}  // namespace tenon::fakes

TENON_PLUGIN("tenon.test.crash", "0.1.0", "Files on a machine that loses its power when a test says so.",
             tenon::fakes::kCapabilities)
