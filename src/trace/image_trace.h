// What somebody wants to see and change of the encoding of one image.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/spec.h"
#include "phidias/image.h"
#include "phidias/trace.h"
#include "trace/collector.h"
#include "trace/edit_program.h"

namespace phidias {

// Each tile is a pass of its own over the positions of a tile; what is read of it is appended along
// the first axis. What the image has one of is one pass over its tokens.
class ImageTrace {
 public:
  // The spec must outlive the trace. Errors: kInvalidArgument and kUnsupported with the place of
  // the read or edit.
  static Result<ImageTrace> compile(std::vector<Read> reads, const Edits& edits,
                                    const ModelSpec& spec);

  // An ImageTap. What it cannot do it remembers in status() and does nothing from then on.
  void visit(const ImageView& view);
  const Status& status() const { return status_; }
  Traced take() &&;

 private:
  struct Kept {
    size_t read;
    ValueId id;
    size_t layer;
    std::optional<Tensor> tensor;
  };
  struct WantedEdit {
    Edit edit;
    size_t number;
    size_t layer;
    std::optional<EditProgram> program;  // once the number of rows is known
  };

  Status add_read(size_t number);
  Status add_edit(const Edit& edit, size_t number);
  Status pass(const ImageView& view);
  Status collect(Kept& kept, const SiteRows& rows) const;

  const ModelSpec* spec_ = nullptr;
  std::vector<Read> reads_;
  std::vector<Kept> kept_;         // by read, then by layer
  std::vector<WantedEdit> edits_;  // in the order in which they are applied
  size_t edit_count_ = 0;
  Status status_;
};

}  // namespace phidias
