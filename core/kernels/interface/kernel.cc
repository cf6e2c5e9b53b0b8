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

std::string KernelRequest::Key() const {
  std::string key = absl::StrCat(op, attributes.ToString());
  for (const Epilogue& epilogue : epilogues) {
    absl::StrAppend(&key, "+", epilogue.op, epilogue.attributes.ToString());
  }
  for (const TensorType& type : inputs) absl::StrAppend(&key, " ", TypeToString(type));
  absl::StrAppend(&key, " ->");
  for (const TensorType& type : outputs) absl::StrAppend(&key, " ", TypeToString(type));
  absl::StrAppend(&key, " threads=", threads);
  return key;
}

absl::StatusOr<std::unique_ptr<BoundKernel>> FunctionKernel::Bind(
    const KernelRequest& request) const {
  return std::make_unique<BoundFunction>(function_);
}

}  // namespace tessera
