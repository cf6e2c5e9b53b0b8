// Writes the event files of a run of six steps that is resumed after step 4, to a folder.
//   write_events FOLDER
#include <cstdio>
#include <vector>

#include "core/posix/folder.h"
#include "core/status/check.h"
#include "core/train/record/tensorboard_file.h"

namespace tessera {
namespace {

// The loss of step k is k + `more`; an evaluation follows each even step.
void WriteSteps(const Folder& folder, int64_t last_step, int64_t end, double more) {
  const auto file = TensorboardFile::Create(folder, last_step);
  TESSERA_CHECK(file.ok()) << file.status();
  for (int64_t step = last_step + 1; step <= end; ++step) {
    const auto number = static_cast<double>(step);
    std::vector<TensorboardScalar> scalars = {{"loss_metrics/global_avg_loss", number + more},
                                              {"memory/max_active(GiB)", 0.5}};
    if (step % 2 == 0) scalars.push_back({"validation_metrics/loss", 10 * number + more});
    const absl::Status status = (*file)->Write(step, scalars);
    TESSERA_CHECK(status.ok()) << status;
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_events FOLDER\n");
    return 2;
  }
  const absl::StatusOr<tessera::Folder> folder = tessera::Folder::Open(argv[1]);
  TESSERA_CHECK(folder.ok()) << folder.status();
  tessera::WriteSteps(*folder, 0, 6, 0);
  tessera::WriteSteps(*folder, 4, 8, 0.25);
  return 0;
}
