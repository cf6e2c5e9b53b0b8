#include "collectives/testing/connect_process.h"

#include <stdlib.h>

#include "absl/strings/str_cat.h"

namespace tessera::comm {

absl::StatusOr<std::unique_ptr<ConnectedWorld>> ConnectProcess(int rank, int ranks,
                                                               const std::string& job,
                                                               const WorldOptions& options) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TESSERA_SECRET", "TESSERA_LISTEN_FD",
                           "TESSERA_LAUNCH", "TORCHELASTIC_USE_AGENT_STORE"}) {
    unsetenv(name);
  }
  for (const char* name : {"RANK", "LOCAL_RANK"}) setenv(name, absl::StrCat(rank).c_str(), 1);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
    setenv(name, absl::StrCat(ranks).c_str(), 1);
  }
  setenv("TORCHELASTIC_RUN_ID", job.c_str(), 1);
  return ConnectedWorld::Connect(options);
}

}  // namespace tessera::comm
