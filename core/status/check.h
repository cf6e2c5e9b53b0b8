// TESSERA_CHECK(condition) << "more": for a broken invariant of our own, never for bad input.
// Prints one line to standard error and aborts the process.
#ifndef TESSERA_CORE_STATUS_CHECK_H_
#define TESSERA_CORE_STATUS_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <sstream>

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

#endif  // TESSERA_CORE_STATUS_CHECK_H_
