// A small state for tests of checkpoints. The step determines every byte of it.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_TEST_STATE_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_TEST_STATE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"

namespace tessera {

// Parameters and optimizer state of all dtypes, with empty and scalar ones, 9 KB in all.
CheckpointContents ContentsForTest(int64_t step);

ReadState ReadStateForTest(int64_t step);

// Options with chunks smaller than most tensors, so that a save consists of many changes.
SaveOptions OptionsForTest(int keep);

// Saves the state of a step.
absl::StatusOr<SavedCheckpoint> SaveForTest(const std::string& run, int64_t step, int keep = 3);

// The first difference between a checkpoint and what was saved at its step; empty if there is none.
std::string Difference(const Checkpoint& checkpoint);

// An empty folder of this name in the test's own folder.
std::string NewFolder(const std::string& name);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_TEST_STATE_H_
