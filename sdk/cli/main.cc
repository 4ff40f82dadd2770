// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/command.h"

int main(int argc, char** argv) { return tenon::cli::Main(argc, argv); }
