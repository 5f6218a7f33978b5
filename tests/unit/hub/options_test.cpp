#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "phidias/hub.h"

namespace phidias::test {
namespace {

namespace fs = std::filesystem;

// Starts with an environment that says nothing but where home is.
class HubEnvironment : public testing::Test {
 protected:
  HubEnvironment() {
    for (const char* name : {"HF_ENDPOINT", "HF_HUB_CACHE", "HF_HOME", "HF_TOKEN", "HF_TOKEN_PATH",
                             "HF_HUB_OFFLINE", "XDG_CACHE_HOME"}) {
      ::unsetenv(name);
    }
    fs::create_directories(home_);
    ::setenv("HOME", home_.c_str(), 1);
  }
  ~HubEnvironment() override { fs::remove_all(home_); }

  fs::path home_ = fs::temp_directory_path() / ("phidias_home_" + std::to_string(::getpid()));
};

TEST_F(HubEnvironment, DefaultsAreThoseOfOtherClients) {
  const HubOptions options = HubOptions::from_environment();
  EXPECT_EQ(options.endpoint, "https://huggingface.co");
  EXPECT_EQ(options.cache, home_ / ".cache/huggingface/hub");
  EXPECT_EQ(options.token, "");
  EXPECT_FALSE(options.offline);
}

TEST_F(HubEnvironment, VariablesAreObeyed) {
  ::setenv("HF_ENDPOINT", "http://mirror/", 1);
  ::setenv("HF_HOME", "~/hf", 1);
  ::setenv("HF_TOKEN", "abc", 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  HubOptions options = HubOptions::from_environment();
  EXPECT_EQ(options.endpoint, "http://mirror");
  EXPECT_EQ(options.cache, home_ / "hf/hub");
  EXPECT_EQ(options.token, "abc");
  EXPECT_TRUE(options.offline);
  ::setenv("HF_HUB_CACHE", "/somewhere", 1);
  options = HubOptions::from_environment();
  EXPECT_EQ(options.cache, "/somewhere");
}

TEST_F(HubEnvironment, TokenFileIsReadWithoutItsLineEnd) {
  fs::create_directories(home_ / ".cache/huggingface");
  std::ofstream(home_ / ".cache/huggingface/token") << "from-file\n";
  EXPECT_EQ(HubOptions::from_environment().token, "from-file");
}

TEST_F(HubEnvironment, TokenThatWouldForgeAHeaderIsIgnored) {
  ::setenv("HF_TOKEN", "abc\r\nX-Evil: 1", 1);
  EXPECT_EQ(HubOptions::from_environment().token, "");
}

}  // namespace
}  // namespace phidias::test
