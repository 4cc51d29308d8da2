// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11), keyed as on every device.
struct RandomState {
  unsigned long long seed, step;
};

struct PhiloxWords {
  unsigned a, b, c, d;
};

__device__ inline PhiloxWords philox(RandomState state, unsigned stream, unsigned c0, unsigned c1, unsigned c2, unsigned c3) {
  unsigned k0 = unsigned(state.seed) ^ (0x9E3779B9u * stream);
  unsigned k1 = unsigned(state.seed >> 32) ^ unsigned(state.step);
  PhiloxWords w{c0, c1, c2, c3};
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p = 0xD2511F53ull * w.a, q = 0xCD9E8D57ull * w.c;
    w = {unsigned(q >> 32) ^ w.b ^ k0, unsigned(q), unsigned(p >> 32) ^ w.d ^ k1, unsigned(p)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return w;
}

/// In the open interval (0, 1).
__device__ inline double uniform_of(unsigned word) { return (word + 0.5) * 0x1p-32; }

template <class T>
__device__ T draw_uniform(RandomState state, unsigned stream, unsigned c0, unsigned c1, unsigned c2, unsigned c3) {
  return T(uniform_of(philox(state, stream, c0, c1, c2, c3).a));
}

/// Box and Muller's transform. The logarithm is taken in double: near one, a rounded argument would cost small normal numbers most of their digits.
template <class T>
__device__ T draw_normal(RandomState state, unsigned stream, unsigned c0, unsigned c1, unsigned c2, unsigned c3) {
  const PhiloxWords w = philox(state, stream, c0, c1, c2, c3);
  const T radius = sqrt(T(-2 * log(uniform_of(w.a))));
  return radius * cospi(T(2 * uniform_of(w.b)));
}
