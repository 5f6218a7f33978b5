#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "hub/cache.h"
#include "phidias/hub.h"
#include "unit/hub/fake_hub.h"

namespace phidias::test {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'a');
const std::string kFiles = "/owner/model/resolve/" + kCommit + "/";

std::string weights() {
  std::string out;
  for (int i = 0; i < 200'000; ++i) out += static_cast<char>(i * 7 % 251);
  return out;
}

std::string content_of(const fs::path& path) {
  const Result<std::string> text = read_text_file(path);
  return text.ok() ? *text : "<" + text.error().to_string() + ">";
}

// A hub with one small model, and an empty cache.
class Pull : public testing::Test {
 protected:
  Pull() {
    fs::remove_all(cache_);
    options_.endpoint = hub_.url();
    options_.cache = cache_;
    options_.token = "hf_secret";
    options_.attempts = 3;
    options_.first_wait_ms = 1;
    list({"config.json", "tokenizer.json", "README.md", "model.safetensors", "onnx/model.onnx"});
    hub_.add_file(kFiles + "config.json", "{}");
    hub_.add_file(kFiles + "tokenizer.json", R"({"model": {}})");
    hub_.add_linked_file(kFiles + "model.safetensors", weights(), "127.0.0.1");
  }
  ~Pull() override { fs::remove_all(cache_); }

  void list(const std::vector<std::string>& files, const std::string& revision = "main") {
    std::string body = R"({"sha": ")" + kCommit + R"(", "siblings": [)";
    for (const std::string& file : files) {
      body += (file == files.front() ? "" : ", ") + (R"({"rfilename": ")" + file + "\"}");
    }
    body += "]}";
    hub_.on("/api/models/owner/model/revision/" + revision, [body](const HubRequest&) {
      return HubReply{200, {}, body, {}};
    });
  }

  Result<fs::path> pull(const std::string& name = "owner/model",
                        const HubProgressCallback& progress = {}) {
    return pull_model(HubReference::parse(name).value(), options_, progress);
  }

  fs::path blob(const std::string& etag) const {
    return CachedRepository(cache_, "owner/model").blob(etag);
  }
  fs::path snapshot() const { return CachedRepository(cache_, "owner/model").snapshot(kCommit); }

  FakeHub hub_;
  fs::path cache_ =
      fs::temp_directory_path() / ("phidias_pull_" + std::to_string(::getpid()) + "_" +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
  HubOptions options_;
};

TEST_F(Pull, FreshDownloadFillsTheStandardLayout) {
  const Result<fs::path> path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(*path, cache_ / "models--owner--model" / "snapshots" / kCommit);
  EXPECT_EQ(content_of(*path / "config.json"), "{}");
  EXPECT_EQ(content_of(*path / "model.safetensors"), weights());
  EXPECT_EQ(fs::read_symlink(*path / "model.safetensors"),
            fs::path("../../blobs") / sha256(weights()));
  EXPECT_EQ(content_of(cache_ / "models--owner--model" / "refs" / "main"), kCommit);
  EXPECT_FALSE(fs::exists(*path / "README.md"));
  EXPECT_FALSE(fs::exists(*path / "onnx"));
}

TEST_F(Pull, SecondPullDownloadsNothing) {
  ASSERT_TRUE(pull().ok());
  hub_.forget_requests();
  ASSERT_TRUE(pull().ok());
  for (const HubRequest& request : hub_.requests("GET"))
    EXPECT_TRUE(request.path.starts_with("/api/")) << request.path;
}

TEST_F(Pull, ProgressEndsAtTheTotalAndNeverFallsWithoutAFault) {
  HubProgress last;
  bool monotonic = true;
  const auto path = pull("owner/model", [&](const HubProgress& now) {
    monotonic = monotonic && now.done >= last.done && now.file_done <= now.file_total &&
                now.done <= now.total;
    last = now;
    return true;
  });
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_TRUE(monotonic);
  EXPECT_EQ(last.total, weights().size() + 2 + std::string(R"({"model": {}})").size());
  EXPECT_EQ(last.file, "model.safetensors");
}

TEST_F(Pull, CutConnectionIsResumedWhereItBroke) {
  const std::string stored = "/storage/" + sha256(weights());
  hub_.on(stored, [](const HubRequest& request) {
    HubReply reply = ranged(request, weights());
    if (!request.has("range")) reply.cut_after = 70'000;
    return reply;
  });
  const auto path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(content_of(*path / "model.safetensors"), weights());
  const HubRequest last = hub_.requests("GET").back();
  ASSERT_EQ(last.path, stored);
  EXPECT_EQ(last.headers.at("range"), "bytes=70000-");
}

TEST_F(Pull, InterruptedPullIsResumedByTheNextOne) {
  const std::string stored = "/storage/" + sha256(weights());
  hub_.on(stored, [](const HubRequest& request) {
    HubReply reply = ranged(request, weights());
    reply.cut_after = request.has("range") ? 0 : 50'000;
    return reply;
  });
  const auto broken = pull();
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Code::kIo);
  EXPECT_EQ(fs::file_size(blob(sha256(weights()) + ".incomplete")), 50'000U);
  EXPECT_FALSE(fs::exists(snapshot())) << "a snapshot must not be visible before it is complete";

  hub_.on(stored, [](const HubRequest& request) { return ranged(request, weights()); });
  hub_.forget_requests();
  const auto path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(content_of(*path / "model.safetensors"), weights());
  EXPECT_EQ(hub_.requests("GET").back().headers.at("range"), "bytes=50000-");
}

TEST_F(Pull, ServerThatIgnoresTheRangeStartsTheFileAgain) {
  fs::create_directories(blob("x").parent_path());
  std::ofstream(blob(sha256(weights()) + ".incomplete")) << "something else entirely";
  hub_.on("/storage/" + sha256(weights()), [](const HubRequest&) {
    return HubReply{200, {}, weights(), {}};
  });
  const auto path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(content_of(*path / "model.safetensors"), weights());
}

TEST_F(Pull, OtherRangeThanAskedForIsRefused) {
  fs::create_directories(blob("x").parent_path());
  std::ofstream(blob(sha256(weights()) + ".incomplete")) << weights().substr(0, 1000);
  hub_.on("/storage/" + sha256(weights()), [](const HubRequest&) {
    return HubReply{
        206, {{"Content-Range", "bytes 500-199499/200000"}}, weights().substr(1000), {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCorrupt);
  EXPECT_NE(path.error().message.find("another range"), std::string::npos);
}

TEST_F(Pull, LineThatBreaksAgainAndAgainIsEnoughWhileBytesArrive) {
  hub_.on("/storage/" + sha256(weights()), [](const HubRequest& request) {
    HubReply reply = ranged(request, weights());
    reply.cut_after = 20'000;
    return reply;
  });
  const auto path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(content_of(*path / "model.safetensors"), weights());
}

TEST_F(Pull, WrongChecksumIsRefusedAndRemoved) {
  std::string damaged = weights();
  damaged[1234] ^= 1;
  hub_.on("/storage/" + sha256(weights()), [damaged](const HubRequest&) {
    return HubReply{200, {}, damaged, {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCorrupt);
  EXPECT_EQ(path.error().place.item, "model.safetensors");
  EXPECT_FALSE(fs::exists(blob(sha256(weights()))));
  EXPECT_FALSE(fs::exists(blob(sha256(weights()) + ".incomplete")));
}

TEST_F(Pull, SmallFilesAreCheckedByGitsName) {
  hub_.on(kFiles + "config.json", [](const HubRequest&) {
    return HubReply{200, {{"ETag", "\"" + git_blob_name("{}") + "\""}}, "[]", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCorrupt);
}

TEST_F(Pull, MoreBytesThanStatedAreRefused) {
  hub_.on("/storage/" + sha256(weights()), [](const HubRequest&) {
    return HubReply{200, {}, weights() + "!", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCorrupt);
  EXPECT_FALSE(fs::exists(blob(sha256(weights()))));
}

TEST_F(Pull, TokenStaysWithTheEndpoint) {
  hub_.add_linked_file(kFiles + "model.safetensors", weights(), "localhost");
  const auto path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  size_t elsewhere = 0;
  for (const HubRequest& request : hub_.requests()) {
    const bool at_home = request.headers.at("host").starts_with("127.0.0.1");
    elsewhere += at_home ? 0 : 1;
    EXPECT_EQ(request.has("authorization"), at_home) << request.method << " " << request.path;
    if (at_home) {
      EXPECT_EQ(request.headers.at("authorization"), "Bearer hf_secret");
    }
  }
  EXPECT_EQ(elsewhere, 1U);
}

TEST_F(Pull, RedirectsInCirclesEnd) {
  hub_.on(kFiles + "config.json", [](const HubRequest& request) {
    return HubReply{307, {{"Location", request.path}}, "", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().message.find("circles"), std::string::npos);
}

TEST_F(Pull, MissingRepositoryIsNamedWithItsUrlAndStatus) {
  const auto path = pull("owner/nothing");
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kNotFound);
  const std::string text = path.error().to_string();
  EXPECT_NE(text.find(hub_.url() + "/api/models/owner/nothing/revision/main"), std::string::npos)
      << text;
  EXPECT_NE(text.find("404"), std::string::npos) << text;
  EXPECT_NE(text.find("not here"), std::string::npos) << text;
}

TEST_F(Pull, GatedRepositorySaysHowToGetIn) {
  hub_.on(kFiles + "config.json", [](const HubRequest&) {
    return HubReply{
        403, {{"X-Error-Code", "GatedRepo"}, {"X-Error-Message", "Access is restricted"}}, "", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  const std::string text = path.error().to_string();
  EXPECT_NE(text.find("gated"), std::string::npos) << text;
  EXPECT_NE(text.find("Access is restricted"), std::string::npos) << text;
}

TEST_F(Pull, UnauthorisedWithoutATokenNamesTheVariable) {
  options_.token.clear();
  hub_.on("/api/models/owner/model/revision/main", [](const HubRequest&) {
    return HubReply{401, {}, R"({"error": "Invalid username or password."})", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kNotFound);
  EXPECT_NE(path.error().message.find("HF_TOKEN"), std::string::npos);
}

TEST_F(Pull, TransientFailuresAreTriedAgain) {
  int calls = 0;
  hub_.on(kFiles + "config.json", [&calls](const HubRequest& request) {
    if (++calls < 3) return HubReply{503, {{"Retry-After", "0"}}, "", {}};
    HubReply reply = ranged(request, "{}");
    reply.headers.emplace_back("ETag", "\"" + git_blob_name("{}") + "\"");
    return reply;
  });
  const auto path = pull();
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(calls, 4) << "two failures, the description, the content";
}

TEST_F(Pull, LastingFailureEndsAfterTheAttempts) {
  int calls = 0;
  hub_.on(kFiles + "config.json", [&calls](const HubRequest&) {
    ++calls;
    return HubReply{500, {}, "", {}};
  });
  EXPECT_FALSE(pull().ok());
  EXPECT_EQ(calls, options_.attempts);
}

TEST_F(Pull, NamesThatLeadOutOfTheRepositoryAreRefused) {
  for (const std::string name :
       {"../../evil.json", "/etc/passwd", "a/../../b.json", "a//b", "a\\\\b", "."}) {
    list({"config.json", name, "model.safetensors"});
    const auto path = pull();
    ASSERT_FALSE(path.ok()) << name;
    EXPECT_EQ(path.error().code, Code::kCorrupt) << name;
  }
  EXPECT_FALSE(fs::exists(cache_)) << "nothing may be written";
}

TEST_F(Pull, EtagThatIsAPathIsRefused) {
  hub_.on(kFiles + "config.json", [](const HubRequest&) {
    return HubReply{200, {{"ETag", "\"../../x\""}}, "{}", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCorrupt);
}

TEST_F(Pull, CommitThatIsAPathIsRefused) {
  hub_.on("/api/models/owner/model/revision/main", [](const HubRequest&) {
    return HubReply{200, {}, R"({"sha": "../../../x", "siblings": []})", {}};
  });
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCorrupt);
}

TEST_F(Pull, AnswersThatAreNoListingAreErrors) {
  for (const std::string body : {"", "<html>", "[]", "{}", R"({"sha": 5})",
                                 R"({"sha": ")"
                                 "aaaa"
                                 R"("})"}) {
    hub_.on("/api/models/owner/model/revision/main", [body](const HubRequest&) {
      return HubReply{200, {}, body, {}};
    });
    EXPECT_FALSE(pull().ok()) << body;
  }
}

TEST_F(Pull, CancelKeepsWhatHasArrived) {
  const auto stop = [](const HubProgress& now) {
    return now.file != "model.safetensors" || now.file_done == 0;
  };
  hub_.on("/storage/" + sha256(weights()), [](const HubRequest& request) {
    HubReply reply = ranged(request, weights());
    if (!request.has("range")) reply.cut_after = 60'000;
    return reply;
  });
  const auto path = pull("owner/model", stop);
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kCancelled);
  EXPECT_GT(fs::file_size(blob(sha256(weights()) + ".incomplete")), 0U);
}

TEST_F(Pull, OneGgufFileIsSelectedByItsFormat) {
  list({"README.md", "m-q4_k.gguf", "m-Q4_K_M.gguf", "m-q8_0.gguf"});
  hub_.add_linked_file(kFiles + "m-Q4_K_M.gguf", "GGUF...", "127.0.0.1");
  const auto path = pull("owner/model:q4_k_m");
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(*path, snapshot() / "m-Q4_K_M.gguf");
  EXPECT_EQ(content_of(*path), "GGUF...");
}

TEST_F(Pull, OtherRevisionsHaveTheirOwnRef) {
  list({"config.json", "model.safetensors"}, "refs%2Fpr%2F1");
  HubReference reference = HubReference::parse("owner/model").value();
  reference.revision = "refs/pr/1";
  const auto path = pull_model(reference, options_);
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(content_of(cache_ / "models--owner--model" / "refs" / "refs" / "pr" / "1"), kCommit);
  const auto found = find_cached_model(reference, cache_);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(*found, *path);
}

TEST_F(Pull, UnreachableHubSaysWhatStillWorks) {
  options_.endpoint = "http://127.0.0.1:1";
  const auto path = pull();
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, Code::kIo);
  EXPECT_NE(path.error().message.find("cannot be reached"), std::string::npos);
}

TEST_F(Pull, OfflineAsksNobody) {
  options_.offline = true;
  EXPECT_FALSE(pull().ok());
  EXPECT_TRUE(hub_.requests().empty());
}

}  // namespace
}  // namespace phidias::test
