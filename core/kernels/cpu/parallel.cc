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

// oneDNN splits its work by the number of threads that it requests. If OpenMP starts fewer threads,
// the parts of the missing ones are not written. So it must request no more than the limit, and
// OpenMP must neither shrink teams by the machine's load (OMP_DYNAMIC) nor run them on one thread
// (OMP_MAX_ACTIVE_LEVELS=0). These settings belong to the calling thread: a new thread begins with
// those of the environment.
ThreadCount::ThreadCount(int threads)
    : threads_before_(omp_get_max_threads()),
      dynamic_before_(omp_get_dynamic()),
      levels_before_(omp_get_max_active_levels()) {
  omp_set_num_threads(std::min(threads, omp_get_thread_limit()));
  omp_set_dynamic(0);
  omp_set_max_active_levels(std::max(1, levels_before_));
}

ThreadCount::~ThreadCount() {
  omp_set_num_threads(threads_before_);
  omp_set_dynamic(dynamic_before_);
  omp_set_max_active_levels(levels_before_);
}

}  // namespace tessera::cpu
