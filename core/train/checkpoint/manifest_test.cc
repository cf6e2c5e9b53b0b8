#include "core/train/checkpoint/manifest.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/tensor/random.h"
#include "core/train/checkpoint/checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Manifest ManifestForTest() {
  Manifest manifest;
  manifest.step = 120;
  manifest.rows = 1936;
  manifest.sequence = 16;
  manifest.plan_file = "plan.textproto";
  manifest.config_file = "config.textproto";
  manifest.files = {{"a.safetensors", 1234, std::string(32, 'a')},
                    {"plan.textproto", 0, std::string(32, 'b')},
                    {"config.textproto", 5, std::string(32, 'c')}};
  manifest.state = {{"blocks.0.w", "parameter", {DType::kBF16, {2, 3}}},
                    {"step", "optimizer", {DType::kI64, {}}}};
  manifest.shards = {{FullShard({2, 3})}, {FullShard({})}};
  manifest.shard_files = {{0}, {0}};
  return manifest;
}

// The first state in shards: a box, and two ranges of another one.
Manifest ShardedManifestForTest() {
  Manifest manifest = ManifestForTest();
  manifest.files.push_back({"b.safetensors", 12, std::string(32, 'd')});
  manifest.shards[0] = {StateShard(Box{{0, 0}, {2, 1}}), StateShard(Box{{0, 1}, {2, 2}}, 0, 3),
                        StateShard(Box{{0, 1}, {2, 2}}, 3, 4)};
  manifest.shard_files[0] = {0, 0, 3};
  return manifest;
}

// Returns the text with the right checksum in its last line.
std::string WithRightChecksum(std::string text) {
  const size_t at = text.size() - std::string("\"\n}\n").size() - 32;
  text.replace(at, 32, std::string(32, '0'));
  return text.replace(at, 32, ChecksumOf(text));
}

TEST(ManifestTest, HasAFormThatPeopleCanRead) {
  const std::string expected = R"({
  "format": "tessera-checkpoint",
  "format_version": 3,
  "step": 120,
  "rows": 1936,
  "sequence": 16,
  "plan": "plan.textproto",
  "config": "config.textproto",
  "files": [
    {"name":"a.safetensors","bytes":1234,"xxh3_128":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
    {"name":"plan.textproto","bytes":0,"xxh3_128":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},
    {"name":"config.textproto","bytes":5,"xxh3_128":"cccccccccccccccccccccccccccccccc"}
  ],
  "state": [
    {"path":"blocks.0.w","role":"parameter","dtype":"bf16","shape":[2,3],"file":"a.safetensors"},
    {"path":"step","role":"optimizer","dtype":"i64","shape":[],"file":"a.safetensors"}
  ],
  "xxh3_128": "00000000000000000000000000000000"
}
)";
  EXPECT_EQ(ManifestToText(ManifestForTest()), WithRightChecksum(expected));
}

// A checkpoint that older versions can read keeps their version.
TEST(ManifestTest, RunningStatisticsAreOfVersion4) {
  Manifest manifest = ManifestForTest();
  manifest.state[1].role = kStatisticRole;
  const std::string text = ManifestToText(manifest);
  EXPECT_THAT(text, HasSubstr("\"format_version\": 4,"));
  EXPECT_THAT(text, HasSubstr("{\"path\":\"step\",\"role\":\"statistic\","));
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->state[1].role, kStatisticRole);
}

TEST(ManifestTest, ReadsWhatItWrote) {
  const std::string text = ManifestToText(ManifestForTest());
  auto manifest = ParseManifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(ManifestToText(*manifest), text);
  Manifest empty = ManifestForTest();
  empty.state.clear();
  empty.shards.clear();
  empty.shard_files.clear();
  EXPECT_TRUE(ParseManifest(ManifestToText(empty)).ok());
}

TEST(ManifestTest, ListsShards) {
  const Manifest manifest = ShardedManifestForTest();
  const std::string text = ManifestToText(manifest);
  EXPECT_THAT(text, HasSubstr(R"("shape":[2,3],)"
                              R"("shards":[[0,0,0,2,1],[0,0,1,2,2,0,3],[3,0,1,2,2,3,4]]})"));
  EXPECT_THAT(text, HasSubstr(R"("shape":[],"file":"a.safetensors"})"));
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(ManifestToText(*parsed), text);
  EXPECT_EQ(ShardToString(parsed->shards[0][2]), "[0:2, 1:3]{3:4}");

  // A state without elements has no shards.
  Manifest empty = ManifestForTest();
  empty.state[0].type.shape = {0, 3};
  empty.shards[0].clear();
  empty.shard_files[0].clear();
  EXPECT_THAT(ManifestToText(empty), HasSubstr(R"("shape":[0,3],"shards":[])"));
  EXPECT_TRUE(ParseManifest(ManifestToText(empty)).ok());
}

TEST(ManifestTest, HoldsTheVersionOfTheStatesAboveTheFirst) {
  Manifest manifest = ManifestForTest();
  EXPECT_THAT(ManifestToText(manifest), Not(HasSubstr("state_version")));
  manifest.state_version = 2;
  const std::string text = ManifestToText(manifest);
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->state_version, 2);
  const std::string zero = WithRightChecksum(
      absl::StrReplaceAll(text, {{"\"state_version\": 2", "\"state_version\": 0"}}));
  EXPECT_THAT(ParseManifest(zero).status().message(), HasSubstr("\"state_version\" is 0"));
}

TEST(ManifestTest, HoldsTheFingerprintOfTheData) {
  Manifest manifest = ManifestForTest();
  manifest.data = "text of 7 bytes, \"quoted\"";
  const auto parsed = ParseManifest(ManifestToText(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->data, manifest.data);
  // Older manifests have none.
  EXPECT_EQ(ParseManifest(ManifestToText(ManifestForTest()))->data, "");
}

TEST(ManifestTest, HoldsTheIdentityOfTheRun) {
  Manifest manifest = ManifestForTest();
  manifest.run = "0123456789abcdef0123456789abcdef";
  const std::string text = ManifestToText(manifest);
  EXPECT_THAT(text, HasSubstr("\n  \"run\": \"0123456789abcdef0123456789abcdef\",\n"));
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->run, manifest.run);
  for (const std::string& wrong : {std::string(65, 'a'), std::string("../run"), std::string(" ")}) {
    manifest.run = wrong;
    EXPECT_THAT(std::string(ParseManifest(ManifestToText(manifest)).status().message()),
                HasSubstr("\"run\" is not of 64 letters and digits at most"));
  }
  // Older manifests have none.
  EXPECT_EQ(ParseManifest(ManifestToText(ManifestForTest()))->run, "");
}

// Parsing in quadratic time would exceed the test's time limit.
TEST(ManifestTest, ReadsManyStates) {
  Manifest manifest = ManifestForTest();
  for (int i = 0; i < 150000; ++i) {
    manifest.state.push_back({absl::StrCat("slices.", i), "parameter", {DType::kF32, {2, 3}}});
    manifest.shards.push_back({FullShard({2, 3})});
    manifest.shard_files.push_back({0});
  }
  auto parsed = ParseManifest(ManifestToText(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->state.size(), 150002u);
}

Manifest ManifestOfRows(int64_t rows) {
  Manifest manifest = ManifestForTest();
  manifest.state[0].type.shape = {rows};
  manifest.shards[0].clear();
  for (int64_t i = 0; i < rows; ++i) manifest.shards[0].push_back(StateShard(Box{{i}, {1}}));
  manifest.shard_files[0].assign(rows, 0);
  return manifest;
}

// Reads as many shards as are allowed, and rejects more. In quadratic time, the former would take
// hours.
TEST(ManifestTest, ReadsManyShards) {
  EXPECT_TRUE(ParseManifest(ManifestToText(ManifestOfRows(kMaxShards))).ok());
  EXPECT_EQ(ParseManifest(ManifestToText(ManifestOfRows(1'000'000))).status().message(),
            "the manifest is damaged: the state 'blocks.0.w': the states have 1000000 shards, and "
            "at most 524288 are possible");
}

TEST(ManifestTest, FindsEveryFlippedBitAndEveryCut) {
  const std::string text = ManifestToText(ManifestForTest());
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(ParseManifest(text.substr(0, i)).ok()) << "cut at " << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] ^= static_cast<char>(1 << bit);
      EXPECT_FALSE(ParseManifest(damaged).ok()) << "bit " << bit << " of byte " << i;
    }
  }
}

std::string Error(const std::string& text, absl::StatusCode code) {
  auto manifest = ParseManifest(text);
  EXPECT_EQ(manifest.status().code(), code) << manifest.status();
  std::string message(manifest.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(ManifestTest, TellsForeignFromDamagedFromNewer) {
  const std::string text = ManifestToText(ManifestForTest());
  EXPECT_THAT(Error(R"({"name": "my app"})", absl::StatusCode::kInvalidArgument),
              HasSubstr("no checkpoint of Tessera"));
  EXPECT_THAT(Error("[1, 2]", absl::StatusCode::kInvalidArgument),
              HasSubstr("no checkpoint of Tessera"));
  EXPECT_THAT(Error("", absl::StatusCode::kDataLoss), HasSubstr("not JSON at byte 1"));
  EXPECT_THAT(Error(absl::StrReplaceAll(text, {{"120", "121"}}), absl::StatusCode::kDataLoss),
              HasSubstr("its checksum is not that of its text"));
  const std::string newer =
      absl::StrReplaceAll(text, {{"\"format_version\": 3", "\"format_version\": 7"}});
  EXPECT_THAT(Error(newer, absl::StatusCode::kDataLoss), HasSubstr("checksum"));
  EXPECT_EQ(Error(WithRightChecksum(newer), absl::StatusCode::kUnimplemented),
            "the checkpoint has version 7, and this Tessera reads versions 2 to 4: load it with a "
            "newer Tessera");
}

TEST(ManifestTest, RefusesVersion1) {
  const std::string text =
      absl::StrReplaceAll(ManifestToText(ManifestForTest()),
                          {{"\"format_version\": 3", "\"format_version\": 1"},
                           {"\"rows\": 1936,\n  \"sequence\": 16", "\"batches\": 121"}});
  EXPECT_EQ(Error(WithRightChecksum(text), absl::StatusCode::kUnimplemented),
            "the checkpoint has version 1, and this Tessera reads versions 2 to 4: resume it with "
            "an older Tessera, which saves it in a newer version");
}

// Regression: the position was a number of global batches, which a changed batch moves.
TEST(ManifestTest, Version2CountsGlobalBatches) {
  const std::string text =
      absl::StrReplaceAll(ManifestToText(ManifestForTest()),
                          {{"\"format_version\": 3", "\"format_version\": 2"},
                           {"\"rows\": 1936,\n  \"sequence\": 16", "\"batches\": 121"}});
  const auto manifest = ParseManifest(WithRightChecksum(text));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->batches, 121);
  EXPECT_EQ(manifest->sequence, 0);
}

TEST(ManifestTest, ChecksContentsWhateverTheChecksum) {
  const std::string text = ManifestToText(ManifestForTest());
  const auto error = [&](absl::string_view from, absl::string_view to) {
    const std::string changed = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(changed, text);
    std::string message = Error(WithRightChecksum(changed), absl::StatusCode::kDataLoss);
    EXPECT_THAT(message, StartsWith("the manifest is damaged: "));
    return message;
  };
  EXPECT_THAT(error("\"step\": 120", "\"step\": -1"), HasSubstr("\"step\" is not an integer"));
  EXPECT_THAT(error("\"step\": 120", "\"stop\": 120"), HasSubstr("\"step\" is missing"));
  EXPECT_THAT(error("\"step\": 120", "\"step\": 1, \"step\": 2"), HasSubstr("twice"));
  EXPECT_THAT(error("\"name\":\"plan.textproto\"", "\"name\":\"../../etc/passwd\""),
              HasSubstr("the file name '../../etc/passwd' is not right"));
  EXPECT_THAT(error("\"name\":\"plan.textproto\"", "\"name\":\"a.safetensors\""),
              HasSubstr("the file name 'a.safetensors' is not right"));
  EXPECT_THAT(error("\"plan\": \"plan.", "\"plan\": \"plane."),
              HasSubstr("'plane.textproto' is not listed"));
  EXPECT_THAT(error("\"path\":\"step\"", "\"path\":\"blocks.0.w\""), HasSubstr("listed twice"));
  EXPECT_THAT(error("\"file\":\"a.", "\"file\":\"b."),
              HasSubstr("the state 'blocks.0.w': it is in the file 'b.safetensors', which is not "
                        "listed"));
  EXPECT_THAT(error("\"step\": 120", "\"step\": 9223372036854775807"),
              HasSubstr("\"step\" is 9223372036854775807, above the largest possible, 10000000"));
  EXPECT_THAT(error("\"rows\": 1936", "\"rows\": 9223372036854775807"),
              HasSubstr("\"rows\" is 9223372036854775807, above the largest possible"));
  EXPECT_THAT(error("\"sequence\": 16", "\"sequence\": 0"),
              HasSubstr("\"sequence\" is 0, and a row has at least one token"));
  EXPECT_THAT(
      error("\"role\":\"parameter\"", "\"role\":\"gradient\""),
      HasSubstr(
          "the state 'blocks.0.w': its role is 'gradient'; it must be 'parameter', 'statistic'"));
  EXPECT_THAT(error("bf16", "bf17"), HasSubstr("unknown dtype 'bf17'"));
  EXPECT_THAT(error("[2,3]", "[2,4611686018427387904]"), HasSubstr("more than 2^63 bytes"));
  EXPECT_THAT(error("\"bytes\":1234", "\"bytes\":1e4"), HasSubstr("\"bytes\" is not an integer"));
}

TEST(ManifestTest, ChecksShards) {
  const std::string text = ManifestToText(ShardedManifestForTest());
  const auto error = [&](absl::string_view from, absl::string_view to) {
    const std::string changed = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(changed, text);
    const std::string message = Error(WithRightChecksum(changed), absl::StatusCode::kDataLoss);
    const std::string start = "the manifest is damaged: the state 'blocks.0.w': ";
    EXPECT_THAT(message, StartsWith(start));
    return message.substr(std::min(message.size(), start.size()));
  };
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,1,2,2,2,4]"),
            "its shards [0:2, 1:3]{0:3} and [0:2, 1:3]{2:4} overlap");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,0,2,1,1,2]"),
            "its shards [0:2, 0:1] and [0:2, 0:1]{1:2} overlap");
  EXPECT_EQ(error(",[3,0,1,2,2,3,4]", ""), "its shards hold 5 of its 6 elements");
  EXPECT_EQ(error("[[0,0,0,2,1],[0,0,1,2,2,0,3],[3,0,1,2,2,3,4]]", "[]"),
            "its shards hold 0 of its 6 elements");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,1,2,3,3,4]"),
            "a shard of [2, 3] at [0, 1] does not lie within [2, 3]");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,9223372036854775807,1,2,2,3,4]"),
            "a shard of [2, 2] at [9223372036854775807, 1] does not lie within [2, 3]");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,1,2,2,3,5]"),
            "elements 3 to 5 do not lie within a box of 4");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,1,2,2,4,4]"),
            "its shard [0:2, 1:3]{4:4} has no elements");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[4,0,1,2,2,3,4]"),
            "a shard of it is in file 4, and 4 are listed");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,1,2,2,3]"),
            "a shard of it has 6 numbers, and 5 or 7 are possible for 2 dimensions");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[]"),
            "a shard of it has 0 numbers, and 5 or 7 are possible for 2 dimensions");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "3"),
            "\"shards\" is not a list of integers from 0 to 2^63 - 1");
  EXPECT_EQ(error("[3,0,1,2,2,3,4]", "[3,0,1,2,2,-3,4]"),
            "\"shards\" is not a list of integers from 0 to 2^63 - 1");
  EXPECT_EQ(error("\"shards\"", "\"shard\""), "\"file\" is missing");
}

// Parsing takes many times the memory of the text, so damaged and overlong texts are not parsed.
TEST(ManifestTest, ParsesNothingBeforeItsChecksumAndLengthAreRight) {
  const std::string text = ManifestToText(ManifestForTest());
  std::string lists = "[";
  while (lists.size() < (1 << 20)) lists += "[],";
  lists += "7]";
  const std::string member = absl::StrCat("\"files\": ", lists, ",\n  \"state\"");
  const std::string wide = absl::StrReplaceAll(text, {{"\"state\"", member}});
  EXPECT_THAT(Error(wide, absl::StatusCode::kDataLoss), HasSubstr("checksum"));
  EXPECT_THAT(Error(WithRightChecksum(wide), absl::StatusCode::kDataLoss), HasSubstr("twice"));
  std::string too_long = text;
  too_long.insert(1, std::string(kMaxTextBytes, ' '));
  EXPECT_THAT(Error(WithRightChecksum(too_long), absl::StatusCode::kDataLoss),
              HasSubstr("at most 16777216 are possible"));
}

// A damaged text with a right checksum must not crash the parser either.
TEST(ManifestTest, SurvivesDamage) {
  const std::string text = ManifestToText(ShardedManifestForTest());
  const RandomStream stream = MakeStream(12, "damage");
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    std::string damaged = text;
    const size_t changeable = text.size() - 60;  // the bytes before the last line
    for (uint64_t i = 0; i < 1 + trial % 3; ++i) {
      const PhiloxBlock random = RandomBlock(stream, trial, i);
      if (random[0] % 2 == 0) {
        damaged[random[1] % changeable] ^= static_cast<char>(1u << (random[2] % 8));
      } else {
        damaged[random[1] % changeable] = "{}[],:\"0123456789e-"[random[2] % 19];
      }
    }
    ParseManifest(WithRightChecksum(damaged)).status().IgnoreError();
  }
}

}  // namespace
}  // namespace tessera
