// What became of a Plan that was tried.
#ifndef TESSERA_TESTS_PLANS_RANDOM_OUTCOME_H_
#define TESSERA_TESTS_PLANS_RANDOM_OUTCOME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

enum class OutcomeKind {
  kRight,     // it trains as one process does
  kRefused,   // an error of one line says what in the Plan does not fit
  kWrong,     // other losses, gradients or states than those of one process
  kNan,       // NaN where one process has numbers
  kMemory,    // the memory check fails
  kInternal,  // any other error
  kCrash,     // the process ended
  kHang,      // it did not end in time
};
inline constexpr int kNumOutcomeKinds = 8;

struct Outcome {
  OutcomeKind kind = OutcomeKind::kRight;
  std::string message;  // one line; "" if it is right

  // Whether a Plan may have this outcome.
  bool good() const { return kind == OutcomeKind::kRight || kind == OutcomeKind::kRefused; }
};

// Returns a word for it, like "internal error".
absl::string_view NameOf(OutcomeKind kind);

// Returns the message without what differs between messages of one kind: paths, layouts, quoted
// texts and numbers. Messages that say the same of different subjects are equal then.
std::string Generalized(absl::string_view message);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_OUTCOME_H_
