// Tokenizers for tests: the reference families, and small ones written out in the test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "phidias/tokenizer.h"
#include "support/gunzip.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

namespace phidias::test {

using TokenizerPointer = std::shared_ptr<const Tokenizer>;
using Ids = std::vector<TokenId>;

inline std::filesystem::path family_folder(const std::string& family) {
  return reference("tokenizers/" + family);
}

// Puts the folder of a reference family, unpacked, into `folder`.
inline void unpack_family(const std::string& family, const TemporaryFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(family_folder(family))) {
    const std::string name = entry.path().filename().string();
    if (name == "tokenizer.json.gz") {
      folder.write("tokenizer.json", gunzip(entry.path()));
    } else if (entry.path().extension() == ".json") {
      std::filesystem::copy_file(entry.path(), folder.path() / name);
    }
  }
}

// Null, and a failure of the test, if it cannot be loaded.
inline TokenizerPointer load_or_fail(const std::filesystem::path& path) {
  auto loaded = Tokenizer::load(path);
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.error().to_string();
    return nullptr;
  }
  return std::move(loaded).value();
}

inline TokenizerPointer load_family(const std::string& family) {
  TemporaryFolder folder;
  unpack_family(family, folder);
  return load_or_fail(folder.path());
}

// The GGUF vocabulary of a family, from a packed file.
inline TokenizerPointer load_packed_gguf(const std::filesystem::path& packed) {
  TemporaryFolder folder;
  folder.write("vocab.gguf", gunzip(packed));
  return load_or_fail(folder.path() / "vocab.gguf");
}

inline Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto parsed = parse_json(text, path.string());
  EXPECT_TRUE(parsed.ok()) << path;
  return parsed.ok() ? std::move(parsed).value() : Json::object();
}

inline Json family_cases(const std::string& family) {
  return read_json(reference("tokenizers/cases/" + family + ".json"));
}

inline Ids encode(const Tokenizer& tokenizer, std::string_view text, bool add_special = false) {
  EncodeOptions options;
  options.add_special = add_special;
  return tokenizer.encode(text, options);
}

inline Ids encode_plain(const Tokenizer& tokenizer, std::string_view text) {
  EncodeOptions options;
  options.add_special = false;
  options.markers = false;
  return tokenizer.encode(text, options);
}

}  // namespace phidias::test
