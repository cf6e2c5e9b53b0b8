// TESSERA_CHECK(condition) << "more": for a broken invariant of our own, never for bad input.
// Prints one line to standard error and ends the program.
//
// RETURN_IF_ERROR and ASSIGN_OR_RETURN pass an absl::Status on to the caller.
#ifndef TESSERA_CORE_TENSOR_CHECK_H_
#define TESSERA_CORE_TENSOR_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    message_ << "internal error at " << file << ":" << line << ": " << condition << " ";
  }
  [[noreturn]] ~CheckFailure() {
    std::fprintf(stderr, "%s\n", message_.str().c_str());
    std::abort();
  }
  template <typename T>
  CheckFailure& operator<<(const T& value) {
    message_ << value;
    return *this;
  }

 private:
  std::ostringstream message_;
};

}  // namespace tessera

#define TESSERA_CHECK(condition) \
  while (!(condition)) ::tessera::CheckFailure(__FILE__, __LINE__, #condition)

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

#endif  // TESSERA_CORE_TENSOR_CHECK_H_
