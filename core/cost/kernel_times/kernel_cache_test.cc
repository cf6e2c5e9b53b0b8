#include "core/cost/kernel_times/kernel_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/cost/kernel_times/testing/planted_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class KernelCacheTest : public ::testing::Test {
 protected:
  KernelCacheTest() {
    fs::remove_all(folder_);
    times_.Set("exp{} f64[8]", {{"a", 0.25}, {"b", std::numeric_limits<double>::infinity()}});
    times_.Set("exp{} f64[9]", {{"a", 3e-6}, {"b", 2e-6}});
  }

  void Write(const std::string& text) {
    fs::create_directories(fs::path(path_).parent_path());
    std::ofstream(path_) << text;
  }
  std::string Text() const {
    std::ifstream file(path_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::string ToText(const KernelTimes& times) {
    std::string text;
    for (const auto& [key, candidates] : times.requests()) {
      absl::StrAppend(&text, key, ":");
      for (const KernelSeconds& each : candidates) {
        absl::StrAppend(&text, " ", each.kernel, " ", each.seconds);
      }
      absl::StrAppend(&text, "\n");
    }
    return text;
  }

  const std::string folder_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = folder_ + "/tessera/kernels.json";
  PlantedBackend backend_{"exp", {{"a"}, {"b"}}};
  KernelTimes times_;
};

TEST_F(KernelCacheTest, ReturnsWhatWasAdded) {
  EXPECT_TRUE(ReadKernelCache(path_, backend_).times.empty());
  EXPECT_EQ(ReadKernelCache(path_, backend_).note, "") << "there is no file";
  ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
  const CachedKernelTimes cached = ReadKernelCache(path_, backend_);
  EXPECT_EQ(cached.note, "");
  EXPECT_EQ(ToText(cached.times), ToText(times_));
}

TEST_F(KernelCacheTest, RequestsAreAddedAndReplaced) {
  ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
  KernelTimes more;
  more.Set("exp{} f64[9]", {{"a", 1}, {"b", 2}});
  more.Set("exp{} f64[10]", {{"a", 5}, {"b", 6}});
  ASSERT_TRUE(AddToKernelCache(path_, backend_, more).ok());
  times_.SetAll(more);
  EXPECT_EQ(ToText(ReadKernelCache(path_, backend_).times), ToText(times_));
}

TEST_F(KernelCacheTest, AFileThatIsNoneIsReportedAndMadeAnew) {
  ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
  const std::string good = Text();
  for (const std::string& text :
       {std::string("no JSON"), std::string("[1]"), good.substr(0, good.size() / 2),
        std::string("{\"format\": 2, \"machines\": {}}"),
        std::string("{\"format\": \"1\", \"machines\": {}}"),
        std::string("{\"format\": 1, \"machines\": []}"), std::string("{\"format\": 1}"),
        "{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}",
        std::string((size_t{16} << 20) + 1, ' ')}) {
    SCOPED_TRACE(text.substr(0, 40));
    Write(text);
    const CachedKernelTimes cached = ReadKernelCache(path_, backend_);
    EXPECT_TRUE(cached.times.empty());
    EXPECT_THAT(cached.note, HasSubstr(path_));
    ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
    EXPECT_EQ(ToText(ReadKernelCache(path_, backend_).times), ToText(times_));
  }
}

TEST_F(KernelCacheTest, TimesThatNoKernelCanHaveAreLeftOut) {
  ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
  const std::string good = Text();
  for (const char* time : {"0", "-1", "1e7", "\"x\"", "true", "{}", "[1]", "null", "1e999"}) {
    SCOPED_TRACE(time);
    std::string text = good;
    text.replace(text.find("0.25"), 4, time);
    Write(text);
    KernelTimes kept;
    kept.Set("exp{} f64[9]", *times_.Find("exp{} f64[9]"));
    const CachedKernelTimes cached = ReadKernelCache(path_, backend_);
    if (std::string(time) == "1e999") {
      EXPECT_TRUE(cached.times.empty()) << "it is no JSON";
    } else {
      EXPECT_EQ(ToText(cached.times), ToText(kept));
    }
  }
}

TEST_F(KernelCacheTest, TimesOfAnotherProcessorAreReportedAndKept) {
  ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
  backend_.hardware = "model 2";
  CachedKernelTimes cached = ReadKernelCache(path_, backend_);
  EXPECT_TRUE(cached.times.empty());
  EXPECT_THAT(cached.note, HasSubstr("of other processors, such as planted: "));
  KernelTimes other;
  other.Set("exp{} f64[9]", {{"a", 7}, {"b", 8}});
  ASSERT_TRUE(AddToKernelCache(path_, backend_, other).ok());
  EXPECT_EQ(ToText(ReadKernelCache(path_, backend_).times), ToText(other));
  backend_.hardware = "model 1";
  EXPECT_EQ(ToText(ReadKernelCache(path_, backend_).times), ToText(times_));
}

TEST_F(KernelCacheTest, TimesWithOtherLibrariesAreReportedAndDropped) {
  ASSERT_TRUE(AddToKernelCache(path_, backend_, times_).ok());
  backend_.libraries = "library 2.0";
  CachedKernelTimes cached = ReadKernelCache(path_, backend_);
  EXPECT_TRUE(cached.times.empty());
  EXPECT_THAT(cached.note, HasSubstr("with other versions than library 2.0"));
  KernelTimes other;
  other.Set("exp{} f64[10]", {{"a", 7}, {"b", 8}});
  ASSERT_TRUE(AddToKernelCache(path_, backend_, other).ok());
  EXPECT_EQ(ToText(ReadKernelCache(path_, backend_).times), ToText(other));
}

TEST_F(KernelCacheTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THAT(std::string(AddToKernelCache("/proc/none/kernels.json", backend_, times_).message()),
              HasSubstr("/proc/none"));
  fs::create_directories(path_ + "/not_empty");
  EXPECT_THAT(ReadKernelCache(path_, backend_).note, HasSubstr(path_));
  EXPECT_FALSE(AddToKernelCache(path_, backend_, times_).ok());
  EXPECT_TRUE(fs::is_directory(path_ + "/not_empty"));
  for (const auto& entry : fs::directory_iterator(fs::path(path_).parent_path())) {
    EXPECT_EQ(entry.path().filename(), "kernels.json") << "nothing is left behind";
  }
}

// Each process adds its own requests at the same time as the others. A busy machine may let one of
// them wait for too long; it then tries again.
TEST_F(KernelCacheTest, ProcessesWriteOneAtATime) {
  constexpr int kProcesses = 4, kRequests = 25, kAttempts = 10;
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() != 0) continue;
    bool ok = true;
    for (int i = 0; i < kRequests; ++i) {
      KernelTimes times;
      times.Set(absl::StrCat("request ", process, ".", i), {{"a", 1}});
      absl::Status added = absl::UnavailableError("not tried");
      for (int attempt = 0; attempt < kAttempts && absl::IsUnavailable(added); ++attempt) {
        added = AddToKernelCache(path_, backend_, times);
      }
      ok = ok && added.ok();
    }
    _exit(ok ? 0 : 1);
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = 0;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ReadKernelCache(path_, backend_).times.requests().size(), kProcesses * kRequests);
}

}  // namespace
}  // namespace tessera
