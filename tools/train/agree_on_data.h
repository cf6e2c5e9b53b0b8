// The agreement of the ranks of a run on the data that each of them has read.
#ifndef TESSERA_TOOLS_TRAIN_AGREE_ON_DATA_H_
#define TESSERA_TOOLS_TRAIN_AGREE_ON_DATA_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/ranks/ranks.h"
#include "core/train/trainer.h"
#include "tools/train/rank/stop_request.h"

namespace tessera {

// Collective: call it after this rank has read a batch, or could not (`*read`). Returns what the
// ranks have passed, as StopRequest::Agree does; the function itself sets `data_failed`. If any
// rank has set `compares_data`, all of them compare their data before it returns, which may take
// longer than the time-out of a step. If this rank's data have changed, *read becomes that error.
absl::StatusOr<StopRequest::Report> AgreeOnData(StopRequest::Report mine, Trainer& trainer,
                                                Ranks& ranks, StopRequest& stop,
                                                absl::Status* read);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_AGREE_ON_DATA_H_
