#include "tools/train/report/process_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ProcessMemoryTest, CountsWhatIsTouched) {
  const ResidentMemory before = ReadResidentMemory();
  EXPECT_GT(before.code, 0);
  const int64_t bytes = int64_t{32} << 20;
  void* anonymous =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(anonymous, MAP_FAILED);
  std::memset(anonymous, 1, bytes);
  const std::string path = std::string(testing::TempDir()) + "/a file";
  std::ofstream(path) << std::string(bytes / 2, 'x');
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  void* text = mmap(nullptr, bytes / 2, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fileno(file), 0);
  ASSERT_NE(text, MAP_FAILED);

  const ResidentMemory after = ReadResidentMemory();
  // Other memory may be allocated and freed meanwhile, but less than this. (A sanitizer has shadow
  // memory.)
  const int64_t slack = bytes / 8;
  EXPECT_GE(after.anonymous - before.anonymous, bytes - slack);
  EXPECT_GE(after.files - before.files, bytes / 2 - slack);
  EXPECT_LE(after.files - before.files, bytes / 2 + slack);
  EXPECT_GE(after.peak, after.code + after.files + after.anonymous);
  munmap(anonymous, bytes);
  munmap(text, bytes / 2);
  std::fclose(file);
  const ResidentMemory end = ReadResidentMemory();
  EXPECT_GE(after.anonymous - end.anonymous, bytes - slack);
  EXPECT_GE(end.peak + (1 << 20), after.peak);
}

// The memory of measurements before training is not part of a run's peak.
TEST(ProcessMemoryTest, ThePeakCanBeCountedAnew) {
  const int64_t before = ReadResidentMemory().peak;
  const int64_t bytes = int64_t{64} << 20;
  // Not from the heap, because a sanitizer keeps freed memory.
  void* const touched =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(touched, MAP_FAILED);
  std::memset(touched, 1, bytes);
  munmap(touched, bytes);
  const int64_t peak = ReadResidentMemory().peak;
  ASSERT_GE(peak, before);
  EXPECT_GE(ResetPeakMemory(), peak);
  EXPECT_LE(ReadResidentMemory().peak, peak - bytes / 2);
}

TEST(ProcessMemoryTest, ReadsWhatTheSystemWrites) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "/smaps") << "00400000-00500000 r-xp 00000000 08:01 42      /opt/a b.so\n"
                                      "Size:               1024 kB\n"
                                      "Rss:                 100 kB\n"
                                      "00500000-00600000 rw-p 00000000 08:01 42      /opt/a b.so\n"
                                      "Rss:                  20 kB\n"
                                      "00700000-00800000 r--s 00000000 08:01 43      /data/text\n"
                                      "Rss:                3000 kB\n"
                                      "VmFlags: rd sh mr mw me ms\n"
                                      "00800000-00900000 rw-p 00000000 00:00 0 \n"
                                      "Rss:               40000 kB\n"
                                      "00900000-00a00000 rw-p 00000000 00:00 0       [stack]\n"
                                      "Rss:                  80 kB\n";
  std::ofstream(folder + "/status") << "Name:\ttrain\nVmHWM:\t   43210 kB\n";
  const ResidentMemory resident = ReadResidentMemory(folder);
  EXPECT_EQ(resident.code, 120 * 1024);
  EXPECT_EQ(resident.files, 3000 * 1024);
  EXPECT_EQ(resident.anonymous, 40080 * 1024);
  EXPECT_EQ(resident.peak, 43210 * 1024);
  EXPECT_EQ(ReadResidentMemory(folder + "/none").peak, 0);
}

TEST(ProcessMemoryTest, SaysWhereItIs) {
  const int64_t mib = 1 << 20;
  ResidentMemory resident;
  resident.peak = 235 * mib;
  resident.code = 20 * mib;
  resident.files = 4 * mib;
  resident.anonymous = 211 * mib;
  EXPECT_EQ(ResidentMemoryLine(resident, 200 * mib),
            "235 MiB resident at the peak: arena 200 MiB, program and libraries 20.0 MiB, mapped "
            "files 4.00 MiB, heap and stacks 11.0 MiB");
  resident.peak = 300 * mib;
  EXPECT_EQ(ResidentMemoryLine(resident, 200 * mib),
            "300 MiB resident at the peak: arena 200 MiB, program and libraries 20.0 MiB, mapped "
            "files 4.00 MiB, heap and stacks 11.0 MiB, freed since 65.0 MiB");
}

}  // namespace
}  // namespace tessera
