#include "phidias/inspect.h"

#include <sstream>

#include "api/model_files.h"
#include "base/try.h"
#include "kernels/table.h"
#include "model/kv_layout.h"

namespace phidias {
namespace {

std::vector<std::string> lines_of(const std::string& message) {
  std::vector<std::string> lines;
  std::istringstream stream(message);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line.substr(std::min(line.size(), line.find_first_not_of(' '))));
  if (lines.size() > 1) lines.erase(lines.begin());  // the head line that counts them
  return lines;
}

}  // namespace

Result<Inspection> inspect(const std::filesystem::path& path) {
  PHIDIAS_TRY(const ModelFiles files, open_model_files(path));
  Inspection inspection;
  inspection.info = describe(files);
  inspection.config_json = files.config_json;
  if (files.has_weights()) {
    auto weights = bind_weights(files.spec, *files.names, files.checkpoint.tensors);
    if (weights.ok())
      describe_weights(files.spec, *weights, inspection.info);
    else
      inspection.problems = lines_of(weights.error().message);
  }
  std::shared_ptr<const Tokenizer> tokenizer;
  auto loaded = load_tokenizer_for(files);
  if (!loaded.ok()) {
    inspection.tokenizer = "cannot be read";
    inspection.problems.push_back("tokenizer: " + loaded.error().to_string());
  } else {
    tokenizer = std::move(*loaded);
    inspection.tokenizer = tokenizer ? "ids up to " + std::to_string(tokenizer->size() - 1) +
                                           (tokenizer->adds_bos() ? ", begins texts with bos" : "")
                                     : "none";
  }
  auto found = find_chat_template(files, tokenizer.get());
  if (found.ok())
    inspection.chat_template = found->origin;
  else {
    inspection.chat_template = "cannot be used";
    inspection.info.notices.push_back("chat template: " + found.error().to_string());
  }
  inspection.info.stop_ids = stop_ids_of(files, tokenizer.get());
  for (const TokenId id : inspection.info.stop_ids)
    inspection.stop_texts.push_back(tokenizer ? tokenizer->token_bytes(id) : "");
  for (size_t i = 0; i < kKvTypeCount; ++i) {
    const auto type = static_cast<KvType>(i);
    inspection.kv_bytes_per_position.emplace_back(
        kv_type_row(type).name, KvLayout(files.spec, type, kKvBlock).bytes_per_position());
  }
  return inspection;
}

}  // namespace phidias
