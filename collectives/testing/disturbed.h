// Groups whose timing is disturbed, or in which a rank fails, for tests.
#ifndef TESSERA_COLLECTIVES_TESTING_DISTURBED_H_
#define TESSERA_COLLECTIVES_TESTING_DISTURBED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"

namespace tessera::comm {

// A delay or a failure of this rank at its n-th operation, counted from 1.
struct Fault {
  int64_t operation = 0;
  double delay_seconds = 0;  // before it issues it
  bool fails = false;        // the rank aborts instead
};

// RANK:N:fail or RANK:N:SECONDS, for one of `size` ranks.
struct RankFault {
  int rank = 0;
  Fault fault;
};
absl::StatusOr<RankFault> ParseFault(absl::string_view text, int size);

// Returns the group with a fault. Groups made by Split have none.
std::unique_ptr<Communicator> WithFault(std::unique_ptr<Communicator> group, const Fault& fault);

// Returns the group with pauses of up to a fraction of a millisecond before operations. They are a
// function of the seed, the rank and the group's name. Groups made by Split have them too.
std::unique_ptr<Communicator> WithPermutedTiming(std::unique_ptr<Communicator> group,
                                                 uint64_t seed);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_DISTURBED_H_
