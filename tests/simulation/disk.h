// SPDX-License-Identifier: Apache-2.0
// Disk: the simulated cluster's file system, "simdisk://PATH", which all nodes share.
//
// It is files/memory's tree, which knows what of it is durable; each operation takes its time, and may fail while the
// world says so. When the world takes its power away, what nobody made durable is gone.
#ifndef TENON_TESTS_SIMULATION_DISK_H_
#define TENON_TESTS_SIMULATION_DISK_H_

#include "files/memory/tree.h"
#include "tests/simulation/network.h"

namespace tenon::simulation {

class Disk {
 public:
  static constexpr tenon_span kScheme = TENON_SPAN("simdisk");
  static Disk& Of(tenon_plugin_self*) {
    static Disk* const disk = new Disk;
    return *disk;
  }
  void Crash() { tree_.Crash(); }

  class File {
   public:
    explicit File(std::unique_ptr<memory_files::Tree::File> file) : file_(std::move(file)) {}
    tenon_status* Size(uint64_t* out_size) { return Then([&] { return file_->Size(out_size); }); }
    tenon_status* ReadAt(uint64_t offset, void* target, uint64_t bytes) {
      return Then([&] { return file_->ReadAt(offset, target, bytes); });
    }
    tenon_status* Write(const void* source, uint64_t bytes) {
      return Then([&] { return file_->Write(source, bytes); });
    }
    tenon_status* Sync() { return Then([&] { return file_->Sync(); }); }
    tenon_status* Close() { return file_->Close(); }

   private:
    std::unique_ptr<memory_files::Tree::File> file_;
  };
  tenon_status* Open(std::string_view path, sdk::OpenMode mode, std::unique_ptr<File>* out_file) {
    return Then([&]() -> tenon_status* {
      std::unique_ptr<memory_files::Tree::File> file;
      if (tenon_status* failed = tree_.Open(path, mode, &file)) return failed;
      *out_file = std::make_unique<File>(std::move(file));
      return nullptr;
    });
  }
  tenon_status* Rename(std::string_view from, std::string_view to) {
    return Then([&] { return tree_.Rename(from, to); });
  }
  tenon_status* Remove(std::string_view path) { return Then([&] { return tree_.Remove(path); }); }
  tenon_status* MakeDirectory(std::string_view path) { return Then([&] { return tree_.MakeDirectory(path); }); }
  tenon_status* SyncDirectory(std::string_view path) { return Then([&] { return tree_.SyncDirectory(path); }); }
  tenon_status* List(std::string_view path, std::vector<std::string>* out_names) {
    return Then([&] { return tree_.List(path, out_names); });
  }
  bool Exists(std::string_view path) { return tree_.Exists(path); }

 private:
  template <typename Operation>
  static tenon_status* Then(const Operation& operation) {
    Fabric* const fabric = TheFabric();
    if (fabric != nullptr && fabric->DiskFails())
      return tenon_plugin_error(TENON_UNAVAILABLE, "simdisk:// does not work at the moment");
    return operation();
  }
  // A node that is killed gives nothing back.
  memory_files::Tree tree_{memory_files::Tree::Writers::kMany};
};

}  // namespace tenon::simulation

#endif  // TENON_TESTS_SIMULATION_DISK_H_
