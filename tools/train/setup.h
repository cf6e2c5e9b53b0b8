// From a command line to everything that a run needs, with nothing written and no memory allocated
// for it yet: configuration, model, data, backend, compiled Programs.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_H_
#define TESSERA_TOOLS_TRAIN_SETUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/program/compile.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/model.h"
#include "tools/train/flags.h"

namespace tessera {

struct Setup {
  const ModelDefinition* definition = nullptr;
  RunConfig config;
  std::string config_text;                 // the effective configuration, as it is saved
  std::vector<std::string> notes;          // for the user, in order
  std::unique_ptr<Checkpoint> checkpoint;  // that it goes on from; nullptr for a new run
  // Fields of the saved configuration that were overridden and may change the shape of the state.
  std::vector<std::string> shape_changes;
  std::unique_ptr<Model> model;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Backend> backend;
  CompiledRun compiled;
};

// With --resume, takes the newest whole checkpoint, and refuses one whose state has another shape
// than the run's. `argv0` is where the data that comes with the program is looked for. Errors are
// of what the user gave, and name it.
absl::StatusOr<Setup> PrepareRun(const CommandLine& line, const ModelDefinition& definition,
                                 const std::string& argv0);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_H_
