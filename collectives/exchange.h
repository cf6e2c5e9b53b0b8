// An exchange of short texts, by which ranks find each other before they can communicate.
#ifndef TESSERA_COLLECTIVES_EXCHANGE_H_
#define TESSERA_COLLECTIVES_EXCHANGE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::comm {

// Sends `mine` to all ranks and returns the text of each rank, in the order of ranks; `key` is the
// same on all ranks and different for each exchange. An error names the missing ranks.
using Exchange = std::function<absl::StatusOr<std::vector<std::string>>(absl::string_view key,
                                                                        absl::string_view mine)>;

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_EXCHANGE_H_
