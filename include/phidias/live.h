// A run that stops at values, for logic that depends on what was read.
//
//   Live live(engine, ids);
//   PHIDIAS_TRY(View x, live.run_until(kValues.layers[8].layer_output));
//   if (dot(x.row(last).copy(), probe) > 0) ...write x...
//   Result<Traced> traced = live.finish();
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/status.h"
#include "phidias/trace.h"
#include "phidias/values.h"

namespace phidias {

// One thread at a time; the engine may be used by others between the calls. A call goes on from the
// beginning of the layer that the run stands in, with what was written there put in again: a pass
// always gives the same bits, so it is as if it had waited. A function among the edits may see the
// positions of that layer twice.
class Live {
 public:
  Live(Engine& engine, std::vector<TokenId> ids, const Edits& edits = {});
  ~Live();
  Live(Live&&) noexcept;
  Live& operator=(Live&&) noexcept;

  // Goes on to a value of one layer and gives all of its rows (shape as its layout, the batch axis
  // left out). What is written there before the next call is what the pass goes on with. The view
  // lives as long as this object. Errors: kInvalidArgument for a value that the pass has gone by,
  // both named, or that cannot be written; those of Trace.
  Result<View> run_until(const ValueRef& value);
  // Runs to the last value that is asked for, and keeps them. Where one lies before the stop, the
  // text is run from its start. Errors: those of Trace.
  Result<Traced> finish(std::vector<Read> reads = {});

 private:
  struct Stop;
  Edits replayed() const;
  Result<Traced> run(std::span<const Read> reads, const Edits& edits, size_t first_layer);

  Engine* engine_;
  std::vector<TokenId> ids_;
  Edits edits_;
  std::vector<std::shared_ptr<Stop>> stops_;
  size_t layer_ = 0;           // that the run stands in; behind the last one at the end
  std::vector<float> stream_;  // [positions, hidden_size]: what enters it; of the first, nothing
};

}  // namespace phidias
