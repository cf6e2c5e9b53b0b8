#include "core/train/data/check_once.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collectives/fake/fake.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string Write(const std::string& name, const std::string& text) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

struct Checked {
  std::vector<std::string> results;  // by rank: the checksum, or the error
  int checks = 0;
};

// Each rank opens its file, "" for none, and checks it together with the others.
Checked CheckTogether(const std::vector<std::string>& paths) {
  Checked checked;
  checked.results.resize(paths.size());
  std::atomic<int> checks{0};
  const auto check = [&](const DataFile& file) -> absl::StatusOr<std::string> {
    ++checks;
    std::string contents(file.opened().bytes, ' ');
    RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(contents)));
    if (contents[0] == '!') return absl::InvalidArgumentError("no text");
    return contents;
  };
  const int size = static_cast<int>(paths.size());
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = size}, [&](comm::World& world) -> absl::Status {
        ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
        std::unique_ptr<DataFile> file;
        if (!paths[world.rank()].empty()) {
          ASSIGN_OR_RETURN(file, DataFile::Open(paths[world.rank()]));
        }
        const absl::StatusOr<std::string> result = CheckOncePerHost(file.get(), check, *ranks);
        checked.results[world.rank()] =
            result.ok() ? *result : std::string(result.status().message());
        return absl::OkStatus();
      });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  checked.checks = checks;
  return checked;
}

TEST(CheckOnceTest, OneRankReadsAFileForAll) {
  const std::string a = Write("a.txt", "one"), b = Write("b.txt", "two");
  Checked checked = CheckTogether({a, a, a, a});
  EXPECT_EQ(checked.checks, 1);
  EXPECT_EQ(checked.results, std::vector<std::string>(4, "one"));
  checked = CheckTogether({a, b, "", b});
  EXPECT_EQ(checked.checks, 2);
  EXPECT_EQ(checked.results, (std::vector<std::string>{"one", "two", "", "two"}));
  EXPECT_EQ(CheckTogether({"", ""}).checks, 0);
  EXPECT_EQ(CheckTogether({a}).results[0], "one");
}

TEST(CheckOnceTest, ItsErrorIsThatOfAllThatHaveTheFile) {
  const std::string a = Write("a.txt", "!one"), b = Write("b.txt", "two");
  const Checked checked = CheckTogether({b, a, a});
  EXPECT_EQ(checked.checks, 2);
  EXPECT_EQ(checked.results, (std::vector<std::string>{"two", "no text", "no text"}));
}

}  // namespace
}  // namespace tessera
