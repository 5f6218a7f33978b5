#include "trace/image_trace.h"

#include <algorithm>

#include "base/try.h"

namespace phidias {
namespace {

bool is_at(const ImageView& view, ValueId id, size_t layer) {
  switch (id) {
    case ValueId::kPatchEmbeddings:
      return view.site == ImageSite::kEmbeddings;
    case ValueId::kBlockOutput:
      return view.site == ImageSite::kLayerOutput && view.layer == layer;
    case ValueId::kMergedPatches:
      return view.site == ImageSite::kMerged;
    default:
      return view.site == ImageSite::kFeatures;
  }
}

// Rows of a pass where they are known before an image is; 0 elsewhere.
size_t known_rows(ValueId id, const ModelSpec& spec) {
  return info_of(id).layout == Layout::kPatches ? spec.vision->positions() : 0;
}

// Positions are those of the rows of a pass, as in a prompt of so many tokens.
template <typename Compile>
auto with_shape(const ModelSpec& spec, size_t rows, Compile&& compile) {
  const std::vector<TokenId> prompt(rows);
  return compile(RequestShape{&spec, prompt, rows, rows});
}

Result<Collector> collector_of(const Read& read, size_t number, size_t layer, size_t rows,
                               const ModelSpec& spec) {
  return with_shape(spec, rows, [&](const RequestShape& shape) {
    return Collector::compile(read, number, layer, shape, CollectorContext{.spec = &spec});
  });
}

Result<EditProgram> program_of(const Edit& edit, size_t number, size_t layer, size_t rows,
                               const ModelSpec& spec) {
  return with_shape(spec, rows, [&](const RequestShape& shape) {
    return EditProgram::compile(edit, number, layer, shape);
  });
}

Status check_value(const ValueRef& value, const ModelSpec& spec, const std::string& place) {
  if (!of_images(value.id)) {
    return Error{Code::kInvalidArgument,
                 "is no value of an image's encoding; give it to Trace",
                 {{}, {}, place}};
  }
  if (const auto missing = missing_value(value.id, spec))
    return Error{Code::kUnsupported, *missing, {{}, {}, place}};
  return {};
}

void append(Tensor&& part, std::optional<Tensor>& whole) {
  if (!whole) {
    whole = std::move(part);
    return;
  }
  whole->floats.insert(whole->floats.end(), part.floats.begin(), part.floats.end());
  whole->shape.front() += part.shape.front();
}

}  // namespace

Result<ImageTrace> ImageTrace::compile(std::vector<Read> reads, const Edits& edits,
                                       const ModelSpec& spec) {
  ImageTrace trace;
  trace.spec_ = &spec;
  trace.reads_ = std::move(reads);
  trace.edit_count_ = edits.size();
  for (size_t i = 0; i < trace.reads_.size(); ++i) PHIDIAS_CHECK_OK(trace.add_read(i));
  for (size_t i = 0; i < edits.size(); ++i) PHIDIAS_CHECK_OK(trace.add_edit(edits[i], i));
  std::stable_sort(
      trace.edits_.begin(), trace.edits_.end(),
      [](const WantedEdit& a, const WantedEdit& b) { return a.edit.order < b.edit.order; });
  return trace;
}

Status ImageTrace::add_read(size_t number) {
  const Read& read = reads_[number];
  const std::string place = read.value.to_string();
  PHIDIAS_CHECK_OK(check_value(read.value, *spec_, place));
  if (read.moment == Read::Moment::kGradient)
    return Error{Code::kUnsupported, "gradients of images are not taken", {{}, {}, place}};
  PHIDIAS_TRY(const auto layers, resolve_layers(read.value, *spec_));
  for (const size_t layer : layers) {
    if (const size_t rows = known_rows(read.value.id, *spec_); rows > 0) {
      const auto fits = collector_of(read, number, layer, rows, *spec_);
      if (!fits.ok()) return fits.error();
    }
    kept_.push_back({number, read.value.id, layer, {}});
  }
  return {};
}

Status ImageTrace::add_edit(const Edit& edit, size_t number) {
  const std::string place = "edit " + std::to_string(number + 1) + ", " + edit.value.to_string();
  PHIDIAS_CHECK_OK(check_value(edit.value, *spec_, place));
  if (edit.op == EditOp::kSkip)
    return Error{Code::kInvalidArgument, "layers of the tower cannot be skipped", {{}, {}, place}};
  PHIDIAS_TRY(const auto layers, resolve_layers(edit.value, *spec_));
  for (const size_t layer : layers) {
    edits_.push_back({edit, number, layer, {}});
    if (const size_t rows = known_rows(edit.value.id, *spec_); rows > 0) {
      PHIDIAS_TRY(edits_.back().program, program_of(edit, number, layer, rows, *spec_));
    }
  }
  return {};
}

void ImageTrace::visit(const ImageView& view) {
  if (status_.ok()) status_ = pass(view);
}

Status ImageTrace::pass(const ImageView& view) {
  const SiteRows rows{view.data, view.rows, view.width, view.width, 0};
  const auto collect_at = [&](Read::Moment moment) -> Status {
    for (Kept& kept : kept_) {
      if (is_at(view, kept.id, kept.layer) && reads_[kept.read].moment == moment)
        PHIDIAS_CHECK_OK(collect(kept, rows));
    }
    return {};
  };
  PHIDIAS_CHECK_OK(collect_at(Read::Moment::kBefore));
  for (WantedEdit& wanted : edits_) {
    if (!is_at(view, wanted.edit.value.id, wanted.layer)) continue;
    if (!wanted.program) {
      PHIDIAS_TRY(wanted.program,
                  program_of(wanted.edit, wanted.number, wanted.layer, view.rows, *spec_));
    }
    wanted.program->apply(rows, {});
  }
  return collect_at(Read::Moment::kAfter);
}

Status ImageTrace::collect(Kept& kept, const SiteRows& rows) const {
  PHIDIAS_TRY(Collector collector,
              collector_of(reads_[kept.read], kept.read, kept.layer, rows.rows, *spec_));
  collector.allocate();
  collector.collect(rows);
  append(std::move(collector).take(rows.rows), kept.tensor);
  return {};
}

Traced ImageTrace::take() && {
  Traced traced;
  for (Kept& kept : kept_) {
    if (!kept.tensor) continue;
    traced.entries.push_back(
        {kept.read, value_name(kept.id, kept.layer), kept.layer, std::move(*kept.tensor)});
  }
  traced.edits.resize(edit_count_);
  for (const WantedEdit& wanted : edits_) {
    size_t& touched = traced.edits[wanted.number].rows;
    if (wanted.program) touched = std::max(touched, wanted.program->rows_touched());
  }
  return traced;
}

}  // namespace phidias
