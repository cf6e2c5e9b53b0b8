#include "core/kernels/cpu/parallel.h"

#include <omp.h>

#include <algorithm>

namespace tessera::cpu {

void RunWorkers(int threads, void (*function)(const void* context, int worker, int workers),
                const void* context) {
  if (threads <= 1) {
    function(context, 0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  function(context, omp_get_thread_num(), omp_get_num_threads());
}

ThreadCount::ThreadCount(int threads) : before_(omp_get_max_threads()) {
  // Never more than there will be: oneDNN leaves the work undone of a thread that does not come.
  omp_set_num_threads(std::min(threads, omp_get_thread_limit()));
}

ThreadCount::~ThreadCount() { omp_set_num_threads(before_); }

}  // namespace tessera::cpu
