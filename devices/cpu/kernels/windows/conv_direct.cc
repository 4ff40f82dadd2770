// SPDX-License-Identifier: Apache-2.0
#include "kernels/windows/conv_direct.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/windows/conv_tile.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
// What is copied at once, so that it stays in the first two caches.
constexpr int64_t kCopyBytes = 48 << 10;
constexpr double kProductsPerNanosecond = 4;  // of registers

int64_t Ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t AlignedRow(int64_t bytes) { return (bytes + 63) / 64 * 64; }
// Of so many units that take so many nanoseconds together.
int64_t DirectTasks(const sdk::PrepareContext& c, double cost, int64_t units) {
  constexpr double kSmallest = 20e3;
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(cost / kSmallest, 1e6)), 1, std::min(c.threads(), units));
}

// Rows [first, second) of the window at `top` that lie inside the image.
std::pair<int64_t, int64_t> Inside(const WindowDim& rows, int64_t top) {
  const int64_t first = top < 0 ? std::min(rows.size, Ceiling(-top, rows.dilation)) : 0;
  const int64_t last = rows.input > top ? (rows.input - 1 - top) / rows.dilation + 1 : 0;
  return {first, std::clamp(last, first, rows.size)};
}

bool AllFinite(const float* x, int64_t count) {
  using Bits = VectorOf<int32_t>;
  constexpr int32_t kExponent = 0x7f800000;
  Bits::Type odd = {};
  int64_t i = 0;
  for (; i + Bits::kLanes <= count; i += Bits::kLanes) {
    Bits::Type bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    odd |= (bits & kExponent) == kExponent;
  }
  bool finite = std::all_of(x + i, x + count, [](float value) { return std::isfinite(value); });
  for (int lane = 0; lane < Bits::kLanes; ++lane) finite = finite && odd[lane] == 0;
  return finite;
}

constexpr int64_t kMostTileParts = std::max(kMostPixels[1], 2 * kMostPixels[2]) * kTileLanes;

// Adds each pixel's floats, which stand in registers of `parts`, `step` floats from the one before. Those that lie on
// one another are not added one after the other: what was just stored, at another place, would be waited for.
void AddParts(const float* parts, int64_t pixels, int64_t across, int64_t floats, int64_t step, float* to) {
  using Bits = VectorOf<int32_t>;
  const int64_t full = floats / kTileLanes * kTileLanes, phases = Ceiling(floats, step);
  Bits::Type some = {};
  for (int64_t lane = 0; lane < kTileLanes; ++lane) some[lane] = full + lane < floats ? -1 : 0;
  for (int64_t phase = 0; phase < std::min(phases, pixels); ++phase)
    for (int64_t pixel = phase; pixel < pixels; pixel += phases) {
      const float* from = parts + pixel * across * kTileLanes;
      float* at = to + pixel * step;
      for (int64_t i = 0; i < full; i += kTileLanes)
        TileVector::Store(at + i, TileVector::Load(at + i) + TileVector::Load(from + i));
      if (full == floats) continue;
      const auto rest = std::bit_cast<TileVector::Type>(std::bit_cast<Bits::Type>(TileVector::Load(from + full)) &
                                                        some);  // zeros times NaN are not zeros
      TileVector::Store(at + full, TileVector::Load(at + full) + rest);
    }
}

// One row of the result. lines: those of the image from row `begin` on.
void ForwardRow(const DirectWindows& v, int64_t row, const float* lines, int64_t begin, const float* packed, float* y);

}  // namespace

// ---- DirectWindows ----

bool DirectWindows::Take(const DirectShape& s) {
  constexpr int64_t kMostIn = 32, kMostOut = 64, kMostSide = 8;
  // Of rows and distances nothing overflows, nor does a copy become larger than what it is of without a limit.
  constexpr int64_t kFarthest = 1 << 16, kLongestLine = 1 << 18;
  if (s.x.count() == 0 || s.y.count() == 0 || s.x.batch != s.y.batch || s.x.channels > kMostIn ||
      s.y.channels > kMostOut)
    return false;
  for (const WindowDim* w : {&s.rows, &s.columns})
    if (w->size > kMostSide || w->stride > kFarthest || w->dilation > kFarthest || w->before > kFarthest ||
        w->before < -kFarthest)
      return false;
  if (s.rows.size * s.columns.size == 1 || s.x.width > kLongestLine || s.y.width > kLongestLine) return false;
  return DirectWindows(s, Groups::kAny).line <= kLongestLine;
}

DirectWindows::DirectWindows(const DirectShape& s, Groups allowed) : x(s.x), y(s.y), rows(s.rows), columns(s.columns) {
  const bool joined = columns.dilation == 1;
  group = joined && allowed != Groups::kNone ? BestGroup(allowed) : 1;
  groups = Ceiling(y.width, group);
  steps = joined ? 1 : columns.size;
  length = (joined ? Reach(group) : 1) * x.channels;
  lanes = group * y.channels;
  vectors = Ceiling(lanes, kTileLanes);
  const int64_t reach = (groups * group - 1) * columns.stride + (columns.size - 1) * columns.dilation + 1;
  padded = columns.before != 0 || reach > x.width;
  line = (padded ? reach : x.width) * x.channels;
}

// The one of the fewest products, those with zeros and those of lanes that are not needed among them.
int64_t DirectWindows::BestGroup(Groups allowed) const {
  constexpr double kBroadcast = 0.1;
  int64_t best = 1;
  double least = HUGE_VAL;
  for (int64_t pixels = 1; pixels <= y.width; ++pixels) {
    const int64_t across = Ceiling(pixels * y.channels, kTileLanes);
    if (pixels > 1 && across > kMostVectors) break;
    if (allowed == Groups::kOfOneSize && y.width % pixels != 0) continue;
    const double cost =
        static_cast<double>(Ceiling(y.width, pixels) * Reach(pixels)) * (static_cast<double>(across) + kBroadcast);
    if (cost < least) least = cost, best = pixels;
  }
  return best;
}

int64_t DirectWindows::FilterFloats() const { return Runs() * vectors * kTileLanes; }

template <class Function>
void DirectWindows::ForEachBlock(Function&& function) const {
  for (int64_t first = 0; first < vectors; first += kMostVectors)
    function(std::min<int64_t>(kMostVectors, vectors - first), first * kTileLanes, first * kTileLanes * Runs());
}

template <class Function>
void DirectWindows::ForEachWeights(Function&& function) const {
  ForEachBlock([&](int64_t across, int64_t lane, int64_t place) {
    const int64_t end = std::min(lane + across * kTileLanes, lanes);
    for (int64_t r = 0; r < Runs(); ++r) {
      const int64_t row = r / (steps * length), step = r / length % steps, cell = r % length / x.channels,
                    in = r % x.channels;
      for (int64_t pixel = lane / y.channels; pixel * y.channels < end; ++pixel) {
        const int64_t column = steps > 1 ? step : cell - pixel * columns.stride;
        if (column < 0 || column >= columns.size) continue;
        const int64_t from = std::max(lane, pixel * y.channels), to = std::min(end, (pixel + 1) * y.channels);
        function(place + r * across * kTileLanes + from - lane,
                 ((row * columns.size + column) * x.channels + in) * y.channels + from - pixel * y.channels, to - from);
      }
    }
  });
}

std::pair<int64_t, int64_t> DirectWindows::Seen(int64_t first, int64_t last) const {
  const int64_t top = first * rows.stride - rows.before,
                bottom = (last - 1) * rows.stride - rows.before + (rows.size - 1) * rows.dilation + 1;
  const int64_t begin = std::clamp<int64_t>(top, 0, x.height);
  return {begin, std::clamp(bottom, begin, x.height)};
}

int64_t DirectWindows::RowsOfCopy(int64_t beside) const {
  const int64_t more = (rows.size - 1) * rows.dilation * line * kFloat;
  return std::clamp<int64_t>((kCopyBytes - more) / (line * kFloat * rows.stride + beside), 1, y.height);
}

int64_t DirectWindows::BytesOfCopy(int64_t result_rows) const {
  const int64_t most = (result_rows - 1) * rows.stride + (rows.size - 1) * rows.dilation + 1;
  return padded ? AlignedRow(sdk::Multiply(std::min(most, x.height), line * kFloat)) : 0;
}

const float* DirectWindows::Lines(const float* image, int64_t begin, int64_t end, float* memory) const {
  const int64_t width = x.width * x.channels, before = columns.before * x.channels;
  if (!padded) return image + begin * width;
  const int64_t left = std::clamp<int64_t>(before, 0, line), skipped = std::clamp<int64_t>(-before, 0, width);
  const int64_t count = std::min(line - left, width - skipped);
  float* to = memory;
  for (int64_t row = begin; row < end; ++row, to += line) {
    std::fill_n(to, left, 0.f);
    CopyBytes(to + left, image + row * width + skipped, count * kFloat);
    std::fill_n(to + left + count, line - left - count, 0.f);
  }
  return memory;
}

// ---- DirectForward ----

std::optional<DirectForward> DirectForward::Make(const DirectShape& s, sdk::PrepareContext& c) {
  if (!DirectWindows::Take(s)) return std::nullopt;
  return DirectForward(s, c);
}

DirectForward::DirectForward(const DirectShape& shape, sdk::PrepareContext& c)
    : grouped_{{shape, DirectWindows::Groups::kAny}, 0}, single_{{shape, DirectWindows::Groups::kNone}, 0} {
  constexpr int64_t kUnitsOfAThread = 4;
  const DirectWindows& v = grouped_.windows;
  band_ =
      std::min(v.RowsOfCopy(0), std::max<int64_t>(1, v.y.height / Ceiling(c.threads() * kUnitsOfAThread, v.y.batch)));
  bands_ = Ceiling(v.y.height, band_);
  cost_ = v.Work() / kProductsPerNanosecond;
  tasks_ = DirectTasks(c, cost_, v.y.batch * bands_);
  for (Way* way : {&grouped_, &single_}) way->filter = c.Workspace(sdk::Multiply(way->windows.FilterFloats(), kFloat));
  copy_bytes_ = std::max(v.BytesOfCopy(band_), single_.windows.BytesOfCopy(band_));
  copies_ = c.Workspace(sdk::Multiply(copy_bytes_, tasks_));
}

void DirectForward::Run(sdk::RunContext c, const float* x, const float* filter, float* y) const {
  for (const Way* way : {&grouped_, &single_}) {
    auto* packed = c.workspace<float>(way->filter);
    std::fill_n(packed, way->windows.FilterFloats(), 0.f);
    way->windows.ForEachWeights([&](int64_t to, int64_t from, int64_t count) {
      for (int64_t i = 0; i < count; ++i) packed[to + i] = filter[from + i];
    });
    if (grouped_.windows.group == 1) break;  // the same
  }
  const int64_t units = grouped_.windows.y.batch * bands_;
  c.ParallelFor(tasks_, cost_ / static_cast<double>(tasks_), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task)
      for (int64_t unit = units * task / tasks_; unit < units * (task + 1) / tasks_; ++unit) {
        c.CheckCancelled();
        Unit(c, unit / bands_, unit % bands_ * band_, x, c.workspace<float>(copies_ + task * copy_bytes_), y);
      }
  });
}

void DirectForward::Unit(sdk::RunContext c, int64_t n, int64_t from, const float* x, float* memory, float* y) const {
  const DirectWindows& v = grouped_.windows;
  const int64_t to = std::min(v.y.height, from + band_), x_row = v.x.width * v.x.channels;
  const auto [begin, end] = v.Seen(from, to);
  const float* image = x + n * v.x.height * x_row;
  const Way& way = v.group == 1 || AllFinite(image + begin * x_row, (end - begin) * x_row) ? grouped_ : single_;
  const float* lines = way.windows.Lines(image, begin, end, memory);
  for (int64_t row = from; row < to; ++row)
    ForwardRow(way.windows, row, lines, begin, c.workspace<float>(way.filter),
               y + (n * v.y.height + row) * v.y.width * v.y.channels);
}

namespace {

void ForwardRow(const DirectWindows& v, int64_t row, const float* lines, int64_t begin, const float* packed, float* y) {
  const int64_t top = row * v.rows.stride - v.rows.before;
  const auto [first, last] = Inside(v.rows, top);
  ForwardTile tile = {};
  tile.x_pixel = v.group * v.columns.stride * v.x.channels;
  tile.x_row = v.rows.dilation * v.line, tile.x_step = v.columns.dilation * v.x.channels;
  tile.rows = last - first, tile.steps = v.steps, tile.length = v.length;
  tile.y_pixel = v.lanes;
  tile.dense = v.vectors <= kMostVectors;
  const float* x = tile.rows > 0 ? lines + (top + first * v.rows.dilation - begin) * v.line : lines;
  const int64_t rest = (v.y.width - (v.groups - 1) * v.group) * v.y.channels;  // floats of a row's last group
  v.ForEachBlock([&, first = first](int64_t across, int64_t lane, int64_t place) {
    tile.count = std::min(across * kTileLanes, v.lanes - lane);
    tile.filter_row = v.steps * v.length * across * kTileLanes;
    tile.filter = packed + place + first * tile.filter_row;
    ForEachTile(v.groups, kMostPixels[across], [&](int64_t group, int64_t count) {
      tile.x = x + group * tile.x_pixel;
      tile.y = y + group * v.lanes + lane;
      tile.last = group + count == v.groups ? std::min(tile.count, rest - lane) : tile.count;
      ForwardTileOf(count, across)(tile);
    });
  });
}

}  // namespace

// ---- DirectInputGradient ----

std::optional<DirectInputGradient> DirectInputGradient::Make(const DirectShape& s, sdk::PrepareContext& c) {
  constexpr int64_t kShortest = 4;  // of fewer floats a register is mostly empty, and the product of patches as fast
  if (!DirectWindows::Take(s) || s.x.channels * (s.columns.dilation == 1 ? s.columns.size : 1) < kShortest)
    return std::nullopt;
  return DirectInputGradient(s, c);
}

DirectInputGradient::DirectInputGradient(const DirectShape& shape, sdk::PrepareContext& c)
    : v_(shape, DirectWindows::Groups::kNone), registers_(Ceiling(v_.length, kTileLanes)) {
  const int64_t runs = v_.rows.size * v_.steps;
  cost_ = static_cast<double>(v_.y.batch * v_.y.pixels() * v_.y.channels) * static_cast<double>(runs * registers_) /
          kProductsPerNanosecond;
  tasks_ = DirectTasks(c, cost_, v_.x.batch * v_.x.height);
  packed_ = c.Workspace(sdk::Multiply(runs * registers_ * kTileLanes * v_.y.channels, kFloat));
  line_bytes_ = AlignedRow((v_.line + kMostVectors * kTileLanes) * kFloat);
  lines_ = c.Workspace(sdk::Multiply(line_bytes_, tasks_));
}

// function(registers, first float of a run, its place in the packed filter).
template <class Function>
void DirectInputGradient::ForEachBlock(Function&& function) const {
  for (int64_t first = 0; first < registers_; first += kMostVectors)
    function(std::min<int64_t>(kMostVectors, registers_ - first), first * kTileLanes,
             first * kTileLanes * v_.rows.size * v_.steps * v_.y.channels);
}

// Of each run and channel of the result its weights side by side.
void DirectInputGradient::Pack(const float* filter, float* packed) const {
  const int64_t channels = v_.y.channels, runs = v_.rows.size * v_.steps;
  std::fill_n(packed, runs * registers_ * kTileLanes * channels, 0.f);
  ForEachBlock([&](int64_t across, int64_t lane, int64_t place) {
    const int64_t width = across * kTileLanes, count = std::min(width, v_.length - lane);
    for (int64_t run = 0; run < runs; ++run)
      for (int64_t i = 0; i < count; ++i) {
        const float* from = filter + (run * v_.length + lane + i) * channels;
        float* to = packed + place + run * channels * width + i;
        for (int64_t k = 0; k < channels; ++k) to[k * width] = from[k];
      }
  });
}

void DirectInputGradient::Run(sdk::RunContext c, const float* dy, const float* filter, float* dx) const {
  auto* packed = c.workspace<float>(packed_);
  Pack(filter, packed);
  const int64_t rows = v_.x.batch * v_.x.height;
  c.ParallelFor(tasks_, cost_ / static_cast<double>(tasks_), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task)
      for (int64_t row = rows * task / tasks_; row < rows * (task + 1) / tasks_; ++row) {
        c.CheckCancelled();
        const float* image = dy + row / v_.x.height * v_.y.pixels() * v_.y.channels;
        Row(row % v_.x.height, image, packed, c.workspace<float>(lines_ + task * line_bytes_),
            dx + row * v_.x.width * v_.x.channels);
      }
  });
}

void DirectInputGradient::Row(int64_t row, const float* dy, const float* packed, float* line, float* dx) const {
  const WindowDim& r = v_.rows;
  std::fill_n(line, v_.line + kMostVectors * kTileLanes, 0.f);
  // Rows of windows that lie on this row: each is so many rows from the next, as are the results whose windows they
  // are.
  const int64_t common = std::gcd(r.stride, r.dilation), apart = r.stride / common;
  int64_t first = -1, count = 0, result = 0;
  for (int64_t ky = 0; ky < r.size; ++ky) {
    const int64_t from = row + r.before - ky * r.dilation;
    if (from < 0 || from % r.stride != 0 || from / r.stride >= v_.y.height) continue;
    if (count++ == 0) first = ky, result = from / r.stride;
  }
  alignas(kVectorBytes) float parts[kMostTileParts];
  ForwardTile tile = {};
  tile.x_pixel = v_.y.channels, tile.x_row = -(r.dilation / common) * v_.y.width * v_.y.channels;
  tile.rows = count, tile.steps = 1, tile.length = v_.y.channels;
  tile.y = parts, tile.dense = true;
  for (int64_t step = 0; step < v_.steps && count > 0; ++step)
    ForEachBlock([&](int64_t across, int64_t lane, int64_t place) {
      const int64_t width = across * kTileLanes, run = v_.y.channels * width;
      tile.filter = packed + place + (first * v_.steps + step) * run, tile.filter_row = apart * v_.steps * run;
      tile.y_pixel = tile.count = tile.last = width;
      ForEachTile(v_.y.width, kMostPixels[across], [&](int64_t pixel, int64_t pixels) {
        tile.x = dy + (result * v_.y.width + pixel) * v_.y.channels;
        ForwardTileOf(pixels, across)(tile);
        AddParts(parts, pixels, across, std::min(width, v_.length - lane), v_.columns.stride * v_.x.channels,
                 line + (pixel * v_.columns.stride + step * v_.columns.dilation) * v_.x.channels + lane);
      });
    });
  // The line begins `before` pixels before the image.
  const int64_t width = v_.x.width * v_.x.channels, before = v_.columns.before * v_.x.channels;
  const int64_t begin = std::clamp<int64_t>(-before, 0, width), end = std::clamp(v_.line - before, begin, width);
  std::fill_n(dx, begin, 0.f);
  if (end > begin) CopyBytes(dx + begin, line + begin + before, (end - begin) * kFloat);
  std::fill_n(dx + end, width - end, 0.f);
}

// ---- DirectFilterGradient ----

std::optional<DirectFilterGradient> DirectFilterGradient::Make(const DirectShape& s, sdk::PrepareContext& c) {
  if (!DirectWindows::Take(s)) return std::nullopt;
  return DirectFilterGradient(s, c);
}

// Of each chunk the workspace has its sums, in the layout of a group's filter, and its copies.
DirectFilterGradient::DirectFilterGradient(const DirectShape& shape, sdk::PrepareContext& c)
    : v_(shape, DirectWindows::Groups::kOfOneSize) {
  // Chunks so large that clearing and adding their sums does not show.
  constexpr int64_t kMostChunks = 16;
  constexpr double kProductsOfASum = 64;
  group_floats_ = v_.vectors * kTileLanes;
  dy_copied_ = v_.lanes != group_floats_;
  dy_line_ = v_.groups * group_floats_;
  band_ = v_.RowsOfCopy(dy_line_ * kFloat);
  bands_ = Ceiling(v_.y.height, band_);
  const double worth = v_.Work() / (kProductsOfASum * static_cast<double>(v_.Runs() * v_.vectors));
  chunks_ =
      std::clamp<int64_t>(static_cast<int64_t>(std::min(worth, 1e6)), 1, std::min(kMostChunks, v_.y.batch * bands_));
  copy_bytes_ = v_.BytesOfCopy(band_);
  chunk_bytes_ = AlignedRow(v_.FilterFloats() * kFloat) + copy_bytes_ +
                 (dy_copied_ ? AlignedRow(sdk::Multiply(dy_line_ * kFloat, band_)) : 0);
  workspace_ = c.Workspace(sdk::Multiply(chunk_bytes_, chunks_));
  cost_ = v_.Work() / kProductsPerNanosecond / static_cast<double>(chunks_);
}

void DirectFilterGradient::Run(sdk::RunContext c, const float* x, const float* dy, float* out) const {
  const int64_t units = v_.y.batch * bands_, floats = v_.FilterFloats();
  const auto sums = [&](int64_t chunk) { return c.workspace<float>(workspace_ + chunk * chunk_bytes_); };
  c.ParallelFor(chunks_, cost_, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      std::fill_n(sums(chunk), floats, 0.f);
      for (int64_t unit = units * chunk / chunks_; unit < units * (chunk + 1) / chunks_; ++unit) {
        c.CheckCancelled();
        Unit(unit / bands_, unit % bands_ * band_, x, dy, sums(chunk));
      }
    }
  });
  float* total = sums(0);
  c.ParallelFor(floats, 0.1 * static_cast<double>(chunks_), [&](int64_t begin, int64_t end) {
    for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
      const float* more = sums(chunk);
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) total[i] += more[i];
    }
  });
  std::fill_n(out, v_.rows.size * v_.columns.size * v_.x.channels * v_.y.channels, 0.f);
  v_.ForEachWeights([&](int64_t from, int64_t to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[to + i] += total[from + i];
  });
}

void DirectFilterGradient::Unit(int64_t n, int64_t from, const float* x, const float* dy, float* sums) const {
  const int64_t to = std::min(v_.y.height, from + band_), y_row = v_.y.width * v_.y.channels;
  const auto [begin, end] = v_.Seen(from, to);
  float* copies = sums + AlignedRow(v_.FilterFloats() * kFloat) / kFloat;
  const float* lines = v_.Lines(x + n * v_.x.pixels() * v_.x.channels, begin, end, copies);
  const float* grads = dy + (n * v_.y.height + from) * y_row;
  if (dy_copied_) grads = Groups(grads, to - from, dy + v_.y.count(), copies + copy_bytes_ / kFloat);
  const WindowDim& r = v_.rows;
  for (int64_t ky = 0; ky < r.size; ++ky) {
    // Rows of the result that see a row of the image at ky.
    const int64_t down = ky * r.dilation - r.before;
    const int64_t first = std::max(from, down < 0 ? Ceiling(-down, r.stride) : 0);
    const int64_t last = std::min(to, v_.x.height > down ? (v_.x.height - 1 - down) / r.stride + 1 : 0);
    if (first < last)
      Tiles(ky, {first, last}, lines + (first * r.stride + down - begin) * v_.line, grads + (first - from) * dy_line_,
            sums);
  }
}

// lines, dy: of the first of the rows.
void DirectFilterGradient::Tiles(int64_t ky, std::pair<int64_t, int64_t> rows, const float* lines, const float* dy,
                                 float* sums) const {
  FilterTile tile = {};
  tile.x_group = v_.group * v_.columns.stride * v_.x.channels, tile.x_row = v_.rows.stride * v_.line;
  tile.dy_group = group_floats_, tile.dy_row = dy_line_;
  tile.rows = rows.second - rows.first, tile.groups = v_.groups;
  for (int64_t step = 0; step < v_.steps; ++step) {
    const float* run = lines + step * v_.columns.dilation * v_.x.channels;
    v_.ForEachBlock([&](int64_t across, int64_t lane, int64_t place) {
      tile.dy = dy + lane;
      tile.sums_row = across * kTileLanes;
      ForEachTile(v_.length, kMostPixels[across], [&](int64_t scalar, int64_t count) {
        tile.x = run + scalar;
        tile.sums = sums + place + ((ky * v_.steps + step) * v_.length + scalar) * tile.sums_row;
        FilterTileOf(count, across)(tile);
      });
    });
  }
}

// Rows of the result's gradient with each group in whole registers, behind it whatever follows. end: of the tensor.
const float* DirectFilterGradient::Groups(const float* dy, int64_t rows, const float* end, float* to) const {
  float* const made = to;
  const int64_t y_row = v_.y.width * v_.y.channels;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < v_.groups; ++group, to += group_floats_) {
      const float* from = dy + row * y_row + group * v_.lanes;
      if (end - from >= group_floats_) {
        for (int64_t i = 0; i < group_floats_; i += kTileLanes) TileVector::Store(to + i, TileVector::Load(from + i));
        continue;
      }
      std::copy_n(from, v_.lanes, to);
      std::fill_n(to + v_.lanes, group_floats_ - v_.lanes, 0.f);
    }
  return made;
}

}  // namespace tenon::cpu
