// The streams of collectives, and of copies between device and host.
#ifndef TESSERA_CORE_PROGRAM_STREAM_NAMES_H_
#define TESSERA_CORE_PROGRAM_STREAM_NAMES_H_

namespace tessera {

inline constexpr char kGradientStream[] = "gradients";    // reductions of parameters' gradients
inline constexpr char kParameterStream[] = "parameters";  // gathers of parameters
inline constexpr char kActivationStream[] = "activations";
inline constexpr char kFromHostStream[] = "from_host";
inline constexpr char kToHostStream[] = "to_host";

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_STREAM_NAMES_H_
