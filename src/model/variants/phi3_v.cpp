// Phi-3-vision and Phi-3.5-vision: the decoder of Phi-3-mini-128k, and a vision tower whose rows
// stand in for the embeddings of image tokens. Source: models-other.md of the reference, section 6.
#include "base/try.h"
#include "model/config.h"
#include "model/variants/variants.h"
#include "model/vision/config.h"

namespace phidias {

Result<ModelSpec> phi3_v_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, phi3_from_config(config));
  PHIDIAS_TRY(spec.vision, vision_spec_from_config(config));
  spec.chat_template = "phi-3-vision";
  return spec;
}

}  // namespace phidias
