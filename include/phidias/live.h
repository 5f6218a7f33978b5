// A run that stops at values, for logic that depends on what was read.
//
//   Live live(engine, ids);
//   PHIDIAS_TRY(View x, live.run_until(kValues.layers[8].layer_output));
//   if (dot(x.row(last).copy(), probe) > 0) ...write x...
//   Result<Traced> traced = live.finish();
#pragma once

#include <memory>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/status.h"
#include "phidias/trace.h"
#include "phidias/values.h"

namespace phidias {

// One thread at a time; the engine may be used by others between the calls. Each call runs the text
// from its start, with what was written at earlier stops put in again: a pass always gives the same
// bits, so it is as if it had waited.
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
  // Runs to the end and keeps what is asked for. Errors: those of Trace.
  Result<Traced> finish(std::vector<Read> reads = {});

 private:
  struct Stop;
  Edits replayed() const;

  Engine* engine_;
  std::vector<TokenId> ids_;
  Edits edits_;
  std::vector<std::shared_ptr<Stop>> stops_;
};

}  // namespace phidias
