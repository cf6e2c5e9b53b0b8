#include "tools/plan/layer_names.h"

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// Returns the path without "@3", the number of a micro-batch.
std::string WithoutMicroBatch(absl::string_view path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '@') {
      text.push_back(path[i]);
      continue;
    }
    while (i + 1 < path.size() && std::isdigit(static_cast<unsigned char>(path[i + 1]))) ++i;
  }
  return text;
}

}  // namespace

LayerNames::LayerNames(const Graph& graph) {
  for (const std::string& block : graph.blocks()) {
    const size_t dot = block.rfind('.');
    std::string name = dot == std::string::npos ? block : absl::StrCat(block.substr(0, dot), ".*");
    ++count_of_[name];
    name_of_block_.emplace(block, std::move(name));
  }
}

LayerNames::Layer LayerNames::Find(absl::string_view path) const {
  for (size_t dot = path.find('.'); dot != absl::string_view::npos; dot = path.find('.', dot + 1)) {
    const absl::string_view scope = path.substr(0, dot);
    const auto found = name_of_block_.find(scope);
    if (found != name_of_block_.end()) return {scope, found->second};
  }
  const absl::string_view scope = path.substr(0, path.find('.'));
  return {scope, WithoutMicroBatch(scope)};
}

std::string LayerNames::LayerOf(absl::string_view path) const { return Find(path).name; }

std::string LayerNames::PatternOf(absl::string_view path) const {
  const Layer layer = Find(path);
  return absl::StrCat(layer.name, WithoutMicroBatch(path.substr(layer.path.size())));
}

int LayerNames::CountOf(const std::string& layer) const {
  const auto found = count_of_.find(layer);
  return found == count_of_.end() ? 1 : found->second;
}

}  // namespace tessera
