#include "collectives/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/posix/available_memory.h"

namespace tessera::comm::shm {
namespace {

// Segments of this process, by descriptor: ranks that are its threads share one mapping.
struct OwnSegments {
  std::mutex mutex;
  std::map<int64_t, std::weak_ptr<const Segment>> by_descriptor;
};
OwnSegments& Own() {
  static OwnSegments* const own = new OwnSegments;
  return *own;
}

// A lock that the system lets go of when this process ends, however it ends. It belongs to the
// process, so a child that was forked does not keep it.
struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Takes the memory here and now: of a file that only has a size, the first touch may be a fault. In
// pieces, each of which must be there: asked for more than it has, the system would rather kill
// processes than say so.
absl::Status Reserve(int descriptor, int64_t bytes) {
  constexpr int64_t kPiece = 256 << 20;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    const int64_t available = AvailableMemory();
    const bool lacks = available > 0 && bytes - begin > available;
    const int error =
        lacks ? ENOMEM : posix_fallocate(descriptor, begin, std::min(kPiece, bytes - begin));
    if (error != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "there are no ", bytes, " bytes of shared memory (", std::strerror(error), ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Segment::~Segment() {
  munmap(data_, std::max<int64_t>(1, address_.bytes));
  close(descriptor_);
}

absl::StatusOr<std::shared_ptr<const Segment>> Segment::Map(int descriptor,
                                                            const SegmentAddress& address) {
  void* const data = mmap(nullptr, std::max<int64_t>(1, address.bytes), PROT_READ | PROT_WRITE,
                          MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(descriptor);
    return absl::ErrnoToStatus(
        error, absl::StrCat("cannot map ", address.bytes, " bytes of shared memory"));
  }
  return std::shared_ptr<const Segment>(new Segment(descriptor, static_cast<char*>(data), address));
}

absl::StatusOr<std::shared_ptr<const Segment>> Segment::Create(int64_t bytes) {
  const int descriptor = memfd_create("tessera", MFD_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "cannot make shared memory");
  const absl::Status reserved = Reserve(descriptor, std::max<int64_t>(1, bytes));
  if (!reserved.ok()) {
    close(descriptor);
    return reserved;
  }
  struct flock lock = WholeFile();
  if (fcntl(descriptor, F_SETLK, &lock) != 0) {
    const int failure = errno;
    close(descriptor);
    return absl::ErrnoToStatus(failure, "cannot lock shared memory");
  }
  auto segment = Map(descriptor, {getpid(), descriptor, bytes});
  if (segment.ok()) {
    OwnSegments& own = Own();
    const std::lock_guard<std::mutex> guard(own.mutex);
    own.by_descriptor[descriptor] = *segment;
  }
  return segment;
}

absl::StatusOr<std::shared_ptr<const Segment>> Segment::Open(const SegmentAddress& address) {
  if (address.process == getpid()) {
    OwnSegments& own = Own();
    const std::lock_guard<std::mutex> guard(own.mutex);
    auto segment = own.by_descriptor[address.descriptor].lock();
    if (segment == nullptr) return absl::NotFoundError("the shared memory is gone");
    return segment;
  }
  const std::string path = absl::StrCat("/proc/", address.process, "/fd/", address.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the shared memory of process ",
                                                   address.process, " (", path, ")"));
  }
  if (lseek(descriptor, 0, SEEK_END) < address.bytes) {
    close(descriptor);
    return absl::NotFoundError(absl::StrCat(path, " is not the shared memory that was announced"));
  }
  return Map(descriptor, address);
}

bool Segment::MakerIsAlive() const {
  if (address_.process == getpid()) return true;
  struct flock lock = WholeFile();
  return fcntl(descriptor_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Segment::MakerIsStopped() const {
  std::string text;
  std::getline(std::ifstream(absl::StrCat("/proc/", address_.process, "/stat")), text);
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

}  // namespace tessera::comm::shm
