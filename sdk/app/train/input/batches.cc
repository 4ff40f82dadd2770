// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/batches.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tenon::train {
namespace {

// Steele, Lea and Flood 2014: a bijective mixer of 64 bits.
uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t HashedNumber(uint64_t seed, uint64_t a, uint64_t b, uint64_t limit) {
  return Mix(Mix(Mix(seed) ^ a) ^ b) % limit;
}

std::vector<int64_t> ShuffledOrder(int64_t count, uint64_t seed, uint64_t pass) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[HashedNumber(seed, pass, i, i)]);
  return order;
}

const std::vector<int64_t>& BatchSampler::Order(int64_t pass) {
  if (pass_ == pass) return order_;
  if (seed_) {
    order_ = ShuffledOrder(examples_, *seed_, static_cast<uint64_t>(pass));
  } else if (order_.empty()) {
    order_.resize(static_cast<size_t>(examples_));
    std::iota(order_.begin(), order_.end(), 0);
  }
  pass_ = pass;
  return order_;
}

int64_t BatchSampler::StepsInPass() const {
  return last_ == LastBatch::kDropped ? examples_ / batch_ : (examples_ - 1) / batch_ + 1;
}

std::vector<int64_t> BatchSampler::Indices(int64_t step) {
  std::vector<int64_t> indices;
  if (last_ == LastBatch::kFilled) {
    for (int64_t i = step * batch_; i < (step + 1) * batch_; ++i) {
      indices.push_back(Order(i / examples_)[static_cast<size_t>(i % examples_)]);
    }
    return indices;
  }
  const int64_t steps = StepsInPass();
  if (steps == 0) return indices;
  const int64_t begin = step % steps * batch_;
  const std::vector<int64_t>& order = Order(step / steps);
  for (int64_t i = begin; i < std::min(begin + batch_, examples_); ++i)
    indices.push_back(order[static_cast<size_t>(i)]);
  return indices;
}

Result<View> RowGatherer::Take(std::span<const int64_t> indices) {
  std::vector<int64_t> dims = rows_.shape().dims();
  const int64_t rows = dims.at(0);
  dims[0] = static_cast<int64_t>(indices.size());
  const Shape shape(dims);
  const auto each = static_cast<size_t>(rows == 0 ? 0 : rows_.element_count() / rows);
  if (rows_.dtype() == DType::kString) {
    std::vector<std::string> texts;
    for (const int64_t index : indices) {
      for (size_t i = 0; i < each; ++i) texts.emplace_back(rows_.string(static_cast<uint64_t>(index) * each + i));
    }
    TENON_TRY_ASSIGN(Tensor strings, Tensor::Strings(texts, shape));
    return View(std::move(strings));
  }
  const size_t row = each * host::DTypeSize(rows_.dtype()), bytes = row * indices.size();
  const uint8_t* const all = rows_.bytes().data();
  bool adjacent = !indices.empty();
  for (size_t i = 1; i < indices.size(); ++i) adjacent = adjacent && indices[i] == indices[i - 1] + 1;
  if (adjacent) return View(rows_.dtype(), shape, all + static_cast<size_t>(indices[0]) * row, bytes);
  taken_.resize(bytes);
  for (size_t i = 0; i < indices.size() && row > 0; ++i)
    std::memcpy(taken_.data() + i * row, all + static_cast<size_t>(indices[i]) * row, row);
  return View(rows_.dtype(), shape, taken_.data(), bytes);
}

Result<ArrayBatches> ArrayBatches::Create(std::vector<NamedRows> arrays, int64_t batch, std::optional<uint64_t> seed,
                                          LastBatch last) {
  if (arrays.empty()) return Status(Code::kInvalidArgument, "there is no array to take batches from");
  for (const NamedRows& array : arrays) {
    if (array.rows.shape().rank() < 1)
      return Status(Code::kInvalidArgument,
                    array.name + " is a single value; an array of examples has them along its first dimension");
  }
  const int64_t examples = arrays[0].rows.shape()[0];
  for (const NamedRows& array : arrays) {
    const int64_t rows = array.rows.shape()[0];
    if (rows == examples) continue;
    return Status(Code::kInvalidArgument, array.name + " has " + std::to_string(rows) + " rows, " + arrays[0].name +
                                              " has " + std::to_string(examples) +
                                              "; row n of each is of example n, so all have as many");
  }
  if (examples == 0) return Status(Code::kInvalidArgument, arrays[0].name + " has no rows");
  if (batch < 1) return Status(Code::kInvalidArgument, "a batch of " + std::to_string(batch) + " has no example");
  if (last == LastBatch::kDropped && examples < batch) {
    return Status(Code::kInvalidArgument, arrays[0].name + " has " + std::to_string(examples) +
                                              " rows, which is no whole batch of " + std::to_string(batch));
  }
  ArrayBatches batches(examples, BatchSampler(examples, batch, seed, last));
  for (NamedRows& array : arrays) batches.arrays_.emplace_back(std::move(array.rows));
  return batches;
}

Result<std::vector<View>> ArrayBatches::At(int64_t step) {
  const std::vector<int64_t> indices = sampler_.Indices(step);
  std::vector<View> views;
  for (RowGatherer& array : arrays_) {
    TENON_TRY_ASSIGN(View view, array.Take(indices));
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace tenon::train
