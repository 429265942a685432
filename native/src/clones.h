// Functions that are compiled once for each generation of x86 processors; which one runs is chosen when the addon is
// loaded.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define REROLL_CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define REROLL_CLONES
#endif
