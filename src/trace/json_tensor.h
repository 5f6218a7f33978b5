// Tensors inside of JSON documents.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"
#include "phidias/edits.h"

namespace phidias {

// A number, nested lists of one shape, or {"file", "name"} where files are allowed.
//   file   of the document: files are also looked for beside it
//   path   of the value, for errors
Result<Tensor> tensor_from_json(const Json& value, TensorFiles files, const std::string& file,
                                const std::string& path);
// Where a document's file lies: as it is named, or beside the document.
std::filesystem::path stored_path(const std::string& name, const std::string& document);
Json tensor_to_json(const Tensor& tensor);

}  // namespace phidias
