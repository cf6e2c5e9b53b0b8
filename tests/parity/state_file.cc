#include "tests/parity/state_file.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

std::vector<std::string> StateFile::Below(const std::string& prefix) const {
  std::vector<std::string> names;
  for (auto it = tensors.lower_bound(prefix);
       it != tensors.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
    names.push_back(it->first.substr(prefix.size()));
  }
  return names;
}

absl::StatusOr<StateFile> ReadStateFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  StateFile state;
  const nlohmann::json header =
      nlohmann::json::parse(bytes.substr(8, header_bytes), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return absl::DataLossError(absl::StrCat(path, " has no header"));
  const char* data = bytes.data() + 8 + header_bytes;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      state.config = nlohmann::json::parse(entry.at("config").get<std::string>());
      continue;
    }
    StateTensor& tensor = state.tensors[name];
    tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
    const auto offsets = entry.at("data_offsets").get<std::vector<int64_t>>();
    const std::string dtype = entry.at("dtype").get<std::string>();
    const int64_t size = dtype == "F64" ? 8 : dtype == "U8" ? 1 : 4;
    for (int64_t at = offsets[0]; at < offsets[1]; at += size) {
      double value = 0;
      if (dtype == "F64") {
        std::memcpy(&value, data + at, sizeof(value));
      } else if (dtype == "U8") {
        value = static_cast<unsigned char>(data[at]);
      } else {
        int32_t integer = 0;
        std::memcpy(&integer, data + at, sizeof(integer));
        value = integer;
      }
      tensor.values.push_back(value);
    }
  }
  return state;
}

}  // namespace tessera
