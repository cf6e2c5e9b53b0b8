// An operator's attributes: a small sorted map from names to plain values, with a text form.
#ifndef TESSERA_CORE_GRAPH_ATTRIBUTES_H_
#define TESSERA_CORE_GRAPH_ATTRIBUTES_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"

namespace tessera {

using AttributeValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType>;

// The attributes of one use of an operator. Copies share the entries, because a rewritten Graph
// repeats an operator for every micro-batch. The shape rule checks attributes, so calling a getter
// for an attribute that is missing or has another type is a bug in the operator, and ends the
// program.
class Attributes {
 public:
  using Entries = std::vector<std::pair<std::string, AttributeValue>>;

  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> entries);

  void Set(absl::string_view name, AttributeValue value);
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }

  bool GetBool(absl::string_view name) const;
  int64_t GetInt(absl::string_view name) const;
  double GetDouble(absl::string_view name) const;
  const std::string& GetString(absl::string_view name) const;
  const std::vector<int64_t>& GetInts(absl::string_view name) const;
  DType GetDType(absl::string_view name) const;

  // Returns nullptr if there is no such attribute.
  const AttributeValue* Find(absl::string_view name) const;

  const Entries& entries() const;
  bool empty() const { return entries_ == nullptr; }

  // Returns text like "{axis=1, eps=1e-05, shape=[2, 3]}"; "" if there are none. Numbers keep all
  // their bits.
  std::string ToString() const;

  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.entries_ == b.entries_ || a.entries() == b.entries();
  }

 private:
  std::shared_ptr<const Entries> entries_;  // sorted by name; null if there are none
};

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_ATTRIBUTES_H_
