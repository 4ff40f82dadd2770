// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/command.h"

int main(int argc, char** argv) { return tenon::cli::Main(argc, argv); }
