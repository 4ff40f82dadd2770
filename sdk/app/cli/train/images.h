// SPDX-License-Identifier: Apache-2.0
// `tenon train images`, and `tenon records write`, which packs a folder of pictures into a file of records for it.
#ifndef TENON_CLI_TRAIN_IMAGES_H_
#define TENON_CLI_TRAIN_IMAGES_H_

#include "sdk/app/cli/command.h"

namespace tenon::cli {

void AddImages(CLI::App& train, Action& action);

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_IMAGES_H_
