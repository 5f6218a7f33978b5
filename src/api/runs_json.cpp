// A document of runs, read.
#include "base/json.h"
#include "base/try.h"
#include "phidias/runs.h"

namespace phidias {
namespace {

class Reader {
 public:
  Reader(const Model& model, TensorFiles files, const std::string& file)
      : model_(model), files_(files), file_(file) {}

  Result<NamedRun> read(const Json& json, const std::string& path) {
    path_ = path;
    if (!json.is_object()) return fault("a run is an object");
    NamedRun run;
    for (const auto& [key, value] : json.items()) PHIDIAS_CHECK_OK(read_key(key, value, run));
    if (run.name.empty()) return fault("is missing", "name");
    if (run.ids.empty()) return fault("has neither \"ids\" nor \"text\"");
    return run;
  }

 private:
  Error fault(std::string message, const std::string& key = {}) const {
    return {Code::kInvalidArgument,
            std::move(message),
            {file_, {}, path_ + (key.empty() ? "" : "/" + key)}};
  }
  // The place of an error within the value of a key.
  Error within(Error error, const std::string& key) const {
    const std::string inner = error.place.item;
    error.place.file = file_;
    error.place.item = path_ + "/" + key + (inner.starts_with('/') ? inner : "");
    return error;
  }

  Status read_key(const std::string& key, const Json& value, NamedRun& run) const {
    if (key == "name") {
      if (!value.is_string()) return fault("must be a string", key);
      run.name = value.get<std::string>();
    } else if (key == "ids") {
      if (!run.ids.empty()) return fault("is given beside \"text\"", key);
      PHIDIAS_TRY(run.ids, ids(value));
    } else if (key == "text") {
      if (!run.ids.empty()) return fault("is given beside \"ids\"", key);
      PHIDIAS_TRY(run.ids, encoded(value));
    } else if (key == "edits") {
      auto edits = edits_from_json(dump_json(value), files_, file_);
      if (!edits.ok()) return within(std::move(edits).error(), key);
      run.edits = std::move(*edits);
    } else if (key == "read" || key == "grad") {
      PHIDIAS_CHECK_OK(reads(key, value, run.reads));
    } else if (key == "metric") {
      auto metric = metric_from_json(dump_json(value), model_, file_);
      if (!metric.ok()) return within(std::move(metric).error(), key);
      run.metric = std::move(*metric);
    } else if (key == "generate") {
      if (!value.is_number_unsigned() || value > UINT32_MAX)
        return fault("must be a whole number of 0 or more", key);
      run.options.generate = value.get<uint32_t>();
    } else {
      return fault(
          "is not known here; there are name, ids, text, edits, read, grad, metric, "
          "generate",
          key);
    }
    return {};
  }

  Result<std::vector<TokenId>> ids(const Json& value) const {
    std::vector<TokenId> list;
    const Error wrong = fault("must be a list of token ids", "ids");
    if (!value.is_array() || value.empty()) return wrong;
    for (const Json& id : value) {
      if (!id.is_number_integer() || id.get<int64_t>() != id.get<TokenId>()) return wrong;
      list.push_back(id.get<TokenId>());
    }
    return list;
  }
  Result<std::vector<TokenId>> encoded(const Json& value) const {
    if (!value.is_string()) return fault("must be a string", "text");
    const auto tokenizer = model_.tokenizer();
    if (tokenizer == nullptr) {
      return Error{Code::kNotFound,
                   "the model has no tokenizer to encode text with; give \"ids\"",
                   {file_, {}, path_ + "/text"}};
    }
    return tokenizer->encode(value.get<std::string>());
  }

  Status reads(const std::string& key, const Json& value, std::vector<Read>& to) const {
    if (!value.is_array()) return fault("must be a list of values", key);
    for (const Json& entry : value) {
      const bool before = entry.is_object() && entry.size() == 2 && entry.contains("value") &&
                          entry.contains("moment") && entry["moment"] == "before";
      const Json& path = before ? entry["value"] : entry;
      if (!path.is_string())
        return fault("has paths, or {\"value\": ..., \"moment\": \"before\"}", key);
      auto parsed = key == "grad" ? parse_gradient(path.get<std::string>(), model_)
                                  : parse_read(path.get<std::string>(), model_);
      if (!parsed.ok()) return fault(parsed.error().message, key);
      for (Read& read : *parsed) {
        if (before && key == "read") read.moment = Read::Moment::kBefore;
        to.push_back(std::move(read));
      }
    }
    return {};
  }

  const Model& model_;
  TensorFiles files_;
  const std::string& file_;
  std::string path_;
};

}  // namespace

Result<std::vector<NamedRun>> runs_from_json(std::string_view json, const Model& model,
                                             TensorFiles files, const std::string& file) {
  PHIDIAS_TRY(const Json document, parse_json(json, file));
  const auto list = document.is_object() ? document.find("runs") : document.end();
  if (!document.is_object() || list == document.end() || !list->is_array() || document.size() != 1)
    return Error{Code::kInvalidArgument, "a document is {\"runs\": [...]}", {file, {}, "/"}};
  Reader reader(model, files, file);
  std::vector<NamedRun> runs;
  for (size_t i = 0; i < list->size(); ++i) {
    PHIDIAS_TRY(NamedRun run, reader.read((*list)[i], "/runs/" + std::to_string(i)));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace phidias
