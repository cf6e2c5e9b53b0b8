#include "strategies/conformance/rank_environment.h"

#include <stdlib.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {

RankEnvironmentGuard::RankEnvironmentGuard(int rank, int ranks) {
  const std::string rank_text = absl::StrCat(rank), ranks_text = absl::StrCat(ranks);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"RANK", rank_text},
           {"LOCAL_RANK", rank_text},
           {"WORLD_SIZE", ranks_text},
           {"LOCAL_WORLD_SIZE", ranks_text},
           {"SLURM_PROCID", rank_text},
           {"SLURM_LOCALID", rank_text},
           {"SLURM_NTASKS", ranks_text},
           {"OMPI_COMM_WORLD_RANK", rank_text},
           {"OMPI_COMM_WORLD_LOCAL_RANK", rank_text},
           {"OMPI_COMM_WORLD_SIZE", ranks_text},
           {"PMI_RANK", rank_text},
           {"PMI_SIZE", ranks_text}}) {
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
