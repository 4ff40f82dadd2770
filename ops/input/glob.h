// SPDX-License-Identifier: Apache-2.0
// Names of files by a pattern, as TensorFlow matches them: "*" and "?" stand for what is in one name, "[a-z]" and "[!a-z]" (or "^") for one byte, "\" takes the next byte
// as it is. Nothing stands for "/", and a leading dot is like any other byte.
#ifndef TENON_OPS_INPUT_GLOB_H_
#define TENON_OPS_INPUT_GLOB_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/file/file.h"

namespace tenon::ops::input {

// Whether a name, which has no "/", is of the pattern. Takes time in the product of both lengths at most.
bool Matches(std::string_view pattern, std::string_view name);

// Called for each name in a folder that is looked at; what it throws ends the search.
using NamePoll = std::function<void(size_t bytes)>;

// Appends the files and folders of the pattern, in no order. A pattern without anything special is a name, which is given when it is there. What cannot be listed (it is no
// folder, it is gone, it is not ours to read) has nothing in it.
void AppendMatching(const tenon_files& files, std::string_view pattern, const NamePoll& poll, std::vector<std::string>* out);

}  // namespace tenon::ops::input

#endif  // TENON_OPS_INPUT_GLOB_H_
