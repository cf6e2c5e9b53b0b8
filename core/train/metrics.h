// metrics.jsonl: one JSON object for each step, one a line.
//
//   {"step":12,"loss":3.21,"grad_norm":0.87,"lr":0.001,"step_seconds":0.0123,
//    "tokens_per_second":41600.5,"mfu":0.52,"peak_bytes":123456,"eval_loss":3.3}
//
// eval_loss is there where the step was followed by an evaluation. mfu is a share (1 = all).
// Numbers keep all their bits; one that is not finite is null.
#ifndef TESSERA_CORE_TRAIN_METRICS_H_
#define TESSERA_CORE_TRAIN_METRICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"

namespace tessera {

struct StepMetrics {
  int64_t step = 0;  // counts from 1
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  int64_t peak_bytes = 0;  // planned and allocated
  std::optional<double> eval_loss;
};

// Not thread-safe.
class MetricsLog {
 public:
  // Appends to the file, which is made where it is missing. First cuts it back to what was written
  // up to `last_step`, so that a run that is resumed leaves no line of a later step or of a line
  // that was broken off.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(const std::string& path,
                                                          int64_t last_step);
  // The line is the system's when this returns, and survives the end of this process.
  absl::Status Append(const StepMetrics& metrics);

 private:
  MetricsLog(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  const FileDescriptor fd_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_METRICS_H_
