// The metrics of a run's steps, written twice.
//
// metrics.jsonl has one line with a JSON object for each step:
//
//   {"step":12,"loss":3.21,"grad_norm":0.87,"lr":0.001,"step_seconds":0.0123,
//    "tokens_per_second":41600.5,"model_flops_per_second":1.2e10,"mfu":0.52,"peak_bytes":123456,
//    "bytes_sent":4096,"communication_seconds":0.004,"exposed_communication_seconds":0.001,
//    "eval_loss":3.3}
//
// bytes_sent and the seconds of communication are those of rank 0; they are present if the run has
// several ranks and the step was timed by instruction. eval_loss is present if an evaluation
// followed the step, with the model's metrics ("eval_accuracy"). tokens_per_second has the name of
// what the model counts: "pictures_per_second". mfu is a fraction (1 = the machine's best rate).
// Numbers are written exactly; one that is not finite is null.
//
// An event file (tensorboard_file.h) has the same for TensorBoard, in torchtitan's units and under
// its tags, where it has one:
//
//   loss_metrics/global_avg_loss   loss
//   grad_norm                      grad_norm
//   lr                             lr
//   time_metrics/end_to_end(s)     step_seconds
//   throughput(tps)                tokens_per_second, or the like, those of one rank
//   tflops                         model_flops_per_second / 1e12
//   mfu(%)                         100 * mfu
//   memory/max_active(GiB)         peak_bytes / 2^30
//   communication/bytes_sent       bytes_sent
//   communication/seconds          communication_seconds
//   communication/exposed_seconds  exposed_communication_seconds
//   validation_metrics/loss        eval_loss; the same for metrics
#ifndef TESSERA_CORE_TRAIN_RECORD_METRICS_H_
#define TESSERA_CORE_TRAIN_RECORD_METRICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"
#include "core/train/record/tensorboard_file.h"

namespace tessera {

struct StepMetrics {
  int64_t step = 0;  // counts from 1
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double step_seconds = 0;
  std::string unit = "sample";        // of the batch, in the singular: "token"
  double units_per_second = 0;        // of all ranks
  double model_flops_per_second = 0;  // of one rank
  double mfu = 0;
  int64_t peak_bytes = 0;  // the planned peak, which is also the allocated one
  struct Communication {
    int64_t bytes_sent = 0;      // to other ranks
    double seconds = 0;          // of all collectives
    double exposed_seconds = 0;  // the time in which nothing computed
  };
  std::optional<Communication> communication;
  std::optional<double> eval_loss;
  std::vector<std::pair<std::string, double>> eval_metrics;  // of the same evaluation, by name
  int64_t ranks = 1;                                         // not written
};

// Not thread-safe.
class MetricsLog {
 public:
  // Opens the file of a run's folder, or makes it, to append to it. First truncates it after the
  // line of `last_step`, so that a resumed run has no lines of later steps and no incomplete line.
  // Only a regular file of this user is truncated (Folder::OpenToExtend). Makes a new event file in
  // the folder.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(const Folder& folder,
                                                          const std::string& name,
                                                          int64_t last_step);
  // Returns the step and eval_loss of the evaluations up to `last_step` that the file held, in its
  // order.
  const std::vector<std::pair<int64_t, double>>& earlier_evaluations() const {
    return earlier_evaluations_;
  }

  // Writes a line, and an event. They are kept even if this process is killed (kill -9) right
  // after.
  absl::Status Append(const StepMetrics& metrics);

 private:
  MetricsLog(std::string path, FileDescriptor fd, std::unique_ptr<TensorboardFile> tensorboard,
             std::vector<std::pair<int64_t, double>> earlier_evaluations)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        tensorboard_(std::move(tensorboard)),
        earlier_evaluations_(std::move(earlier_evaluations)) {}

  const std::string path_;
  const FileDescriptor fd_;
  const std::unique_ptr<TensorboardFile> tensorboard_;
  const std::vector<std::pair<int64_t, double>> earlier_evaluations_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_METRICS_H_
