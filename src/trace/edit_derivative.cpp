#include "trace/edit_derivative.h"

#include <algorithm>
#include <numeric>

#include "base/try.h"

namespace phidias {
namespace {

// Why the gradient cannot pass an edit; empty where it can.
std::string_view obstacle(const Edit& edit) {
  if (edit.op == EditOp::kSkip) return "skips layers";
  if (edit.op == EditOp::kCallback) return "is a function";
  if (edit.op == EditOp::kClamp) return "clamps";
  if (edit.op == EditOp::kSae) return "goes through an autoencoder";
  if (edit.keep_norm) return "keeps the norm";
  if (edit.renormalize) return "renormalizes";
  if (edit.probe != nullptr) return "depends on a probe";
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
                   "gradients pass linear edits alone; this one " + std::string(why),
                   {{}, {}, "edit " + std::to_string(number + 1)}};
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

void EditDerivatives::visit(Site site, size_t layer, const SiteRows& gradient) {
  each(site, layer, [&](const EditProgram& program) { program.differentiate(gradient); });
}

void EditDerivatives::visit_pattern(Site site, size_t layer, size_t head,
                                    const SiteRows& gradient) {
  each(site, layer, [&](const EditProgram& program) { program.differentiate(head, gradient); });
}

void EditProgram::differentiate(const SiteRows& gradient) const {
  std::vector<float> entries;
  for (size_t r = 0; r < gradient.rows; ++r) {
    const size_t position = gradient.position + r;
    const size_t index = at_.index(position);
    if (index == PositionSet::kNone) continue;
    float* row = gradient.data + r * gradient.stride + segment_.offset;
    for (size_t g = 0; g < heads_.size(); ++g) {
      differentiate_lane({row + heads_[g] * segment_.group_stride, segment_.inner_stride, position,
                          index, g, heads_[g], segment_.inner, nullptr},
                         entries);
    }
  }
}

void EditProgram::differentiate(size_t head, const SiteRows& gradient) const {
  std::vector<float> entries;
  for_each_selected(head, gradient, [&](const Lane& lane) { differentiate_lane(lane, entries); });
}

void EditProgram::differentiate_lane(const Lane& lane, std::vector<float>& x) const {
  x.resize(entry_count_);
  for (size_t i = 0; i < x.size(); ++i) x[i] = lane.data[entry(i) * lane.stride];
  switch (edit_->op) {
    case EditOp::kSet:
    case EditOp::kZero:
    case EditOp::kMean:
    case EditOp::kHide:
    case EditOp::kUniform:
      std::fill(x.begin(), x.end(), 0.0F);
      break;
    case EditOp::kScale:
    case EditOp::kProjectOut:
    case EditOp::kKeepOnly:
      change(lane, x);  // these maps are their own transposes
      break;
    case EditOp::kSwapSubspace: {
      std::vector<double> kept(x.begin(), x.end());
      for (const std::vector<double>& direction : basis_) {
        const double along = std::inner_product(x.begin(), x.end(), direction.begin(), 0.0);
        for (size_t i = 0; i < x.size(); ++i) kept[i] -= along * direction[i];
      }
      std::transform(kept.begin(), kept.end(), x.begin(),
                     [](double entry) { return static_cast<float>(entry); });
      break;
    }
    case EditOp::kLowRank: {
      const std::vector<float>& a = edit_->tensor->floats;
      const std::vector<float>& b = edit_->second->floats;
      const size_t rank = a.size() / x.size();
      std::vector<double> change(x.size());
      for (size_t r = 0; r < rank; ++r) {
        double inside = 0;
        for (size_t i = 0; i < x.size(); ++i)
          inside += static_cast<double>(b[i * rank + r]) * static_cast<double>(x[i]);
        for (size_t i = 0; i < x.size(); ++i)
          change[i] += inside * static_cast<double>(a[r * x.size() + i]);
      }
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(static_cast<double>(x[i]) + edit_->coefficient * change[i]);
      }
      break;
    }
    case EditOp::kAdd:
    case EditOp::kSteer:
    case EditOp::kNoise:
    case EditOp::kOnly:  // what it hides has no probability, so no gradient
    case EditOp::kClamp:
    case EditOp::kSae:
    case EditOp::kSkip:
    case EditOp::kCallback:
      return;
  }
  for (size_t i = 0; i < x.size(); ++i) lane.data[entry(i) * lane.stride] = x[i];
}

}  // namespace phidias
