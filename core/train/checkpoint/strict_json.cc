#include "core/train/checkpoint/strict_json.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// The deepest text that we read is {"state": [{"shards": [[0, 2, 3]]}]}.
constexpr size_t kMaxDepth = 8;
// More dimensions than any tensor has.
constexpr size_t kMaxDimensions = 64;
// More integers than a shard of a tensor with that many dimensions has.
constexpr size_t kMaxIntegers = 3 * kMaxDimensions;

// Checks the text while the parser reads it, before anything is built. (Building with a callback
// takes quadratic time: it searches a list again after each entry.)
class Checker : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    error_ = absl::StrCat("the key ", Quote(key), " occurs twice in one object");
    return false;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    error_ = absl::StrCat("it is not JSON at byte ", position);
    return false;
  }

 private:
  bool Open() {
    if (keys_.size() == kMaxDepth) {
      error_ = "it is nested too deeply";
      return false;
    }
    keys_.emplace_back();
    return true;
  }

  bool Close() {
    keys_.pop_back();
    return true;
  }

  std::vector<absl::flat_hash_set<std::string>> keys_;  // for each open object or list
  std::string error_;
};

absl::StatusOr<const Json*> Member(const Json& object, const char* key) {
  if (!object.is_object()) return absl::DataLossError("a JSON object is missing");
  const auto member = object.find(key);
  if (member == object.end()) return absl::DataLossError(absl::StrCat("\"", key, "\" is missing"));
  return &*member;
}

bool IsSize(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

absl::Status TypeError(const char* key, const char* kind) {
  return absl::DataLossError(absl::StrCat("\"", key, "\" is not ", kind));
}

}  // namespace

absl::StatusOr<Json> ParseStrictJson(absl::string_view text) {
  try {
    Checker checker;
    if (!Json::sax_parse(text.begin(), text.end(), &checker)) {
      return absl::DataLossError(checker.error());
    }
    return Json::parse(text.begin(), text.end());
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
}

absl::StatusOr<std::string> StringMember(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* member, Member(object, key));
  if (!member->is_string()) return TypeError(key, "a string");
  return member->get<std::string>();
}

absl::StatusOr<int64_t> IntegerMember(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* member, Member(object, key));
  if (!IsSize(*member)) return TypeError(key, "an integer from 0 to 2^63 - 1");
  return member->get<int64_t>();
}

absl::StatusOr<Shape> ShapeMember(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* member, ArrayMember(object, key));
  if (member->size() > kMaxDimensions) return TypeError(key, "a shape: it has too many dimensions");
  return IntegersOf(*member, key);
}

absl::StatusOr<Shape> IntegersOf(const Json& list, const char* key) {
  const bool right = list.is_array() && list.size() <= kMaxIntegers &&
                     std::all_of(list.begin(), list.end(), IsSize);
  if (!right) return TypeError(key, "a list of integers from 0 to 2^63 - 1");
  Shape numbers;
  for (const Json& number : list) numbers.push_back(number.get<int64_t>());
  return numbers;
}

absl::StatusOr<const Json*> ArrayMember(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* member, Member(object, key));
  if (!member->is_array()) return TypeError(key, "a list");
  return member;
}

absl::StatusOr<int64_t> CheckedNumBytes(const TensorType& type) {
  int64_t bytes = SizeOf(type.dtype);
  bool empty = false;
  for (int64_t size : type.shape) {
    if (size < 0)
      return absl::DataLossError(absl::StrCat(TypeToString(type), " has a size below 0"));
    // Sizes beside a 0 must be in bounds too: other code may multiply them in another order.
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      return absl::DataLossError(absl::StrCat(TypeToString(type), " has more than 2^63 bytes"));
    }
  }
  return empty ? 0 : bytes;
}

}  // namespace tessera
