#include "core/cost/cache_file.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"
#include "core/posix/write_all.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A process holds the lock while it reads and writes one small file.
constexpr auto kLongestWait = std::chrono::seconds(5);
constexpr auto kPoll = std::chrono::milliseconds(5);

absl::StatusOr<CacheJson> ReadFrom(const Folder& folder, const std::string& name,
                                   const CacheLimits& limits) {
  const absl::StatusOr<std::string> text = folder.ReadStart(name, limits.bytes + 1);
  if (absl::IsNotFound(text.status())) return CacheJson::object();
  RETURN_IF_ERROR(text.status());
  if (text->size() > limits.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is larger than ", FormatBytes(static_cast<int64_t>(limits.bytes))));
  }
  // A copy or a dump of values that are nested deeply would recurse as deeply.
  const auto is_flat = [&limits](int depth, CacheJson::parse_event_t /*event*/,
                                 const CacheJson& /*value*/) { return depth <= limits.depth; };
  CacheJson json = CacheJson::parse(*text, is_flat, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("it is no JSON object");
  return json;
}

// Waits for the lock of a folder, but not forever: a process may be suspended while it holds it.
absl::StatusOr<FileDescriptor> WaitForLock(const Folder& folder) {
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (true) {
    absl::StatusOr<FileDescriptor> lock = folder.Lock();
    if (!absl::IsUnavailable(lock.status()) || std::chrono::steady_clock::now() >= end) return lock;
    std::this_thread::sleep_for(kPoll);
  }
}

// Replaces the file by a new one, whose first name nobody can foresee.
absl::Status ReplaceFile(const Folder& folder, const std::string& name, const CacheJson& values) {
  const std::string temporary = absl::StrFormat("%s.%08x", name, std::random_device()());
  ASSIGN_OR_RETURN(FileDescriptor file, folder.CreateFile(temporary));
  // Names of another program's values may not be UTF-8.
  const std::string text =
      values.dump(2, ' ', /*ensure_ascii=*/false, CacheJson::error_handler_t::replace) + "\n";
  const bool written = WriteAll(file.get(), text) == text.size();
  const int write_error = errno;
  const bool closed = close(file.Release()) == 0;
  absl::Status status;
  if (!written || !closed) {
    status = absl::ErrnoToStatus(written ? errno : write_error,
                                 absl::StrCat("cannot write ", folder.PathOf(name)));
  } else {
    status = folder.Rename(temporary, name);
  }
  if (!status.ok()) folder.RemoveFile(temporary).IgnoreError();
  return status;
}

}  // namespace

std::string CachePath(absl::string_view name) {
  // A relative path is invalid by the XDG specification.
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/tessera/", name);
  const char* const home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return absl::StrCat(home, "/.cache/tessera/", name);
}

absl::StatusOr<CacheJson> ReadCacheFile(const std::string& path, const CacheLimits& limits) {
  const fs::path file(path);
  std::error_code error;
  if (!fs::exists(file.parent_path(), error) && !error) return CacheJson::object();
  ASSIGN_OR_RETURN(const Folder folder, Folder::Open(file.parent_path().string()));
  return ReadFrom(folder, file.filename().string(), limits);
}

absl::Status UpdateCacheFile(const std::string& path, const CacheLimits& limits,
                             const std::function<void(CacheJson& values)>& change) {
  const fs::path file(path);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  ASSIGN_OR_RETURN(const Folder folder, Folder::Open(file.parent_path().string()));
  ASSIGN_OR_RETURN(const FileDescriptor lock, WaitForLock(folder));
  const std::string name = file.filename().string();
  absl::StatusOr<CacheJson> read = ReadFrom(folder, name, limits);
  CacheJson values = read.ok() ? *std::move(read) : CacheJson::object();
  change(values);
  return ReplaceFile(folder, name, values);
}

}  // namespace tessera
