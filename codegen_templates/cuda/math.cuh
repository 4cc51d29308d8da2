// Functions of the scalar table that CUDA does not have, in single and double precision.

template <class T>
__device__ inline T infinity();
template <>
__device__ inline float infinity<float>() {
  return __int_as_float(0x7f800000);
}
template <>
__device__ inline double infinity<double>() {
  return __longlong_as_double(0x7ff0000000000000ll);
}

/// 2^x; results below the smallest normal number are zero. At most 2 ulp from the exact value.
__device__ __forceinline__ float moxie_exp2(float x) {
#ifdef MOXIE_CUDA_EMULATION
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
__device__ __forceinline__ double moxie_exp2(double x) { return exp2(x); }

/// x^N by multiplication.
template <int N, class T>
__device__ __forceinline__ T power(T x) {
  if constexpr (N < 0)
    return T(1) / power<-N>(x);
  else if constexpr (N == 0)
    return T(1);
  else if constexpr (N == 1)
    return x;
  else if constexpr (N % 2 == 1)
    return x * power<N - 1>(x);
  else {
    const T half = power<N / 2>(x);
    return half * half;
  }
}

/// x^(N/2) for an odd N: multiplications and a root. As pow, it is +0 at -0 and infinite at minus infinity.
template <int N, class T>
__device__ __forceinline__ T half_power(T x) {
  if constexpr (N < 0)
    return T(1) / half_power<-N>(x);
  else
    return fabs(power<N / 2>(x) * sqrt(x == -infinity<T>() ? infinity<T>() : x));
}

/// The larger and the smaller number; NaN if one of them is NaN.
template <class T>
__device__ __forceinline__ T moxie_max(T a, T b) {
  return b > a || b != b ? b : a;
}
template <class T>
__device__ __forceinline__ T moxie_min(T a, T b) {
  return b < a || b != b ? b : a;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ float moxie_max(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ float moxie_min(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif

/// 1, -1, or x itself if it is zero or NaN.
template <class T>
__device__ __forceinline__ T moxie_sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
}

template <class T>
__device__ __forceinline__ T moxie_relu(T x) {
  return moxie_max(x, T(0));
}

template <class T>
__device__ __forceinline__ T moxie_sigmoid(T x) {
  const T e = exp(-fabs(x));
  return (x >= T(0) ? T(1) : e) / (T(1) + e);
}

template <class T>
__device__ __forceinline__ T moxie_softplus(T x) {
  return fmax(x, T(0)) + log1p(exp(-fabs(x)));
}

template <class T>
__device__ __forceinline__ T moxie_normal_pdf(T x) {
  return T(0.3989422804014327) * exp(T(-0.5) * x * x);
}

/// log Phi(x): far below zero, where Phi underflows, by the asymptotic series of Mills' ratio (Abramowitz and
/// Stegun 26.2.12).
template <class T>
__device__ inline T moxie_log_normal_cdf(T x) {
  if (x > T(0)) return log1p(T(-0.5) * erfc(x * T(0.7071067811865476)));
  if (x > T(sizeof(T) == 4 ? -10 : -30)) return log(normcdf(x));
  const T y = T(-1) / (x * x);
  T series = T(1);
  for (int k = 10; k > 0; --k) series = T(1) + T(2 * k - 1) * y * series;
  return T(-0.5) * x * x - log(-x) - T(0.9189385332046727) + log(series);
}

/// psi(x), by recurrence up to 10 and the asymptotic series (Abramowitz and Stegun 6.3.18), reflected for x < 0. NaN at
/// negative integers.
template <class T>
__device__ inline T moxie_digamma(T x) {
  T result = T(0);
  if (x == T(0)) return T(-1) / x;
  if (x < T(0)) {
    const T part = x - rint(x);
    if (part == T(0)) return infinity<T>() - infinity<T>();
    result = T(-3.141592653589793) * cospi(part) / sinpi(part);
    x = T(1) - x;
  }
  for (; x < T(10); x += T(1)) result -= T(1) / x;
  const T y = T(1) / (x * x);
  const T series =
      y *
      (T(1.0 / 12) -
       y * (T(1.0 / 120) -
            y * (T(1.0 / 252) - y * (T(1.0 / 240) - y * (T(1.0 / 132) - y * (T(691.0 / 32760) - y * T(1.0 / 12)))))));
  return result + log(x) - T(0.5) / x - series;
}

/// psi'(x), likewise (6.4.12). Infinite at zero and at negative integers.
template <class T>
__device__ inline T moxie_trigamma(T x) {
  T reflected = T(0), sign = T(1);
  if (x <= T(0)) {
    const T inverse_sine = T(3.141592653589793) / sinpi(x - rint(x));
    reflected = inverse_sine * inverse_sine;
    sign = T(-1);
    x = T(1) - x;
  }
  T result = T(0);
  for (; x < T(10); x += T(1)) result += T(1) / (x * x);
  const T y = T(1) / (x * x);
  const T series =
      y * (T(1.0 / 6) -
           y * (T(1.0 / 30) -
                y * (T(1.0 / 42) - y * (T(1.0 / 30) - y * (T(5.0 / 66) - y * (T(691.0 / 2730) - y * T(7.0 / 6)))))));
  return reflected + sign * (result + (T(1) + T(0.5) / x + series) / x);
}

/// c[0] + c[1] x + ...
template <class T, int N>
__device__ __forceinline__ T polynomial(const double (&c)[N], T x) {
  T sum = T(c[N - 1]);
#pragma unroll
  for (int k = N - 2; k >= 0; --k) sum = sum * x + T(c[k]);
  return sum;
}

/// e^-|x| I0(x): the power series (Abramowitz and Stegun 9.6.12), whose terms are positive, and from 8 on a fit of
/// sqrt(x) e^-x I0(x) in 16/x - 1.
template <class T>
__device__ inline T moxie_i0e(T x) {
  constexpr double tail[] = {
      0.4021765094450081,     0.003360551983667794,   0.00013621607438968602, 1.1143033797295818e-05,
      1.4838476731867588e-06, 2.973596823676386e-07,  8.872019391620728e-08,  3.9328087501317295e-08,
      2.1567632672683722e-08, 7.53893114979958e-09,   -6.856580720403126e-09, -1.3341637739078002e-08,
      -5.014858900164201e-09, 7.368949941920047e-09,  6.512878158356264e-09,  -3.1786837418214746e-09,
      -4.514505130391969e-09, 1.1410426044342332e-09, 2.148353458060219e-09,  -2.967521559182637e-10,
      -6.416756534336231e-10, 3.9495592382247283e-11, 8.95045199432439e-11};
  const T m = fabs(x);
  if (!(m < T(8))) return polynomial(tail, T(16) / m - T(1)) / sqrt(m);
  const T z = T(0.25) * m * m;
  T series = T(1);
#pragma unroll
  for (int k = 23; k > 0; --k) series = T(1) + z * T(1.0 / (k * k)) * series;
  return exp(-m) * series;
}

/// e^-|x| I1(x), likewise (9.6.10).
template <class T>
__device__ inline T moxie_i1e(T x) {
  constexpr double tail[] = {
      0.38939845902587233,     -0.009749577193235676,   -0.00021923576383161268, -1.5038547206289552e-05,
      -1.8349102419387814e-06, -3.4838541713005313e-07, -1.0001083906745606e-07, -4.313120210241433e-08,
      -2.3393619814085578e-08, -8.413523010547288e-09,  6.84612364313135e-09,    1.3973340405921974e-08,
      5.573821149420011e-09,   -7.47591100437623e-09,   -6.9435305094370415e-09, 3.129037363594828e-09,
      4.757910347505462e-09,   -1.0939738986010503e-09, -2.254691208182788e-09,  2.7919130300271665e-10,
      6.726690125141258e-10,   -3.674061087396458e-11,  -9.38502842584605e-11};
  const T m = fabs(x);
  if (!(m < T(8))) return copysign(polynomial(tail, T(16) / m - T(1)) / sqrt(m), x);
  const T z = T(0.25) * m * m;
  T series = T(1);
#pragma unroll
  for (int k = 23; k > 0; --k) series = T(1) + z * T(1.0 / (k * (k + 1))) * series;
  return T(0.5) * x * (exp(-m) * series);
}
