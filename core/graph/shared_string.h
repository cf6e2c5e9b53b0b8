// A string that its copies share.
#ifndef TESSERA_CORE_GRAPH_SHARED_STRING_H_
#define TESSERA_CORE_GRAPH_SHARED_STRING_H_

#include <memory>
#include <string>
#include <utility>

namespace tessera {

// An immutable string for what many objects have in common, such as the op from which the ops of
// all micro-batches are made: a copy takes no memory for the text. Converts from and to
// std::string.
class SharedString {
 public:
  SharedString() = default;
  SharedString(std::string text)  // NOLINT(google-explicit-constructor)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}

  const std::string& str() const {
    static const std::string* const none = new std::string();
    return text_ == nullptr ? *none : *text_;
  }
  operator const std::string&() const { return str(); }  // NOLINT(google-explicit-constructor)
  bool empty() const { return text_ == nullptr; }

 private:
  std::shared_ptr<const std::string> text_;  // null if it is empty
};

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_SHARED_STRING_H_
