// The streams of collectives.
#ifndef TESSERA_CORE_PROGRAM_STREAM_NAMES_H_
#define TESSERA_CORE_PROGRAM_STREAM_NAMES_H_

namespace tessera {

inline constexpr char kGradientStream[] = "gradients";    // reductions of parameters' gradients
inline constexpr char kParameterStream[] = "parameters";  // gathers of parameters
inline constexpr char kActivationStream[] = "activations";

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_STREAM_NAMES_H_
