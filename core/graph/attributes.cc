#include "core/graph/attributes.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/status/check.h"

namespace tessera {
namespace {

bool NameLess(const std::pair<std::string, AttributeValue>& entry, absl::string_view name) {
  return absl::string_view(entry.first) < name;
}

// Returns the shortest decimal form that reads back as the same double, in a form that only doubles
// have.
std::string DoubleToString(double value) {
  for (int digits = 6; digits <= 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back;
    if (absl::SimpleAtod(text, &back) && back == value) {
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
      return text;
    }
  }
  return absl::StrFormat("%.17g", value);
}

struct Printer {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return absl::StrCat(v); }
  std::string operator()(double v) const { return DoubleToString(v); }
  std::string operator()(const std::string& v) const { return absl::StrCat("\"", v, "\""); }
  std::string operator()(const std::vector<int64_t>& v) const { return ShapeToString(v); }
  std::string operator()(DType v) const {
    return std::string(DTypeName(v).data(), DTypeName(v).size());
  }
};

template <typename T>
const T& Get(const Attributes& attributes, absl::string_view name) {
  const AttributeValue* value = attributes.Find(name);
  TESSERA_CHECK(value != nullptr && std::holds_alternative<T>(*value))
      << "attribute '" << std::string(name.data(), name.size()) << "' in " << attributes.ToString();
  return std::get<T>(*value);
}

// Sets an entry of sorted entries.
void Put(absl::string_view name, AttributeValue value, Attributes::Entries& entries) {
  const auto it = std::lower_bound(entries.begin(), entries.end(), name, NameLess);
  if (it != entries.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    entries.emplace(it, std::string(name.data(), name.size()), std::move(value));
  }
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> entries) {
  if (entries.size() == 0) return;
  auto all = std::make_shared<Entries>();
  all->reserve(entries.size());
  for (const auto& [name, value] : entries) Put(name, value, *all);
  entries_ = std::move(all);
}

const Attributes::Entries& Attributes::entries() const {
  static const Entries* const none = new Entries();
  return entries_ == nullptr ? *none : *entries_;
}

void Attributes::Set(absl::string_view name, AttributeValue value) {
  auto changed = std::make_shared<Entries>(entries());
  Put(name, std::move(value), *changed);
  entries_ = std::move(changed);
}

const AttributeValue* Attributes::Find(absl::string_view name) const {
  if (entries_ == nullptr) return nullptr;
  auto it = std::lower_bound(entries_->begin(), entries_->end(), name, NameLess);
  return it != entries_->end() && it->first == name ? &it->second : nullptr;
}

bool Attributes::GetBool(absl::string_view name) const { return Get<bool>(*this, name); }
int64_t Attributes::GetInt(absl::string_view name) const { return Get<int64_t>(*this, name); }
double Attributes::GetDouble(absl::string_view name) const { return Get<double>(*this, name); }
const std::string& Attributes::GetString(absl::string_view name) const {
  return Get<std::string>(*this, name);
}
const std::vector<int64_t>& Attributes::GetInts(absl::string_view name) const {
  return Get<std::vector<int64_t>>(*this, name);
}
DType Attributes::GetDType(absl::string_view name) const { return Get<DType>(*this, name); }

std::string Attributes::ToString() const {
  if (empty()) return "";
  std::string out = "{";
  for (const auto& [name, value] : *entries_) {
    absl::StrAppend(&out, out.size() == 1 ? "" : ", ", name, "=", std::visit(Printer(), value));
  }
  return out + "}";
}

}  // namespace tessera
