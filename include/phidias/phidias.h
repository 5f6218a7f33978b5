// Everything. Start at model.h (load), engine.h (sequences and steps) and generation.h (requests
// and answers).
#pragma once

#include "phidias/bench.h"
#include "phidias/build.h"
#include "phidias/chat.h"
#include "phidias/convert.h"
#include "phidias/engine.h"
#include "phidias/entries.h"
#include "phidias/generation.h"
#include "phidias/hub.h"
#include "phidias/importance.h"
#include "phidias/inspect.h"
#include "phidias/model.h"
#include "phidias/options.h"
#include "phidias/perplexity.h"
#include "phidias/prompt.h"
#include "phidias/sampling.h"
#include "phidias/status.h"
#include "phidias/step.h"
#include "phidias/tensors.h"
#include "phidias/tokenizer.h"
#include "phidias/version.h"
