// Tensors inside of JSON documents.
#pragma once

#include <string>

#include "base/json.h"
#include "phidias/edits.h"

namespace phidias {

// A number, nested lists of one shape, or {"file", "name"} where files are allowed.
//   file   of the document: files are also looked for beside it
//   path   of the value, for errors
Result<Tensor> tensor_from_json(const Json& value, TensorFiles files, const std::string& file,
                                const std::string& path);
Json tensor_to_json(const Tensor& tensor);

}  // namespace phidias
