#include "phidias/generation.h"

#include "api/engine_impl.h"
#include "base/try.h"
#include "engine/scheduler.h"

namespace phidias {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

struct Generator::Impl {
  Engine* engine;
  std::shared_ptr<const Tokenizer> tokenizer;
  Scheduler scheduler;
};

Generator::Generator(Engine& engine, GenerateCallback callback) {
  auto tokenizer = engine.model().tokenizer();
  const Tokenizer* borrowed = tokenizer.get();
  impl_.reset(new Impl{
      &engine, std::move(tokenizer),
      Scheduler(engine.stepper(), borrowed, engine.model().stop_ids(), std::move(callback))});
}
Generator::~Generator() = default;

Result<size_t> Generator::submit(GenerateRequest request) {
  Edits edits = impl_->engine->edits_in_force();
  if (!edits.empty()) {
    edits += request.edits;
    request.edits = std::move(edits);
  }
  return impl_->scheduler.submit(std::move(request));
}
void Generator::cancel(size_t request) { impl_->scheduler.cancel(request); }
bool Generator::done() const { return impl_->scheduler.done(); }
Status Generator::step() { return impl_->scheduler.step(); }
GenerateResult Generator::take(size_t request) { return impl_->scheduler.take(request); }

Result<std::vector<GenerateResult>> generate(Engine& engine,
                                             std::span<const GenerateRequest> requests,
                                             const GenerateCallback& callback) {
  Generator generator(engine, callback);
  for (const GenerateRequest& request : requests) PHIDIAS_CHECK_OK(generator.submit(request));
  while (!generator.done()) PHIDIAS_CHECK_OK(generator.step());
  std::vector<GenerateResult> results;
  for (size_t i = 0; i < requests.size(); ++i) results.push_back(generator.take(i));
  return results;
}

Result<GenerateResult> generate(Engine& engine, const GenerateRequest& request,
                                const GenerateCallback& callback) {
  PHIDIAS_TRY(auto results, generate(engine, std::span(&request, 1), callback));
  return std::move(results.front());
}

}  // namespace phidias
