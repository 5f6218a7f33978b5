// Checksums by which a hub names its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace phidias {

// The checksum that `etag` is, of content that arrives piece by piece. 64 hexadecimal digits are
// the SHA-256 of the content; 40 are git's name of it, the SHA-1 of "blob <size>\0" and the
// content. Anything else cannot be checked.
class Digest {
 public:
  Digest(std::string_view etag, uint64_t size);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Whether what came in is what `etag` names; true for an etag that is no checksum. Ends the
  // object's use.
  bool matches();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::string expected_;
  std::unique_ptr<evp_md_ctx_st, Free> context_;  // null: nothing to check
};

}  // namespace phidias
