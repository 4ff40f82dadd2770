// SPDX-License-Identifier: Apache-2.0
// What stands behind the opaque objects of model.h and train.h.
#ifndef TENON_SDK_MODEL_C_OBJECTS_H_
#define TENON_SDK_MODEL_C_OBJECTS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sdk/app/model_c/arguments.h"
#include "tenon/model/checkpoint.h"
#include "tenon/model/load.h"
#include "tenon/train/class_shards.h"
#include "tenon/train/event_file.h"
#include "tenon/train/lbfgs.h"
#include "tenon/train/model.h"
#include "tenon/train/recurrent.h"
#include "tenon/train/saver.h"

struct tenon_model_file {
  tenon::model::ModelFile file;
};

struct tenon_model {
  tenon_model_file file;
  tenon::model::Model model;
};

struct tenon_checkpoint {
  tenon::model::CheckpointIndex index;
};

struct tenon_variables {
  tenon_variables(tenon_app_graph* given, uint64_t seed)
      : graph(tenon::host::Graph::Borrow(given)), model(graph, seed) {}
  tenon::host::Graph graph;
  tenon::train::Model model;
};

struct tenon_saver {
  tenon_saver(tenon_variables* variables, std::string folder, tenon::train::SaverOptions options)
      : saver(variables->model, std::move(folder), std::move(options)) {}
  tenon::train::Saver saver;
  tenon::train::Restored restored;  // what spans given out point into
  std::string warnings;
};

struct tenon_rnn_cell {
  tenon_app_graph* graph;  // the variables'
  tenon::train::RnnCell cell;
  std::vector<tenon_output> weights;  // as C is given them
};

struct tenon_class_shards {
  tenon_app_graph* graph;  // the variables'
  tenon::train::ClassShards shards;
};

struct tenon_lbfgs {
  std::function<void(const tenon::train::LbfgsResult&)> told;  // of the run that is under way; else empty
  std::optional<tenon::train::Lbfgs> lbfgs;
};

struct tenon_event_writer {
  tenon::train::EventWriter writer;
};

#endif  // TENON_SDK_MODEL_C_OBJECTS_H_
