#include "strategies/conformance/rank_environment.h"

#include <stdlib.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {

RankEnvironmentGuard::RankEnvironmentGuard(int rank, int ranks) {
  const std::string of_rank = absl::StrCat(rank), number = absl::StrCat(ranks);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"RANK", of_rank},
           {"LOCAL_RANK", of_rank},
           {"WORLD_SIZE", number},
           {"LOCAL_WORLD_SIZE", number},
           {"SLURM_PROCID", of_rank},
           {"SLURM_LOCALID", of_rank},
           {"SLURM_NTASKS", number},
           {"OMPI_COMM_WORLD_RANK", of_rank},
           {"OMPI_COMM_WORLD_LOCAL_RANK", of_rank},
           {"OMPI_COMM_WORLD_SIZE", number},
           {"PMI_RANK", of_rank},
           {"PMI_SIZE", number}}) {
    const char* const before = getenv(name);
    before_[name] = before == nullptr ? std::nullopt : std::make_optional<std::string>(before);
    setenv(name, value.c_str(), 1);
  }
}

RankEnvironmentGuard::~RankEnvironmentGuard() {
  for (const auto& [name, value] : before_) {
    if (value.has_value()) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
}

}  // namespace tessera
