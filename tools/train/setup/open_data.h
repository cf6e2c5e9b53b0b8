// Opens the data of a run, and finds where in them it begins and ends.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_OPEN_DATA_H_
#define TESSERA_TOOLS_TRAIN_SETUP_OPEN_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/data/readers/reader.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/effective_config.h"

namespace tessera {

// The remedy for ranks that differ.
inline constexpr char kSameSetups[] = "all ranks need the same flags, files, processor and threads";

struct OpenedData {
  std::unique_ptr<Dataset> dataset;  // null if the run reads no data
  int64_t first_row = 0;             // at which training begins
};

// Opens the data, if the run reads them, and compares them among ranks and with the checkpoint,
// which is null for a new run. `unread` is that of OpenUnread (data_source.h), if the run reads
// any. Collective; errors are agreed ones.
absl::StatusOr<OpenedData> OpenData(const CommandLine& line, const ModelDefinition& definition,
                                    const Checkpoint* checkpoint, const EffectiveConfig& effective,
                                    UnreadData unread, Ranks& ranks,
                                    std::vector<std::string>* notes);

// Returns the total number of steps of a run that takes its data `epochs` times, after the steps of
// `checkpoint`, which is null for a new run. InvalidArgument for data that have no end.
absl::StatusOr<int64_t> StepsOfEpochs(int64_t epochs, const RunConfig& config,
                                      const OpenedData& data, const Checkpoint* checkpoint);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_OPEN_DATA_H_
