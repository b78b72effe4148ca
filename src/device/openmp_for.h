// ParallelFor on OpenMP: ggml's own team of threads, so that nothing waits for another pool.
#pragma once

#include <omp.h>

#include "base/parallel.h"

namespace kvasir::device {

class OpenMpFor final : public ParallelFor {
 public:
  void set_n_workers(int32_t n) { n_workers_ = n < 1 ? 1 : n; }
  int32_t n_workers() const override { return n_workers_; }
  void run(int64_t n_items, ItemFunction f) override {
    if (n_items <= 1 || n_workers_ == 1) {
      for (int64_t i = 0; i < n_items; ++i) f(i, 0);
      return;
    }
// Neighbours go to one worker, in shares that shrink: attention's ranges follow each other, so that
// what is fetched ahead at the end of one is the start of the next.
#pragma omp parallel for schedule(guided) num_threads(n_workers_)
    for (int64_t i = 0; i < n_items; ++i) f(i, omp_get_thread_num());
  }

 private:
  int32_t n_workers_ = 1;
};

}  // namespace kvasir::device
