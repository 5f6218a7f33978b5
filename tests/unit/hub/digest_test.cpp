#include "hub/digest.h"

#include <gtest/gtest.h>

namespace phidias::test {
namespace {

bool matches(const std::string& etag, const std::string& content) {
  Digest digest(etag, content.size());
  const auto bytes = std::as_bytes(std::span(content));
  const size_t half = bytes.size() / 2;
  digest.update(bytes.first(half));
  digest.update(bytes.subspan(half));
  return digest.matches();
}

// The published digest of "abc".
TEST(Digest, Sha256OfTheContent) {
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_TRUE(matches(abc, "abc"));
  EXPECT_FALSE(matches(abc, "abd"));
  EXPECT_TRUE(matches("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", "abc"));
}

// What `git hash-object` gives for the file "{}\n", and for an empty file.
TEST(Digest, GitsNameOfABlob) {
  EXPECT_TRUE(matches("0967ef424bce6791893e9a57bb952f80fd536e93", "{}\n"));
  EXPECT_TRUE(matches("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", ""));
  EXPECT_FALSE(matches("0967ef424bce6791893e9a57bb952f80fd536e93", "{}"));
}

TEST(Digest, OtherEtagsCannotBeChecked) {
  EXPECT_TRUE(matches("d41d8cd98f00b204e9800998ecf8427e-5", "anything"));
  EXPECT_TRUE(matches("zz", "anything"));
}

}  // namespace
}  // namespace phidias::test
