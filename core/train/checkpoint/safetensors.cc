#include "core/train/checkpoint/safetensors.h"

#include <utf8.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data is written as it lies in memory");

constexpr char kMetadata[] = "__metadata__";

struct Spelling {
  DType dtype;
  const char* name;
};

// The dtypes in the order in which Python's safetensors stores their tensors.
constexpr Spelling kSpellings[] = {
    {DType::kI64, "I64"},   {DType::kF64, "F64"}, {DType::kF32, "F32"}, {DType::kI32, "I32"},
    {DType::kBF16, "BF16"}, {DType::kF16, "F16"}, {DType::kU8, "U8"}};

int Rank(DType dtype) {
  int rank = 0;
  for (const Spelling& spelling : kSpellings) {
    if (spelling.dtype == dtype) return rank;
    ++rank;
  }
  TESSERA_CHECK(false) << "no safetensors dtype for " << DTypeName(dtype);
  return rank;
}

absl::StatusOr<DType> ParseSpelling(absl::string_view name) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.name == name) return spelling.dtype;
  }
  return absl::UnimplementedError(
      absl::StrCat("the dtype ", Quote(name), " is none of F64, F32, BF16, F16, I64, I32, U8"));
}

absl::Status CheckNames(const std::vector<SafetensorsTensor>& tensors) {
  for (const SafetensorsTensor& tensor : tensors) {
    const char* wrong = nullptr;
    if (tensor.name.empty()) wrong = "is empty";
    if (tensor.name == kMetadata) wrong = "means something else in safetensors files";
    if (!utf8::is_valid(tensor.name.begin(), tensor.name.end())) wrong = "is not UTF-8";
    if (wrong != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor cannot have the name ", Quote(tensor.name), ": it ", wrong));
    }
  }
  std::vector<absl::string_view> names;
  names.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("two tensors have the name ", Quote(*twice)));
}

// Returns the status with `subject` before its message.
absl::Status About(absl::string_view subject, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(subject, ": ", status.message()));
}

absl::StatusOr<SafetensorsTensor> ParseTensor(const std::string& name, const nlohmann::json& json) {
  SafetensorsTensor tensor;
  tensor.name = name;
  ASSIGN_OR_RETURN(const std::string dtype, StringMember(json, "dtype"));
  ASSIGN_OR_RETURN(tensor.type.dtype, ParseSpelling(dtype));
  ASSIGN_OR_RETURN(tensor.type.shape, ShapeMember(json, "shape"));
  ASSIGN_OR_RETURN(const Shape offsets, ShapeMember(json, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return absl::DataLossError("\"data_offsets\" is not [begin, end]");
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedNumBytes(tensor.type));
  if (tensor.end - tensor.begin != bytes) {
    return absl::DataLossError(absl::StrCat(TypeToString(tensor.type), " has ", bytes,
                                            " bytes, and not the ", tensor.end - tensor.begin,
                                            " of its \"data_offsets\""));
  }
  return tensor;
}

absl::Status CheckMetadata(const nlohmann::json& json) {
  bool right = json.is_object();
  if (right) {
    for (const nlohmann::json& value : json) right = right && value.is_string();
  }
  if (right) return absl::OkStatus();
  return absl::DataLossError("\"__metadata__\" is not an object of strings");
}

}  // namespace

absl::StatusOr<SafetensorsHeader> MakeSafetensorsHeader(std::vector<SafetensorsTensor> tensors) {
  RETURN_IF_ERROR(CheckNames(tensors));
  std::sort(tensors.begin(), tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              return std::make_pair(Rank(a.type.dtype), absl::string_view(a.name)) <
                     std::make_pair(Rank(b.type.dtype), absl::string_view(b.name));
            });
  SafetensorsHeader header;
  // ordered_json keeps keys in the order of insertion; nlohmann::json would sort them.
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (SafetensorsTensor& tensor : tensors) {
    const absl::StatusOr<int64_t> bytes = CheckedNumBytes(tensor.type);
    tensor.begin = header.data_bytes;
    if (!bytes.ok() || __builtin_add_overflow(tensor.begin, *bytes, &tensor.end)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tensor ", Quote(tensor.name), " is a ", TypeToString(tensor.type),
                       ": sizes must be 0 or more, and all bytes together below 2^63"));
    }
    header.data_bytes = tensor.end;
    nlohmann::ordered_json entry;
    entry["dtype"] = kSpellings[Rank(tensor.type.dtype)].name;
    entry["shape"] = std::vector<int64_t>(tensor.type.shape.begin(), tensor.type.shape.end());
    entry["data_offsets"] = {tensor.begin, tensor.end};
    // Does not use json[name], which searches all earlier keys.
    json.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(tensor.name, std::move(entry));
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > static_cast<size_t>(kSafetensorsMaxJsonBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensors.size(), " tensors are too many for one safetensors file: their header",
                     " has ", text.size(), " bytes, of ", kSafetensorsMaxJsonBytes, " allowed"));
  }
  const uint64_t length = text.size();
  header.bytes.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  header.bytes += text;
  header.tensors = std::move(tensors);
  return header;
}

absl::StatusOr<int64_t> SafetensorsJsonBytes(absl::string_view prefix, int64_t file_bytes) {
  uint64_t length = 0;
  if (prefix.size() != sizeof(length) || file_bytes < kSafetensorsPrefixBytes) {
    return absl::DataLossError(
        absl::StrCat("a safetensors file has 8 bytes or more, and not ", file_bytes));
  }
  std::memcpy(&length, prefix.data(), sizeof(length));
  const int64_t most = std::min(file_bytes - kSafetensorsPrefixBytes, kSafetensorsMaxJsonBytes);
  if (length > static_cast<uint64_t>(most)) {
    return absl::DataLossError(absl::StrCat("the safetensors header cannot have ", length,
                                            " bytes in a file of ", file_bytes));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsJson(absl::string_view json,
                                                                    int64_t data_bytes) {
  const absl::string_view subject = "the safetensors header is damaged";
  absl::StatusOr<nlohmann::json> parsed = ParseStrictJson(json);
  if (!parsed.ok()) return About(subject, parsed.status());
  if (!parsed->is_object()) return absl::DataLossError(absl::StrCat(subject, ": it is no object"));

  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, value] : parsed->items()) {
    if (name == kMetadata) {
      const absl::Status status = CheckMetadata(value);
      if (!status.ok()) return About(subject, status);
      continue;
    }
    absl::StatusOr<SafetensorsTensor> tensor = ParseTensor(name, value);
    if (!tensor.ok()) {
      return About(absl::StrCat("the safetensors header is not right for the tensor ", Quote(name)),
                   tensor.status());
    }
    tensors.push_back(*std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              return std::make_pair(a.begin, a.end) < std::make_pair(b.begin, b.end);
            });
  int64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != end) {
      return absl::DataLossError(absl::StrCat(subject, ": the tensor ", Quote(tensor.name),
                                              " starts at byte ", tensor.begin, " and not at ",
                                              end));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return absl::DataLossError(absl::StrCat(subject, ": its tensors have ", end,
                                            " bytes and the file has ", data_bytes, " for them"));
  }
  return tensors;
}

}  // namespace tessera
