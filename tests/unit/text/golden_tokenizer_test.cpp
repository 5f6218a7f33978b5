// Every case of the six reference families, from tokenizer.json and, where there is one, from the
// GGUF vocabulary.
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/regex.h"
#include "unit/text/tokenizer_support.h"

namespace phidias::test {
namespace {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

void append_u32(std::string& bytes, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xFF);
}

enum class Files { kReferenceFolder, kReferenceGguf, kOwnFolder };

struct Source {
  const char* family;
  Files files;
  const char* gguf = nullptr;  // below the reference data
};

std::ostream& operator<<(std::ostream& out, const Source& source) {
  return out << source.family << (source.gguf != nullptr ? " from GGUF" : "");
}

class GoldenTokenizer : public testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    const std::string family = GetParam().family;
    if (GetParam().files == Files::kOwnFolder) {
      tokenizer_ = load_or_fail(test::data("tokenizers/" + family));
      cases_ = read_json(test::data("tokenizers/" + family + "/cases.json"));
    } else {
      PHIDIAS_NEEDS_REFERENCE(family_folder(family));
      if (GetParam().gguf != nullptr) {
        const auto file = reference(GetParam().gguf);
        PHIDIAS_NEEDS_REFERENCE(file);
        tokenizer_ = file.extension() == ".gz" ? load_packed_gguf(file) : load_or_fail(file);
      } else {
        tokenizer_ = load_family(family);
      }
      cases_ = family_cases(family);
    }
    ASSERT_NE(tokenizer_, nullptr);
  }

  // The classes of letters that are newer than our library's tables may be cut otherwise.
  static bool depends_on_unicode_version(const Json& one) {
    return one.value("kind", "") == "unicode-new";
  }

  TokenizerPointer tokenizer_;
  Json cases_;
};

TEST_P(GoldenTokenizer, EncodesEveryTextToTheReferenceIds) {
  ASSERT_FALSE(cases_["encode"].empty());
  for (const Json& one : cases_["encode"]) {
    if (depends_on_unicode_version(one)) continue;
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(encode(*tokenizer_, text, one["add_special_tokens"].get<bool>()),
              one["ids"].get<Ids>())
        << one.dump();
  }
}

TEST_P(GoldenTokenizer, EncodesMarkersAsPlainTextWhereAsked) {
  ASSERT_FALSE(cases_["encode_plain"].empty());
  for (const Json& one : cases_["encode_plain"]) {
    EXPECT_EQ(encode_plain(*tokenizer_, one["text"].get<std::string>()), one["ids"].get<Ids>())
        << one.dump();
  }
}

TEST_P(GoldenTokenizer, DecodesEveryListOfIdsToTheReferenceText) {
  for (const char* list : {"encode", "decode"}) {
    for (const Json& one : cases_[list]) {
      const auto ids = one["ids"].get<Ids>();
      EXPECT_EQ(tokenizer_->decode(ids), one["decoded"].get<std::string>()) << one.dump();
      EXPECT_EQ(tokenizer_->decode(ids, true), one["decoded_skip_special"].get<std::string>())
          << one.dump();
    }
  }
}

TEST_P(GoldenTokenizer, StreamsHandOutTheReferenceChunks) {
  ASSERT_FALSE(cases_["stream"].empty());
  for (const Json& one : cases_["stream"]) {
    DecodeStream stream(*tokenizer_, one["skip_special_tokens"].get<bool>());
    std::vector<std::string> chunks;
    for (const TokenId id : one["ids"].get<Ids>()) chunks.push_back(stream.push(id));
    EXPECT_EQ(chunks, one["chunks"].get<std::vector<std::string>>()) << one.dump();
    EXPECT_EQ(stream.flush(), one["end"].get<std::string>()) << one.dump();
  }
}

TEST_P(GoldenTokenizer, StreamedTextIsTheDecodedTextWhereItIsValid) {
  for (const Json& one : cases_["encode"]) {
    for (const bool skip_special : {false, true}) {
      DecodeStream stream(*tokenizer_, skip_special);
      std::string text;
      for (const TokenId id : one["ids"].get<Ids>()) {
        const std::string chunk = stream.push(id);
        EXPECT_TRUE(is_valid_utf8(chunk));
        text += chunk;
      }
      text += stream.flush();
      EXPECT_EQ(text, one[skip_special ? "decoded_skip_special" : "decoded"].get<std::string>());
    }
  }
}

TEST_P(GoldenTokenizer, LongRepetitionsGiveTheReferenceIds) {
  ASSERT_FALSE(cases_["generated"].empty());
  for (const Json& one : cases_["generated"]) {
    auto text = one["prefix"].get<std::string>();
    const auto unit = one["unit"].get<std::string>();
    for (int i = 0; i < one["repeat"].get<int>(); ++i) text += unit;
    text += one["suffix"].get<std::string>();
    const Ids ids = encode(*tokenizer_, text, true);
    std::string bytes;
    for (const TokenId id : ids) append_u32(bytes, static_cast<uint32_t>(id));
    EXPECT_EQ(ids.size(), one["count"].get<size_t>()) << unit;
    EXPECT_EQ(sha256_hex(bytes), one["sha256"].get<std::string>())
        << unit << " times " << one["repeat"];
  }
}

TEST_P(GoldenTokenizer, EveryIdStandsForTheReferenceBytes) {
  std::string all;
  for (TokenId id = 0; id < cases_["rows"].get<TokenId>(); ++id) {
    const std::string bytes = tokenizer_->token_bytes(id);
    append_u32(all, static_cast<uint32_t>(bytes.size()));
    all += bytes;
  }
  EXPECT_EQ(sha256_hex(all), cases_["token_bytes_sha256"].get<std::string>());
}

TEST_P(GoldenTokenizer, BytesOfTheTokensOfATextAreTheText) {
  // SentencePiece puts a space in front, and its mark for a space cannot be told from one.
  const bool sentencepiece = tokenizer_->find("▁").has_value();
  for (const Json& one : cases_["encode"]) {
    const auto text = one["text"].get<std::string>();
    std::string bytes;
    for (const TokenId id : encode_plain(*tokenizer_, text)) bytes += tokenizer_->token_bytes(id);
    std::string expected = text;
    if (sentencepiece && !text.empty()) {
      expected = " " + Pattern::literal("▁").replace(text, " ");
    }
    EXPECT_EQ(bytes, expected);
  }
}

constexpr Source kSources[] = {
    {"phi-3", Files::kReferenceFolder},
    {"phi-3-first", Files::kReferenceFolder},
    {"phi-3-small", Files::kReferenceFolder},
    {"phi-3-vision", Files::kReferenceFolder},
    {"phi-4", Files::kReferenceFolder},
    {"phi-4-mini", Files::kReferenceFolder},
    {"phi-3-first", Files::kReferenceGguf, "../data/tokenizers/phi-3-vocab.gguf"},
    {"phi-4", Files::kReferenceGguf, "tokenizers/phi-4/vocab.gguf.gz"},
    {"phi-4-mini", Files::kReferenceGguf, "tokenizers/phi-4-mini/vocab.gguf.gz"},
    {"byte-level", Files::kOwnFolder},
    {"sentencepiece", Files::kOwnFolder},
};

std::string name_of(const testing::TestParamInfo<Source>& info) {
  std::string name = info.param.family;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (info.param.gguf != nullptr ? "_gguf" : "");
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTokenizer, testing::ValuesIn(kSources), name_of);

}  // namespace
}  // namespace phidias::test
