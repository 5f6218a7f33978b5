// Searches for scales run over many rows or sub-blocks side by side, one lane each, in loops that
// branch on nothing: compilers make vectors of them without being allowed to reorder anything.
#pragma once

// Compiled also for wider registers, of which the widest that the processor has is taken when the
// program starts; nothing is fused, so that every machine finds the same scales. Sanitizers are not
// yet up when that happens, and fail.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PHIDIAS_WIDE_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define PHIDIAS_WIDE_CLONES
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#undef PHIDIAS_WIDE_CLONES
#define PHIDIAS_WIDE_CLONES
#endif
#endif
