// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/class_shards.h"

#include <utility>

#include "sdk/app/train/shards/row_shards.h"

namespace tenon::train {

int64_t ClassShards::classes() const {
  int64_t count = 0;
  for (const Variable* shard : weights) count += shard->shape.rank() > 0 ? shard->shape[0] : 0;
  return count;
}

int64_t ClassShards::width() const {
  return weights.empty() || weights[0]->shape.rank() != 2 ? 0 : weights[0]->shape[1];
}

ClassShards MakeClassShards(Model& model, std::string_view name, int64_t classes, int64_t width,
                            const Initializer& initializer, const ClassShardsOptions& options) {
  ClassShards shards{{}, {}, options.partition};
  const auto count = static_cast<int64_t>(options.devices.size());
  if (count == 0 || classes < count || width < 1) {
    model.graph().Fail(Status(Code::kInvalidArgument, "'" + std::string(name) + "' of " + std::to_string(classes) +
                                                          " classes of width " + std::to_string(width) + " on " +
                                                          std::to_string(count) +
                                                          " devices; each needs a class at least"));
    return shards;
  }
  for (int64_t i = 0; i < count; ++i) {
    const std::string shard = std::string(name) + "/shard_" + std::to_string(i),
                      &device = options.devices[static_cast<size_t>(i)];
    const int64_t rows = RowsOfShard(options.partition, classes, count, i);
    const auto make = [&](const char* part, const Shape& shape, const Initializer& first) {
      const std::string own = shard + part;
      const Variable& made =
          options.by_rows ? model.Rows(own, shape, first, device) : model.Weight(own, shape, first, device);
      TablePart of = PartOfTable(options.partition, std::string(name) + part, classes, count, i);
      of.was_alone = true;
      model.SetPart(made, std::move(of));
      return &made;
    };
    shards.weights.push_back(make("/weights", {rows, width}, initializer));
    shards.biases.push_back(make("/biases", {rows}, Initializer::Constant(0)));
  }
  return shards;
}

}  // namespace tenon::train
