#include "core/kernels/interface/kernel.h"

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

class BoundFunction : public BoundKernel {
 public:
  explicit BoundFunction(FunctionKernel::Function function) : function_(function) {}
  absl::Status Run(const KernelCall& call) override { return function_(call); }

 private:
  FunctionKernel::Function function_;
};

}  // namespace

std::string Epilogue::ToString() const {
  const std::string position = output == 0 ? "" : absl::StrCat("[", output, "]");
  return absl::StrCat("+", op, position, attributes.ToString());
}

bool StoresInF32(const KernelRequest& request, const Epilogue& epilogue) {
  if (epilogue.op != "cast" || epilogue.extra_inputs != 0) return false;
  const AttributeValue* const dtype = epilogue.attributes.Find("dtype");
  return dtype != nullptr && *dtype == AttributeValue(DType::kF32) &&
         request.outputs[epilogue.output].dtype == DType::kF32;
}

std::string KernelRequest::Key() const {
  std::string key = absl::StrCat(op, attributes.ToString());
  for (const Epilogue& epilogue : epilogues) {
    absl::StrAppend(&key, epilogue.ToString());
  }
  for (const TensorType& type : inputs) absl::StrAppend(&key, " ", TypeToString(type));
  absl::StrAppend(&key, " ->");
  for (const TensorType& type : outputs) absl::StrAppend(&key, " ", TypeToString(type));
  absl::StrAppend(&key, " threads=", threads);
  return key;
}

bool FunctionKernel::Accepts(const KernelRequest& request) const {
  for (const Epilogue& epilogue : request.epilogues) {
    const bool stores_in_f32 = StoresInF32(request, epilogue);
    if (!stores_in_f32 || ((traits_.f32_outputs >> epilogue.output) & 1) == 0) return false;
  }
  return traits_.accepts == nullptr || traits_.accepts(request);
}

absl::StatusOr<std::unique_ptr<BoundKernel>> FunctionKernel::Bind(
    const KernelRequest& request) const {
  return std::make_unique<BoundFunction>(function_);
}

}  // namespace tessera
