// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/checkpoint_state.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>

#include "tenon/data/file.h"

namespace tenon::train {
namespace {

constexpr const char* kFileName = "checkpoint";

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      char octal[8];
      std::snprintf(octal, sizeof(octal), "\\%03o", byte);
      quoted += octal;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string FormatSeconds(double seconds) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.17g", seconds);
  return text;
}

// Reads `name: value` pairs, where a value is a quoted string or a word.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  std::optional<std::string> Word() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || Contains("_.+-", text_[at_]))) {
      ++at_;
    }
    if (begin == at_) return std::nullopt;
    return std::string(text_.substr(begin, at_ - begin));
  }
  bool Colon() {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != ':') return false;
    ++at_;
    return true;
  }
  std::optional<std::string> Value() {
    SkipSpace();
    if (at_ < text_.size() && Contains("\"'", text_[at_])) return Quoted(text_[at_++]);
    return Word();
  }

 private:
  static bool Contains(std::string_view set, char c) { return set.find(c) != std::string_view::npos; }
  void SkipSpace() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  std::optional<std::string> Quoted(char quote) {
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        value += text_[at_++];
        continue;
      }
      if (++at_ == text_.size()) return std::nullopt;
      value += Escaped();
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    return value;
  }
  char Escaped() {
    if (text_[at_] >= '0' && text_[at_] <= '7') {
      int value = 0;
      for (int i = 0; i < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
        value = value * 8 + (text_[at_++] - '0');
      }
      return static_cast<char>(value);
    }
    const char c = text_[at_++];
    return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string CheckpointState::Format() const {
  if (paths.empty()) return "";
  std::string text = "model_checkpoint_path: " + Quote(paths.back()) + "\n";
  for (const std::string& path : paths) text += "all_model_checkpoint_paths: " + Quote(path) + "\n";
  for (double time : timestamps) text += "all_model_checkpoint_timestamps: " + FormatSeconds(time) + "\n";
  if (last_preserved != 0) text += "last_preserved_timestamp: " + FormatSeconds(last_preserved) + "\n";
  return text;
}

Result<CheckpointState> CheckpointState::Parse(std::string_view text) {
  CheckpointState state;
  std::string newest;
  TextReader reader(text);
  while (!reader.AtEnd()) {
    const std::optional<std::string> name = reader.Word();
    std::optional<std::string> value;
    if (name && reader.Colon()) value = reader.Value();
    if (!value) return Status(Code::kDataLoss, "it is no CheckpointState in text form");
    if (*name == "model_checkpoint_path") newest = *value;
    if (*name == "all_model_checkpoint_paths") state.paths.push_back(*value);
    if (*name == "all_model_checkpoint_timestamps" || *name == "last_preserved_timestamp") {
      double seconds = 0;
      const auto parsed = std::from_chars(value->data(), value->data() + value->size(), seconds);
      if (parsed.ec != std::errc()) return Status(Code::kDataLoss, "'" + *value + "' is no time");
      if (*name == "last_preserved_timestamp") {
        state.last_preserved = seconds;
      } else {
        state.timestamps.push_back(seconds);
      }
    }
  }
  if (newest.empty() && state.paths.empty()) return CheckpointState();  // an empty file names none
  if (newest.empty()) return Status(Code::kDataLoss, "it names no model_checkpoint_path");
  if (state.timestamps.size() != state.paths.size()) state.timestamps.clear();
  // The newest stands last, even where somebody edited the file.
  if (state.paths.empty() || state.paths.back() != newest) {
    const auto found = std::find(state.paths.begin(), state.paths.end(), newest);
    if (found != state.paths.end()) state.paths.erase(found);
    state.paths.push_back(newest);
    state.timestamps.clear();
  }
  return state;
}

Result<CheckpointState> CheckpointState::Read(const std::string& folder) {
  const std::string path = data::JoinPath(folder, kFileName);
  TENON_TRY_ASSIGN(const std::string text, data::ReadFile(path));
  Result<CheckpointState> state = Parse(text);
  if (!state.ok()) return state.status().Annotate("'" + path + "'");
  return state;
}

Status CheckpointState::Write(const std::string& folder) const {
  const std::string text = Format();
  return data::ReplaceFile(data::JoinPath(folder, kFileName), {text});
}

std::string CheckpointPath(const std::string& folder, const std::string& path) {
  const bool whole = path.starts_with('/') || path.find("://") != std::string::npos;
  return whole ? path : data::JoinPath(folder, path);
}

}  // namespace tenon::train
