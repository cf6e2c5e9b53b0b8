// The one way into threads: OpenMP's, so that oneDNN and our own loops share one set of them.
//
// Work is cut by index alone, never by the number of threads, wherever a cut could show in a
// result; so kernels that go through here give the same bits at any number of threads.
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

// While this exists, OpenMP uses exactly `threads` threads for what the calling thread starts
// without a number of its own. oneDNN does so when a primitive is made and when it runs.
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

// Calls body(begin, end) for parts of [0, size) that begin at multiples of `grain`: one part for
// each thread, the same number of grains for all or one more. For work that is the same at each
// index.
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

// Calls body(task, worker) for each task in [0, tasks). Each of the workers, numbered from 0, at
// most `threads` and at most as many as there are tasks, does one and then takes the next that is
// left: for tasks of unequal length. A worker does one task at a time, so it may have scratch
// memory of its own.
template <typename Body>
void ParallelTasks(int threads, int64_t tasks, const Body& body) {
  if (threads <= 1 || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  struct Context {
    const Body& body;
    int64_t tasks;
    int64_t first;  // tasks that are given out by number: every worker gets one
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

// Which of `threads` equal parts of a workspace is a worker's. Worker 0, which there always is, has
// the last: so a workspace is used to its end.
inline int64_t PartOf(int worker, int threads) { return threads - 1 - worker; }

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_PARALLEL_H_
