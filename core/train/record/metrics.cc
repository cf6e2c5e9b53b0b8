#include "core/train/record/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

using Evaluations = std::vector<std::pair<int64_t, double>>;  // step, eval_loss

// Returns how many bytes at the start of the file are complete lines of steps up to `last_step`,
// and appends their evaluations.
int64_t BytesToKeep(std::istream& file, int64_t last_step, Evaluations* evaluations) {
  // A line has about 300 bytes. The buffer bounds the memory for a damaged file without line ends.
  std::vector<char> buffer(4096);
  int64_t kept = 0;
  while (file.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) && !file.eof()) {
    const absl::string_view line(buffer.data(), static_cast<size_t>(file.gcount()) - 1);
    const nlohmann::json entry =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer() ||
        entry["step"].get<int64_t>() > last_step) {
      break;
    }
    kept += static_cast<int64_t>(line.size()) + 1;
    const auto loss = entry.find("eval_loss");
    if (loss != entry.end() && loss->is_number()) {
      evaluations->emplace_back(entry["step"].get<int64_t>(), loss->get<double>());
    }
  }
  return kept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(const std::string& path,
                                                             int64_t last_step) {
  int64_t kept = 0;
  Evaluations evaluations;
  {
    std::ifstream file(path, std::ios::binary);
    if (file) kept = BytesToKeep(file, last_step, &evaluations);
  }
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.is_open()) return SystemError("write", path);
  if (ftruncate(fd.get(), kept) != 0) return SystemError("truncate", path);
  return std::unique_ptr<MetricsLog>(new MetricsLog(path, std::move(fd), std::move(evaluations)));
}

absl::Status MetricsLog::Append(const StepMetrics& metrics) {
  nlohmann::ordered_json entry = {
      {"step", metrics.step},
      {"loss", metrics.loss},
      {"grad_norm", metrics.grad_norm},
      {"lr", metrics.lr},
      {"step_seconds", metrics.step_seconds},
      {"tokens_per_second", metrics.tokens_per_second},
      {"mfu", metrics.mfu},
      {"peak_bytes", metrics.peak_bytes},
  };
  if (metrics.communication.has_value()) {
    entry["bytes_sent"] = metrics.communication->bytes_sent;
    entry["communication_seconds"] = metrics.communication->seconds;
    entry["exposed_communication_seconds"] = metrics.communication->exposed_seconds;
  }
  if (metrics.eval_loss.has_value()) entry["eval_loss"] = *metrics.eval_loss;
  const std::string line = entry.dump() + "\n";
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = write(fd_.get(), line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SystemError("write", path_);
    written += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace tessera
