#include "core/posix/testing/obstacles.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/posix/file_descriptor.h"
#include "core/status/check.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void PutSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  TESSERA_CHECK(path.size() < sizeof(address.sun_path)) << path;
  std::memcpy(address.sun_path, path.data(), path.size());
  const FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TESSERA_CHECK(bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
      << path << ": " << std::strerror(errno);
}

std::string ContentsOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::vector<Obstacle> AllObstacles() {
  return {Obstacle::kLink,   Obstacle::kDanglingLink, Obstacle::kHardLink,    Obstacle::kFifo,
          Obstacle::kSocket, Obstacle::kFolder,       Obstacle::kLinkToFolder};
}

std::string NameOf(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kLink:
      return "a link to a file";
    case Obstacle::kDanglingLink:
      return "a link to nothing";
    case Obstacle::kHardLink:
      return "a hard link";
    case Obstacle::kFifo:
      return "a FIFO";
    case Obstacle::kSocket:
      return "a socket";
    case Obstacle::kFolder:
      return "a folder";
    case Obstacle::kLinkToFolder:
      return "a link to a folder";
  }
  return "";
}

void Put(Obstacle obstacle, const std::string& path, const std::string& victim) {
  fs::remove_all(path);
  fs::create_directories(fs::path(path).parent_path());
  switch (obstacle) {
    case Obstacle::kLink:
      return fs::create_symlink(victim + "/file", path);
    case Obstacle::kDanglingLink:
      return fs::create_symlink(victim + "/none", path);
    case Obstacle::kHardLink:
      return fs::create_hard_link(victim + "/file", path);
    case Obstacle::kFifo:
      TESSERA_CHECK(mkfifo(path.c_str(), 0666) == 0) << path;
      return;
    case Obstacle::kSocket:
      return PutSocket(path);
    case Obstacle::kFolder:
      fs::create_directories(path + "/of another user");
      return;
    case Obstacle::kLinkToFolder:
      return fs::create_symlink(victim + "/folder", path);
  }
}

void MakeVictim(const std::string& path) {
  const std::string checkpoint = path + "/folder/step_00000001";
  fs::create_directories(checkpoint);
  std::ofstream(path + "/file") << "{\"step\": 1}\n";
  std::ofstream(path + "/folder/metrics.jsonl") << "{\"step\": 1}\n";
  for (const char* name : {"manifest.json", "parameters.safetensors", "config.textproto"}) {
    std::ofstream(checkpoint + "/" + name) << "of the victim\n";
  }
}

bool MayActAsOthers() { return geteuid() == 0 && seteuid(kOtherUser) == 0 && seteuid(0) == 0; }

std::string Snapshot(const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::file_status status = entry.symlink_status();
    const bool regular = fs::is_regular_file(status);
    lines.push_back(absl::StrCat(entry.path().string(), " ", static_cast<int>(status.type()), " ",
                                 static_cast<int>(status.permissions()), " ",
                                 regular ? ContentsOf(entry.path()) : "", "\n"));
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace tessera
