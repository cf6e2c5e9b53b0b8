// A small state whose every byte follows from the step, for tests of checkpoints.
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

// Chunks that are smaller than most of the tensors, so that a save has many moments.
SaveOptions OptionsForTest(int keep);

// Saves the state of a step.
absl::StatusOr<SavedCheckpoint> SaveForTest(const std::string& run, int64_t step, int keep = 3);

// Empty if the checkpoint is exactly that of its step, else what is wrong.
std::string WhatIsWrong(const Checkpoint& checkpoint);

// An empty folder of this name in the test's own folder.
std::string NewFolder(const std::string& name);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_TEST_STATE_H_
