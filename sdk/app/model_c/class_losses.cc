// SPDX-License-Identifier: Apache-2.0
// The losses over many classes of train.h.
#include "sdk/app/model_c/building.h"
#include "tenon/train/sampled_loss.h"
#include "tenon/train/sharded_softmax.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

Result<train::ClassShards> ReadShards(tenon_variables* variables, const tenon_class_shards_spec& spec) {
  if (spec.name.size == 0) return Status(Code::kInvalidArgument, "'name' is empty");
  if (spec.partition > TENON_PARTITION_MOD)
    return Status(Code::kInvalidArgument,
                  "'partition' is " + std::to_string(spec.partition) + "; give one of TENON_PARTITION_*");
  train::ClassShardsOptions options;
  if (spec.device_count != 0) options.devices = Copies(spec.devices, spec.device_count);
  options.partition = spec.partition == TENON_PARTITION_MOD ? train::Partition::kMod : train::Partition::kDiv;
  options.by_rows = spec.by_rows != 0;
  const train::Initializer initializer =
      spec.deviation != 0 ? train::Initializer::TruncatedNormal(spec.deviation) : train::Initializer::He(spec.width);
  return train::MakeClassShards(variables->model, Text(spec.name), spec.classes, spec.width, initializer, options);
}

Result<train::Candidates> ReadCandidates(tenon_app_graph* graph, const tenon_candidates& given) {
  train::Candidates candidates;
  TENON_TRY_ASSIGN(candidates.sampled, ReadEdge(graph, given.sampled, "sampled"));
  TENON_TRY_ASSIGN(candidates.true_expected, ReadEdge(graph, given.true_expected, "true_expected"));
  TENON_TRY_ASSIGN(candidates.sampled_expected, ReadEdge(graph, given.sampled_expected, "sampled_expected"));
  return candidates;
}

Result<train::SampledLossOptions> ReadOptions(tenon_app_graph* graph, const tenon_sampled_loss_options& options) {
  train::SampledLossOptions out;
  if (options.sampled != 0) out.sampled = options.sampled;
  out.seed = options.seed;
  if (options.kind > TENON_SAMPLED_NCE)
    return Status(Code::kInvalidArgument,
                  "'kind' is " + std::to_string(options.kind) + "; give one of TENON_SAMPLED_*");
  if (options.remove_accidental_hits > TENON_OFF)
    return Status(Code::kInvalidArgument, "'remove_accidental_hits' is " +
                                              std::to_string(options.remove_accidental_hits) +
                                              "; give TENON_DEFAULT, TENON_ON or TENON_OFF");
  if (options.remove_accidental_hits != TENON_DEFAULT)
    out.remove_accidental_hits = options.remove_accidental_hits == TENON_ON;
  if (options.candidates != nullptr) {
    TENON_TRY_ASSIGN(out.candidates, ReadCandidates(graph, *options.candidates));
  }
  return out;
}

// loss: of the graph, the inputs and the labels.
template <typename Loss>
tenon_status* GiveLoss(const tenon_class_shards* shards, tenon_output inputs, tenon_output labels,
                       tenon_output* out_loss, Loss loss) {
  if (shards == nullptr) return Guard([] { return IsNull("shards"); });
  return Build(shards->graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(out_loss);
    TENON_TRY_ASSIGN(const Output x, ReadEdge(shards->graph, inputs, "inputs"));
    TENON_TRY_ASSIGN(const Output of, ReadEdge(shards->graph, labels, "labels"));
    TENON_TRY_ASSIGN(const Output made, loss(lent, x, of));
    TENON_TRY(lent.status());
    *out_loss = made.c_output();
    return Status();
  });
}

}  // namespace

extern "C" {

tenon_status* tenon_class_shards_create(tenon_variables* variables, const tenon_class_shards_spec* given,
                                        tenon_class_shards** out_shards) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_shards);
    tenon_class_shards_spec spec;
    TENON_TRY(ReadStruct(given, true, "spec", &spec));
    TENON_TRY_ASSIGN(train::ClassShards shards, ReadShards(variables, spec));
    TENON_TRY(variables->graph.status());
    *out_shards = new tenon_class_shards{variables->graph.get(), std::move(shards)};
    return Status();
  });
}

void tenon_class_shards_release(tenon_class_shards* shards) { delete shards; }

uint64_t tenon_class_shards_count(const tenon_class_shards* shards) {
  return shards == nullptr ? 0 : shards->shards.weights.size();
}

tenon_status* tenon_class_shards_get(const tenon_class_shards* shards, uint64_t index, tenon_variable_info* out_weights,
                                     tenon_variable_info* out_biases) {
  return Guard([&]() -> Status {
    TENON_CHECK(shards, out_weights, out_biases);
    TENON_TRY(CheckIndex(index, shards->shards.weights.size(), "shard"));
    TENON_TRY(WriteStruct(InfoOf(*shards->shards.weights[index]), out_weights));
    return WriteStruct(InfoOf(*shards->shards.biases[index]), out_biases);
  });
}

tenon_status* tenon_log_uniform_candidates(tenon_app_graph* graph, tenon_output labels, int64_t sampled,
                                           int64_t classes, int64_t seed, tenon_candidates* out_candidates) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(out_candidates);
    TENON_TRY_ASSIGN(const Output of, ReadEdge(graph, labels, "labels"));
    const train::Candidates drawn = train::LogUniformCandidates(lent, of, sampled, classes, seed);
    TENON_TRY(lent.status());
    *out_candidates = {drawn.sampled.c_output(), drawn.true_expected.c_output(), drawn.sampled_expected.c_output()};
    return Status();
  });
}

tenon_status* tenon_class_shards_sampled_loss(const tenon_class_shards* shards, tenon_output inputs,
                                              tenon_output labels, const tenon_sampled_loss_options* given,
                                              tenon_output* out_loss) {
  return GiveLoss(shards, inputs, labels, out_loss,
                  [&](host::Graph& lent, const Output& x, const Output& of) -> Result<Output> {
                    tenon_sampled_loss_options options;
                    TENON_TRY(ReadStruct(given, false, "options", &options));
                    TENON_TRY_ASSIGN(const train::SampledLossOptions read, ReadOptions(shards->graph, options));
                    const auto loss = options.kind == TENON_SAMPLED_NCE ? train::NceLoss : train::SampledSoftmaxLoss;
                    return loss(lent, shards->shards, x, of, read);
                  });
}

tenon_status* tenon_class_shards_softmax_loss(const tenon_class_shards* shards, tenon_output inputs,
                                              tenon_output labels, tenon_output* out_loss) {
  return GiveLoss(shards, inputs, labels, out_loss,
                  [&](host::Graph& lent, const Output& x, const Output& of) -> Result<Output> {
                    return train::ShardedSoftmaxLoss(lent, shards->shards, x, of);
                  });
}

}  // extern "C"
