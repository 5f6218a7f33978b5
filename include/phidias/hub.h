// Models by name: downloaded from a hub that speaks Hugging Face's protocol, kept in the cache
// layout that its other clients use, and found there again. Nothing here runs a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"

namespace phidias {

// What a user writes: "owner/name", "owner/name:Q4_K_M", "owner/name:model-q4.gguf".
struct HubReference {
  std::string repository;  // "owner/name"; the owner may be missing for old repositories and in
                           // cache lookups
  std::string selector;  // what stands after the colon: part of a .gguf file's name, or any file's
                         // whole path
  std::string revision = "main";  // a branch, a tag or a commit

  // Errors: kInvalidArgument for what cannot be a name on a hub.
  static Result<HubReference> parse(std::string_view text);
};

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;  // the folder that holds models--owner--name/
  std::string token;            // sent to the endpoint's own host only; empty: none
  bool offline = false;         // refuse to use the network
  int attempts = 5;             // tries in a row that may bring no byte, per file
  int first_wait_ms = 500;      // before the second try; doubled each time

  // HF_ENDPOINT; HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub; HF_TOKEN, else the
  // file HF_TOKEN_PATH, else HF_HOME/token; HF_HUB_OFFLINE.
  static HubOptions from_environment();
};

struct HubProgress {
  std::string file;        // being downloaded
  uint64_t file_done = 0;  // bytes; includes what an earlier, interrupted run left
  uint64_t file_total = 0;
  uint64_t done = 0;  // bytes of all files
  uint64_t total = 0;
};

// Called often, on the calling thread. False ends the download with kCancelled; what has arrived is
// kept and a later pull goes on from there.
using HubProgressCallback = std::function<bool(const HubProgress&)>;

// Downloads what is needed to run a model and not in the cache yet: configs, tokenizer, template
// and safetensors, or the one .gguf file that the reference selects. Files are checked by size and
// checksum before they count as downloaded.
//   returns  what to load: the snapshot's folder, or the .gguf file in it
//   errors   kNotFound (no such repository, revision or file), kInvalidArgument (several .gguf
//   files and none
//            selected, ...), kIo (network, status, disk; the message names the URL), kCorrupt
//            (checksum, size or an answer that no honest hub gives), kCancelled
//   threads  any; two pulls of the same file at once: the second one is refused with kIo
Result<std::filesystem::path> pull_model(const HubReference& reference, const HubOptions& options,
                                         const HubProgressCallback& progress = {});

// Looks a model up in the cache, without the network. The owner may be left out where the name
// alone is unambiguous.
//   returns  as pull_model
//   errors   kNotFound with the nearest names (five at most), kInvalidArgument (ambiguous)
Result<std::filesystem::path> find_cached_model(const HubReference& reference,
                                                const std::filesystem::path& cache);

// "owner/name" of every model in the cache, ascending. Empty where there is no cache.
std::vector<std::string> cached_models(const std::filesystem::path& cache);

}  // namespace phidias
