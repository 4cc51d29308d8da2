// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11), keyed as on every
// device.
struct RandomState {
  unsigned long long seed, step;
};

struct PhiloxWords {
  unsigned a, b, c, d;
};

/// The halves of a product are asked for one by one: of a product of 64 bits, NVRTC would make longer multiplications.
__device__ inline PhiloxWords philox(RandomState state, unsigned stream, unsigned c0, unsigned c1, unsigned c2,
                                     unsigned c3) {
  unsigned k0 = unsigned(state.seed) ^ (0x9E3779B9u * stream);
  unsigned k1 = unsigned(state.seed >> 32) ^ unsigned(state.step);
  PhiloxWords w{c0, c1, c2, c3};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    w = {__umulhi(0xCD9E8D57u, w.c) ^ w.b ^ k0, 0xCD9E8D57u * w.c, __umulhi(0xD2511F53u, w.a) ^ w.d ^ k1,
         0xD2511F53u * w.a};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return w;
}

/// In the open interval (0, 1).
__device__ inline double uniform_of(unsigned word) { return (word + 0.5) * 0x1p-32; }

template <class T>
__device__ T draw_uniform(PhiloxWords w, unsigned place) {
  return T(uniform_of(place & 2 ? (place & 1 ? w.d : w.c) : (place & 1 ? w.b : w.a)));
}

/// -log of uniform_of(word). Where that is near one its distance from one is what counts: rounded as it is to float, it
/// would lose most of its digits.
template <class T>
__device__ T minus_log_of(unsigned word) {
  if (sizeof(T) == sizeof(double)) return T(-log(uniform_of(word)));
  const bool near_one = word >= 0xB504F334u;  // sqrt(1/2)
  const float magnitude = (float(near_one ? ~word : word) + 0.5f) * 0x1p-32f;
  return T(near_one ? -log1p(-magnitude) : -log(magnitude));
}

/// The cosine of uniform_of(word) turns. With d the distance from the nearest whole turn it is the sine of 1/4 - d,
/// which integers give exactly.
template <class T>
__device__ T cos_turns(unsigned word) {
  const int distance = int(word) < 0 ? ~int(word) : int(word);
  return sinpi((T(0x3fffffff - distance) + T(0.5)) * T(0x1p-31));
}

/// Box and Muller's transform: the second number of a pair of words turns a quarter less than the first.
template <class T>
__device__ T draw_normal(PhiloxWords w, unsigned place) {
  const unsigned turns = (place & 2 ? w.d : w.b) - ((place & 1) << 30);
  return sqrt(2 * minus_log_of<T>(place & 2 ? w.c : w.a)) * cos_turns<T>(turns);
}
