// The learning rates of a run that begins or is resumed.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_SCHEDULE_OF_RUN_H_
#define TESSERA_TOOLS_TRAIN_SETUP_SCHEDULE_OF_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/train/config/run_config.pb.h"

namespace tessera {

// Returns optimizer.decay_steps of a run. If it is open, the decay ends with the run, as long as
// the run is when it begins: a resumed run that goes on for longer keeps it. `saved` is the
// configuration of the resumed run, nullptr for a new one.
int64_t DecaySteps(const RunConfig& config, const RunConfig* saved);

// Returns notes about learning rates that the user may not expect. `step` is the last one that was
// taken.
std::vector<std::string> ScheduleNotes(const RunConfig& config, const RunConfig* saved,
                                       int64_t step);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_SCHEDULE_OF_RUN_H_
