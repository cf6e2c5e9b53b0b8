// What a person sees of training: a line for a step, and on a terminal a bar with the time left.
//
//   step   120/1000 | loss 2.3456 | grad_norm 0.871 | lr 9.80e-04 |   12.3 ms | 41.6K tokens/s |
//   MFU 52.1% | 71.3% of limit | 1.23 GiB        (in one line)
#ifndef TESSERA_CORE_TRAIN_PROGRESS_H_
#define TESSERA_CORE_TRAIN_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// What all steps of a run have in common.
struct StepScale {
  int64_t total_steps = 0;
  int64_t tokens = 0;        // of one step, over the whole batch
  double best_seconds = 0;   // one step's model FLOPs at the machine's matmul rate
  double limit_seconds = 0;  // one step, if every operator ran at its own limit
  int64_t memory_bytes = 0;  // the peak
};

struct StepReport {
  int64_t step = 0;  // counts from 1
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double seconds = 0;
};

// `report.seconds` may be the mean of several steps.
std::string StepLine(const StepReport& report, const StepScale& scale);

// "[=========>          ]  47%  1m 23s left"
std::string ProgressBar(double share, double seconds_left);

// Not thread-safe.
class Progress {
 public:
  // A clock in seconds.
  using Clock = std::function<double()>;

  // `terminal`: whether `out`, which must outlive this, is one; elsewhere there is no bar and no
  // control character. `first_step`: the first that will be reported.
  Progress(std::FILE* out, bool terminal, int64_t first_step, StepScale scale, Clock clock);
  ~Progress();  // removes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Call once for each step. Prints the first, the last, and of those between every Nth, N being
  // 1, 2, 5, 10, 20, ..., so that there are at most a few lines a second; a line's time is the mean
  // of the steps since the line before.
  void Step(const StepReport& report);

  // For the lines to come.
  void SetScale(const StepScale& scale) { scale_ = scale; }

  // Prints a line of its own.
  void Line(absl::string_view text);

  // Removes the bar until the next step.
  void ClearBar();

 private:
  int64_t Interval() const;
  void DrawBar(double now, int64_t step);

  std::FILE* const out_;
  const bool terminal_;
  const int64_t first_step_;
  StepScale scale_;
  const Clock clock_;
  const double start_;
  int64_t reported_ = 0;  // steps
  double last_line_ = 0;  // when
  double last_bar_ = 0;   // when
  bool bar_shown_ = false;
  double seconds_since_line_ = 0;
  int64_t steps_since_line_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_PROGRESS_H_
