#include "core/cost/machine_file.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/cost/best_rates.h"

namespace tessera {
namespace {

constexpr char kFormat[] = "format", kMachines[] = "machines", kLibraries[] = "libraries";

std::string MachineKey(const KernelCatalogue& catalogue) {
  return absl::StrCat(MachineName(catalogue), "; ", std::string(catalogue.Hardware()));
}

bool IsOfFormat(const CacheJson& file, int64_t expected) {
  const auto format = file.find(kFormat);
  const auto machines = file.find(kMachines);
  return format != file.end() && *format == expected && machines != file.end() &&
         machines->is_object();
}

bool HasLibraries(const CacheJson& machine, const std::string& libraries, const char* values) {
  return machine.is_object() && machine.contains(kLibraries) && machine[kLibraries] == libraries &&
         machine.contains(values) && machine[values].is_object();
}

}  // namespace

MachineValues ReadMachineFile(const std::string& path, const MachineFile& kind,
                              const KernelCatalogue& catalogue) {
  MachineValues read;
  if (path.empty()) return read;
  absl::StatusOr<CacheJson> file = ReadCacheFile(path, kind.limits);
  if (!file.ok()) {
    read.note = absl::StrCat(path, " is no file of ", kind.holds, ": ", file.status().message());
    return read;
  }
  if (file->empty()) return read;
  if (!IsOfFormat(*file, kind.format)) {
    read.note = absl::StrCat(path, " is not of format ", kind.format, " of ", kind.holds);
    return read;
  }
  CacheJson& machines = (*file)[kMachines];
  const auto machine = machines.find(MachineKey(catalogue));
  if (machine == machines.end()) {
    if (!machines.empty()) {
      read.note = absl::StrCat("the ", kind.holds, " in ", path,
                               " are of other processors, such as ", machines.begin().key());
    }
    return read;
  }
  if (!HasLibraries(*machine, catalogue.Libraries(), kind.values)) {
    read.note = absl::StrCat("the ", kind.holds, " in ", path,
                             " were measured with other versions than ", catalogue.Libraries());
    return read;
  }
  read.values = std::move((*machine)[kind.values]);
  return read;
}

absl::Status UpdateMachineFile(const std::string& path, const MachineFile& kind,
                               const KernelCatalogue& catalogue,
                               const std::function<void(CacheJson& values)>& change) {
  return UpdateCacheFile(path, kind.limits, [&](CacheJson& file) {
    if (!IsOfFormat(file, kind.format)) {
      file = {{kFormat, kind.format}, {kMachines, CacheJson::object()}};
    }
    CacheJson& machine = file[kMachines][MachineKey(catalogue)];
    const std::string libraries = catalogue.Libraries();
    if (!HasLibraries(machine, libraries, kind.values)) {
      machine = {{kLibraries, libraries}, {kind.values, CacheJson::object()}};
    }
    change(machine[kind.values]);
  });
}

}  // namespace tessera
