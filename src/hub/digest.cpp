#include "hub/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/ascii.h"
#include "base/try.h"

namespace phidias {

void Digest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Digest::Digest(std::string_view etag, uint64_t size) : expected_(ascii_lower(etag)) {
  const bool hex = std::all_of(etag.begin(), etag.end(), [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  });
  if (!hex || (etag.size() != 64 && etag.size() != 40)) return;
  context_.reset(EVP_MD_CTX_new());
  PHIDIAS_ASSERT(context_ != nullptr);
  const bool git = etag.size() == 40;
  PHIDIAS_ASSERT(EVP_DigestInit_ex(context_.get(), git ? EVP_sha1() : EVP_sha256(), nullptr) == 1);
  if (git) {
    const std::string header = "blob " + std::to_string(size);
    EVP_DigestUpdate(context_.get(), header.c_str(), header.size() + 1);  // with the zero byte
  }
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  if (context_) EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

bool Digest::matches() {
  if (!context_) return true;
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), value.data(), &size);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string found;
  for (size_t i = 0; i < size; ++i) {
    found += kDigits[value[i] >> 4U];
    found += kDigits[value[i] & 15U];
  }
  return found == expected_;
}

}  // namespace phidias
