// SPDX-License-Identifier: Apache-2.0
// Where the pictures of `tenon train images` come from.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/data/file.h"
#include "tenon/host/files.h"
#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"
#include "tenon/train/batches.h"
#include "tenon/train/event_file.h"
#include "tenon/train/images.h"

namespace tenon::train {
namespace {

constexpr uint64_t kShareSeed = 20260101, kHeldOutImages = 10;  // of what is held out; part of the job's meaning

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool IsPicture(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.starts_with('.')) return false;
  const std::string ending = Lower(name.substr(dot));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".gif" || ending == ".bmp";
}

// Depends on the name in its folder alone.
bool IsHeldOut(std::string_view name) {
  return HashedNumber(kShareSeed, sdk::Crc32c(name), name.size(), kHeldOutImages) == 0;
}

std::string ClassesFile(const std::string& records) { return records + ".classes.txt"; }

Result<std::vector<std::string>> ReadLines(const std::string& file) {
  TENON_TRY_ASSIGN(const std::string text, data::ReadFile(file));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Status CheckClasses(const std::vector<std::string>& classes, const std::string& path) {
  if (classes.size() >= 2) return Status();
  return Status(Code::kInvalidArgument,
                "'" + path + "' has " + std::to_string(classes.size()) +
                    " classes of pictures; a folder with a folder for each class is wanted, two at least: " + path +
                    "/cats/1.jpg, " + path + "/dogs/1.jpg");
}

// ---- Examples ----

std::string BytesFeature(std::string_view value) {
  sdk::WireWriter list, feature;
  list.Bytes(1, value);
  feature.Bytes(1, list.bytes());
  return feature.bytes();
}
std::string IntFeature(int64_t value) {
  std::string packed;
  sdk::PutVarint(packed, static_cast<uint64_t>(value));
  sdk::WireWriter list, feature;
  list.Bytes(1, packed);
  feature.Bytes(3, list.bytes());
  return feature.bytes();
}
std::string ExampleOf(std::string_view picture, int64_t label, std::string_view name) {
  sdk::WireWriter features, example;
  const auto add = [&features](std::string_view key, const std::string& feature) {
    sdk::WireWriter entry;
    entry.Bytes(1, key);
    entry.Bytes(2, feature);
    features.Bytes(1, entry.bytes());
  };
  add("image/class/label", IntFeature(label));
  add("image/class/text", BytesFeature(name));
  add("image/encoded", BytesFeature(picture));
  example.Bytes(1, features.bytes());
  return example.bytes();
}

}  // namespace

Result<ImageSource> ImageSource::OfFolder(const std::string& folder) {
  ImageSource source;
  TENON_TRY_ASSIGN(const std::vector<std::string> entries, data::ListFolder(folder));
  for (const std::string& entry : entries) {
    if (entry.starts_with('.')) continue;
    const std::string class_folder = data::JoinPath(folder, entry);
    const Result<std::vector<std::string>> names = data::ListFolder(class_folder);
    if (!names.ok()) continue;  // a file
    const auto label = static_cast<int64_t>(source.classes.size());
    size_t found = 0;
    for (const std::string& name : *names) {
      if (!IsPicture(name)) continue;
      ++found;
      const bool held_out = IsHeldOut(entry + "/" + name);
      (held_out ? source.held_out_files : source.files).push_back(data::JoinPath(class_folder, name));
      (held_out ? source.held_out_labels : source.labels).push_back(label);
    }
    if (found > 0) source.classes.push_back(entry);
  }
  TENON_TRY(CheckClasses(source.classes, folder));
  if (source.files.empty())
    return Status(Code::kInvalidArgument, "'" + folder + "' has too few pictures: all of them are held out");
  return source;
}

Result<ImageSource> ImageSource::OfRecords(const std::string& file) {
  ImageSource source;
  source.records = file;
  TENON_TRY_ASSIGN(const host::File opened, host::File::OpenRead(file));
  TENON_TRY_ASSIGN(const uint64_t size, opened.Size());
  if (size == 0)
    return Status(Code::kInvalidArgument,
                  "'" + file + "' is empty; `tenon records write FOLDER " + file + "` makes one");
  Result<std::vector<std::string>> classes = ReadLines(ClassesFile(file));
  if (!classes.ok()) return classes.status().Annotate("the names of the classes of '" + file + "'");
  source.classes = std::move(*classes);
  TENON_TRY(CheckClasses(source.classes, file));
  return source;
}

Result<ImageSource> ImageSource::Open(const std::string& path) {
  if (data::ListFolder(path).ok()) return OfFolder(path);
  if (!data::FileExists(path)) return Status(Code::kNotFound, "there is no folder or file '" + path + "'");
  return OfRecords(path);
}

Result<int64_t> WriteImageRecords(const std::string& folder, const std::string& file, uint64_t seed) {
  TENON_TRY_ASSIGN(const ImageSource source, ImageSource::OfFolder(folder));
  std::vector<std::pair<std::string, int64_t>> all;
  for (size_t i = 0; i < source.files.size(); ++i) all.emplace_back(source.files[i], source.labels[i]);
  for (size_t i = 0; i < source.held_out_files.size(); ++i)
    all.emplace_back(source.held_out_files[i], source.held_out_labels[i]);
  std::sort(all.begin(), all.end());
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[HashedNumber(seed, 0, i, i)]);
  const std::string half = file + ".half";
  TENON_TRY_ASSIGN(host::File out, host::File::OpenWrite(half));
  for (const auto& [path, label] : all) {
    TENON_TRY_ASSIGN(const std::string picture, data::ReadFile(path));
    std::string record;
    AppendRecord(record, ExampleOf(picture, label, source.classes[static_cast<size_t>(label)]));
    TENON_TRY(out.Write(record));
  }
  TENON_TRY(out.Sync());
  TENON_TRY(out.Close());
  std::string names;
  for (const std::string& name : source.classes) names += name + "\n";
  TENON_TRY(data::ReplaceFile(ClassesFile(file), {names}));
  TENON_TRY(host::RenameFile(half, file));
  return static_cast<int64_t>(all.size());
}

}  // namespace tenon::train
