#include "phidias/engine.h"

#include <algorithm>
#include <utility>

#include "api/engine_impl.h"
#include "api/model_impl.h"
#include "base/invalid.h"
#include "base/system_memory.h"
#include "base/try.h"

namespace phidias {
namespace {

Result<KvType> kv_type(const std::string& name, Numerics numerics) {
  const std::string wanted = !name.empty() ? name : numerics == Numerics::kExact ? "f32" : "f16";
  std::string known;
  for (size_t i = 0; i < kKvTypeCount; ++i) {
    const KvTypeRow& row = kv_type_row(static_cast<KvType>(i));
    known += (i > 0 ? ", " : "") + std::string(row.name);
    if (row.name != wanted) continue;
    if (numerics == Numerics::kExact && row.type != KvType::kF32) {
      return invalid("exact numerics keep the cache in f32; leave --kv out or use fast numerics",
                     "kv");
    }
    return row.type;
  }
  return invalid("\"" + wanted + "\" is not known; choose one of " + known, "kv");
}

Result<const KernelTable*> kernel_table(const std::string& name) {
  if (name.empty()) return &best_table();
  if (const KernelTable* table = table_by_name(name)) return table;
  std::string known;
  for (const KernelTable* table : available_tables())
    known += (known.empty() ? "" : ", ") + std::string(table->name);
  return invalid(
      "\"" + name + "\" is not a kernel table that this CPU can run; choose one of " + known,
      "isa");
}

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model,
                                               const EngineOptions& wanted) {
  if (model->impl().weights.layers.empty()) {
    return Error{Code::kNotFound,
                 "the folder has no weights, so nothing can be run",
                 {model->info().path, {}, {}}};
  }
  const ModelSpec& spec = model->impl().spec;
  EngineOptions options = wanted;
  if (options.context > spec.max_context) {
    return Error{Code::kCapacityExceeded,
                 "a context of " + std::to_string(options.context) +
                     " was asked for, but this model supports at most " +
                     std::to_string(spec.max_context),
                 {{}, {}, "ctx"}};
  }
  if (options.context == 0) options.context = spec.max_context;
  if (options.threads == 0) options.threads = usable_cores();
  if (options.step_rows == 0) return invalid("must be at least 1", "step_rows");
  if (options.page_positions == 0 || options.page_positions > kMaxPagePositions) {
    return invalid("is " + std::to_string(options.page_positions) + ", expected 1 to " +
                       std::to_string(kMaxPagePositions),
                   "page_positions");
  }
  PHIDIAS_TRY(const KvType kv, kv_type(options.kv, options.numerics));
  options.kv = kv_type_row(kv).name;
  PHIDIAS_TRY(const KernelTable* kernels, kernel_table(options.isa));
  options.isa = kernels->name;
  if (options.cache_budget == 0) {
    const uint64_t free = available_memory();
    // Mapped weights live in what the system calls free; a cache that grows must not push them out.
    const uint64_t taken =
        Decoder::buffer_bytes(spec, options.step_rows) + model->impl().weights.mapped_bytes(spec);
    options.cache_budget = free > 2 * taken ? free - taken : free / 2;
  }
  auto impl = std::make_unique<Impl>();
  impl->threads = std::make_unique<ThreadPool>(options.threads);
  impl->kernels = kernels;
  impl->stepper =
      std::make_unique<Stepper>(spec, model->impl().weights, *kernels, *impl->threads,
                                StepperOptions{.numerics = options.numerics,
                                               .kv = kv,
                                               .context = options.context,
                                               .cache_budget = options.cache_budget,
                                               .step_rows = options.step_rows,
                                               .page_positions = options.page_positions});
  impl->images = std::make_unique<ImageState>(ImageState{
      ImageCache(options.image_cache), RunContext(*kernels, *impl->threads, options.numerics), 0});
  impl->model = std::move(model);
  impl->options = options;
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Stepper& Engine::stepper() { return *impl_->stepper; }
ImageState& Engine::images() { return *impl_->images; }
const Model& Engine::model() const { return *impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }
uint32_t Engine::vocab() const { return impl_->stepper->spec().vocab; }
uint32_t Engine::context() const { return impl_->options.context; }
uint64_t Engine::cache_bytes_in_use() const { return impl_->stepper->cache().bytes_in_use(); }

MemoryPlan Engine::memory() const {
  const KvLayout& layout = impl_->stepper->cache().layout();
  MemoryPlan plan;
  plan.weights = impl_->model->info().weight_bytes;
  plan.cache_per_position = layout.bytes_per_position();
  plan.cache_at_context = plan.cache_per_position * impl_->options.context;
  plan.cache_budget = impl_->options.cache_budget;
  plan.step_buffers = Decoder::buffer_bytes(impl_->stepper->spec(), impl_->options.step_rows);
  const uint64_t held = plan.cache_budget / layout.page_bytes() * layout.page_positions;
  plan.largest_context = static_cast<uint32_t>(std::min<uint64_t>(held, impl_->options.context));
  return plan;
}

SequenceId Engine::open(const SequenceOptions& options) { return impl_->stepper->open(options); }
void Engine::close(SequenceId sequence) { impl_->stepper->close(sequence); }
Result<SequenceId> Engine::fork(SequenceId sequence) { return impl_->stepper->fork(sequence); }
uint32_t Engine::length(SequenceId sequence) const { return impl_->stepper->length(sequence); }
std::span<const TokenId> Engine::tokens(SequenceId sequence) const {
  return impl_->stepper->tokens(sequence);
}
Status Engine::truncate(SequenceId sequence, uint32_t length) {
  return impl_->stepper->truncate(sequence, length);
}
EditsInForce Engine::with(const Edits& edits) {
  impl_->in_force.emplace(impl_->next_in_force, edits);
  return {*this, impl_->next_in_force++};
}
Edits Engine::edits_in_force() const {
  Edits all;
  for (const auto& [number, edits] : impl_->in_force) all += edits;
  return all;
}

EditsInForce::EditsInForce(EditsInForce&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)), number_(other.number_) {}
EditsInForce::~EditsInForce() {
  if (engine_ != nullptr) engine_->impl_->in_force.erase(number_);
}

void Engine::interrupt_with(std::function<bool()> asked) {
  impl_->stepper->interrupt_with(std::move(asked));
}

Status Engine::step(std::span<const Row> rows, const LogitsSink& sink) {
  return impl_->stepper->step(rows, sink);
}

}  // namespace phidias
