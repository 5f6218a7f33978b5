#include "trace/gradient_trace.h"

#include <algorithm>
#include <new>
#include <string>

#include "base/try.h"

namespace phidias {
namespace {

Error in_term(size_t number, Error error) {
  error.place.item = "term " + std::to_string(number + 1) +
                     (error.place.item.empty() ? "" : ", " + error.place.item);
  return error;
}

// The direction of a dot product, spread over the row of the value's site.
Result<std::vector<float>> row_direction(const MetricTerm& term, const ModelSpec& spec) {
  const ValueRef& value = term.value;
  const Segment segment = source_of(value.id).segment(spec);
  PHIDIAS_TRY(const auto heads,
              resolve_or_all(value.selection.heads, segment.groups, "head", value.to_string()));
  PHIDIAS_TRY(const auto channels, resolve_or_all(value.selection.channels, segment.inner,
                                                  "channel", value.to_string()));
  if (term.vector.size() != heads.size() * channels.size()) {
    return Error{Code::kInvalidArgument,
                 "the vector has " + std::to_string(term.vector.size()) +
                     " numbers, the value at one position " +
                     std::to_string(heads.size() * channels.size()),
                 {{}, {}, value.to_string()}};
  }
  std::vector<float> row(site_width(spec, source_of(value.id).site), 0.0F);
  auto next = term.vector.begin();
  for (const uint32_t head : heads) {
    for (const uint32_t channel : channels) {
      row[segment.offset + head * segment.group_stride + channel * segment.inner_stride] = *next++;
    }
  }
  return row;
}

// The terms at the positions of a metric's term.
Result<std::vector<ObjectiveTerm>> terms_of(const MetricTerm& term, const RequestShape& request) {
  const bool dot = term.kind == MetricTerm::Kind::kDot;
  ObjectiveTerm single;
  single.kind = static_cast<ObjectiveTerm::Kind>(term.kind);
  single.weight = term.weight;
  single.token = term.token;
  single.vector = term.vector;
  std::vector<size_t> layers = {0};
  if (dot) {
    if (const auto missing = missing_value(term.value.id, *request.spec))
      return Error{Code::kUnsupported, *missing, {{}, {}, term.value.to_string()}};
    if (source_of(term.value.id).extract != Extract::kRows || is_integer(term.value.id)) {
      return Error{Code::kInvalidArgument,
                   "no dot product is taken of this value",
                   {{}, {}, term.value.to_string()}};
    }
    PHIDIAS_TRY(single.vector, row_direction(term, *request.spec));
    PHIDIAS_TRY(layers, resolve_layers(term.value, *request.spec));
    single.site = source_of(term.value.id).site;
  }
  PHIDIAS_TRY(const auto positions, PositionSet::resolve(dot ? term.value.selection.at : term.at,
                                                         request.prompt, request.rows, "at"));
  std::vector<ObjectiveTerm> terms;
  for (const size_t layer : layers) {
    for (size_t i = 0; i < positions.size(); ++i) {
      single.layer = layer;
      single.position = static_cast<uint32_t>(positions.position(i));
      terms.push_back(single);
    }
  }
  return terms;
}

Result<std::vector<GradientScale>> scales_of(const GradientFactor& factor,
                                             const RequestShape& request) {
  const ValueRef& value = factor.value;
  Selection positions_alone;
  positions_alone.at = value.selection.at;
  const Segment segment = source_of(value.id).segment(*request.spec);
  const Site site = source_of(value.id).site;
  const bool whole = source_of(value.id).extract == Extract::kPattern ||
                     segment.groups * segment.inner == site_width(*request.spec, site);
  if (!has_gradient(value.id) || !whole || value.selection != positions_alone) {
    return Error{Code::kInvalidArgument,
                 "the gradient is scaled of whole vectors of a value that has one",
                 {{}, {}, value.to_string()}};
  }
  PHIDIAS_TRY(const auto layers, resolve_layers(value, *request.spec));
  PHIDIAS_TRY(const auto positions, PositionSet::resolve(value.selection.at, request.prompt,
                                                         request.rows, value.to_string()));
  GradientScale scale;
  scale.factor = factor.factor;
  for (size_t i = 0; i < positions.size(); ++i)
    scale.positions.push_back(static_cast<uint32_t>(positions.position(i)));
  std::sort(scale.positions.begin(), scale.positions.end());
  std::vector<GradientScale> scales;
  for (const size_t layer : layers) {
    scale.place = {site, layer};
    scales.push_back(scale);
  }
  return scales;
}

// Of [heads, N, N] as a pattern's taps have it, [N, heads, N].
std::vector<float> by_query(const GradientCollector::Gradient& gradient, size_t heads) {
  const size_t positions = gradient.width;
  std::vector<float> values(gradient.values.size());
  for (size_t h = 0; h < heads; ++h) {
    for (size_t q = 0; q < positions; ++q) {
      const float* row = gradient.values.data() + (h * positions + q) * positions;
      std::copy_n(row, positions, values.data() + (q * heads + h) * positions);
    }
  }
  return values;
}

}  // namespace

bool has_gradient(ValueId id) {
  const Extract extract = source_of(id).extract;
  return (extract == Extract::kRows || extract == Extract::kPattern) && !is_integer(id);
}

Result<Objective> compile_metric(const Metric& metric, const RequestShape& request) {
  std::vector<ObjectiveTerm> terms;
  for (size_t i = 0; i < metric.terms().size(); ++i) {
    auto own = terms_of(metric.terms()[i], request);
    if (!own.ok()) return in_term(i, std::move(own).error());
    if (const Status fits = Objective(*own).check(*request.spec, request.rows);
        !own->empty() && !fits.ok()) {
      Error error = fits.error();
      error.place.item.clear();
      return in_term(i, std::move(error));
    }
    terms.insert(terms.end(), own->begin(), own->end());
  }
  Objective objective(std::move(terms));
  PHIDIAS_CHECK_OK(objective.check(*request.spec, request.rows));
  return objective;
}

Result<GradientTrace> GradientTrace::compile(const TraceRequest& request, const Metric& metric,
                                             std::span<const GradientFactor> factors,
                                             const CollectorContext& context) {
  const RequestShape shape{context.spec, request.prompt, request.rows, request.step_rows};
  GradientTrace trace;
  trace.spec_ = context.spec;
  trace.weights_ = context.weights;
  PHIDIAS_TRY(trace.objective_, compile_metric(metric, shape));
  for (const GradientFactor& factor : factors) {
    PHIDIAS_TRY(auto scales, scales_of(factor, shape));
    trace.scales_.insert(trace.scales_.end(), scales.begin(), scales.end());
  }
  PHIDIAS_TRY(auto derivatives, EditDerivatives::compile(*request.edits, shape));
  trace.derivatives_ = std::make_unique<EditDerivatives>(std::move(derivatives));
  CollectorContext exact = context;
  exact.kv = KvType::kF32;  // no gradient is rounded to the cache's type
  uint64_t bytes =
      stored_run_bytes(*context.spec, request.rows) + trace.derivatives_->record_bytes();
  for (size_t number = 0; number < request.reads.size(); ++number) {
    const Read& read = request.reads[number];
    if (read.moment != Read::Moment::kGradient) continue;
    if (!has_gradient(read.value.id)) {
      return Error{Code::kInvalidArgument,
                   "has no gradient of its own; ask for that of the value it is made of",
                   {{}, {}, read.value.to_string()}};
    }
    PHIDIAS_TRY(const auto layers, resolve_layers(read.value, *shape.spec));
    for (const size_t layer : layers) {
      PHIDIAS_TRY(auto collector, Collector::compile(read, number, layer, shape, exact));
      bytes += collector.bytes();
      trace.reads_.push_back(std::move(collector));
    }
  }
  if (bytes > request.max_bytes) {
    return Error{Code::kCapacityExceeded,
                 "the gradients and the streams that they need take " + std::to_string(bytes) +
                     " bytes, more than the " + std::to_string(request.max_bytes) +
                     " that are allowed; ask for fewer layers or give fewer tokens",
                 {{}, {}, "grad"}};
  }
  if (!request.edits->empty()) {
    TraceRequest edits = request;
    edits.reads = {};
    PHIDIAS_TRY(auto replay, SequenceTrace::compile(edits, context));
    trace.edits_ = std::make_unique<SequenceTrace>(std::move(replay));
  }
  return trace;
}

void GradientTrace::add_to(TracePlan& plan) const {
  for (const Collector& read : reads_) {
    plan.entries.push_back(
        {"grad." + value_name(read.id(), read.layer()), read.shape(), read.bytes()});
    plan.bytes += read.bytes();
  }
}

Status GradientTrace::run(const KernelTable& kernels, ParallelFor& threads, const StoredRun& run,
                          std::vector<Traced::Entry>& to) {
  try {
    std::vector<GradientPlace> places;
    for (Collector& read : reads_) {
      places.push_back({source_of(read.id()).site, read.layer()});
      read.allocate();
    }
    GradientCollector gradients(*spec_, run.positions(), objective_, places, scales_,
                                derivatives_.get());
    PHIDIAS_CHECK_OK(
        run_backward(*spec_, *weights_, kernels, threads, run, edits_.get(), gradients));
    for (size_t i = 0; i < reads_.size(); ++i) {
      const GradientCollector::Gradient& gradient = gradients[places[i]];
      if (source_of(reads_[i].id()).extract == Extract::kPattern) {
        std::vector<float> values = by_query(gradient, spec_->attention.heads);
        SitePattern pattern;
        pattern.data = values.data();
        pattern.scores = values.data();
        pattern.rows = run.positions();
        pattern.heads = spec_->attention.heads;
        pattern.keys = run.positions();
        reads_[i].collect(pattern);
      } else {
        std::vector<float> values = gradient.values;
        reads_[i].collect(
            SiteRows{values.data(), gradient.rows, gradient.width, gradient.width, 0});
      }
      to.push_back({reads_[i].read(), "grad." + value_name(reads_[i].id(), reads_[i].layer()),
                    reads_[i].layer(), std::move(reads_[i]).take(run.positions())});
    }
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory,
                 "no memory for the gradients; ask for fewer values, or give fewer tokens",
                 {{}, {}, "grad"}};
  }
  return {};
}

}  // namespace phidias
