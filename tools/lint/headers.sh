# Prepares reading sources without Bazel. Sourced by the scripts of this folder, at the root of the
# repository. Builds the headers that protoc generates, which are then in bazel-bin, and sets
#   bazel_tools  the folder of Bazel's own headers
#   cuda         flags for CUDA, where its toolkit is (as third_party/cuda/cuda_repository.bzl has them)
protos=$(./bazelw query --ui_event_filters=-info --noshow_progress 'kind(cc_proto_library, //...)')
# shellcheck disable=SC2086  # one word a target
./bazelw build --ui_event_filters=-info --noshow_progress --show_result=0 $protos \
  //strategies/api:generate_messages

bazel_tools=$(./bazelw info --ui_event_filters=-info output_base)/external/bazel_tools
cuda_home=${CUDA_HOME:-/usr/local/cuda}
cuda=()
if [[ -x $cuda_home/bin/nvcc ]]; then
  cuda=(-DTESSERA_CUDA=1 -isystem "$cuda_home/include")
fi
