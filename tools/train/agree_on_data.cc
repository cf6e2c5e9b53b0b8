#include "tools/train/agree_on_data.h"

#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<StopRequest::Report> AgreeOnData(StopRequest::Report mine, Trainer& trainer,
                                                Ranks& ranks, StopRequest& stop,
                                                absl::Status* read) {
  mine.data_failed = !read->ok();
  ASSIGN_OR_RETURN(StopRequest::Report agreed, stop.Agree(mine));
  if (!agreed.compares_data || agreed.data_failed) return agreed;
  *read = trainer.CompareData();
  const absl::Status all = ranks.Agree(*read);
  // An error that is not agreed on is one of the connection between the ranks.
  if (!all.ok() && ranks.size() > 1 && !IsAgreed(all)) return all;
  agreed.data_failed = !all.ok();
  return agreed;
}

}  // namespace tessera
