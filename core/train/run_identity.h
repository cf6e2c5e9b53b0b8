// The identity of a run, by which it recognises the checkpoints that it has saved.
#ifndef TESSERA_CORE_TRAIN_RUN_IDENTITY_H_
#define TESSERA_CORE_TRAIN_RUN_IDENTITY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Returns the identity of a run that begins with this configuration on data of this fingerprint: a
// checksum, in 32 hexadecimal digits, of everything that determines the values of its steps. It is
// no random number, so that the same run saves the same bytes again. What may change without
// another result, such as the number of steps or how often it saves, is not part of it. A resumed
// run keeps the identity that its checkpoint states, whatever it changes. Thread safety: a pure
// function.
std::string RunIdentity(RunConfig config, absl::string_view data);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RUN_IDENTITY_H_
