// Adds to the message of an error.
#ifndef TESSERA_CORE_STATUS_WITH_MESSAGE_H_
#define TESSERA_CORE_STATUS_WITH_MESSAGE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Returns an error with another message, which usually contains the former one, and with the same
// code and payloads. A payload says, for example, whether all ranks have the error. OK stays OK.
absl::Status WithMessage(const absl::Status& status, absl::string_view message);

}  // namespace tessera

#endif  // TESSERA_CORE_STATUS_WITH_MESSAGE_H_
