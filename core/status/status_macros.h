// RETURN_IF_ERROR(expression) and ASSIGN_OR_RETURN(target, expression) return an error of the
// expression, an absl::Status or absl::StatusOr, from the calling function.
#ifndef TESSERA_CORE_STATUS_STATUS_MACROS_H_
#define TESSERA_CORE_STATUS_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define TESSERA_CONCAT_INNER(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)              \
  do {                                           \
    ::absl::Status status_of_it = (expression);  \
    if (!status_of_it.ok()) return status_of_it; \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(TESSERA_CONCAT(result_of_it_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return result.status();                \
  target = *std::move(result)

#endif  // TESSERA_CORE_STATUS_STATUS_MACROS_H_
