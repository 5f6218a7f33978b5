// The derivative of model/blocks/routing.h.
#pragma once

#include <cstdint>
#include <span>

namespace phidias {

// Adds to `gradient` [E] what comes back from the weights of a row's two picks. Which experts are
// picked and which logits lie within the band has no gradient, as in transformers' models/phimoe.
//   weights_gradient   of the two weights
void add_route_gradient(std::span<const float> logits, float band, const uint32_t picks[2],
                        const float weights_gradient[2], std::span<float> gradient);

}  // namespace phidias
