// The agreement of the ranks of a run to stop when a signal arrives on any of them.
#ifndef TESSERA_TOOLS_TRAIN_RANK_STOP_REQUEST_H_
#define TESSERA_TOOLS_TRAIN_RANK_STOP_REQUEST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// Not thread-safe.
class StopRequest {
 public:
  // `ranks` must outlive it.
  explicit StopRequest(Ranks* ranks) : ranks_(*ranks) {}

  // Information that ranks pass to each other.
  struct Report {
    // Rank 0 says these.
    bool measures = false;       // it measures the machine now, and the others with it
    bool output_failed = false;  // its output cannot be written any more
    int32_t token = 0;           // the token that it has drawn
    // Any rank says these.
    bool data_failed = false;    // it cannot read the data of the next step or batch
    bool compares_data = false;  // its data must be compared with what they were
  };

  // Collective: call it after a step, a batch of an evaluation or a token. Returns what the ranks
  // have passed. From now on signal() is the one of any rank. Does nothing if the run has one rank.
  absl::StatusOr<Report> Agree(const Report& mine);
  absl::Status Agree() { return Agree(Report()).status(); }

  // Returns the signal that the ranks have agreed on, or 0. If the run has one rank, that is the
  // signal that has arrived.
  int signal() const;

 private:
  Ranks& ranks_;
  int agreed_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RANK_STOP_REQUEST_H_
