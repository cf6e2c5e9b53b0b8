#include "collectives/net/deadline.h"

#include <algorithm>
#include <climits>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace tessera::comm {

int MillisecondsUntil(Deadline deadline) {
  const Deadline now = std::chrono::steady_clock::now();
  if (deadline <= now) return 0;
  const auto remaining = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<int>(std::min<int64_t>(remaining.count(), INT_MAX));
}

std::string FormatTimeout(std::chrono::milliseconds timeout) {
  return absl::StrFormat("%g s", static_cast<double>(timeout.count()) / 1e3);
}

}  // namespace tessera::comm
