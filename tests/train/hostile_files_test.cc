// Checks malicious files: checkpoints with matching checksums and impossible contents, and texts
// that are very long or deeply nested.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// Expects one line on stderr, and little more memory than the program always needs. (The reported
// peak includes that of the forking process, so tests keep their texts small.)
void ExpectRefused(const Result& result, const std::string& part) {
  EXPECT_EQ(result.code, 1) << result.signal << result.out << result.err;
  EXPECT_THAT(result.err, StartsWith("error: "));
  EXPECT_THAT(result.err, HasSubstr(part));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_LT(result.err.size(), 2000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(result.peak_bytes, int64_t{400} << 20);
#endif
}

std::string Nested(int depth) {
  std::string text = "model {\n";
  for (int i = 0; i < depth; ++i) text += "[type.googleapis.com/google.protobuf.Any] {\n";
  return text;
}

// A checkpoint of step 10. A test changes its files, and then makes the checksums match (Seal).
class HostileFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + run_, "--steps=10"})).code, 0);
    const auto manifest = ParseManifest(ReadFile(File("manifest.json")));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *manifest;
  }

  std::string File(const std::string& name) const {
    return run_ + "/checkpoints/step_00000010/" + name;
  }

  void Seal() {
    for (Manifest::File& file : manifest_.files) {
      const std::string contents = ReadFile(File(file.name));
      file.bytes = static_cast<int64_t>(contents.size());
      file.checksum = ChecksumOf(contents);
    }
    WriteFile(File("manifest.json"), ManifestToText(manifest_));
  }

  Result Resume(const std::vector<std::string>& more = {"--steps=20"}) const {
    std::vector<std::string> flags = {"--resume=" + run_};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(GptProgram(), flags);
  }

  const std::string run_ = NewFolder() + "/run";
  Manifest manifest_;
};

TEST_F(HostileFilesTest, ADeeplyNestedConfiguration) {
  const std::string config = run_ + ".textproto";
  WriteFile(config, Nested(20000));
  ExpectRefused(RunProgram(GptProgram(), Tiny({"--config=" + config})),
                "run.textproto:17: is nested more than 16 messages deep");
  WriteFile(File("config.textproto"), Nested(20000));
  Seal();
  for (const char* flag : {"--steps=20", "--mode=evaluate", "--mode=sample"}) {
    ExpectRefused(Resume({flag}), "config.textproto:17: is nested more than 16 messages deep");
  }
}

TEST_F(HostileFilesTest, AConfigurationOfAGigabyteOfZeros) {
  const std::string config = run_ + ".textproto";
  WriteFile(config, "");
  fs::resize_file(config, 1 << 30);
  ExpectRefused(RunProgram(GptProgram(), Tiny({"--config=" + config})),
                "run.textproto: is no configuration: it has more than 1048576 bytes");
  ExpectRefused(RunProgram(GptProgram(), Tiny({"--config=/dev/zero"})),
                "/dev/zero: is no configuration: it has more than 1048576 bytes");
  fs::resize_file(File("config.textproto"), 20 << 20);
  Seal();
  ExpectRefused(Resume(), "config.textproto has 20971520 bytes, and at most 16777216 are possible");
}

TEST_F(HostileFilesTest, AManifestOfManyMegabytes) {
  std::string text = ManifestToText(manifest_);
  std::string lists = " \"more\": [";
  while (lists.size() < (20 << 20)) lists += "[],";
  text.insert(1, lists + "[]],");
  const size_t at = text.rfind("\"\n}\n") - 32;
  text.replace(at, 32, std::string(32, '0'));
  WriteFile(File("manifest.json"), text.replace(at, 32, ChecksumOf(text)));
  ExpectRefused(Resume(), "the manifest is damaged: it has ");
}

// The manifest has one shard for each element of a tensor, and the shards are consistent.
TEST_F(HostileFilesTest, AManifestOfAMillionShards) {
  std::string text = ManifestToText(manifest_);
  std::string state =
      "{\"path\":\"more\",\"role\":\"parameter\",\"dtype\":\"u8\",\"shape\":[1000000],"
      "\"shards\":[";
  for (int i = 0; i < 1000000; ++i) state += "[0," + std::to_string(i) + ",1],";
  state.back() = ']';
  const std::string list = "\"state\": [";
  text.insert(text.find(list) + list.size(), state + "},");
  const size_t at = text.rfind("\"\n}\n") - 32;
  text.replace(at, 32, std::string(32, '0'));
  WriteFile(File("manifest.json"), text.replace(at, 32, ChecksumOf(text)));
  ExpectRefused(Resume(), "the state 'more': the states have 1000000 shards, and at most 524288");
}

// Checks shards as in a checkpoint of a job in which each rank held a shard.
TEST_F(HostileFilesTest, ShardsThatDoNotHoldAllOfAState) {
  std::string text = ManifestToText(manifest_);
  const std::string file = "\"file\":\"parameters.safetensors\"";
  text.replace(text.find(file), file.size(), "\"shards\":[]");
  const size_t at = text.rfind("\"\n}\n") - 32;
  text.replace(at, 32, std::string(32, '0'));
  WriteFile(File("manifest.json"), text.replace(at, 32, ChecksumOf(text)));
  ExpectRefused(Resume(), "the manifest is damaged: the state '");
}

TEST_F(HostileFilesTest, ASafetensorsHeaderOfManyMegabytes) {
  const std::string path = File("parameters.safetensors");
  const std::string before = ReadFile(path);
  uint64_t length = 0;
  std::memcpy(&length, before.data(), sizeof(length));
  std::string json = before.substr(sizeof(length), length);
  const std::string data = before.substr(sizeof(length) + length);
  std::string more = "\"__metadata__\":{";
  for (int i = 0; more.size() < (20 << 20); ++i) more += "\"" + std::to_string(i) + "\":\"\",";
  json.insert(1, more + "\"\":\"\"},");
  length = json.size();
  WriteFile(path,
            std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json + data);
  Seal();
  ExpectRefused(Resume(), "its header has ");
}

TEST_F(HostileFilesTest, AStepThatTheFolderContradicts) {
  manifest_.step = 11;
  Seal();
  ExpectRefused(Resume(), "the manifest is of step 11, but the folder's name has step 10");
}

TEST_F(HostileFilesTest, AStepThatNoRunReaches) {
  manifest_.step = INT64_MAX;
  const std::string moved = run_ + "-moved";
  fs::rename(run_ + "/checkpoints/step_00000010", moved);
  WriteFile(moved + "/manifest.json", ManifestToText(manifest_));
  ExpectRefused(RunProgram(GptProgram(), {"--resume=" + moved, "--steps=1000000000000000"}),
                "\"step\" is 9223372036854775807, above the largest possible");
}

TEST_F(HostileFilesTest, APlanThatIsNotPossible) {
  const std::string plan = ReadFile(File("plan.textproto"));
  const std::string long_name(1 << 20, 'a');
  const std::string long_slice =
      "stages { slice { path: \"" + long_name + "\" dimension: 0 count: 2 }";
  const std::string part = "parts { graph: \"" + long_name + "\" } ";
  const std::string two_parts = "stages { " + part + part;
  const struct {
    const char* before;
    const char* after;
    const char* part;
  } cases[] = {
      {"format: 2", "format: 99",
       "plan.textproto: the Plan has format 99; this version reads format 2"},
      {"micro_batches: 1", "micro_batches: -1", "has micro_batches: -1; it must be at least 1"},
      {"passes: \"fuse\"", "passes: \"confuse\"", "'confuse'"},
      {"passes: \"fuse\"", "passes { name: \"fuse\" }",
       "'passes' is of Plan format 1: write passes: \"fuse\""},
      {"graph: \"train\"", "graph: \"\"",
       "plan.textproto: the Plan has a part that names no graph"},
      {"format: 2", "formats: 2", "plan.textproto: is no Plan: line 1: "},
      {"format: 2", "stages { mesh { } } format: 2", "this version runs one"},
      // Regression: the nearest path was searched for letter by letter.
      {"stages {", long_slice.c_str(), "slice"},
      // Regression: the name was printed unshortened, in a line of megabytes.
      {"stages {", two_parts.c_str(), "two parts for graph 'aaaa"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(std::string(each.after).substr(0, 100));
    std::string text = plan;
    const size_t at = text.find(each.before);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::strlen(each.before), each.after);
    WriteFile(File("plan.textproto"), text);
    Seal();
    for (const char* flag : {"--steps=20", "--mode=evaluate"}) {
      ExpectRefused(Resume({flag}), each.part);
    }
  }
}

// Regression: a Plan of up to 64 MiB was read, and the run failed at its first checkpoint, which
// has a lower limit.
TEST_F(HostileFilesTest, APlanThatNoCheckpointCouldHold) {
  const std::string file = run_ + ".plan";
  WriteFile(file, "");
  std::filesystem::resize_file(file, int64_t{1} << 30);
  for (const std::string& path : {file, std::string("/dev/zero")}) {
    ExpectRefused(RunProgram(GptProgram(), Tiny({"--plan=" + path})),
                  path + ": a Plan has at most 16.0 MiB");
  }
  // A file with a comment of that length is accepted, because its Plan can be saved.
  WriteFile(file, "format: 2 # " + std::string(15 << 20, '#'));
  EXPECT_EQ(RunProgram(GptProgram(), Tiny({"--plan=" + file, "--plan_only"})).code, 0);
}

// A Plan with kernels of an unknown backend causes a note and no error, as for another processor.
// Kernels are choices for one machine, so the run continues with the default kernels of its own
// backend.
TEST_F(HostileFilesTest, APlanForABackendThatThereIsNot) {
  std::string plan = ReadFile(File("plan.textproto"));
  const std::string backend = "backend: \"cpu\"";
  plan.replace(plan.find(backend), backend.size(), "backend: \"tpu\"");
  WriteFile(File("plan.textproto"), plan);
  Seal();
  const Result result = Resume();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: the Plan's kernels were chosen for tpu on "));
}

TEST_F(HostileFilesTest, AParameterThatIsCalledOptimizerState) {
  for (StateEntry& entry : manifest_.state) {
    if (entry.role == kOptimizerRole) continue;
    entry.role = kOptimizerRole;
    break;
  }
  Seal();
  for (const char* flag : {"--steps=20", "--mode=evaluate", "--mode=sample"}) {
    ExpectRefused(Resume({flag}), "in the role 'optimizer', this run in the role 'parameter'");
  }
}

}  // namespace
}  // namespace tessera
