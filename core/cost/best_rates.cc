#include "core/cost/best_rates.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"
#include "core/posix/write_all.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kFlops[] = "flops_per_second";
constexpr char kBytes[] = "bytes_per_second";
constexpr size_t kMaxFileBytes = 1 << 20;  // thousands of machines

// Returns the rates of all machines in the file; none if it is missing, too large or malformed:
// {"cpu: AMD EPYC, AVX3, 2 threads": {"flops_per_second": 2.2e11, "bytes_per_second": 3.8e10}}
Json ReadRatesOfMachines(const Folder& folder, const std::string& name) {
  const absl::StatusOr<std::string> text = folder.ReadStart(name, kMaxFileBytes + 1);
  if (!text.ok() || text->size() > kMaxFileBytes) return Json::object();
  // A copy or a dump of values that are nested deeply would recurse as deeply.
  constexpr int kMaxDepth = 2;
  const auto is_flat = [](int depth, Json::parse_event_t /*event*/, const Json& /*value*/) {
    return depth <= kMaxDepth;
  };
  Json json = Json::parse(*text, is_flat, /*allow_exceptions=*/false);
  if (!json.is_object()) json = Json::object();
  return json;
}

// Returns the higher of a measured rate and the kept one, if that is a possible rate.
double HigherRate(double measured, const Json& kept, const char* name, double highest) {
  if (!kept.is_object() || !kept.contains(name) || !kept[name].is_number()) return measured;
  const double rate = kept[name];
  return rate > 0 && rate <= highest ? std::max(measured, rate) : measured;
}

// Replaces the file by a new one, whose first name nobody can foresee. If that fails, the file is
// as it was.
void ReplaceFile(const Folder& folder, const std::string& name, const Json& contents) {
  const std::string temporary = absl::StrFormat("%s.%08x", name, std::random_device()());
  absl::StatusOr<FileDescriptor> file = folder.CreateFile(temporary);
  if (!file.ok()) return;
  const std::string text = contents.dump(2) + "\n";
  const bool written = WriteAll(file->get(), text) == text.size();
  const bool closed = close(file->Release()) == 0;
  if (!written || !closed || !folder.Rename(temporary, name).ok()) {
    folder.RemoveFile(temporary).IgnoreError();
  }
}

}  // namespace

std::string BestRatesPath() {
  // A relative path is invalid by the XDG specification.
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/tessera/machine.json");
  const char* const home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return absl::StrCat(home, "/.cache/tessera/machine.json");
}

std::string MachineName(const Backend& backend) {
  const Processor processor = backend.processor();
  return absl::StrCat(backend.name(), ": ", processor.name, ", ", processor.threads,
                      processor.threads == 1 ? " thread" : " threads");
}

MachineRates KeepBestRates(const std::string& path, const std::string& machine,
                           const MachineRates& measured) {
  if (path.empty()) return measured;
  const fs::path file(path);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const absl::StatusOr<Folder> folder = Folder::Open(file.parent_path().string());
  if (!folder.ok()) return measured;
  const std::string name = file.filename().string();
  Json rates_by_machine = ReadRatesOfMachines(*folder, name);
  Json& kept = rates_by_machine[machine];
  const MachineRates best = {
      HigherRate(measured.flops_per_second, kept, kFlops, kHighestFlopsPerSecond),
      HigherRate(measured.bytes_per_second, kept, kBytes, kHighestBytesPerSecond)};
  const Json entry = {{kFlops, best.flops_per_second}, {kBytes, best.bytes_per_second}};
  if (entry != kept) {
    kept = entry;
    ReplaceFile(*folder, name, rates_by_machine);
  }
  return best;
}

}  // namespace tessera
