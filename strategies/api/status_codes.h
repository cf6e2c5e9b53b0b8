// The result codes of the strategy interface and the codes of absl::Status.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_API_STATUS_CODES_H_
#define TESSERA_STRATEGIES_API_STATUS_CODES_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "strategies/api/strategy.h"

namespace tessera::strategy {

inline constexpr std::pair<int32_t, absl::StatusCode> kStatusCodes[] = {
    {TESSERA_OK, absl::StatusCode::kOk},
    {TESSERA_INVALID, absl::StatusCode::kInvalidArgument},
    {TESSERA_NOT_FOUND, absl::StatusCode::kNotFound},
    {TESSERA_INFEASIBLE, absl::StatusCode::kResourceExhausted},
    {TESSERA_CANCELLED, absl::StatusCode::kCancelled},
    {TESSERA_UNSUPPORTED, absl::StatusCode::kUnimplemented},
};

// Returns the interface's code for a status; TESSERA_INTERNAL if it has none of its own.
inline int32_t ToCode(const absl::Status& status) {
  for (const auto& [code, status_code] : kStatusCodes) {
    if (status_code == status.code()) return code;
  }
  return TESSERA_INTERNAL;
}

// The inverse; kInternal for any other code.
inline absl::StatusCode ToStatusCode(int32_t code) {
  for (const auto& [known, status_code] : kStatusCodes) {
    if (known == code) return status_code;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_STATUS_CODES_H_
