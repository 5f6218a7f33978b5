#include "base/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "support/temporary_folder.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(OutputFile, AppearsOnceItIsCommitted) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "out";
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  ASSERT_TRUE(file->write("one ").ok());
  ASSERT_TRUE(file->write(std::string_view("two")).ok());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(file->bytes_written(), 7U);
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(test::read_file(path), "one two");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, AnOldFileStaysUntilThen) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.write("out", "old");
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  EXPECT_EQ(test::read_file(path), "old");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(test::read_file(path), "new");
}

TEST(OutputFile, LeavesNothingWhenDropped) {
  const test::TemporaryFolder folder;
  {
    auto file = OutputFile::create(folder.path() / "out");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("half").ok());
    EXPECT_EQ(files_in(folder.path()), 1U);
  }
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(OutputFile, KeepsThePermissionsOfAnOldFile) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.write("out", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->commit().ok());
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0640U);
}

TEST(OutputFile, FollowsALinkInsteadOfReplacingIt) {
  const test::TemporaryFolder folder;
  const fs::path target = folder.write("target", "old");
  const fs::path link = folder.path() / "link";
  fs::create_symlink("target", link);
  auto file = OutputFile::create(link);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(test::read_file(target), "new");
}

TEST(OutputFile, APipeIsWrittenInPlace) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(::pipe(ends.data()), 0);
  {
    auto file = OutputFile::create("/dev/fd/" + std::to_string(ends[1]));
    ASSERT_TRUE(file.ok()) << file.error().to_string();
    ASSERT_TRUE(file->write("through").ok());
    ASSERT_TRUE(file->commit().ok());
  }
  std::array<char, 16> read = {};
  EXPECT_EQ(::read(ends[0], read.data(), read.size()), 7);
  EXPECT_STREQ(read.data(), "through");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(OutputFile, TheNullDeviceStaysADevice) {
  auto file = OutputFile::create("/dev/null");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  ASSERT_TRUE(file->write("gone").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(OutputFile, AFullDeviceIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  auto file = OutputFile::create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  const auto status = file->write("more than nothing");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kIo);
  EXPECT_EQ(status.error().place.file, "/dev/full");
}

TEST(OutputFile, FoldersAndMissingFoldersAreErrors) {
  const test::TemporaryFolder folder;
  const auto onto_folder = OutputFile::create(folder.path());
  ASSERT_FALSE(onto_folder.ok());
  EXPECT_EQ(onto_folder.error().code, Code::kInvalidArgument);
  const auto nowhere = OutputFile::create(folder.path() / "none" / "out");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, Code::kNotFound);
}

TEST(OutputFile, CanBeMoved) {
  const test::TemporaryFolder folder;
  auto created = OutputFile::create(folder.path() / "out");
  ASSERT_TRUE(created.ok());
  OutputFile file = std::move(*created);
  ASSERT_TRUE(file.write("x").ok());
  auto other = OutputFile::create(folder.path() / "other");
  ASSERT_TRUE(other.ok());
  file = std::move(*other);  // the first is dropped
  ASSERT_TRUE(file.commit().ok());
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
  EXPECT_TRUE(fs::exists(folder.path() / "other"));
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, TwoWritersOfOneTargetDoNotMix) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "out";
  auto first = OutputFile::create(path);
  auto second = OutputFile::create(path);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->write("first").ok());
  ASSERT_TRUE(second->write("second").ok());
  ASSERT_TRUE(second->commit().ok());
  ASSERT_TRUE(first->commit().ok());
  EXPECT_EQ(test::read_file(path), "first");
}

}  // namespace
}  // namespace phidias
