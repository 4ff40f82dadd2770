// SPDX-License-Identifier: Apache-2.0
#include "text_file.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "tenon/sdk/file/file.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Lines of a file, read in pieces; "\r" is no part of one.
class Lines {
 public:
  Lines(const RunContext& c, std::string path)
      : context_(c), file_(File::ForReading(HostFiles(), std::move(path))), left_(file_.size()) {}
  std::optional<std::string> Next() {
    std::string line;
    for (;;) {
      if (at_ == piece_.size() && !Read()) return line.empty() ? std::nullopt : std::optional(std::move(line));
      const char c = piece_[at_++];
      if (c == '\n') return line;
      if (c != '\r') line += c;
      if (line.size() > kMostLine)
        Fail(TENON_INVALID_ARGUMENT, "'", file_.path(), "' has a line of more than ", kMostLine,
             " bytes; is it a text?");
    }
  }

 private:
  static constexpr uint64_t kPiece = 1 << 18;
  static constexpr size_t kMostLine = 1 << 24;
  bool Read() {
    if (context_.cancelled()) Fail(TENON_CANCELLED, "the step was cancelled while it read '", file_.path(), "'");
    const uint64_t size = std::min(kPiece, left_);
    piece_.resize(size);
    at_ = 0;
    file_.ReadAt(offset_, piece_.data(), size);
    offset_ += size;
    left_ -= size;
    return size != 0;
  }
  const RunContext context_;
  const File file_;
  uint64_t left_, offset_ = 0;
  std::string piece_;
  size_t at_ = 0;
};

std::string_view ColumnOf(std::string_view line, int64_t column, char delimiter) {
  for (int64_t i = 0;; ++i) {
    const size_t end = line.find(delimiter);
    if (i == column) return line.substr(0, end);
    if (end == std::string_view::npos)
      Fail(TENON_INVALID_ARGUMENT, "it has ", i + 1, " columns; column ", column, " is asked for");
    line.remove_prefix(end + 1);
  }
}

void CheckColumn(const char* what, int64_t column, uint32_t dtype) {
  if (column == TextFileOptions::kLineNumber && dtype != TENON_DT_INT64)
    Fail(TENON_INVALID_ARGUMENT, "the ", what, " is the line's number, which is int64, not ", TypeName(dtype));
  if (column == TextFileOptions::kWholeLine && dtype != TENON_DT_STRING)
    Fail(TENON_INVALID_ARGUMENT, "the ", what, " is the whole line, which is a string, not ", TypeName(dtype));
}

}  // namespace

void TextEntries::Column::Add(std::string_view text) {
  if (dtype == TENON_DT_STRING) {
    texts.emplace_back(text);
    ++count;
    return;
  }
  Numbers::Dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, float> ||
                  std::is_same_v<T, double>) {
      T number{};
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size())
        Fail(TENON_INVALID_ARGUMENT, "'", text, "' is no ", TypeName(dtype));
      bytes.insert(bytes.end(), reinterpret_cast<const char*>(&number),
                   reinterpret_cast<const char*>(&number) + sizeof number);
    } else {
      Fail(TENON_UNIMPLEMENTED, "a column of ", TypeName(dtype),
           "; string, int32, int64, float and double can be read");
    }
  });
  ++count;
}

void TextEntries::Column::AddNumber(int64_t number) {
  bytes.insert(bytes.end(), reinterpret_cast<const char*>(&number),
               reinterpret_cast<const char*>(&number) + sizeof number);
  ++count;
}

void TextEntries::Column::EndStrings() {
  if (dtype != TENON_DT_STRING) return;
  bytes.resize(texts.size() * sizeof(tenon_string_cell) + BytesOf(texts));
  WriteStrings(bytes.data(), texts);
}

tenon_tensor_view TextEntries::Column::view() const {
  tenon_tensor_view view{};
  view.dl.data = const_cast<char*>(bytes.data());
  view.dl.ndim = 1;
  view.dl.shape = const_cast<int64_t*>(&count);
  view.dtype = dtype;
  view.byte_size =
      static_cast<uint64_t>(count) * (dtype == TENON_DT_STRING ? sizeof(tenon_string_cell) : ElementSize(dtype));
  return view;
}

TextEntries ReadEntries(const RunContext& c, const std::string& path, const TextFileOptions& options, uint32_t key,
                        uint32_t value, std::pmr::memory_resource* memory) {
  CheckColumn("key", options.key_column, key);
  CheckColumn("value", options.value_column, value);
  TextEntries entries(key, value, memory);
  Lines lines(c, path);
  int64_t number = 0;
  const auto add = [&](TextEntries::Column* column, int64_t which, std::string_view line) {
    if (which == TextFileOptions::kLineNumber) return column->AddNumber(number + options.offset);
    column->Add(which == TextFileOptions::kWholeLine ? line : ColumnOf(line, which, options.delimiter));
  };
  for (; options.lines < 0 || number < options.lines; ++number) {
    const std::optional<std::string> line = lines.Next();
    if (!line) break;
    try {
      if (line->empty()) Fail(TENON_INVALID_ARGUMENT, "it is empty");
      add(&entries.keys_, options.key_column, *line);
      add(&entries.values_, options.value_column, *line);
    } catch (KernelError& error) {
      tenon_status* status = error.release();
      const std::string why =
          Concat("'", path, "', line ", number + 1, ": ", ToText(tenon_plugin_host->status_message(status)));
      const uint32_t code = tenon_plugin_host->status_code(status);
      tenon_plugin_host->status_release(status);
      Fail(code, why);
    }
  }
  if (number < options.lines)
    Fail(TENON_INVALID_ARGUMENT, "'", path, "' has ", number, " lines; vocab_size asks for ", options.lines);
  entries.keys_.EndStrings();
  entries.values_.EndStrings();
  return entries;
}

}  // namespace tenon::ops
