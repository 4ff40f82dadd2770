// SPDX-License-Identifier: Apache-2.0
#include "core/files/files.h"

#include <string>
#include <vector>

#include "core/files/granted_files.h"
#include "core/files/mounts.h"
#include "core/files/system_files.h"

namespace tenon::files {
namespace {

// What a tenon_file* that we gave out points to.
struct RoutedFile {
  std::shared_ptr<Mount> mount;  // nullptr: a plain one
  tenon_file* file = nullptr;    // of the table that opened it
};
RoutedFile* Of(tenon_file* file) { return reinterpret_cast<RoutedFile*>(file); }

// A member of tenon_files and the member of tenon_filesystem that does the same.
template <typename OfFiles, typename OfFilesystem>
struct Pair {
  OfFiles tenon_files::* plain;
  OfFilesystem tenon_filesystem::* mounted;
};

enum class Access { kRead, kWrite, kMove };

// Those on paths: by the path's scheme, `plain` or `mounted`; the system's, where not all is granted, by `granted`.
template <typename PlainCall, typename GrantedCall, typename MountedCall>
tenon_status* ByPath(tenon_span path, Access access, PlainCall plain, GrantedCall granted, MountedCall mounted) {
  const std::string_view name = View(path), scheme = SchemeOf(name);
  if (name.find('\0') != std::string_view::npos) return InvalidArgument("a path has a NUL").release();
  if (const std::shared_ptr<const FileGrants> grants = FileGrants::Current()) {
    if (scheme.empty()) return granted(GrantedFiles(*grants, name));
    auto found = access == Access::kMove ? grants->FindMovable(name) : grants->Find(name, access == Access::kWrite);
    if (!found.ok()) return Status(found.status()).release();
  }
  if (scheme.empty()) return plain();
  auto mount = Mounts::The().Find(scheme);
  if (!mount.ok()) return Status(mount.status()).Annotate(StrCat("'", name, "'")).release();
  return mounted(*mount);
}

using OpenGranted = tenon_status* (GrantedFiles::*)(tenon_file** out_file) const;

tenon_status* Open(tenon_span path, Access access,
                   Pair<decltype(tenon_files::open_read), decltype(tenon_filesystem::open_read)> how,
                   OpenGranted granted, tenon_file** out_file) {
  auto opened = std::make_unique<RoutedFile>();
  tenon_status* bad = ByPath(
      path, access, [&] { return (SystemFiles()->*how.plain)(path, &opened->file); },
      [&](const GrantedFiles& files) { return (files.*granted)(&opened->file); },
      [&](const std::shared_ptr<Mount>& mount) {
        opened->mount = mount;
        return mount->Open(how.mounted, path, &opened->file);
      });
  if (bad == nullptr) *out_file = reinterpret_cast<tenon_file*>(opened.release());
  return bad;
}

// Those on open files, with the same arguments in both tables.
template <typename Member, typename... Arguments>
tenon_status* OnFile(tenon_file* file, Pair<Member, Member> how, Arguments... arguments) {
  const RoutedFile& routed = *Of(file);
  if (routed.mount == nullptr) return (SystemFiles()->*how.plain)(routed.file, arguments...);
  return routed.mount->Call([&](const tenon_filesystem& table, tenon_plugin_self*) {
    return (table.*how.mounted)(routed.file, arguments...);
  });
}

tenon_status* Close(tenon_file* file) {
  const std::unique_ptr<RoutedFile> routed(Of(file));
  return routed->mount == nullptr ? SystemFiles()->close(routed->file) : routed->mount->Close(routed->file);
}

// Those on one path, whose tables' functions differ in `self` alone.
template <typename OfFiles, typename OfFilesystem>
tenon_status* OnPath(tenon_span path, Access access, Pair<OfFiles, OfFilesystem> how,
                     tenon_status* (GrantedFiles::*granted)() const) {
  return ByPath(
      path, access, [&] { return (SystemFiles()->*how.plain)(path); },
      [&](const GrantedFiles& files) { return (files.*granted)(); },
      [&](const std::shared_ptr<Mount>& mount) {
        return mount->Call(
            [&](const tenon_filesystem& table, tenon_plugin_self* self) { return (table.*how.mounted)(self, path); });
      });
}

tenon_status* Rename(tenon_span from, tenon_span to) {
  if (View(to).find('\0') != std::string_view::npos) return InvalidArgument("a path has a NUL").release();
  if (const std::shared_ptr<const FileGrants> grants = FileGrants::Current())
    if (auto found = grants->FindMovable(View(to)); !found.ok()) return Status(found.status()).release();
  if (SchemeOf(View(from)) != SchemeOf(View(to)))
    return InvalidArgument(
               StrCat("cannot rename '", View(from), "' to '", View(to), "': they are on different file systems"))
        .release();
  return ByPath(
      from, Access::kMove, [&] { return SystemFiles()->rename(from, to); },
      [&](const GrantedFiles& files) { return files.RenameTo(View(to)); },
      [&](const std::shared_ptr<Mount>& mount) {
        return mount->Call(
            [&](const tenon_filesystem& table, tenon_plugin_self* self) { return table.rename(self, from, to); });
      });
}

uint32_t Exists(tenon_span path) {
  uint32_t found = 0;
  // What cannot be asked is not there; whoever then tries to make it is told why.
  ReleaseStatus(ByPath(
      path, Access::kRead,
      [&]() -> tenon_status* {
        found = SystemFiles()->exists(path);
        return nullptr;
      },
      [&](const GrantedFiles& files) -> tenon_status* {
        found = files.Exists() ? 1 : 0;
        return nullptr;
      },
      [&](const std::shared_ptr<Mount>& mount) {
        return mount->Call([&](const tenon_filesystem& table, tenon_plugin_self* self) -> tenon_status* {
          found = table.exists(self, path);
          return nullptr;
        });
      }));
  return found;
}

void Collect(void* names, tenon_span name) { static_cast<std::vector<std::string>*>(names)->emplace_back(View(name)); }

// The names are given when the mount is no longer held, because their receiver may go on to ask for files.
tenon_status* List(tenon_span path, tenon_file_names names, void* argument) {
  std::vector<std::string> found;
  tenon_status* bad = ByPath(
      path, Access::kRead, [&] { return SystemFiles()->list(path, &Collect, &found); },
      [&](const GrantedFiles& files) { return files.List(&Collect, &found); },
      [&](const std::shared_ptr<Mount>& mount) {
        return mount->Call([&](const tenon_filesystem& table, tenon_plugin_self* self) {
          return table.list(self, path, &Collect, &found);
        });
      });
  if (bad != nullptr) return bad;
  for (const std::string& name : found) names(argument, Span(name));
  return nullptr;
}

}  // namespace

const tenon_files* Files() {
  using F = tenon_files;
  using S = tenon_filesystem;
  static const tenon_files files = {
      TENON_HEAD(tenon_files),
      [](tenon_span path, tenon_file** out) {
        return Open(path, Access::kRead, {&F::open_read, &S::open_read}, &GrantedFiles::OpenRead, out);
      },
      [](tenon_span path, tenon_file** out) {
        return Open(path, Access::kWrite, {&F::open_write, &S::open_write}, &GrantedFiles::OpenWrite, out);
      },
      [](tenon_span path, tenon_file** out) {
        return Open(path, Access::kWrite, {&F::open_append, &S::open_append}, &GrantedFiles::OpenAppend, out);
      },
      [](tenon_file* file, uint64_t* out) {
        return OnFile(file, Pair{&F::size, &S::size}, out);
      },
      [](tenon_file* file, uint64_t offset, void* target, uint64_t bytes) {
        return OnFile(file, Pair{&F::read_at, &S::read_at}, offset, target, bytes);
      },
      [](tenon_file* file, const void* source, uint64_t bytes) {
        return OnFile(file, Pair{&F::write, &S::write}, source, bytes);
      },
      [](tenon_file* file) {
        return OnFile(file, Pair{&F::sync, &S::sync});
      },
      &Close,
      &Rename,
      [](tenon_span path) {
        return OnPath(path, Access::kMove, Pair{&F::remove, &S::remove}, &GrantedFiles::Remove);
      },
      [](tenon_span path) {
        return OnPath(path, Access::kWrite, Pair{&F::make_directory, &S::make_directory}, &GrantedFiles::MakeDirectory);
      },
      [](tenon_span path) {
        return OnPath(path, Access::kRead, Pair{&F::sync_directory, &S::sync_directory}, &GrantedFiles::SyncDirectory);
      },
      &Exists,
      &List};
  return &files;
}

}  // namespace tenon::files
