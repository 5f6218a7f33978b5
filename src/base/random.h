// Random numbers without state: Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", 2011) maps a key and a counter to 64 random bits,
// the same on every machine. Two layouts of keys and counters lie on top of it: the engine's
// (draw_key, draw_bits) and that of jax.random's partitionable Threefry (split, bits_at), which the
// entry `sample` follows. All functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phidias {

struct RandomKey {
  std::array<uint32_t, 2> words{};
  friend bool operator==(const RandomKey&, const RandomKey&) = default;
};

// The cipher: for a given key a one-to-one map of counters.
std::array<uint32_t, 2> threefry_2x32_20(RandomKey key, std::array<uint32_t, 2> counter);

// --- The engine's draws
// ---------------------------------------------------------------------------------------
//
// draw key = threefry(key = (low word of seed, high word of seed), counter = (choice, position))
// bits of a token = threefry(key = draw key, counter = (token id, 0)), first output word low.
// Both steps are one-to-one, so under one seed no two (choice, position, token) share a key and a
// counter.

//   choice     index among the answers to one prompt
//   position   that the drawn token will take in its sequence
RandomKey draw_key(uint64_t seed, uint32_t choice, uint32_t position);

// bits[i] belongs to ids[i]. The spans have the same length.
void draw_bits(RandomKey key, std::span<const uint32_t> ids, std::span<uint64_t> bits);

// The upper 52 bits as the middle of one of 2^52 equal steps: a double in (0, 1), exact, never 0
// or 1.
double open_uniform(uint64_t bits);

// -log(-log(u)): the standard Gumbel variable of a uniform one. Where logits have these added, the
// largest is a draw from their softmax (the Gumbel-max trick).
//   u   in (0, 1]; 1 gives +infinity
double gumbel(double u);

// An upper bound of gumbel(open_uniform(bits)), found without a logarithm.
double gumbel_bound(uint64_t bits);

// The natural logarithm from additions, multiplications and divisions alone, which IEEE 754 rounds
// alike everywhere: std::log may differ in the last bit between C libraries, and with it a draw.
// Relative error below 1e-15.
//   x   0 (-infinity) or a positive normal number
double portable_log(double x);

// --- The layout of jax.random
// -----------------------------------------------------------------------------------

// Key i is threefry(key, counter = (0, i)), both words.
std::vector<RandomKey> split(RandomKey key, size_t count);

// The two words of threefry(key, (high word of index, low word of index)), xored.
uint32_t bits_at(RandomKey key, uint64_t index);

enum class UniformMapping : uint8_t {
  kHalfStep,  // (b + 1/2) / 2^23: in (0, 1)
  kRaw,       // b / 2^23: in [0, 1), as jax.random.uniform gives in float32
};

// The upper 23 bits b as a uniform number; exact in float32 under both mappings.
double uniform_23(uint32_t bits, UniformMapping mapping);

}  // namespace phidias
