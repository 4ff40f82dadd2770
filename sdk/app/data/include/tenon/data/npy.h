// SPDX-License-Identifier: Apache-2.0
// Tensors as NumPy's .npy files.
//
// Read: versions 1 to 3, row- and column-major, little- and big-endian; booleans, integers, floats (half too), complex
// numbers; 'S<n>' and 'U<n>' as strings (U becomes UTF-8; NULs at the end of an element are numpy's padding);
// 'V2' as bfloat16, which is how ml_dtypes writes it. Files are not trusted: sizes are checked before memory is asked
// for. Written: version 1.0 (2.0 when the header is long), row-major, little-endian; strings as 'S<n>' of the longest.
#ifndef TENON_DATA_NPY_H_
#define TENON_DATA_NPY_H_

#include <string>
#include <string_view>

#include "tenon/data/base.h"
#include "tenon/data/file.h"

namespace tenon::data {

// limit: what the tensor takes is taken from it.
Result<Tensor> ParseNpy(std::string_view bytes, ReadLimit& limit);
Result<Tensor> ParseNpy(std::string_view bytes);
Result<Tensor> ReadNpy(const std::string& path, ReadLimit& limit);
Result<Tensor> ReadNpy(const std::string& path);

// The bytes that stand before the elements: magic, version, and the description, padded to 64 bytes.
Result<std::string> NpyHeader(const Tensor& tensor);
// The elements as the file holds them. `storage` holds them where they are not the tensor's own bytes (strings).
std::string_view NpyElements(const Tensor& tensor, std::string* storage);
// Replaced as a whole.
Status WriteNpy(const std::string& path, const Tensor& tensor);

}  // namespace tenon::data

#endif  // TENON_DATA_NPY_H_
