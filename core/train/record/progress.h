// The progress of a training run as text: a line for a step, and on a terminal a bar with the time
// left.
//
//   step   120/1000 | loss 2.3456 | grad_norm 0.871 | lr 9.80e-04 |   12.3 ms | 41.6K tokens/s |
//   MFU 52.1% | 71.3% of limit | 1.23 GiB        (in one line)
#ifndef TESSERA_CORE_TRAIN_RECORD_PROGRESS_H_
#define TESSERA_CORE_TRAIN_RECORD_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// The constants of a run's steps.
struct StepScale {
  int64_t total_steps = 0;
  std::string unit = "sample";  // of the batch, in the singular: "token"
  int64_t units = 0;            // in the global batch of one step
  double best_seconds = 0;      // one step's model FLOPs at the machine's matmul rate
  double limit_seconds = 0;     // one step, if every operator ran at its own limit
  int64_t memory_bytes = 0;     // the peak
};

struct StepReport {
  int64_t step = 0;  // counts from 1
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double seconds = 0;
};

// Returns the line of a step, without a line end, as at the top of this file. `report.seconds` may
// be the mean of several steps. If `width` > 0, columns are left out until the line is no longer
// than that: first memory and the share of the limit, last the loss.
std::string StepLine(const StepReport& report, const StepScale& scale, int width = 0);

// Returns a line such as "[=========>          ]  47%  step 470/1000  loss 2.3456  1m 23s left", in
// which step 470 is done. It is `width` columns long, or longer if the text and a bar of ten
// columns do not fit.
std::string ProgressBar(const StepReport& report, const StepScale& scale, double seconds_left,
                        int width);

struct ProgressOptions {
  // Only a terminal gets a bar and control characters.
  bool terminal = false;
  // Returns the columns of the terminal.
  std::function<int()> width = [] { return 80; };
  int64_t first_step = 1;  // the first that will be reported
  int64_t log_every = 0;   // steps between lines; 0: a few lines a second
};

// Not thread-safe.
class Progress {
 public:
  // A clock in seconds.
  using Clock = std::function<double()>;

  // `out` must outlive this.
  Progress(std::FILE* out, ProgressOptions options, StepScale scale, Clock clock);
  ~Progress();  // removes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Call once for each step. Prints the first step, the last, and every Nth between them, N being
  // log_every, or one of 1, 2, 5, 10, 20, ... with which there are a few lines a second at most. A
  // line's time is the mean of the steps since the line before.
  void Step(const StepReport& report);

  // Replaces the scale of later lines.
  void SetScale(const StepScale& scale) { scale_ = scale; }

  // Prints a line, above the bar.
  void Line(absl::string_view text);

  // Removes the bar until the next step.
  void ClearBar();

 private:
  // Returns the number of steps from one line to the next if log_every is 0.
  int64_t Interval() const;
  bool IsLineDue(int64_t step, double now) const;
  // Draws the bar, unless there is no terminal, it was drawn a moment ago, or the run is complete.
  void DrawBar(double now, const StepReport& report);

  std::FILE* const out_;
  const ProgressOptions options_;
  StepScale scale_;
  const Clock clock_;
  const double start_;
  int64_t reported_ = 0;  // steps
  double last_line_ = 0;  // the time at which it was printed
  double last_bar_ = 0;   // the time at which it was drawn
  bool bar_shown_ = false;
  double seconds_since_line_ = 0;
  int64_t steps_since_line_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_PROGRESS_H_
