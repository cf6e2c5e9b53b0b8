#include "tools/train/rank/stop_request.h"

#include <string.h>

#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "tools/train/rank/interrupt.h"

namespace tessera {
namespace {

// A signal and the rank that received it are encoded in one number.
constexpr int64_t kRanks = int64_t{1} << 32;

}  // namespace

absl::StatusOr<StopRequest::Report> StopRequest::Agree(const Report& mine) {
  if (ranks_.size() == 1) return mine;
  int64_t values[] = {CaughtSignal() * kRanks + ranks_.rank(),
                      mine.data_failed ? 1 : 0,
                      0,
                      0,
                      -1,
                      mine.compares_data ? 1 : 0};
  if (ranks_.is_first()) {
    values[2] = mine.measures ? 1 : 0;
    values[3] = mine.output_failed ? 1 : 0;
    values[4] = mine.token;
  }
  RETURN_IF_ERROR(ranks_.Max(absl::MakeSpan(values)));
  SetStopIsCollective();
  const int signal = static_cast<int>(values[0] / kRanks);
  if (agreed_ == 0 && signal != 0 && ranks_.is_first()) {
    absl::FPrintF(stderr, "stopping, as rank %d has got SIG%s; %s\n", values[0] % kRanks,
                  sigabbrev_np(signal), kStopsAtOnce);
  }
  agreed_ = signal;
  return Report{values[2] != 0, values[3] != 0, static_cast<int32_t>(values[4]), values[1] != 0,
                values[5] != 0};
}

int StopRequest::signal() const { return ranks_.size() == 1 ? CaughtSignal() : agreed_; }

}  // namespace tessera
