#include "core/train/record/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/posix/write_all.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

using Evaluations = std::vector<std::pair<int64_t, double>>;  // step, eval_loss

// Reads a file line by line.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  // Returns the next line, without its end, until the next call. Returns nullopt if the rest of the
  // file is no line of less than kBytes, or cannot be read.
  std::optional<absl::string_view> Next() {
    for (bool more = true; more; more = Fill()) {
      const absl::string_view rest(buffer_.data() + begin_, end_ - begin_);
      const size_t length = rest.find('\n');
      if (length == absl::string_view::npos) continue;
      begin_ += length + 1;
      return rest.substr(0, length);
    }
    return std::nullopt;
  }

 private:
  // A line has about 300 bytes. The buffer bounds the memory for a damaged file without line ends.
  static constexpr size_t kBytes = 4096;

  // Returns whether there is more to read, and room for it.
  bool Fill() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    ssize_t count = 0;
    do {
      count = read(fd_, buffer_.data() + end_, buffer_.size() - end_);
    } while (count < 0 && errno == EINTR);
    end_ += static_cast<size_t>(std::max<ssize_t>(count, 0));
    return count > 0;
  }

  const int fd_;
  std::array<char, kBytes> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what was read and not returned
};

// Returns how many bytes at the start of the file are complete lines of steps up to `last_step`,
// and appends their evaluations.
int64_t BytesToKeep(int fd, int64_t last_step, Evaluations* evaluations) {
  LineReader lines(fd);
  int64_t kept = 0;
  while (const std::optional<absl::string_view> line = lines.Next()) {
    const nlohmann::json entry =
        nlohmann::json::parse(line->begin(), line->end(), nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer() ||
        entry["step"].get<int64_t>() > last_step) {
      break;
    }
    kept += static_cast<int64_t>(line->size()) + 1;
    const auto loss = entry.find("eval_loss");
    if (loss != entry.end() && loss->is_number()) {
      evaluations->emplace_back(entry["step"].get<int64_t>(), loss->get<double>());
    }
  }
  return kept;
}

nlohmann::ordered_json JsonOf(const StepMetrics& metrics) {
  nlohmann::ordered_json entry = {
      {"step", metrics.step},
      {"loss", metrics.loss},
      {"grad_norm", metrics.grad_norm},
      {"lr", metrics.lr},
      {"step_seconds", metrics.step_seconds},
      {absl::StrCat(metrics.unit, "s_per_second"), metrics.units_per_second},
      {"model_flops_per_second", metrics.model_flops_per_second},
      {"mfu", metrics.mfu},
      {"peak_bytes", metrics.peak_bytes},
  };
  if (metrics.communication.has_value()) {
    entry["bytes_sent"] = metrics.communication->bytes_sent;
    entry["communication_seconds"] = metrics.communication->seconds;
    entry["exposed_communication_seconds"] = metrics.communication->exposed_seconds;
  }
  if (metrics.eval_loss.has_value()) entry["eval_loss"] = *metrics.eval_loss;
  for (const auto& [name, value] : metrics.eval_metrics) entry["eval_" + name] = value;
  return entry;
}

std::vector<TensorboardScalar> ScalarsOf(const StepMetrics& metrics) {
  constexpr double kGibibyte = 1 << 30;
  std::vector<TensorboardScalar> scalars = {
      {"loss_metrics/global_avg_loss", metrics.loss},
      {"grad_norm", metrics.grad_norm},
      {"lr", metrics.lr},
      {"time_metrics/end_to_end(s)", metrics.step_seconds},
      {"throughput(tps)", metrics.units_per_second / static_cast<double>(metrics.ranks)},
      {"tflops", metrics.model_flops_per_second / 1e12},
      {"mfu(%)", 100 * metrics.mfu},
      {"memory/max_active(GiB)", static_cast<double>(metrics.peak_bytes) / kGibibyte},
  };
  if (metrics.communication.has_value()) {
    const StepMetrics::Communication& communication = *metrics.communication;
    scalars.push_back({"communication/bytes_sent", static_cast<double>(communication.bytes_sent)});
    scalars.push_back({"communication/seconds", communication.seconds});
    scalars.push_back({"communication/exposed_seconds", communication.exposed_seconds});
  }
  if (metrics.eval_loss.has_value()) {
    scalars.push_back({"validation_metrics/loss", *metrics.eval_loss});
  }
  for (const auto& [name, value] : metrics.eval_metrics) {
    scalars.push_back({"validation_metrics/" + name, value});
  }
  return scalars;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(const Folder& folder,
                                                             const std::string& name,
                                                             int64_t last_step) {
  ASSIGN_OR_RETURN(FileDescriptor fd, folder.OpenToExtend(name));
  const std::string path = folder.PathOf(name);
  Evaluations evaluations;
  const int64_t kept = BytesToKeep(fd.get(), last_step, &evaluations);
  if (ftruncate(fd.get(), kept) != 0) return SystemError("truncate", path);
  ASSIGN_OR_RETURN(std::unique_ptr<TensorboardFile> tensorboard,
                   TensorboardFile::Create(folder, last_step));
  return std::unique_ptr<MetricsLog>(
      new MetricsLog(path, std::move(fd), std::move(tensorboard), std::move(evaluations)));
}

absl::Status MetricsLog::Append(const StepMetrics& metrics) {
  const std::string line = JsonOf(metrics).dump() + "\n";
  if (WriteAll(fd_.get(), line) < line.size()) return SystemError("write", path_);
  return tensorboard_->Write(metrics.step, ScalarsOf(metrics));
}

}  // namespace tessera
