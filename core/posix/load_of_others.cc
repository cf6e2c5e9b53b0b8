#include "core/posix/load_of_others.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/posix/available_cores.h"

namespace tessera {
namespace {

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double ToSeconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Returns the ticks that a line of /proc/stat, after its first word, counts as work: everything but
// idle time, waiting for the disk, and what guests get (which is part of user and nice time).
double BusyTicks(std::istream& line) {
  enum { kUser, kNice, kSystem, kIdle, kIoWait, kInterrupt, kSoftInterrupt, kSteal, kCount };
  double ticks = 0;
  for (int field = 0; field < kCount; ++field) {
    double count = 0;
    if (!(line >> count)) break;
    if (field != kIdle && field != kIoWait) ticks += count;
  }
  return ticks;
}

}  // namespace

LoadOfOthers::LoadOfOthers(std::string root)
    : root_(std::move(root)),
      cores_(AllowedCores()),
      begin_seconds_(SecondsNow()),
      begin_(ReadTimes()) {}

LoadOfOthers::Times LoadOfOthers::ReadTimes() const {
  Times times;
  std::ifstream file(root_ + "/proc/stat");
  double ticks = 0;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    int core = -1;
    if (!absl::StartsWith(name, "cpu") || !absl::SimpleAtoi(name.substr(3), &core)) continue;
    if (std::binary_search(cores_.begin(), cores_.end(), core)) ticks += BusyTicks(line);
  }
  times.busy = ticks / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  times.own = ToSeconds(usage.ru_utime) + ToSeconds(usage.ru_stime);
  return times;
}

double LoadOfOthers::OwnSeconds() const { return ReadTimes().own - begin_.own; }

double LoadOfOthers::Share(double peers) const {
  const double seconds = SecondsNow() - begin_seconds_;
  const Times now = ReadTimes();
  const double others = (now.busy - begin_.busy) - (now.own - begin_.own) - peers;
  if (cores_.empty() || !(seconds > 0)) return 0;
  return std::clamp(others / (seconds * static_cast<double>(cores_.size())), 0.0, 1.0);
}

}  // namespace tessera
