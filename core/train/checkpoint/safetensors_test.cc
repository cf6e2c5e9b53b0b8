#include "core/train/checkpoint/safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tensor/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

SafetensorsTensor Named(const std::string& name, DType dtype, Shape shape) {
  return {name, {dtype, shape}, 0, 0};
}

// The bytes before the data that `serialize` of Python's safetensors 0.5.3 writes for these
// tensors.
constexpr char kGoldenJson[] =
    R"({"z.step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
    R"("wide":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},)"
    R"("blocks.0.w":{"dtype":"F32","shape":[2,3],"data_offsets":[16,40]},)"
    R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[40,40]},)"
    "\"\xc3\xa4\\n\\\"q\\\\\\u0001\x7f\""
    R"(:{"dtype":"F32","shape":[1],"data_offsets":[40,44]},)"
    R"("ints":{"dtype":"I32","shape":[2,1],"data_offsets":[44,52]},)"
    R"("a.brain":{"dtype":"BF16","shape":[5],"data_offsets":[52,62]},)"
    R"("a.half":{"dtype":"F16","shape":[3],"data_offsets":[62,68]},)"
    R"("bytes":{"dtype":"U8","shape":[7],"data_offsets":[68,75]}})";

std::vector<SafetensorsTensor> GoldenTensors() {
  return {Named("blocks.0.w", DType::kF32, {2, 3}),
          Named("a.half", DType::kF16, {3}),
          Named("a.brain", DType::kBF16, {5}),
          Named("z.step", DType::kI64, {}),
          Named("bytes", DType::kU8, {7}),
          Named("empty", DType::kF32, {0, 4}),
          Named("ints", DType::kI32, {2, 1}),
          Named("wide", DType::kF64, {1}),
          Named("\xc3\xa4\n\"q\\\x01\x7f", DType::kF32, {1})};
}

TEST(SafetensorsTest, WritesWhatPythonWrites) {
  auto header = MakeSafetensorsHeader(GoldenTensors());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->bytes, std::string("\x28\x02\0\0\0\0\0\0", 8) + std::string(kGoldenJson));
  EXPECT_EQ(header->data_bytes, 75);
  EXPECT_EQ(header->tensors[2].name, "blocks.0.w");
  EXPECT_EQ(header->tensors[2].begin, 16);
  EXPECT_EQ(header->tensors[2].end, 40);

  EXPECT_EQ(MakeSafetensorsHeader({})->bytes, std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(MakeSafetensorsHeader({Named("w", DType::kF32, {1})})->bytes,
            std::string("\x38\0\0\0\0\0\0\0", 8) +
                R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  )");
}

TEST(SafetensorsTest, ReadsWhatPythonWrites) {
  auto tensors = ParseSafetensorsJson(kGoldenJson, 75);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  auto expected = MakeSafetensorsHeader(GoldenTensors());
  ASSERT_EQ(tensors->size(), expected->tensors.size());
  for (size_t i = 0; i < tensors->size(); ++i) {
    EXPECT_EQ((*tensors)[i].name, expected->tensors[i].name);
    EXPECT_EQ((*tensors)[i].type, expected->tensors[i].type);
    EXPECT_EQ((*tensors)[i].begin, expected->tensors[i].begin);
    EXPECT_EQ((*tensors)[i].end, expected->tensors[i].end);
  }
  tensors = ParseSafetensorsJson(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )",
      4);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), 1u);
}

TEST(SafetensorsTest, RefusesNamesAndShapesThatTheFormatCannotHold) {
  const auto error = [](std::vector<SafetensorsTensor> tensors) {
    auto header = MakeSafetensorsHeader(std::move(tensors));
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << header.status();
    return absl::StrCat(header.status().message());
  };
  EXPECT_THAT(error({Named("", DType::kF32, {})}), HasSubstr("is empty"));
  EXPECT_THAT(error({Named("__metadata__", DType::kF32, {})}), HasSubstr("__metadata__"));
  EXPECT_THAT(error({Named("\xff", DType::kF32, {})}), HasSubstr("is not UTF-8"));
  EXPECT_THAT(error({Named("a", DType::kF32, {}), Named("b", DType::kF32, {}),
                     Named("a", DType::kI32, {})}),
              HasSubstr("two tensors have the name 'a'"));
  EXPECT_THAT(error({Named("a", DType::kF32, {2, -1})}), HasSubstr("a f32[2, -1]"));
  const int64_t large = int64_t{1} << 31;
  EXPECT_THAT(error({Named("a", DType::kF32, {large, large})}), HasSubstr("below 2^63"));
  EXPECT_THAT(
      error({Named("a", DType::kU8, {large, large}), Named("b", DType::kU8, {large, large})}),
      HasSubstr("'b'"));
}

TEST(SafetensorsTest, SaysWhatIsWrongWithAHeader) {
  const auto error = [](absl::string_view json, int64_t data_bytes = 4) {
    auto tensors = ParseSafetensorsJson(json, data_bytes);
    EXPECT_FALSE(tensors.ok()) << json;
    std::string message(tensors.status().message());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  };
  EXPECT_THAT(error(""), HasSubstr("it is not JSON at byte 1"));
  EXPECT_THAT(error("[]"), HasSubstr("is no object"));
  EXPECT_THAT(error(R"({"w":3})"), HasSubstr("the tensor 'w': a JSON object is missing"));
  EXPECT_THAT(error(R"({"w":{}})"), HasSubstr("\"dtype\" is missing"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}})"),
              HasSubstr("the dtype 'F8_E4M3' is none of F64, F32"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"),
              HasSubstr("\"shape\" is not a list of integers"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})"),
              HasSubstr("\"shape\" is not a list of integers"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})"),
              HasSubstr("\"shape\" is not a list of integers"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":)"
                    R"([0,0]}})"),
              HasSubstr("more than 2^63 bytes"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})"),
              HasSubstr("not [begin, end]"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})"),
              HasSubstr("f32[2] has 8 bytes, and not the 4 of its \"data_offsets\""));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
              HasSubstr("starts at byte 4 and not at 0"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8),
              HasSubstr("have 4 bytes and the file has 8"));
  EXPECT_THAT(error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":3})"),
              HasSubstr("the key 'w' occurs twice in one object"));
  EXPECT_THAT(error(R"({"__metadata__":{"a":1}})"), HasSubstr("not an object of strings"));
  EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(error(R"({"w":1e999})"), HasSubstr("it is not JSON at byte"));
}

TEST(SafetensorsTest, BelievesNoLengthBeyondTheFile) {
  const auto length = [](uint64_t json_bytes, int64_t file_bytes) {
    return SafetensorsJsonBytes(
        absl::string_view(reinterpret_cast<const char*>(&json_bytes), sizeof(json_bytes)),
        file_bytes);
  };
  EXPECT_EQ(*length(92, 100), 92);
  EXPECT_EQ(length(93, 100).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(length(~uint64_t{0}, 100).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(length(100'000'001, int64_t{1} << 40).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(SafetensorsJsonBytes("abc", 3).status().code(), absl::StatusCode::kDataLoss);
}

// Every damaged header is read or rejected: nothing crashes, and no tensor is outside the data.
TEST(SafetensorsTest, SurvivesDamage) {
  const RandomStream stream = MakeStream(11, "damage");
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    const PhiloxBlock random = RandomBlock(stream, trial, 0);
    std::string json(kGoldenJson);
    if (random[0] % 4 == 0) json.resize(random[1] % json.size());
    for (uint32_t i = 0; i < random[0] % 3 + 1 && !json.empty(); ++i) {
      const PhiloxBlock flip = RandomBlock(stream, trial, i + 1);
      switch (flip[3] % 3) {
        case 0:
          json[flip[0] % json.size()] ^= static_cast<char>(1u << (flip[1] % 8));
          break;
        case 1:
          json[flip[0] % json.size()] = "{}[],:\"0123456789e-"[flip[1] % 19];
          break;
        case 2:
          json.insert(flip[0] % json.size(), json.substr(flip[1] % json.size(), flip[2] % 40));
          break;
      }
    }
    const auto tensors = ParseSafetensorsJson(json, 75);
    if (!tensors.ok()) continue;
    int64_t end = 0;
    for (const SafetensorsTensor& tensor : *tensors) {
      ASSERT_EQ(tensor.begin, end);
      ASSERT_EQ(tensor.end - tensor.begin, NumBytes(tensor.type));
      end = tensor.end;
    }
    ASSERT_EQ(end, 75);
  }
}

}  // namespace
}  // namespace tessera
