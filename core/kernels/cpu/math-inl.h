// exp, log, tanh and the scaled complementary error function of vectors of floats, good to a few
// units in the last place. NaN gives NaN.
//
// Highway's own functions (hwy/contrib/math) are not used: exp turns NaN into 0, infinities are not
// handled, and there is no erf.
#include "core/kernels/cpu/vectors-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_MATH_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_MATH_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<FloatTag>;
using Ints = hn::Vec<IntTag>;

HWY_INLINE Floats SetF(float value) { return hn::Set(FloatTag(), value); }

// Bound `x` from below and from above; NaN stays NaN. If an operand of Max or Min is NaN, x86
// returns the second operand, and other targets return either.
HWY_INLINE Floats AtLeast(Floats bound, Floats x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Max(bound, x);
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}
HWY_INLINE Floats AtMost(Floats bound, Floats x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Min(bound, x);
#else
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#endif
}

// 2^exponent for exponents in [-126, 127].
HWY_INLINE Floats PowerOfTwo(Ints exponent) {
  const IntTag d;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(d, 127))));
}

// exp(x) = 2^n * mantissa: n is the nearest integer to x / log(2). The polynomial is that of expf
// in the Cephes library.
HWY_INLINE Floats ExpMantissa(Floats x, Floats n) {
  Floats r = hn::NegMulAdd(n, SetF(0.693359375f), x);
  r = hn::NegMulAdd(n, SetF(-2.12194440e-4f), r);
  Floats p = SetF(1.9875691500e-4f);
  p = hn::MulAdd(p, r, SetF(1.3981999507e-3f));
  p = hn::MulAdd(p, r, SetF(8.3334519073e-3f));
  p = hn::MulAdd(p, r, SetF(4.1665795894e-2f));
  p = hn::MulAdd(p, r, SetF(1.6666665459e-1f));
  p = hn::MulAdd(p, r, SetF(5.0000001201e-1f));
  return hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), SetF(1.0f));
}

// exp(x) for all x.
HWY_INLINE Floats Exp(Floats x) {
  const Floats clamped = AtLeast(SetF(-104.0f), AtMost(SetF(89.0f), x));
  const Floats n = hn::Round(hn::Mul(clamped, SetF(1.44269504f)));
  const Ints exponent = hn::ConvertTo(IntTag(), n);
  // Scales in two steps, so that results below the smallest normal number are rounded instead of
  // becoming 0.
  const Ints half = hn::ShiftRight<1>(exponent);
  const Floats y = hn::Mul(hn::Mul(ExpMantissa(clamped, n), PowerOfTwo(half)),
                           PowerOfTwo(hn::Sub(exponent, half)));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

// exp(x) for x <= 0.5 or so, with 0 for x < -87 (results below 1.6e-38).
HWY_INLINE Floats ExpOfNegative(Floats x) {
  const Floats n = hn::Round(hn::Mul(x, SetF(1.44269504f)));
  const Floats y = hn::Mul(ExpMantissa(x, n), PowerOfTwo(hn::ConvertTo(IntTag(), n)));
  return hn::IfThenZeroElse(hn::Lt(x, SetF(-87.0f)), y);
}

// log(x) for all x: -infinity at 0, NaN below. The polynomial is that of logf in Cephes.
HWY_INLINE Floats Log(Floats x) {
  const FloatTag d;
  const IntTag di;
  const auto is_small = hn::Lt(x, SetF(1.17549435e-38f));
  const Floats scaled = hn::IfThenElse(is_small, hn::Mul(x, SetF(0x1p25f)), x);
  const Ints bits = hn::BitCast(di, scaled);
  Floats exponent = hn::ConvertTo(d, hn::Sub(hn::ShiftRight<23>(bits), hn::Set(di, 126)));
  exponent = hn::Sub(exponent, hn::IfThenElseZero(is_small, SetF(25.0f)));
  // In [0.5, 1), then in [sqrt(0.5) - 1, sqrt(2) - 1).
  Floats m =
      hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(di, 0x007fffff)), hn::Set(di, 0x3f000000)));
  const auto is_low = hn::Lt(m, SetF(0.707106781186547524f));
  exponent = hn::Sub(exponent, hn::IfThenElseZero(is_low, SetF(1.0f)));
  m = hn::Sub(hn::Add(m, hn::IfThenElseZero(is_low, m)), SetF(1.0f));

  const Floats square = hn::Mul(m, m);
  Floats p = SetF(7.0376836292e-2f);
  p = hn::MulAdd(p, m, SetF(-1.1514610310e-1f));
  p = hn::MulAdd(p, m, SetF(1.1676998740e-1f));
  p = hn::MulAdd(p, m, SetF(-1.2420140846e-1f));
  p = hn::MulAdd(p, m, SetF(1.4249322787e-1f));
  p = hn::MulAdd(p, m, SetF(-1.6668057665e-1f));
  p = hn::MulAdd(p, m, SetF(2.0000714765e-1f));
  p = hn::MulAdd(p, m, SetF(-2.4999993993e-1f));
  p = hn::MulAdd(p, m, SetF(3.3333331174e-1f));
  p = hn::Mul(hn::Mul(p, m), square);
  p = hn::MulAdd(exponent, SetF(-2.12194440e-4f), p);
  p = hn::NegMulAdd(SetF(0.5f), square, p);
  Floats y = hn::MulAdd(exponent, SetF(0.693359375f), hn::Add(m, p));

  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), SetF(-infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), SetF(nan), y);
  y = hn::IfThenElse(hn::Eq(x, SetF(infinity)), x, y);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

// tanh(x): an odd polynomial (that of tanhf in Cephes) near 0, from exp elsewhere.
HWY_INLINE Floats Tanh(Floats x) {
  const Floats magnitude = hn::Abs(x);
  const Floats square = hn::Mul(x, x);
  Floats p = SetF(-5.70498872745e-3f);
  p = hn::MulAdd(p, square, SetF(2.06390887954e-2f));
  p = hn::MulAdd(p, square, SetF(-5.37397155531e-2f));
  p = hn::MulAdd(p, square, SetF(1.33314422036e-1f));
  p = hn::MulAdd(p, square, SetF(-3.33332819422e-1f));
  p = hn::MulAdd(hn::Mul(p, square), x, x);
  const Floats e = Exp(hn::Add(magnitude, magnitude));
  const Floats far = hn::Sub(SetF(1.0f), hn::Div(SetF(2.0f), hn::Add(e, SetF(1.0f))));
  return hn::IfThenElse(hn::Lt(magnitude, SetF(0.625f)), p, hn::CopySign(far, x));
}

// 1 / (1 + exp(-x))
HWY_INLINE Floats Sigmoid(Floats x) {
  return hn::Div(SetF(1.0f), hn::Add(SetF(1.0f), Exp(hn::Neg(x))));
}

// exp(x^2 / 2) * erfc(x / sqrt(2)) for x >= 0, of relative error 2e-9 for x <= 14.5 (where erfc is
// below 1e-47) before rounding: a minimax polynomial in (x - k) / (x + k) with k = 2.5 sqrt(2).
HWY_INLINE Floats ScaledErfcOfRoot(Floats x) {
  const Floats k = SetF(3.53553390593f);
  const Floats t = hn::Div(hn::Sub(x, k), hn::Add(x, k));
  Floats p = SetF(-3.731494508e-05f);
  p = hn::MulAdd(p, t, SetF(-1.104011390e-04f));
  p = hn::MulAdd(p, t, SetF(2.365247492e-04f));
  p = hn::MulAdd(p, t, SetF(8.683645865e-04f));
  p = hn::MulAdd(p, t, SetF(-2.645990578e-03f));
  p = hn::MulAdd(p, t, SetF(-3.992154263e-03f));
  p = hn::MulAdd(p, t, SetF(3.992313147e-02f));
  p = hn::MulAdd(p, t, SetF(-1.250331998e-01f));
  p = hn::MulAdd(p, t, SetF(2.517131567e-01f));
  p = hn::MulAdd(p, t, SetF(-3.717367351e-01f));
  return hn::MulAdd(p, t, SetF(2.108063698e-01f));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
