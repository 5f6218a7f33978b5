// Edits as JSON, both ways.
#include <array>
#include <cmath>

#include "base/json.h"
#include "base/try.h"
#include "phidias/edits.h"
#include "trace/json_tensor.h"

namespace phidias {
namespace {

struct OpName {
  std::string_view name;
  EditOp op;
};
// The first name of an operation is the one that is written.
constexpr OpName kOps[] = {
    {"set", EditOp::kSet},
    {"add", EditOp::kAdd},
    {"scale", EditOp::kScale},
    {"zero", EditOp::kZero},
    {"mean", EditOp::kMean},
    {"project_out", EditOp::kProjectOut},
    {"keep_only", EditOp::kKeepOnly},
    {"swap_subspace", EditOp::kSwapSubspace},
    {"steer", EditOp::kSteer},
    {"clamp", EditOp::kClamp},
    {"noise", EditOp::kNoise},
    {"lowrank", EditOp::kLowRank},
    {"sae", EditOp::kSae},
    {"hide", EditOp::kHide},
    {"only", EditOp::kOnly},
    {"uniform", EditOp::kUniform},
    {"skip", EditOp::kSkip},
    {"resample", EditOp::kSet},
    {"freeze", EditOp::kSet},
    {"patch", EditOp::kSet},
};

// Names of an operation's tensors; "tensor" is understood for the first everywhere.
std::string_view tensor_key(EditOp op) {
  switch (op) {
    case EditOp::kMean:
      return "ref";
    case EditOp::kProjectOut:
    case EditOp::kSteer:
      return "v";
    case EditOp::kKeepOnly:
      return "V";
    case EditOp::kLowRank:
      return "A";
    default:
      return "tensor";
  }
}
std::string_view second_key(EditOp op) { return op == EditOp::kLowRank ? "B" : "R"; }

constexpr std::pair<std::string_view, FeatureEdit::Kind> kFeatureEdits[] = {
    {"set", FeatureEdit::Kind::kSet},
    {"add", FeatureEdit::Kind::kAdd},
    {"scale", FeatureEdit::Kind::kScale},
};

class Reader {
 public:
  Reader(TensorFiles files, std::string file) : files_(files), file_(std::move(file)) {}

  Result<Edit> read(const Json& json, const std::string& path) {
    path_ = path;
    if (!json.is_object()) return fault("an edit is an object");
    json_ = &json;
    seen_.clear();
    Edit edit;
    PHIDIAS_TRY(const std::string name, text("op", ""));
    const auto op = parse_edit_op(name);
    if (!op.ok()) return fault(op.error().message, "op");
    edit.op = *op;
    if (edit.op == EditOp::kSkip) {
      PHIDIAS_CHECK_OK(read_skip(edit));
    } else {
      PHIDIAS_TRY(const std::string value, text("value", ""));
      auto ref = parse_value(value);
      if (!ref.ok()) return fault(ref.error().message, "value");
      edit.value = std::move(*ref);
    }
    PHIDIAS_CHECK_OK(read_selection(edit));
    PHIDIAS_CHECK_OK(read_operands(edit));
    if (edit.op == EditOp::kSae) PHIDIAS_CHECK_OK(read_sae(edit));
    PHIDIAS_CHECK_OK(read_qualifiers(edit));
    for (const auto& [key, value] : json.items()) {
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
        return fault("is not known here", key);
    }
    return edit;
  }

 private:
  Error fault(std::string message, std::string_view key = {}) const {
    return {Code::kInvalidArgument,
            std::move(message),
            {file_, {}, path_ + (key.empty() ? "" : "/" + std::string(key))}};
  }
  const Json* find(std::string_view key) {
    seen_.emplace_back(key);
    const auto at = json_->find(key);
    return at == json_->end() || at->is_null() ? nullptr : &*at;
  }
  Result<std::string> text(std::string_view key, std::string_view otherwise) {
    const Json* value = find(key);
    if (value == nullptr) {
      if (otherwise.empty()) return fault("is missing", key);
      return std::string(otherwise);
    }
    if (!value->is_string()) return fault("must be a string", key);
    return value->get<std::string>();
  }
  Result<double> number(std::string_view key, double otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) return fault("must be a number", key);
    return value->get<double>();
  }
  Result<bool> flag(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return fault("must be true or false", key);
    return value->get<bool>();
  }
  // Not one that wraps around to something else.
  static bool is_whole(const Json& value) {
    return value.is_number_integer() &&
           !(value.is_number_unsigned() &&
             value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  }
  Result<std::vector<int64_t>> integers(const Json& value, std::string_view key) const {
    std::vector<int64_t> list;
    if (!value.is_array()) return fault("must be a list of whole numbers", key);
    for (const Json& entry : value) {
      if (!is_whole(entry)) return fault("must be a list of whole numbers", key);
      list.push_back(entry.get<int64_t>());
    }
    return list;
  }
  Status indices(std::string_view key, std::vector<int32_t>& to) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    PHIDIAS_TRY(const auto list, integers(*value, key));
    if (list.empty()) return fault("is an empty list", key);
    for (const int64_t index : list) {
      if (index != static_cast<int32_t>(index)) return fault("has a number that is no index", key);
      to.push_back(static_cast<int32_t>(index));
    }
    return {};
  }
  Status positions(std::string_view key, Positions& to) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (value->is_string()) {
      auto parsed = Positions::parse(value->get<std::string>());
      if (!parsed.ok()) return fault(parsed.error().message, key);
      to = std::move(*parsed);
    } else if (value->is_object() && value->contains("token") && value->size() == 1 &&
               is_whole((*value)["token"])) {
      const auto token = (*value)["token"].get<int64_t>();
      if (token != static_cast<TokenId>(token)) return fault("is no token id", key);
      to = Positions::where_token(static_cast<TokenId>(token));
    } else if (is_whole(*value)) {
      to = Positions(value->get<int64_t>());
    } else {
      PHIDIAS_TRY(auto list, integers(*value, key));
      to = Positions(std::move(list));
    }
    return {};
  }

  Result<TensorPointer> tensor(const Json& value, std::string_view key) const {
    PHIDIAS_TRY(Tensor read,
                tensor_from_json(value, files_, file_, path_ + "/" + std::string(key)));
    return TensorPointer(std::make_shared<const Tensor>(std::move(read)));
  }
  Status optional_tensor(std::string_view key, TensorPointer& to) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (to != nullptr) return fault("is given twice, by two names", key);
    PHIDIAS_TRY(to, tensor(*value, key));
    return {};
  }
  // The edit's first tensor: numbers, or a value of another run.
  Status operand(std::string_view key, Edit& edit) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_object() || !value->contains("run")) {
      if (value != nullptr && edit.from) return fault("is given twice, by two names", key);
      return optional_tensor(key, edit.tensor);
    }
    if (edit.from || edit.tensor != nullptr) return fault("is given twice, by two names", key);
    const Json& run = (*value)["run"];
    const auto place = value->find("value");
    if (!run.is_string() || value->size() != (place == value->end() ? 1U : 2U) ||
        (place != value->end() && !place->is_string()))
      return fault("a run's value has \"run\" and \"value\"", key);
    edit.from = RunValue{run.get<std::string>(), edit.value};
    if (place == value->end()) return {};
    auto ref = parse_value(place->get<std::string>());
    if (!ref.ok()) return fault(ref.error().message, std::string(key) + "/value");
    edit.from->value = std::move(*ref);
    return {};
  }
  Status position_map(Edit& edit) {
    const Json* map = find("position_map");
    if (map == nullptr) return {};
    if (!edit.from) return fault("is of the value of another run", "position_map");
    if (!map->is_array() || map->empty())
      return fault("is a list of pairs [from, to]", "position_map");
    for (const Json& pair : *map) {
      PHIDIAS_TRY(const auto ends, integers(pair, "position_map"));
      if (ends.size() != 2) return fault("is a list of pairs [from, to]", "position_map");
      edit.position_map.emplace_back(ends[0], ends[1]);
    }
    return {};
  }

  Status read_skip(Edit& edit) {
    const Json* layers = find("layers");
    if (layers == nullptr) return fault("is missing", "layers");
    PHIDIAS_TRY(const auto list, integers(*layers, "layers"));
    if (list.empty() || list.size() > 2) return fault("is [from, to]", "layers");
    for (const int64_t layer : list) {
      if (layer != static_cast<int32_t>(layer))
        return fault("has a number that is no layer", "layers");
    }
    edit = skip_layers(static_cast<int32_t>(list.front()), static_cast<int32_t>(list.back()));
    return {};
  }
  Status read_selection(Edit& edit) {
    Selection& selection = edit.value.selection;
    PHIDIAS_CHECK_OK(positions("at", selection.at));
    PHIDIAS_CHECK_OK(positions("keys", selection.keys));
    PHIDIAS_CHECK_OK(indices("heads", selection.heads));
    PHIDIAS_CHECK_OK(indices("neurons", selection.channels));
    return indices("channels", selection.channels);
  }
  Status read_operands(Edit& edit) {
    PHIDIAS_CHECK_OK(operand("tensor", edit));
    if (tensor_key(edit.op) != "tensor") PHIDIAS_CHECK_OK(operand(tensor_key(edit.op), edit));
    if (edit.op == EditOp::kSet) {
      for (const std::string_view key : {"ref", "saved", "from"})
        PHIDIAS_CHECK_OK(operand(key, edit));
    }
    PHIDIAS_CHECK_OK(position_map(edit));
    if (edit.op == EditOp::kSwapSubspace || edit.op == EditOp::kLowRank)
      PHIDIAS_CHECK_OK(optional_tensor(second_key(edit.op), edit.second));
    PHIDIAS_TRY(edit.coefficient, number("coef", 1));
    if (edit.op == EditOp::kSteer) {
      PHIDIAS_TRY(edit.coefficient, number("c", edit.coefficient));
      PHIDIAS_TRY(edit.keep_norm, flag("keep_norm"));
    }
    if (edit.op == EditOp::kScale) {
      const bool by = json_->contains("by");
      PHIDIAS_TRY(edit.coefficient, number("by", edit.coefficient));
      if (!by && edit.tensor == nullptr && !edit.from) return fault("is missing", "by");
    }
    if (edit.op == EditOp::kClamp) {
      PHIDIAS_TRY(edit.low, number("lo", edit.low));
      PHIDIAS_TRY(edit.high, number("hi", edit.high));
    }
    if (edit.op == EditOp::kNoise) {
      PHIDIAS_TRY(edit.sigma, number("sigma", 0));
      const Json* seed = find("seed");
      if (seed != nullptr && !seed->is_number_unsigned())
        return fault("must be a whole number of 0 or more", "seed");
      if (seed != nullptr) edit.seed = seed->get<uint64_t>();
    }
    return {};
  }
  // {"file"}, or the four tensors; and features as {"feature": 12, "set": 5}.
  Status read_sae(Edit& edit) {
    const Json* given = find("sae");
    if (given == nullptr || !given->is_object()) return fault("must be an object", "sae");
    Autoencoder autoencoder;
    const bool centred = given->contains("centred") && (*given)["centred"] == true;
    if (const auto file = given->find("file"); file != given->end()) {
      if (!file->is_string()) return fault("must be a string", "sae/file");
      if (files_ == TensorFiles::kRefused) return fault("files are not read here", "sae/file");
      PHIDIAS_TRY(autoencoder,
                  load_autoencoder(stored_path(file->get<std::string>(), file_), centred));
    } else {
      for (const auto& [key, to] :
           {std::pair<const char*, Tensor*>{"encoder", &autoencoder.encoder},
            {"encoder_bias", &autoencoder.encoder_bias},
            {"decoder", &autoencoder.decoder},
            {"decoder_bias", &autoencoder.decoder_bias}}) {
        if (!given->contains(key)) return fault("is missing", std::string("sae/") + key);
        PHIDIAS_TRY(*to, tensor_from_json((*given)[key], files_, file_, path_ + "/sae/" + key));
      }
      autoencoder.centred = centred;
    }
    edit.autoencoder = std::make_shared<const Autoencoder>(std::move(autoencoder));
    const Json* features = find("features");
    if (features == nullptr || !features->is_array())
      return fault("must be a list such as [{\"feature\": 12, \"set\": 5}]", "features");
    for (const Json& entry : *features) {
      PHIDIAS_TRY(const FeatureEdit feature, feature_edit(entry));
      edit.features.push_back(feature);
    }
    PHIDIAS_TRY(const std::string error, text("error", "keep"));
    if (error != "keep" && error != "drop") return fault("is \"keep\" or \"drop\"", "error");
    edit.keep_error = error == "keep";
    return {};
  }
  Result<FeatureEdit> feature_edit(const Json& entry) const {
    const Error wrong = fault("has \"feature\" and one of \"set\", \"add\", \"scale\"", "features");
    if (!entry.is_object() || entry.size() != 2 || !entry.contains("feature") ||
        !entry["feature"].is_number_unsigned() || entry["feature"] > UINT32_MAX)
      return wrong;
    for (const auto& [name, kind] : kFeatureEdits) {
      const auto number = entry.find(name);
      if (number != entry.end() && number->is_number())
        return FeatureEdit{entry["feature"].get<uint32_t>(), kind, number->get<double>()};
    }
    return wrong;
  }
  Status read_qualifiers(Edit& edit) {
    PHIDIAS_TRY(const std::string scope, text("scope", "cache"));
    if (scope != "cache" && scope != "call") return fault("is \"cache\" or \"call\"", "scope");
    edit.scope = scope == "call" ? EditScope::kCall : EditScope::kCache;
    PHIDIAS_CHECK_OK(positions("queries", edit.queries));
    PHIDIAS_TRY(const std::string mask, text("mask", "keep"));
    if (mask != "keep" && mask != "lift") return fault("is \"keep\" or \"lift\"", "mask");
    edit.lift = mask == "lift";
    PHIDIAS_TRY(edit.renormalize, flag("renormalize"));
    PHIDIAS_TRY(const double order, number("order", 0));
    edit.order = static_cast<int32_t>(std::clamp(order, -1e9, 1e9));
    if (const Json* when = find("when")) {
      if (!when->is_object() || !when->contains("probe") || !when->contains("threshold") ||
          !(*when)["threshold"].is_number())
        return fault("has \"probe\" and \"threshold\"", "when");
      PHIDIAS_TRY(edit.probe, tensor((*when)["probe"], "when/probe"));
      edit.threshold = (*when)["threshold"].get<double>();
    }
    return {};
  }

  TensorFiles files_;
  std::string file_;
  std::string path_;
  const Json* json_ = nullptr;
  std::vector<std::string> seen_;
};

Json positions_json(const Positions& positions) {
  if (positions.kind == Positions::Kind::kList) return positions.list;
  if (positions.kind == Positions::Kind::kToken) return {{"token", positions.token}};
  return positions.to_string();
}

Json sae_json(const Autoencoder& autoencoder) {
  return {{"encoder", tensor_to_json(autoencoder.encoder)},
          {"encoder_bias", tensor_to_json(autoencoder.encoder_bias)},
          {"decoder", tensor_to_json(autoencoder.decoder)},
          {"decoder_bias", tensor_to_json(autoencoder.decoder_bias)},
          {"centred", autoencoder.centred}};
}

Json features_json(const std::vector<FeatureEdit>& edits) {
  Json list = Json::array();
  for (const FeatureEdit& edit : edits) {
    Json entry = {{"feature", edit.feature}};
    for (const auto& [name, kind] : kFeatureEdits) {
      if (kind == edit.kind) entry[std::string(name)] = edit.number;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json edit_json(const Edit& edit) {
  Json json = Json::object();
  if (edit.op != EditOp::kSkip) {
    ValueRef bare = edit.value;
    bare.selection = {};
    json["value"] = bare.to_string();
  }
  json["op"] = name_of(edit.op);
  const Selection& selection = edit.value.selection;
  if (edit.op == EditOp::kSkip) json["layers"] = {edit.skip_from, edit.skip_to};
  if (selection.at != Positions()) json["at"] = positions_json(selection.at);
  if (selection.keys != Positions()) json["keys"] = positions_json(selection.keys);
  if (!selection.heads.empty()) json["heads"] = selection.heads;
  if (!selection.channels.empty()) {
    json[info_of(edit.value.id).layout == Layout::kNeurons ? "neurons" : "channels"] =
        selection.channels;
  }
  if (edit.tensor != nullptr) json[tensor_key(edit.op)] = tensor_to_json(*edit.tensor);
  if (edit.from) {
    json[tensor_key(edit.op)] = {{"run", edit.from->run}, {"value", edit.from->value.to_string()}};
    if (!edit.position_map.empty()) json["position_map"] = edit.position_map;
  }
  if (edit.second != nullptr) json[second_key(edit.op)] = tensor_to_json(*edit.second);
  if (edit.op == EditOp::kSae) {
    json["sae"] = sae_json(*edit.autoencoder);
    json["features"] = features_json(edit.features);
    if (!edit.keep_error) json["error"] = "drop";
  }
  if (edit.op == EditOp::kScale) {
    json["by"] = edit.coefficient;
  } else if (edit.coefficient != 1) {
    json[edit.op == EditOp::kSteer ? "c" : "coef"] = edit.coefficient;
  }
  if (edit.keep_norm) json["keep_norm"] = true;
  if (std::isfinite(edit.low)) json["lo"] = edit.low;
  if (std::isfinite(edit.high)) json["hi"] = edit.high;
  if (edit.op == EditOp::kNoise) json["sigma"] = edit.sigma, json["seed"] = edit.seed;
  if (edit.scope == EditScope::kCall) json["scope"] = "call";
  if (edit.queries != Positions()) json["queries"] = positions_json(edit.queries);
  if (edit.lift) json["mask"] = "lift";
  if (edit.renormalize) json["renormalize"] = true;
  if (edit.order != 0) json["order"] = edit.order;
  if (edit.probe != nullptr)
    json["when"] = {{"probe", tensor_to_json(*edit.probe)}, {"threshold", edit.threshold}};
  return json;
}

}  // namespace

Result<EditOp> parse_edit_op(std::string_view name) {
  std::string known;
  for (const OpName& row : kOps) {
    if (row.name == name) return row.op;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Error{Code::kInvalidArgument,
               "\"" + std::string(name) + "\" is no operation; there are " + known,
               {{}, {}, "op"}};
}

std::string_view name_of(EditOp op) {
  for (const OpName& row : kOps) {
    if (row.op == op) return row.name;
  }
  return "callback";
}

Result<Edits> edits_from_json(std::string_view json, TensorFiles files, const std::string& file) {
  PHIDIAS_TRY(const Json list, parse_json(json, file));
  if (!list.is_array())
    return Error{Code::kInvalidArgument, "edits are a list of objects", {file, {}, "/"}};
  Reader reader(files, file);
  Edits edits;
  for (size_t i = 0; i < list.size(); ++i) {
    PHIDIAS_TRY(Edit edit, reader.read(list[i], "/" + std::to_string(i)));
    edits += std::move(edit);
  }
  return edits;
}

Result<std::string> to_json(const Edits& edits) {
  Json list = Json::array();
  for (const Edit& edit : edits) {
    if (edit.op == EditOp::kCallback) {
      return Error{Code::kUnsupported,
                   "a function cannot be written as data",
                   {{}, {}, edit.value.to_string()}};
    }
    list.push_back(edit_json(edit));
  }
  return dump_json(list);
}

}  // namespace phidias
