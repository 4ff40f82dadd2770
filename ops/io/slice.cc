// SPDX-License-Identifier: Apache-2.0
#include "slice.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "tenon/bytes/wire.h"

namespace tenon::ops::io {

using sdk::Dims;
using sdk::Fail;

namespace {

// ---- Ordered code: bytes that sort as what they stand for ----

void AppendBigEndian(std::string& out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void AppendNumber(std::string& out, uint64_t value) {
  const int bytes = (64 - std::countl_zero(value) + 7) / 8;
  out.push_back(static_cast<char>(bytes));
  AppendBigEndian(out, value, bytes);
}

void AppendText(std::string& out, std::string_view text) {
  for (char c : text) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
    if (c == '\xff') out.push_back('\0');
  }
  out.append("\0\x01", 2);
}

// In n bytes, 7 n - 1 bits beside the sign; the first bits say how many bytes, and are all turned over in negative
// numbers.
void AppendSigned(std::string& out, int64_t value) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const int bits = 64 - std::countl_zero(magnitude) + 1;
  const int bytes = std::max(1, (bits + 6) / 7);
  std::string code(bytes > 8 ? static_cast<size_t>(bytes) - 8 : 0, value < 0 ? '\xff' : '\0');
  AppendBigEndian(code, static_cast<uint64_t>(value), std::min(bytes, 8));
  const uint32_t header = 0xffffu << (16 - bytes) & 0xffffu;
  code[0] = static_cast<char>(code[0] ^ static_cast<char>(header >> 8));
  if (bytes > 8) code[1] = static_cast<char>(code[1] ^ static_cast<char>(header));
  out += code;
}

bool IsBoxOf(const Slice& slice, Dims dims) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (slice.start[d] < 0 || slice.length[d] < 0 || slice.start[d] > dims[d] ||
        slice.length[d] > dims[d] - slice.start[d])
      return false;
  }
  return true;
}

}  // namespace

Slice Slice::Whole(Dims dims) {
  return {std::vector<int64_t>(dims.size(), 0), std::vector<int64_t>(dims.begin(), dims.end()),
          std::vector<bool>(dims.size(), true)};
}

int64_t Slice::elements() const {
  int64_t count = 1;
  for (int64_t size : length) count = sdk::Multiply(count, size);
  return count;
}

bool Slice::Intersect(const Slice& other, Slice* out) const {
  *out = *this;
  for (size_t d = 0; d < start.size(); ++d) {
    const int64_t begin = std::max(start[d], other.start[d]);
    const int64_t end = std::min(start[d] + length[d], other.start[d] + other.length[d]);
    if (begin >= end) return false;
    out->start[d] = begin;
    out->length[d] = end - begin;
  }
  return true;
}

std::string Slice::Serialize() const {
  sdk::WireWriter slice;
  for (size_t d = 0; d < start.size(); ++d) {
    sdk::WireWriter extent;
    if (!open[d]) extent.Varint(1, static_cast<uint64_t>(start[d]));
    if (!open[d]) extent.Varint(2, static_cast<uint64_t>(length[d]));
    slice.Bytes(1, extent.bytes());
  }
  return slice.bytes();
}

Slice Slice::Parse(std::string_view bytes, Dims dims, std::string_view tensor) {
  Slice slice;
  bool good = true;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    const size_t d = slice.start.size();
    good = good && d < dims.size();
    if (!good) break;
    int64_t start = 0, length = -1;
    sdk::WireReader extent(reader.delimited());
    while (extent.Next()) {
      if (extent.field() == 1) start = static_cast<int64_t>(extent.varint());
      if (extent.field() == 2) length = static_cast<int64_t>(extent.varint());
    }
    good = extent.ok();
    slice.start.push_back(start);
    slice.length.push_back(length < 0 ? dims[d] : length);
    slice.open.push_back(length < 0);
  }
  if (!good || !reader.ok() || slice.start.size() != dims.size() || !IsBoxOf(slice, dims)) {
    Fail(TENON_DATA_LOSS, "a slice of tensor '", tensor, "' in a checkpoint is no part of its shape ", dims);
  }
  return slice;
}

std::string Slice::Key(std::string_view tensor) const {
  std::string key;
  AppendNumber(key, 0);
  AppendText(key, tensor);
  AppendNumber(key, start.size());
  for (size_t d = 0; d < start.size(); ++d) {
    AppendSigned(key, open[d] ? 0 : start[d]);
    AppendSigned(key, open[d] ? -1 : length[d]);
  }
  return key;
}

SliceSpec SliceSpec::Parse(std::string_view text, std::string_view tensor) {
  SliceSpec spec;
  if (text.empty()) return spec;
  spec.whole = false;
  const auto bad = [&](std::string_view why) {
    Fail(TENON_INVALID_ARGUMENT, "shape_and_slice '", text, "' of tensor '", tensor, "' ", why);
  };
  const auto number = [&](std::string_view digits) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0)
      bad("is not of the form '2 3 -:0,3'");
    return value;
  };
  std::string_view rest = text;
  for (size_t space = rest.find(' '); space != std::string_view::npos; space = rest.find(' ')) {
    spec.dims.push_back(number(rest.substr(0, space)));
    rest.remove_prefix(space + 1);
  }
  while (!rest.empty()) {
    const size_t colon = rest.find(':'), d = spec.slice.start.size();
    const std::string_view part = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (d >= spec.dims.size()) bad("has more slices than dims");
    const size_t comma = part.find(',');
    if (part != "-" && comma == std::string_view::npos) bad("is not of the form '2 3 -:0,3'");
    spec.slice.start.push_back(part == "-" ? 0 : number(part.substr(0, comma)));
    spec.slice.length.push_back(part == "-" ? spec.dims[d] : number(part.substr(comma + 1)));
    spec.slice.open.push_back(part == "-");
  }
  if (spec.slice.start.size() != spec.dims.size()) bad("has fewer slices than dims");
  if (!IsBoxOf(spec.slice, spec.dims)) bad("names more than the tensor has");
  return spec;
}

int64_t CopyCommon(const Slice& from, const char* source, const Slice& to, char* target, uint64_t element_bytes) {
  Slice common;
  if (!from.Intersect(to, &common)) return 0;
  const size_t rank = common.start.size();
  // Element offset of the common box's place `at` within a box.
  const auto offset = [&](const Slice& box, const std::vector<int64_t>& at) {
    int64_t place = 0;
    for (size_t d = 0; d < rank; ++d) place = place * box.length[d] + common.start[d] + at[d] - box.start[d];
    return static_cast<uint64_t>(place) * element_bytes;
  };
  const int64_t row = rank == 0 ? 1 : common.length[rank - 1];
  std::vector<int64_t> at(rank, 0);
  const int64_t elements = common.elements();
  for (int64_t done = 0; done < elements; done += row) {
    std::memcpy(target + offset(to, at), source + offset(from, at), static_cast<uint64_t>(row) * element_bytes);
    for (size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) {  // the next row
      if (++at[d] < common.length[d]) break;
      at[d] = 0;
    }
  }
  return elements;
}

}  // namespace tenon::ops::io
