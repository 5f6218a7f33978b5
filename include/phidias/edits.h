// Changes of named values during a run, as plain data: composable, serialisable, the same in C++,
// in JSON and on the command line.
//
//   Edits edits;
//   edits += kValues.layers[3].self_attn.attention_head_outputs.head(7) = 0.0F;
//   edits += kValues.layers[12].layer_output.at(kDecode) += 4.0F * vector;
//   edits += kValues.layers[0].self_attn.attention_scores.key(0) = kHidden;
//   edits += kValues.layers[20].mlp.mlp_neurons.neuron(411).clamp(0, 2);
//
// What an edit means: it applies to its positions whenever these are computed, in prompts, chunks
// and single steps alike; edits of one value apply in list order; later values and, through the
// cache, later positions see it, earlier positions never do. Writing `layer_mid` (or `layer_input`)
// changes the stream, so both branches; writing `mlp_norm_output` changes the MLP's branch only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phidias/autoencoder.h"
#include "phidias/status.h"
#include "phidias/tensors.h"
#include "phidias/values.h"

namespace phidias {

enum class EditOp : uint8_t {
  kSet,    // tensor
  kAdd,    // + coefficient * tensor
  kScale,  // * coefficient, times the tensor where there is one
  kZero,
  kMean,          // the mean of the tensor over its leading axes
  kProjectOut,    // the part along the tensor's rows [k, n] is removed
  kKeepOnly,      // all but that part is removed
  kSwapSubspace,  // that part (rows of `second`) is taken from the tensor
  kSteer,         // + coefficient * tensor; with keep_norm the vector's norm stays
  kClamp,         // to [low, high]
  kNoise,         // + sigma * a normal draw that depends on seed, position and channel alone
  kLowRank,       // x + B (A x): tensor A [r, n], second B [n, r]
  kHide,          // scores: the key is treated as masked
  kOnly,          // scores: every other key is hidden
  kUniform,       // probabilities: equal weight on every visible key
  kSae,           // features of an autoencoder are changed
  kSkip,          // layers [from, to] hand the stream through
  kCallback,      // code; not serialisable
};

// By the names that JSON has: "set", "project_out". Errors: kInvalidArgument with those there are.
Result<EditOp> parse_edit_op(std::string_view name);
// "callback" for what no data can express.
std::string_view name_of(EditOp op);

// Where an edit of keys or values acts.
enum class EditScope : uint8_t {
  kCache,  // what the cache holds: every later query sees it
  kCall,   // a copy that the queries `queries` see; the cache keeps the unedited vector
};

// Where in the run a callback is.
struct Where {
  ValueId value;
  size_t layer = 0;
  uint32_t position = 0;  // of the view's first row
  size_t rows = 0;
  uint32_t epoch = 0;  // how often these positions were run before (LongRoPE's reprefill)
  std::span<const TokenId> tokens;  // of the sequence, up to the end of these rows
  // Setting it ends the run: Trace::run() then fails with kCancelled, an answer finishes with it.
  // Null while an image is encoded.
  bool* cancel = nullptr;
};

// Live rows of a value: the engine's memory, writable, with strides in floats. Valid during the
// callback alone. Shape and axes are those of the value's layout, the batch axis left out.
struct View {
  float* data = nullptr;
  Layout layout = Layout::kResidual;
  std::vector<size_t> shape;
  std::vector<size_t> strides;

  // The part at one index of an axis, by its name ("num_heads", "seq", "query", "key", ...); heads
  // of keys and values likewise. An index that is out of range is our caller's mistake: it ends the
  // process.
  View select(std::string_view axis, size_t index) const;
  View head(size_t index) const;
  View row(size_t index) const;  // of seq or query
  View key(size_t index) const;
  void fill(float value) const;
  // Every vector along the last axis plus factor times `vector`, which is as long. One of another
  // length ends the process, as an index out of range does.
  void add(std::span<const float> vector, float factor = 1) const;
  // Every vector along the last axis is divided by its sum.
  void normalize() const;
  float& operator()(std::initializer_list<size_t> index) const;
  // All entries, in row-major order.
  void for_each(const std::function<void(float&)>& visit) const;
  std::vector<float> copy() const;
};
using EditCallback = std::function<void(const View& view, const Where& where)>;

// A value of another run of the same document (phidias/runs.h), in place of a tensor.
struct RunValue {
  std::string run;
  ValueRef value;
  bool operator==(const RunValue&) const = default;
};
// (from, to): the position in the other run, and that which is edited.
using PositionMap = std::vector<std::pair<int64_t, int64_t>>;

class Edit {
 public:
  ValueRef value;
  EditOp op = EditOp::kZero;
  TensorPointer tensor;  // broadcast from the right against the selected part, page's layout
  TensorPointer second;
  std::optional<RunValue> from;       // what `tensor` will be
  PositionMap position_map;           // with `from`: these positions, one for one
  AutoencoderPointer autoencoder;     // kSae: of whole vectors of the value's last axis
  std::vector<FeatureEdit> features;  // each feature once
  bool keep_error = true;             // what the autoencoder does not see stays
  double coefficient = 1;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double sigma = 0;
  uint64_t seed = 0;
  bool keep_norm = false;
  EditScope scope = EditScope::kCache;  // of keys and values
  Positions queries;                    // with EditScope::kCall
  bool lift = false;                    // scores, probabilities: hidden entries may be un-hidden
  bool renormalize = false;             // probabilities: rows sum to 1 afterwards
  int32_t order = 0;      // among the edits of one value: lower first, then list order
  int32_t skip_from = 0;  // kSkip
  int32_t skip_to = 0;
  // Only where the dot product of the vector (last axis) with `probe` exceeds `threshold`.
  TensorPointer probe;
  double threshold = 0;
  EditCallback callback;

  // Qualifiers, to be chained behind an assignment.
  Edit call(Positions seen_by = {}) &&;
  Edit lifted() && { return lift = true, std::move(*this); }
  Edit renormalized() && { return renormalize = true, std::move(*this); }
  Edit when(Tensor direction, double above) &&;
  bool operator==(const Edit& other) const;  // operands by content, callbacks never equal
};

struct Hidden {};
inline constexpr Hidden kHidden;

// What stands on the right of an assignment.
class Operand {
 public:
  Operand(double number);              // NOLINT(google-explicit-constructor)
  Operand(float number);               // NOLINT(google-explicit-constructor)
  Operand(int number);                 // NOLINT(google-explicit-constructor)
  Operand(std::vector<float> vector);  // NOLINT(google-explicit-constructor): along the last axis
  Operand(Tensor tensor);              // NOLINT(google-explicit-constructor)
  Operand(TensorPointer stored) : tensor(std::move(stored)) {}  // NOLINT
  Operand(Hidden) : hidden(true) {}                    // NOLINT(google-explicit-constructor)
  Operand(RunValue other) : from(std::move(other)) {}  // NOLINT(google-explicit-constructor)

  TensorPointer tensor;
  std::optional<RunValue> from;
  double coefficient = 1;
  bool hidden = false;
};
inline Operand operator*(double coefficient, Operand operand) {
  operand.coefficient *= coefficient;
  return operand;
}

Edit make_edit(const ValueRef& value, EditOp op, const Operand& operand);

// A list, in order.
class Edits {
 public:
  Edits() = default;
  Edits(std::initializer_list<Edit> edits) : list_(edits) {}
  Edits& operator+=(Edit edit) { return list_.push_back(std::move(edit)), *this; }
  Edits& operator+=(const Edits& edits) {
    list_.insert(list_.end(), edits.list_.begin(), edits.list_.end());
    return *this;
  }
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  const Edit& operator[](size_t index) const { return list_[index]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  bool operator==(const Edits&) const = default;

 private:
  std::vector<Edit> list_;
};

// Ready-made edits.
Edit zero(const ValueRef& value);
Edit project_out(const ValueRef& value, Tensor directions);
Edit keep_only(const ValueRef& value, Tensor directions);
Edit swap_subspace(const ValueRef& value, Tensor directions, Tensor source);
Edit noise(const ValueRef& value, double sigma, uint64_t seed);
Edit low_rank(const ValueRef& value, Tensor a, Tensor b);
Edit edit_sae(const ValueRef& value, AutoencoderPointer autoencoder,
              std::vector<FeatureEdit> features, bool keep_error = true);
Edit hide(const ValueRef& scores);
Edit only(const ValueRef& scores);
Edit uniform(const ValueRef& probabilities);
Edit steer(int32_t layer, Tensor vector, double coefficient, Positions at = {},
           bool keep_norm = false);
Edit skip_layers(int32_t from, int32_t to);
Edit on_live(const ValueRef& value, EditCallback callback);
// The positions (source, target) of another run's value, whole as it was read from position 0.
Edits patch(const ValueRef& value, const Tensor& source,
            std::span<const std::pair<int64_t, int64_t>> position_map);
// The same of a run that is named. Of several layers each takes its own, or all take the one.
Edit patch(const ValueRef& value, RunValue source, PositionMap position_map = {});

// JSON: a list of objects {"value", "op", "at", ...}; the keys are the names of the qualifiers and
// of the operations' arguments. A tensor is a number, nested lists, {"run": "clean", "value":
// "layers[3].layer_output"}, or, where `files` allows it, {"file": "v.safetensors", "name": "v"}.
// Errors: kInvalidArgument with the JSON path.
enum class TensorFiles : uint8_t { kRefused, kAllowed };
Result<Edits> edits_from_json(std::string_view json, TensorFiles files = TensorFiles::kRefused,
                              const std::string& file = {});
// Errors: kUnsupported for a callback.
Result<std::string> to_json(const Edits& edits);
// One line: `layers[12].layer_output[at=decode] += 4 * joy.gguf`, `... = 0`, `... *= 0.5`,
// `... = hidden`, `... = uniform`, `... clamp 0 0.05`, `skip 3 5`; `@ decode` behind it is
// [at=decode]. A file is a safetensors file or a control vector (GGUF); `file:name` names the
// tensor.
Result<Edits> edits_from_line(std::string_view line, TensorFiles files = TensorFiles::kRefused);

template <Layout kLayout>
Edit Value<kLayout>::operator=(const Operand& operand) const {
  return make_edit(ref_, EditOp::kSet, operand);
}
template <Layout kLayout>
Edit Value<kLayout>::operator+=(const Operand& operand) const {
  return make_edit(ref_, EditOp::kAdd, operand);
}
template <Layout kLayout>
Edit Value<kLayout>::operator-=(const Operand& operand) const {
  return make_edit(ref_, EditOp::kAdd, -1.0 * operand);
}
template <Layout kLayout>
Edit Value<kLayout>::operator*=(const Operand& operand) const {
  return make_edit(ref_, EditOp::kScale, operand);
}
template <Layout kLayout>
Edit Value<kLayout>::clamp(double low, double high) const {
  Edit edit = make_edit(ref_, EditOp::kClamp, Operand(0.0));
  edit.low = low;
  edit.high = high;
  return edit;
}

}  // namespace phidias
