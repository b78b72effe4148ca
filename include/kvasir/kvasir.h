/* What a Kvasir cache holds, for programs that link libggml-kvasir.so or the kvasir program.
 *
 * Figures are those of the last finished step. All bytes are allocated bytes. Thread-safe. */
#ifndef KVASIR_KVASIR_H
#define KVASIR_KVASIR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVASIR_API __attribute__((visibility("default")))

/* Counts of one stream, or of all streams of all live caches. */
struct kvasir_stats {      /* NOLINT(readability-identifier-naming): a C name */
  int64_t live_bytes;      /* rows + metadata + workspace */
  int64_t peak_bytes;      /* largest live_bytes so far; 0 for a single stream */
  int64_t rows_bytes;      /* pages of K and V */
  int64_t metadata_bytes;  /* cells, positions, ranker state, observed queries */
  int64_t workspace_bytes; /* scratch of attention; 0 for a single stream */
  double live_tokens;      /* per layer, mean over the layers, summed over streams */
  int64_t evicted_rows;    /* token rows dropped, summed over layers and streams */
  int64_t steps;           /* finished steps */
  double mean_confidence;  /* over steps with valid logits; NaN if there were none */
};

/* Fills *stats with the sum over all caches and streams. Returns 1, or 0 if nothing ran yet. */
KVASIR_API int kvasir_get_stats(struct kvasir_stats* stats);

/* The same for stream `stream` (>= 0) of all caches. Returns 0 if no cache has such a stream. */
KVASIR_API int kvasir_get_stream_stats(int32_t stream, struct kvasir_stats* stats);

/* Name of the kernel table in use, for example "avx512". Never null. */
KVASIR_API const char* kvasir_kernel_table(void);

#ifdef __cplusplus
}
#endif

#endif /* KVASIR_KVASIR_H */
