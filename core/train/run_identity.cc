#include "core/train/run_identity.h"

#include "absl/strings/str_cat.h"
#include "core/train/checkpoint/checksum.h"

namespace tessera {

std::string RunIdentity(RunConfig config, absl::string_view data) {
  config.clear_data();  // a path, which may differ for the same data
  config.clear_sample();
  config.clear_steps();
  config.mutable_optimizer()->clear_decay_steps();  // by default, it follows from the steps
  config.clear_memory_limit();
  config.clear_save_every();
  config.clear_keep_checkpoints();
  config.clear_eval_every();
  config.clear_eval_batches();
  config.clear_threads();
  const std::string text = absl::StrCat(config.SerializeAsString(), "\n", data);
  return ChecksumOf(text);
}

}  // namespace tessera
