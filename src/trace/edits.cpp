#include "phidias/edits.h"

#include <algorithm>

#include "base/try.h"

namespace phidias {
namespace {

TensorPointer shared(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }
TensorPointer shared(double number) {
  return shared(Tensor::of({}, std::vector<float>{static_cast<float>(number)}));
}

bool same(const TensorPointer& a, const TensorPointer& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

Edit bare(const ValueRef& value, EditOp op) {
  Edit edit;
  edit.value = value;
  edit.op = op;
  return edit;
}

}  // namespace

Operand::Operand(double number) : tensor(shared(number)) {}
Operand::Operand(float number) : Operand(static_cast<double>(number)) {}
Operand::Operand(int number) : Operand(static_cast<double>(number)) {}
Operand::Operand(std::vector<float> vector) {
  const uint64_t size = vector.size();
  tensor = shared(Tensor::of({size}, std::move(vector)));
}
Operand::Operand(Tensor whole) : tensor(shared(std::move(whole))) {}

Edit Edit::call(Positions seen_by) && {
  scope = EditScope::kCall;
  queries = std::move(seen_by);
  return std::move(*this);
}

Edit Edit::when(Tensor direction, double above) && {
  probe = shared(std::move(direction));
  threshold = above;
  return std::move(*this);
}

bool Edit::operator==(const Edit& other) const {
  return value == other.value && op == other.op && same(tensor, other.tensor) &&
         same(second, other.second) && from == other.from && position_map == other.position_map &&
         (autoencoder == other.autoencoder ||
          (autoencoder && other.autoencoder && *autoencoder == *other.autoencoder)) &&
         features == other.features && keep_error == other.keep_error &&
         coefficient == other.coefficient && low == other.low && high == other.high &&
         sigma == other.sigma && seed == other.seed && keep_norm == other.keep_norm &&
         scope == other.scope && queries == other.queries && lift == other.lift &&
         renormalize == other.renormalize && order == other.order && skip_from == other.skip_from &&
         skip_to == other.skip_to && same(probe, other.probe) && threshold == other.threshold &&
         !callback && !other.callback;
}

Edit make_edit(const ValueRef& value, EditOp op, const Operand& operand) {
  Edit edit = bare(value, operand.hidden ? EditOp::kHide : op);
  if (operand.hidden) return edit;
  edit.coefficient = operand.coefficient;
  // A number needs no tensor beside the coefficient, and one way to write an edit is enough.
  if (op != EditOp::kClamp) edit.tensor = operand.tensor;
  edit.from = operand.from;
  if (op == EditOp::kScale && operand.tensor != nullptr && operand.tensor->shape.empty()) {
    edit.coefficient *= static_cast<double>(operand.tensor->floats.front());
    edit.tensor = nullptr;
  }
  return edit;
}

Edit zero(const ValueRef& value) { return bare(value, EditOp::kZero); }
Edit project_out(const ValueRef& value, Tensor directions) {
  Edit edit = bare(value, EditOp::kProjectOut);
  edit.tensor = shared(std::move(directions));
  return edit;
}
Edit keep_only(const ValueRef& value, Tensor directions) {
  Edit edit = bare(value, EditOp::kKeepOnly);
  edit.tensor = shared(std::move(directions));
  return edit;
}
Edit swap_subspace(const ValueRef& value, Tensor directions, Tensor source) {
  Edit edit = bare(value, EditOp::kSwapSubspace);
  edit.tensor = shared(std::move(source));
  edit.second = shared(std::move(directions));
  return edit;
}
Edit noise(const ValueRef& value, double sigma, uint64_t seed) {
  Edit edit = bare(value, EditOp::kNoise);
  edit.sigma = sigma;
  edit.seed = seed;
  return edit;
}
Edit low_rank(const ValueRef& value, Tensor a, Tensor b) {
  Edit edit = bare(value, EditOp::kLowRank);
  edit.tensor = shared(std::move(a));
  edit.second = shared(std::move(b));
  return edit;
}
Edit edit_sae(const ValueRef& value, AutoencoderPointer autoencoder,
              std::vector<FeatureEdit> features, bool keep_error) {
  Edit edit = bare(value, EditOp::kSae);
  edit.autoencoder = std::move(autoencoder);
  edit.features = std::move(features);
  edit.keep_error = keep_error;
  return edit;
}
Edit hide(const ValueRef& scores) { return bare(scores, EditOp::kHide); }
Edit only(const ValueRef& scores) { return bare(scores, EditOp::kOnly); }
Edit uniform(const ValueRef& probabilities) { return bare(probabilities, EditOp::kUniform); }

Edit steer(int32_t layer, Tensor vector, double coefficient, Positions at, bool keep_norm) {
  Edit edit = bare(kValues.layers[layer].layer_output.at(std::move(at)), EditOp::kSteer);
  edit.tensor = shared(std::move(vector));
  edit.coefficient = coefficient;
  edit.keep_norm = keep_norm;
  return edit;
}

Edit skip_layers(int32_t from, int32_t to) {
  Edit edit = bare(kValues.layers[from].layer_input, EditOp::kSkip);
  edit.skip_from = from;
  edit.skip_to = to;
  return edit;
}

Edit on_live(const ValueRef& value, EditCallback callback) {
  Edit edit = bare(value, EditOp::kCallback);
  edit.callback = std::move(callback);
  return edit;
}

Edit patch(const ValueRef& value, RunValue source, PositionMap position_map) {
  Edit edit = bare(value, EditOp::kSet);
  edit.from = std::move(source);
  edit.position_map = std::move(position_map);
  return edit;
}

Edits patch(const ValueRef& value, const Tensor& source,
            std::span<const std::pair<int64_t, int64_t>> position_map) {
  Edits edits;
  // The seq axis is second, or third behind the heads.
  const auto axes = axes_of(info_of(value.id).layout);
  const auto seq = static_cast<size_t>(
      std::find_if(axes.begin(), axes.end(),
                   [](std::string_view axis) { return axis == "seq" || axis == "query"; }) -
      axes.begin());
  PHIDIAS_ASSERT(seq < source.shape.size() && source.shape.size() == axes.size());
  uint64_t outer = 1;
  uint64_t inner = 1;
  for (size_t a = 0; a < seq; ++a) outer *= source.shape[a];
  for (size_t a = seq + 1; a < source.shape.size(); ++a) inner *= source.shape[a];
  for (const auto& [from, to] : position_map) {
    PHIDIAS_ASSERT(from >= 0 && static_cast<uint64_t>(from) < source.shape[seq]);
    Tensor row{TensorType::kF32, source.shape, {}, {}};
    row.shape[seq] = 1;
    for (uint64_t o = 0; o < outer; ++o) {
      const auto begin =
          source.floats.begin() +
          static_cast<ptrdiff_t>((o * source.shape[seq] + static_cast<uint64_t>(from)) * inner);
      row.floats.insert(row.floats.end(), begin, begin + static_cast<ptrdiff_t>(inner));
    }
    Edit edit = bare(value, EditOp::kSet);
    edit.value.selection.at = Positions(to);
    edit.tensor = shared(std::move(row));
    edits += std::move(edit);
  }
  return edits;
}

View View::select(std::string_view axis, size_t index) const {
  const auto axes = axes_of(layout).subspan(1);
  size_t at = axes.size();
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a] == axis) at = a;
  }
  PHIDIAS_ASSERT(at < shape.size() && index < shape[at]);
  // The axis stays, with one entry, so that names keep their places.
  View part = *this;
  part.data += index * strides[at];
  part.shape[at] = 1;
  return part;
}

View View::head(size_t index) const {
  const bool key_value = layout == Layout::kKeys || layout == Layout::kValues;
  return select(key_value ? "num_kv_heads" : "num_heads", index);
}
View View::row(size_t index) const {
  return select(layout == Layout::kPattern ? "query" : "seq", index);
}
View View::key(size_t index) const { return select("key", index); }

void View::for_each(const std::function<void(float&)>& visit) const {
  std::vector<size_t> index(shape.size());
  for (const size_t extent : shape) {
    if (extent == 0) return;
  }
  while (true) {
    float* at = data;
    for (size_t a = 0; a < shape.size(); ++a) at += index[a] * strides[a];
    visit(*at);
    size_t a = shape.size();
    while (a > 0 && ++index[a - 1] == shape[a - 1]) index[--a] = 0;
    if (a == 0) return;
  }
}

void View::fill(float value) const {
  for_each([value](float& entry) { entry = value; });
}

void View::add(std::span<const float> vector, float factor) const {
  PHIDIAS_ASSERT(!shape.empty() && vector.size() == shape.back());
  View first = *this;
  first.shape.back() = 1;
  first.for_each([&](float& entry) {
    for (size_t i = 0; i < vector.size(); ++i) (&entry)[i * strides.back()] += factor * vector[i];
  });
}

std::vector<float> View::copy() const {
  std::vector<float> entries;
  for_each([&](float& entry) { entries.push_back(entry); });
  return entries;
}

void View::normalize() const {
  View rows = *this;
  const size_t count = rows.shape.back();
  const size_t stride = rows.strides.back();
  rows.shape.back() = 1;
  rows.for_each([&](float& first) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += static_cast<double>((&first)[i * stride]);
    if (sum == 0) return;
    for (size_t i = 0; i < count; ++i) {
      (&first)[i * stride] = static_cast<float>(static_cast<double>((&first)[i * stride]) / sum);
    }
  });
}

float& View::operator()(std::initializer_list<size_t> index) const {
  PHIDIAS_ASSERT(index.size() == shape.size());
  float* at = data;
  size_t a = 0;
  for (const size_t i : index) {
    PHIDIAS_ASSERT(i < shape[a]);
    at += i * strides[a++];
  }
  return *at;
}

}  // namespace phidias
