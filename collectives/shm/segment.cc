#include "collectives/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/posix/available_memory.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {
namespace {

constexpr int64_t kPageBytes = 4096;

// Segments of this process, by descriptor: ranks that are its threads share one mapping.
struct ProcessSegments {
  Mutex mutex;
  std::map<int64_t, std::weak_ptr<const Segment>> by_descriptor ABSL_GUARDED_BY(mutex);
};
ProcessSegments& SegmentsOfProcess() {
  static ProcessSegments* const segments = new ProcessSegments;
  return *segments;
}

// A lock that the system releases when this process ends, however it ends. It belongs to the
// process, so a forked child does not keep it.
struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Reserves the memory now, because in a file that only has a size the first access may fault.
// Reserves piece by piece and compares the rest with the available memory each time, because a
// system that is short of memory kills processes instead of reporting an error.
//
// Some systems undo a piece when a signal arrives, and a timer's next signal may arrive before a
// piece of the same size is done, so the pieces then become smaller.
absl::Status Reserve(int descriptor, int64_t bytes) {
  int64_t piece = 16 << 20;
  for (int64_t begin = 0; begin < bytes;) {
    const int64_t available = AvailableMemory();
    const bool lacks = available > 0 && bytes - begin > available;
    const int64_t reserved = std::min(piece, bytes - begin);
    const int error = lacks ? ENOMEM : posix_fallocate(descriptor, begin, reserved);
    if (error == EINTR) {
      piece = std::max(kPageBytes, piece / 2);
    } else if (error != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "there are no ", bytes, " bytes of shared memory (", std::strerror(error), ")"));
    } else {
      begin += reserved;
    }
  }
  return absl::OkStatus();
}

int64_t MappedBytes(int64_t bytes) {
  return (std::max<int64_t>(1, bytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

Segment::~Segment() { munmap(data_, MappedBytes(address_.bytes) + kPageBytes); }

absl::StatusOr<std::shared_ptr<const Segment>> Segment::Map(FileDescriptor descriptor,
                                                            const SegmentAddress& address) {
  const auto error = [&] {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot map ", address.bytes, " bytes of shared memory"));
  };
  const int64_t mapped = MappedBytes(address.bytes);
  void* const reserved = mmap(nullptr, mapped + kPageBytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return error();
  void* const data =
      mmap(reserved, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor.get(), 0);
  if (data == MAP_FAILED) {
    const absl::Status status = error();
    munmap(reserved, mapped + kPageBytes);
    return status;
  }
  return std::shared_ptr<const Segment>(
      new Segment(std::move(descriptor), static_cast<char*>(data), address));
}

absl::StatusOr<std::shared_ptr<const Segment>> Segment::Create(int64_t bytes) {
  FileDescriptor descriptor(memfd_create("tessera", MFD_CLOEXEC));
  if (!descriptor.is_open()) return absl::ErrnoToStatus(errno, "cannot make shared memory");
  RETURN_IF_ERROR(Reserve(descriptor.get(), std::max<int64_t>(1, bytes)));
  struct flock lock = WholeFile();
  if (fcntl(descriptor.get(), F_SETLK, &lock) != 0) {
    return absl::ErrnoToStatus(errno, "cannot lock shared memory");
  }
  const int number = descriptor.get();
  ASSIGN_OR_RETURN(auto segment, Map(std::move(descriptor), {getpid(), number, bytes}));
  ProcessSegments& segments = SegmentsOfProcess();
  const MutexLock guard(&segments.mutex);
  segments.by_descriptor[number] = segment;
  return segment;
}

void Segment::CloseDescriptor() const {
  const MutexLock lock(&mutex_);
  descriptor_.Close();
}

absl::StatusOr<std::shared_ptr<const Segment>> Segment::Open(const SegmentAddress& address) {
  if (address.process == getpid()) {
    ProcessSegments& segments = SegmentsOfProcess();
    const MutexLock lock(&segments.mutex);
    auto segment = segments.by_descriptor[address.descriptor].lock();
    if (segment == nullptr) return absl::NotFoundError("the shared memory is gone");
    return segment;
  }
  const std::string path = absl::StrCat("/proc/", address.process, "/fd/", address.descriptor);
  FileDescriptor descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor.is_open()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the shared memory of process ",
                                                   address.process, " (", path, ")"));
  }
  if (address.bytes < 0 || lseek(descriptor.get(), 0, SEEK_END) < address.bytes) {
    return absl::NotFoundError(absl::StrCat(path, " is not the shared memory that was announced"));
  }
  return Map(std::move(descriptor), address);
}

bool Segment::MakerIsAlive() const {
  if (address_.process == getpid()) return true;
  struct flock lock = WholeFile();
  const MutexLock guard(&mutex_);
  return fcntl(descriptor_.get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Segment::MakerIsStopped() const {
  std::string text;
  std::getline(std::ifstream(absl::StrCat("/proc/", address_.process, "/stat")), text);
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

}  // namespace tessera::comm::shm
