#include "trace/edit_derivative.h"

#include <algorithm>
#include <numeric>

#include "base/try.h"

namespace phidias {
namespace {

// Why the gradient cannot pass an edit; empty where it can.
std::string_view obstacle(const Edit& edit) {
  if (edit.op == EditOp::kCallback) return "is a function";
  if (edit.scope == EditScope::kCall) return "has scope \"call\"";
  return {};
}

bool before_the_network(ValueId id) {
  return id == ValueId::kInputIds || id == ValueId::kAttentionMask;
}

}  // namespace

Result<EditDerivatives> EditDerivatives::compile(const Edits& edits, const RequestShape& request) {
  EditDerivatives derivatives;
  derivatives.masks_.resize(request.spec->layers);
  std::vector<size_t> order(edits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return edits[a].order < edits[b].order; });
  for (const size_t number : order) {
    const Edit& edit = edits[number];
    if (const std::string_view why = obstacle(edit); !why.empty()) {
      return Error{Code::kUnsupported,
                   "gradients do not pass this edit, which " + std::string(why),
                   {{}, {}, "edit " + std::to_string(number + 1)}};
    }
    if (edit.op == EditOp::kSkip) {
      PHIDIAS_TRY(const SkipRange layers, resolve_skip(edit, number, *request.spec));
      Skip skip{layers, {}, {}};
      PHIDIAS_TRY(skip.at,
                  PositionSet::resolve(edit.value.selection.at, request.prompt, request.rows,
                                       "edit " + std::to_string(number + 1) + ", skip"));
      derivatives.masks_[layers.from] |= mask_of(Site::kLayerInput);
      derivatives.masks_[layers.to] |= mask_of(Site::kLayerOutput);
      derivatives.skips_.push_back(std::move(skip));
      continue;
    }
    if (before_the_network(edit.value.id)) continue;
    PHIDIAS_TRY(const auto layers, resolve_layers(edit.value, *request.spec));
    for (const size_t layer : layers) {
      PHIDIAS_TRY(auto program, EditProgram::compile(edit, number, layer, request));
      const SiteMask site = mask_of(source_of(edit.value.id).site);
      if ((kModelSites & site) != 0) {
        for (SiteMask& mask : derivatives.masks_) mask |= site;
      } else {
        derivatives.masks_[layer] |= site;
      }
      derivatives.programs_.push_back(std::move(program));
    }
  }
  return derivatives;
}

// The last edit comes first.
template <class Apply>
void EditDerivatives::each(Site site, size_t layer, Apply apply) const {
  for (size_t i = programs_.size(); i-- > 0;) {
    const EditProgram& program = programs_[i];
    if (source_of(program.id()).site == site && program.layer() == layer) apply(program);
  }
}

uint64_t EditDerivatives::record_bytes() const {
  uint64_t bytes = 0;
  for (const EditProgram& program : programs_) bytes += program.record_bytes();
  return bytes;
}

void EditDerivatives::receive(Site site, size_t layer, const SiteRows& gradient) {
  if (site != Site::kLayerInput) return;
  for (const Skip& skip : skips_) {
    if (skip.layers.from != layer || skip.gradient.empty()) continue;
    for (size_t r = 0; r < gradient.rows; ++r) {
      if (skip.at.index(gradient.position + r) == PositionSet::kNone) continue;
      const float* handed = skip.gradient.data() + r * gradient.width;
      for (size_t i = 0; i < gradient.width; ++i)
        gradient.data[r * gradient.stride + i] += handed[i];
    }
  }
}

void EditDerivatives::visit(Site site, size_t layer, const SiteRows& gradient) {
  each(site, layer, [&](const EditProgram& program) { program.differentiate(gradient); });
  if (site != Site::kLayerOutput) return;
  for (size_t i = skips_.size(); i-- > 0;) {  // the last one has replaced what others handed on
    Skip& skip = skips_[i];
    if (skip.layers.to != layer) continue;
    skip.gradient.assign(gradient.rows * gradient.width, 0.0F);
    for (size_t r = 0; r < gradient.rows; ++r) {
      if (skip.at.index(gradient.position + r) == PositionSet::kNone) continue;
      float* row = gradient.data + r * gradient.stride;
      std::copy_n(row, gradient.width, skip.gradient.data() + r * gradient.width);
      std::fill_n(row, gradient.width, 0.0F);
    }
  }
}

void EditDerivatives::visit_pattern(Site site, size_t layer, size_t head,
                                    const SiteRows& gradient) {
  each(site, layer, [&](const EditProgram& program) { program.differentiate(head, gradient); });
}

}  // namespace phidias
