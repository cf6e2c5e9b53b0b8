#include "core/ops/testing/operators.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/mesh_layout.h"
#include "core/status/check.h"

namespace tessera {

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

namespace {

std::string TypesToString(absl::Span<const TensorType> types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const TensorType& type) {
    absl::StrAppend(out, TypeToString(type));
  });
}

// Changes `type` to that of one part of a global tensor, and returns the region of the part.
Region TakePart(const AxisLayout& layout, int part, int parts, TensorType& type) {
  const Mesh mesh = *Mesh::Create({{"parts", parts}});
  const MeshLayout along(absl::MakeConstSpan(&layout, 1));
  const Box box = BoxOf(along, type.shape, mesh, {part});
  Region region{box.start, type.shape};
  type.shape = box.extent;
  return region;
}

std::string PartThatDoesNotFit(const Use& use, const Signature& signature, int part, int parts) {
  std::vector<TensorType> inputs = use.inputs, outputs = use.outputs;
  if (inputs.size() != signature.inputs.size() || outputs.size() != signature.outputs.size()) {
    return "another number of inputs or outputs";
  }
  std::vector<Region> input_regions, output_regions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_regions.push_back(TakePart(signature.inputs[i], part, parts, inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    output_regions.push_back(TakePart(signature.outputs[i], part, parts, outputs[i]));
  }
  const Attributes attributes =
      use.kind->LocalAttributes(use.attributes, {inputs, outputs, input_regions, output_regions});
  const auto inferred = use.kind->InferTypes(inputs, attributes);
  if (!inferred.ok()) return MessageOf(inferred.status());
  if (*inferred == outputs) return "";
  return absl::StrCat(TypesToString(*inferred), " instead of ", TypesToString(outputs));
}

}  // namespace

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }
TensorType I32(const Shape& shape) { return {DType::kI32, shape}; }
TensorType I64(const Shape& shape) { return {DType::kI64, shape}; }
TensorType U8(const Shape& shape) { return {DType::kU8, shape}; }

Use::Use(absl::string_view name, std::vector<TensorType> inputs, Attributes attributes)
    : kind(FindOperator(name)), inputs(std::move(inputs)), attributes(std::move(attributes)) {
  TESSERA_CHECK(kind != nullptr) << name;
  auto inferred = kind->InferTypes(this->inputs, this->attributes);
  status = inferred.status();
  if (inferred.ok()) outputs = *std::move(inferred);
}

std::string Inferred(const Use& use) {
  return use.status.ok() ? TypesToString(use.outputs) : MessageOf(use.status);
}

std::string SignaturesOf(const Use& use) {
  std::string text;
  for (const Signature& signature : use.kind->Signatures(use.types())) {
    absl::StrAppend(&text, signature.ToString(), "\n");
  }
  return text;
}

std::string SignatureThatDoesNotFit(const Use& use) {
  if (!use.status.ok()) return MessageOf(use.status);
  for (const Signature& signature : use.kind->Signatures(use.types())) {
    for (int parts : {2, 7}) {
      for (int part = 0; part < parts; ++part) {
        const std::string why = PartThatDoesNotFit(use, signature, part, parts);
        if (!why.empty()) {
          return absl::StrCat(use.kind->name(), " ", signature.ToString(), ", part ", part, " of ",
                              parts, ": ", why);
        }
      }
    }
  }
  return "";
}

std::string ViewOf(const Use& use, int output, const Strides& input_strides) {
  const auto placement = use.kind->View(use.types(), output, input_strides);
  if (!placement.has_value()) return "none";
  return absl::StrCat("offset ", placement->offset, " strides ", ShapeToString(placement->strides));
}

std::string BackwardOps(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kBackward) continue;
    absl::StrAppend(&text, op.kind->name(), "(", TypesToString(graph.TypesOf(op.inputs)), ") -> ",
                    TypesToString(graph.TypesOf(op.outputs)), "\n");
  }
  return text;
}

}  // namespace tessera
