// SPDX-License-Identifier: Apache-2.0
// Names of files by a pattern, as TensorFlow matches them: "*" and "?" stand for what is in one name, "[a-z]" and
// "[!a-z]" (or "^") for one byte, "\" takes the next byte as it is. Nothing stands for "/", and a leading dot is like
// any other byte.
#ifndef TENON_SDK_FILE_GLOB_H_
#define TENON_SDK_FILE_GLOB_H_

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/file/file.h"

namespace tenon::sdk {

// Called for each name in a folder that is looked at; what it throws ends the search.
using NamePoll = std::function<void(size_t bytes)>;

namespace glob {

inline constexpr std::string_view kSpecial = "*?[\\";

inline unsigned char Byte(char c) { return static_cast<unsigned char>(c); }

// Whether `c` is one of the set that begins at pattern[*at] with "["; moves *at behind it. A "[" without an end is a
// "[".
inline bool InSet(std::string_view pattern, size_t* at, char c) {
  size_t i = *at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    const char low = pattern[i++];
    char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      if (pattern[++i] == '\\' && i + 1 < pattern.size()) ++i;
      high = pattern[i++];
    }
    found = found || (Byte(low) <= Byte(c) && Byte(c) <= Byte(high));
  }
  if (i >= pattern.size()) {
    ++*at;
    return c == '[';
  }
  *at = i + 1;
  return found != negated;
}

// Whether the element of the pattern at *at, which is no "*", stands for `c`; moves *at behind it.
inline bool IsOne(std::string_view pattern, size_t* at, char c) {
  switch (pattern[*at]) {
    case '?': ++*at; return true;
    case '[': return InSet(pattern, at, c);
    case '\\':
      if (*at + 1 < pattern.size()) ++*at;
      [[fallthrough]];
    default: return pattern[(*at)++] == c;
  }
}

// The names in a folder; none where there is no such thing to read.
inline std::vector<std::string> NamesIn(const tenon_files& files, const std::string& folder) {
  std::vector<std::string> names;
  tenon_status* status = files.list(
      ToSpan(folder),
      [](void* argument, tenon_span name) {
        static_cast<std::vector<std::string>*>(argument)->emplace_back(ToText(name));
      },
      &names);
  if (status == nullptr) return names;
  const uint32_t code = tenon_plugin_host->status_code(status);
  if (code != TENON_NOT_FOUND && code != TENON_FAILED_PRECONDITION && code != TENON_PERMISSION_DENIED &&
      code != TENON_INVALID_ARGUMENT)
    throw KernelError(status);
  tenon_plugin_host->status_release(status);
  return {};
}

inline std::string Joined(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path += name;
}

// Whether a name, which has no "/", is of the pattern. Takes time in the product of both lengths at most.
inline bool Matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0;
  size_t star = std::string_view::npos, star_name = 0;  // the last "*", and where what it stands for ends
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
      continue;
    }
    if (p < pattern.size() && IsOne(pattern, &p, name[n])) {
      ++n;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star + 1;  // it stands for one byte more
    n = ++star_name;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// What of `rest`, a pattern, is in the folder.
inline void Search(const tenon_files& files, const std::string& folder, std::string_view rest, const NamePoll& poll,
                   std::vector<std::string>* out) {
  const size_t slash = rest.find('/');
  const std::string_view part = rest.substr(0, slash);
  std::string_view more = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  more.remove_prefix(std::min(more.find_first_not_of('/'), more.size()));
  const auto take = [&](std::string_view name) {
    std::string path = Joined(folder, name);
    poll(path.size());
    if (more.empty()) out->push_back(std::move(path));
    else Search(files, path, more, poll, out);
  };
  if (part.find_first_of(kSpecial) == std::string_view::npos) {
    if (files.exists(ToSpan(Joined(folder, part))) != 0) take(part);
    return;
  }
  for (const std::string& name : NamesIn(files, folder)) {
    if (Matches(part, name)) take(name);
    else poll(0);
  }
}

}  // namespace glob

// Appends the files and folders of the pattern, in no order. A pattern without anything special is a name, which is
// given when it is there. What cannot be listed (it is no folder, it is gone, it is not ours to read) has nothing in
// it.
inline void AppendMatching(const tenon_files& files, std::string_view pattern, const NamePoll& poll,
                           std::vector<std::string>* out) {
  const size_t special = pattern.find_first_of(glob::kSpecial);
  if (special == std::string_view::npos) {
    if (!pattern.empty() && files.exists(ToSpan(pattern)) != 0) out->emplace_back(pattern);
    return;
  }
  if (!TENON_CALLABLE(&files, list))
    Fail(TENON_UNIMPLEMENTED, "the host cannot list folders, as the pattern '", pattern, "' asks");
  const size_t slash = pattern.substr(0, special).rfind('/');
  const bool relative = slash == std::string_view::npos;
  std::string_view rest = relative ? pattern : pattern.substr(slash + 1);
  std::string folder = relative ? "." : std::string(pattern.substr(0, slash));
  if (!relative && (folder.empty() || folder.ends_with(":/") || folder.ends_with("://"))) folder += '/';  // a root
  while (rest.ends_with('/')) rest.remove_suffix(1);
  glob::Search(files, folder, rest, poll, out);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_FILE_GLOB_H_
