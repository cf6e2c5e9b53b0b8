// Names of the layers of a model, under which a step's instructions are summed up.
#ifndef TESSERA_TOOLS_PLAN_LAYER_NAMES_H_
#define TESSERA_TOOLS_PLAN_LAYER_NAMES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace tessera {

// Thread safety: const methods may run concurrently.
class LayerNames {
 public:
  // The blocks of `graph` are its layers, and so are the outermost scopes of all else.
  explicit LayerNames(const Graph& graph);

  // Returns the name of the layer of a path. Blocks of one scope share a name: "blocks.*".
  std::string LayerOf(absl::string_view path) const;
  // Returns the path with the layer's name in place of its layer, and without the number of its
  // micro-batch: "blocks.*.mlp.fc.weight.grad" for "blocks.3.mlp.fc.weight.grad@1".
  std::string PatternOf(absl::string_view path) const;
  // Returns how many layers share the name.
  int CountOf(const std::string& layer) const;

 private:
  struct Layer {
    absl::string_view path;  // the part of the path that names it
    std::string name;
  };
  Layer Find(absl::string_view path) const;

  absl::flat_hash_map<std::string, std::string> name_of_block_;
  absl::flat_hash_map<std::string, int> count_of_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_LAYER_NAMES_H_
