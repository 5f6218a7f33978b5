// The cache on disk, as other clients of the hub lay it out:
//   models--owner--name/blobs/<etag>                  contents
//   models--owner--name/refs/<revision>               a commit, as text
//   models--owner--name/snapshots/<commit>/<file>     links into blobs/
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "phidias/hub.h"

namespace phidias {

// The folder of one repository. Pure path arithmetic; the arguments must have been checked
// (reference.h).
class CachedRepository {
 public:
  CachedRepository(const std::filesystem::path& cache, std::string_view repository);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path blob(const std::string& etag) const { return root_ / "blobs" / etag; }
  std::filesystem::path ref(const std::string& revision) const { return root_ / "refs" / revision; }
  std::filesystem::path snapshot(const std::string& commit) const {
    return root_ / "snapshots" / commit;
  }

  // The commit that a revision stands for here: what refs/ says, or the revision itself where it is
  // a commit with a snapshot. For "main" without a ref: the newest snapshot there is.
  std::optional<std::string> commit_of(const std::string& revision) const;

  // Makes snapshots/<commit>/<file> a link to blobs/<etag>, replacing what is there. Errors: kIo.
  Status link(const std::string& commit, const std::string& file, const std::string& etag) const;
  // Writes refs/<revision>. Errors: kIo.
  Status set_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path root_;
};

}  // namespace phidias
