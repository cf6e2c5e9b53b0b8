// Reads a reference state that make_states.py wrote: float64, int32 and uint8 tensors, and the JSON
// configuration.
#ifndef TESSERA_TESTS_PARITY_STATE_FILE_H_
#define TESSERA_TESTS_PARITY_STATE_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tessera {

struct StateTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

struct StateFile {
  std::map<std::string, StateTensor> tensors;
  nlohmann::json config;

  const std::vector<double>& values(const std::string& name) const {
    return tensors.at(name).values;
  }
  // Returns the names that begin with `prefix`, without it.
  std::vector<std::string> Below(const std::string& prefix) const;
};

absl::StatusOr<StateFile> ReadStateFile(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_TESTS_PARITY_STATE_FILE_H_
