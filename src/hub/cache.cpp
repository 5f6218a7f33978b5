#include "hub/cache.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <numeric>
#include <set>

#include "base/ascii.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "hub/reference.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr size_t kSuggestions = 5;

std::string name_part(const std::string& repository) {
  return repository.substr(repository.rfind('/') + 1);
}

// The number of letters to insert, delete or replace between two words.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The names nearest to `wanted`, best first; only those that could be meant.
std::vector<std::string> near_misses(const std::string& wanted,
                                     const std::vector<std::string>& names) {
  const std::string word = ascii_lower(name_part(wanted));
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& name : names) {
    const std::string candidate = ascii_lower(name_part(name));
    const bool contains =
        candidate.find(word) != std::string::npos || word.find(candidate) != std::string::npos;
    const size_t distance = contains ? 0 : edit_distance(word, candidate);
    if (distance <= std::max<size_t>(2, word.size() / 2)) ranked.emplace_back(distance, name);
  }
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > kSuggestions) ranked.resize(kSuggestions);
  std::vector<std::string> out;
  for (auto& [distance, name] : ranked) out.push_back(std::move(name));
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

Error not_found(const std::string& wanted, const std::vector<std::string>& names,
                const fs::path& cache) {
  const std::vector<std::string> near = near_misses(wanted, names);
  std::string message = "no such model in the cache";
  if (!near.empty()) message += "; did you mean " + joined(near) + "?";
  message += near.empty() ? ";" : "";
  message += wanted.find('/') != std::string::npos ? " `phidias pull " + wanted + "` downloads it"
                                                   : " `phidias pull OWNER/NAME` downloads one";
  return {Code::kNotFound, message, {cache.string(), {}, wanted}};
}

// Files of a snapshot, relative to it, ascending. A link whose blob is gone does not count.
std::vector<std::string> snapshot_files(const fs::path& snapshot) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(snapshot, ignored), end; at != end;
       at.increment(ignored)) {
    if (ignored) break;
    if (at->is_regular_file(ignored))
      files.push_back(at->path().lexically_relative(snapshot).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

CachedRepository::CachedRepository(const fs::path& cache, std::string_view repository) {
  std::string folder(kPrefix);
  for (const char c : repository) folder += c == '/' ? std::string("--") : std::string(1, c);
  root_ = cache / folder;
}

std::optional<std::string> CachedRepository::commit_of(const std::string& revision) const {
  std::error_code ignored;
  if (check_file_name(revision).ok()) {
    Result<std::string> text = read_text_file(ref(revision), 256);
    if (text.ok()) {
      while (!text->empty() && std::isspace(static_cast<unsigned char>(text->back())) != 0)
        text->pop_back();
      if (check_commit(*text).ok() && fs::is_directory(snapshot(*text), ignored)) return *text;
    }
  }
  if (check_commit(revision).ok() && fs::is_directory(snapshot(revision), ignored)) return revision;
  if (revision != "main") return std::nullopt;

  std::optional<std::string> newest;
  fs::file_time_type newest_time{};
  for (fs::directory_iterator at(root_ / "snapshots", ignored), end; at != end;
       at.increment(ignored)) {
    if (ignored) break;
    const fs::file_time_type time = at->last_write_time(ignored);
    if (!newest || time > newest_time) {
      newest = at->path().filename().string();
      newest_time = time;
    }
  }
  return newest;
}

Status CachedRepository::link(const std::string& commit, const std::string& file,
                              const std::string& etag) const {
  const fs::path place = snapshot(commit) / file;
  std::error_code fault;
  fs::create_directories(place.parent_path(), fault);
  if (!fault) {
    fs::remove(place, fault);
    fs::create_symlink(blob(etag).lexically_relative(place.parent_path()), place, fault);
  }
  if (!fault) return {};
  return Error{Code::kIo, "cannot be created (" + fault.message() + ")", {place.string(), {}, {}}};
}

Status CachedRepository::set_ref(const std::string& revision, const std::string& commit) const {
  const fs::path place = ref(revision);
  std::error_code ignored;
  fs::create_directories(place.parent_path(), ignored);
  std::ofstream out(place, std::ios::trunc);
  out << commit;
  out.close();
  if (out) return {};
  return Error{Code::kIo, "cannot be written", {place.string(), {}, {}}};
}

std::vector<std::string> cached_models(const fs::path& cache) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator at(cache, ignored), end; at != end; at.increment(ignored)) {
    if (ignored) break;
    std::string folder = at->path().filename().string();
    if (!folder.starts_with(kPrefix) || !at->is_directory(ignored)) continue;
    folder.erase(0, kPrefix.size());
    const size_t separator = folder.find("--");
    if (separator != std::string::npos) folder.replace(separator, 2, "/");
    names.push_back(std::move(folder));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<fs::path> find_cached_model(const HubReference& reference, const fs::path& cache) {
  const std::vector<std::string> names = cached_models(cache);
  const std::string wanted = ascii_lower(reference.repository);
  const bool with_owner = wanted.find('/') != std::string::npos;
  std::set<std::string> matches;
  for (const std::string& name : names) {
    if (ascii_lower(name) == wanted || (!with_owner && ascii_lower(name_part(name)) == wanted))
      matches.insert(name);
  }
  if (matches.size() > 1 && matches.contains(reference.repository))
    matches = {reference.repository};
  if (matches.size() > 1) {
    return Error{Code::kInvalidArgument,
                 "several models in the cache have this name; write the owner too: " +
                     joined({matches.begin(), matches.end()}),
                 {cache.string(), {}, reference.repository}};
  }
  if (matches.empty()) return not_found(reference.repository, names, cache);

  HubReference found = reference;
  found.repository = *matches.begin();
  const CachedRepository repository(cache, found.repository);
  const std::optional<std::string> commit = repository.commit_of(found.revision);
  if (!commit) {
    return Error{Code::kNotFound,
                 "the cache holds no snapshot of revision \"" + found.revision +
                     "\"; `phidias pull " + found.repository + "` downloads one",
                 {repository.root().string(), {}, {}}};
  }
  const fs::path snapshot = repository.snapshot(*commit);
  const std::vector<std::string> files = snapshot_files(snapshot);
  Result<std::vector<std::string>> chosen = choose_files(files, found);
  if (chosen.ok()) {
    const std::string& only = chosen->front();
    return chosen->size() == 1 && is_gguf(only) ? snapshot / only : snapshot;
  }
  // A folder without weights is still one to tokenize with and to inspect.
  if (found.selector.empty() && std::find(files.begin(), files.end(), "config.json") != files.end())
    return snapshot;
  return std::move(chosen).error();
}

}  // namespace phidias
