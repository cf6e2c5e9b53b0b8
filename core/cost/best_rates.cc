#include "core/cost/best_rates.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kFlops[] = "flops_per_second";
constexpr char kBytes[] = "bytes_per_second";
constexpr uintmax_t kMaxFileBytes = 1 << 20;  // thousands of machines

// {"cpu: AMD EPYC, AVX3, 2 threads": {"flops_per_second": 2.2e11, "bytes_per_second": 3.8e10}}
Json ReadAll(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxFileBytes) return Json::object();
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  // A copy or a dump of values that are nested deeply would recurse as deeply.
  constexpr int kMaxDepth = 2;
  const auto is_flat = [](int depth, Json::parse_event_t /*event*/, const Json& /*value*/) {
    return depth <= kMaxDepth;
  };
  Json json = Json::parse(text, is_flat, /*allow_exceptions=*/false);
  if (!json.is_object()) json = Json::object();
  return json;
}

double Better(double measured, const Json& kept, const char* name) {
  if (!kept.is_object() || !kept.contains(name) || !kept[name].is_number()) return measured;
  const double rate = kept[name];
  return std::isfinite(rate) ? std::max(measured, rate) : measured;
}

void WriteAll(const std::string& path, const Json& all) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << all.dump(2) << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
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
  Json all = ReadAll(path);
  Json& kept = all[machine];
  const MachineRates best = {Better(measured.flops_per_second, kept, kFlops),
                             Better(measured.bytes_per_second, kept, kBytes)};
  const Json entry = {{kFlops, best.flops_per_second}, {kBytes, best.bytes_per_second}};
  if (entry != kept) {
    kept = entry;
    WriteAll(path, all);
  }
  return best;
}

}  // namespace tessera
