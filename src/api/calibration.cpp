#include "api/calibration.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "api/model_impl.h"
#include "base/system_memory.h"
#include "base/try.h"
#include "engine/stepper.h"

namespace phidias {
namespace {

constexpr Site kInputs[] = {Site::kAttentionNormOutput, Site::kAttentionPremix, Site::kMlpInput,
                            Site::kMlpNeurons, Site::kFinalNormOutput};
constexpr uint32_t kHeadRows = 4;  // of so many positions one is taken for the head, which is large
constexpr size_t kGatheredRows = 512;  // of a site, before they are added to its moments

// Whole numbers are several times faster than floats on a text of this length, and what enters the
// matrices hardly differs.
constexpr std::string_view kRunAs = "q8_0";

// As kRunAs where the model is in floats that have rows for it.
Result<std::shared_ptr<const Model>> load_to_run(const std::filesystem::path& path,
                                                 size_t threads) {
  PHIDIAS_TRY(auto model, Model::load(path, {.weights = "file", .threads = threads}));
  const auto& types = model->info().weight_types;
  const bool floats = std::all_of(types.begin(), types.end(), [](const auto& type) {
    return format_row(*format_from_name(type.first)).block_values == 1;
  });
  if (!floats) return model;
  auto faster = Model::load(path, {.weights = std::string(kRunAs), .threads = threads});
  return faster.ok() ? std::move(faster) : Result<std::shared_ptr<const Model>>(std::move(model));
}

size_t input_index(Site site) {
  return static_cast<size_t>(std::find(std::begin(kInputs), std::end(kInputs), site) -
                             std::begin(kInputs));
}

size_t width_of(const ModelSpec& spec, Site site) {
  if (site == Site::kAttentionPremix) return spec.attention.query_width();
  if (site == Site::kMlpNeurons) return spec.experts ? 0 : spec.ffn_width;
  return spec.width;
}

}  // namespace

std::optional<Site> input_site(TensorRole role) {
  switch (role) {
    case TensorRole::kQkv:
    case TensorRole::kQueryKey:
    case TensorRole::kValue:
      return Site::kAttentionNormOutput;
    case TensorRole::kAttentionOutput:
      return Site::kAttentionPremix;
    case TensorRole::kGateUp:
      return Site::kMlpInput;
    case TensorRole::kDown:
      return Site::kMlpNeurons;
    case TensorRole::kHead:
      return Site::kFinalNormOutput;
    case TensorRole::kEmbedding:
    case TensorRole::kTower:
    case TensorRole::kOther:
      break;
  }
  return std::nullopt;
}

// Sums of x x^T of what passes the sites of some layers.
class Calibration::Moments final : public RunTaps {
 public:
  Moments(const ModelSpec& spec, size_t first, size_t layers, DenseAlgebra& algebra)
      : first_(first), layers_(layers), algebra_(&algebra), sums_((layers + 1) * kInputCount) {
    for (size_t layer = 0; layer < layers; ++layer) {
      for (const Site site : kInputs) {
        if ((mask_of(site) & kModelSites) == 0)
          sums_[index(site, layer)].width = width_of(spec, site);
      }
    }
    Sum& final_norm = sums_[index(Site::kFinalNormOutput, layers)];
    final_norm.width = spec.width;
  }

  SiteMask sites(size_t layer) const override {
    SiteMask mask = mask_of(Site::kFinalNormOutput);
    if (layer < first_ || layer >= first_ + layers_) return mask;
    for (const Site site : kInputs) mask |= mask_of(site);
    return mask;
  }
  bool wants_output(uint32_t position) const override { return position % kHeadRows == 0; }

  void visit(Site site, size_t layer, const SiteRows& rows) override {
    Sum& sum = sums_[of(site, layer)];
    if (sum.gathered.size() == 0) sum.gathered = AlignedBuffer<float>(kGatheredRows * sum.width);
    for (size_t r = 0; r < rows.rows; ++r) {
      std::memcpy(sum.gathered.data() + sum.count * sum.width, rows.data + r * rows.stride,
                  sum.width * sizeof(float));
      if (++sum.count == kGatheredRows) add(sum);
    }
  }
  // What is still gathered, too.
  void finish() {
    for (Sum& sum : sums_) add(sum);
  }
  bool has(Site site, size_t layer) const {
    if ((mask_of(site) & kModelSites) == 0 && (layer < first_ || layer >= first_ + layers_))
      return false;
    return sums_[of(site, layer)].moments.size() > 0;
  }
  const AlignedBuffer<float>& moments(Site site, size_t layer) const {
    return sums_[of(site, layer)].moments;
  }

  static size_t bytes_of_layer(const ModelSpec& spec) {
    size_t floats = 0;
    for (const Site site : kInputs) {
      if ((mask_of(site) & kModelSites) != 0) continue;
      const size_t width = width_of(spec, site);
      floats += width * width + kGatheredRows * width;
    }
    return floats * sizeof(float);
  }

 private:
  static constexpr size_t kInputCount = std::size(kInputs);
  struct Sum {
    size_t width = 0;
    size_t count = 0;               // of rows that are gathered
    AlignedBuffer<float> gathered;  // [kGatheredRows, width]
    AlignedBuffer<float> moments;   // [width, width], the lower triangle
  };

  size_t index(Site site, size_t slot) const { return slot * kInputCount + input_index(site); }
  size_t of(Site site, size_t layer) const {
    return index(site, (mask_of(site) & kModelSites) != 0 ? layers_ : layer - first_);
  }
  void add(Sum& sum) {
    if (sum.count == 0) return;
    if (sum.moments.size() == 0) {
      sum.moments = AlignedBuffer<float>(sum.width * sum.width);
      std::memset(sum.moments.data(), 0, sum.moments.size() * sizeof(float));
    }
    transposed_.ensure(sum.width * kGatheredRows);
    constexpr size_t kStrip = 16;  // columns of a cache line
    algebra_->threads().run(sum.width, kStrip, [&](size_t begin, size_t end, size_t) {
      for (size_t first = begin; first < end; first += kStrip) {
        const size_t last = std::min(first + kStrip, end);
        for (size_t r = 0; r < sum.count; ++r) {
          for (size_t c = first; c < last; ++c)
            transposed_[c * sum.count + r] = sum.gathered[r * sum.width + c];
        }
      }
    });
    algebra_->add_moments(transposed_.data(), sum.width, sum.count, sum.moments.data());
    sum.count = 0;
  }

  size_t first_, layers_;
  DenseAlgebra* algebra_;
  std::vector<Sum> sums_;
  AlignedBuffer<float> transposed_;
};

Calibration::Calibration(std::unique_ptr<Engine> engine, CalibrationText text)
    : engine_(std::move(engine)), text_(std::move(text)) {
  Stepper& stepper = engine_->stepper();
  algebra_ = std::make_unique<DenseAlgebra>(stepper.kernels(), stepper.threads());
}

Calibration::~Calibration() = default;

DenseAlgebra& Calibration::algebra() { return *algebra_; }

Result<std::unique_ptr<Calibration>> Calibration::create(const std::filesystem::path& path,
                                                         const CalibrationText& text,
                                                         size_t threads) {
  PHIDIAS_TRY(auto model, load_to_run(path, threads));
  EngineOptions options;
  options.threads = threads == 0 ? usable_cores() : threads;
  options.context = std::min(text.window, model->info().max_context);
  PHIDIAS_TRY(auto engine, Engine::create(std::move(model), options));
  CalibrationText cut = text;
  cut.window = engine->context();
  if (cut.window == 0 || cut.ids.size() < cut.window) {
    return Error{Code::kInvalidArgument,
                 "the calibration text has " + std::to_string(text.ids.size()) +
                     " tokens, fewer than one window of " + std::to_string(cut.window),
                 {{}, {}, "window"}};
  }
  return std::unique_ptr<Calibration>(new Calibration(std::move(engine), std::move(cut)));
}

size_t Calibration::layers_at_once() const {
  // The factor of a matrix is made in a copy of its moments, and the model has to stay in memory.
  const size_t layer = Moments::bytes_of_layer(engine_->stepper().spec());
  return static_cast<size_t>(std::max<uint64_t>(1, available_memory() / 2 / layer));
}

Status Calibration::run_text(size_t first_layer, const Progress& progress) {
  moments_ = nullptr;  // its memory, before it is counted
  const ModelSpec& spec = engine_->stepper().spec();
  const size_t layers = std::min(layers_at_once(), spec.layers - first_layer);
  moments_ = std::make_unique<Moments>(spec, first_layer, layers, *algebra_);
  const size_t windows = text_.ids.size() / text_.window;
  for (size_t w = 0; w < windows; ++w) {
    if (progress && !progress(w, windows)) return Error{Code::kCancelled, "was interrupted", {}};
    const SequenceId sequence = engine_->open({.prompt_tokens = text_.window});
    engine_->stepper().attach(sequence, moments_.get());
    std::vector<Row> rows;
    for (uint32_t i = 0; i < text_.window; ++i)
      rows.push_back({text_.ids[w * text_.window + i], sequence, i, false});
    const Status status = engine_->step(rows);
    engine_->close(sequence);
    PHIDIAS_CHECK_OK(status);
  }
  try {
    moments_->finish();
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory, "no memory for the moments of the inputs", {}};
  }
  return {};
}

Result<const ErrorFeedback*> Calibration::feedback_for(const PlannedTensor& tensor, size_t block,
                                                       const Progress& progress) {
  const ErrorFeedback* none = nullptr;
  const auto site = input_site(tensor.role);
  if (!site || width_of(engine_->stepper().spec(), *site) != tensor.rows.cols ||
      tensor.rows.cols % block != 0)
    return none;
  if (moments_ == nullptr || !moments_->has(*site, tensor.layer)) {
    key_.reset();
    feedback_.reset();
    PHIDIAS_CHECK_OK(run_text(tensor.layer, progress));
  }
  if (!moments_->has(*site, tensor.layer)) return none;
  const Key key{*site, tensor.layer, block};
  if (key_ != key) {
    try {
      feedback_ = ErrorFeedback::create(moments_->moments(*site, tensor.layer), tensor.rows.cols,
                                        block, *algebra_);
    } catch (const std::bad_alloc&) {
      return Error{Code::kOutOfMemory, "no memory to factor moments", {{}, {}, tensor.name}};
    }
    key_ = key;
  }
  return feedback_ ? &*feedback_ : none;
}

}  // namespace phidias
