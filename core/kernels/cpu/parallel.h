// All threads of kernels are started here. They are OpenMP's, so that oneDNN and our own loops
// share one set of threads.
//
// If the way in which work is split could change a result, it is split by index alone, never by the
// number of threads. So kernels that use these functions give the same bits at any number of
// threads.
//
// A body must not throw, and must not enter ParallelFor or ParallelTasks again.
#ifndef TESSERA_CORE_KERNELS_CPU_PARALLEL_H_
#define TESSERA_CORE_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tessera::cpu {

// Calls function(context, worker, workers) once for each worker in [0, workers), at the same time;
// `workers` is `threads` or fewer. Returns when all have returned.
void RunWorkers(int threads, void (*function)(const void* context, int worker, int workers),
                const void* context);

// While this object exists, parallel regions that the calling thread starts without an explicit
// number of threads use exactly `threads` threads. oneDNN starts such regions, when a primitive is
// made and when it runs.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int threads_before_;
  int dynamic_before_;
  int levels_before_;
};

// Splits [0, size) into one range for each thread and calls body(begin, end) for each range. Ranges
// begin at multiples of `grain`; their numbers of grains differ by at most one. Use it for work
// that is the same at each index.
template <typename Body>
void ParallelFor(int threads, int64_t size, int64_t grain, const Body& body) {
  if (size <= 0) return;
  const int64_t grains = (size + grain - 1) / grain;
  if (threads <= 1 || grains == 1) {
    body(int64_t{0}, size);
    return;
  }
  struct Context {
    const Body& body;
    int64_t size, grain, grains;
  } context{body, size, grain, grains};
  RunWorkers(
      static_cast<int>(std::min<int64_t>(threads, grains)),
      [](const void* opaque, int worker, int workers) {
        const Context& c = *static_cast<const Context*>(opaque);
        const int64_t begin = c.grains * worker / workers * c.grain;
        const int64_t end = std::min(c.size, c.grains * (worker + 1) / workers * c.grain);
        if (begin < end) c.body(begin, end);
      },
      &context);
}

// Calls body(task, worker) for each task in [0, tasks). There are at most `threads` workers, and at
// most one for each task. A worker that has finished a task takes the next open one, so tasks may
// have unequal lengths. A worker does one task at a time, so each worker may have its own scratch
// memory.
template <typename Body>
void ParallelTasks(int threads, int64_t tasks, const Body& body) {
  if (threads <= 1 || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  struct Context {
    const Body& body;
    int64_t tasks;
    int64_t first;  // tasks that are assigned in advance: every worker gets one
    mutable std::atomic<int64_t> next;
  } context{body, tasks, std::min<int64_t>(threads, tasks), {std::min<int64_t>(threads, tasks)}};
  RunWorkers(
      static_cast<int>(context.first),
      [](const void* opaque, int worker, int workers) {
        const Context& c = *static_cast<const Context*>(opaque);
        for (int64_t task = worker; task < c.first; task += workers) c.body(task, worker);
        for (int64_t task; (task = c.next.fetch_add(1, std::memory_order_relaxed)) < c.tasks;) {
          c.body(task, worker);
        }
      },
      &context);
}

// Returns the index of a worker's scratch memory, if a workspace is split into `threads` equal
// scratch memories. Worker 0, which always exists, has the last one, so a workspace is used to its
// end.
inline int64_t ScratchIndexOf(int worker, int threads) { return threads - 1 - worker; }

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_PARALLEL_H_
