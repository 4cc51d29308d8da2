// Combinations of values over threads, always in the same order.
struct Sum {
  template <class T>
  static __device__ T apply(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  static __device__ T apply(T a, T b) {
    return a * b;
  }
};
struct Max {
  template <class T>
  static __device__ T apply(T a, T b) {
    return moxie_max(a, b);
  }
};
struct Min {
  template <class T>
  static __device__ T apply(T a, T b) {
    return moxie_min(a, b);
  }
};

/// Whether both are the same number, or none.
template <class T>
__device__ bool is_same(T a, T b) {
  return a == b || (a != a && b != b);
}

/// The values of all rows of a lane, in row 0. `turn` alternates between two halves of the scratch, so that one barrier
/// is enough. All threads of the block take part.
template <class Op, int kLanes, int kRows, class T, class Scratch>
__device__ T combine_rows(T value, Scratch& scratch, int& turn) {
  if (kRows == 1) return value;
  const int base = (turn ^= 1) * kLanes * kRows + threadIdx.x;
  scratch[base + threadIdx.y * kLanes] = value;
  __syncthreads();
  if (threadIdx.y == 0) {
    for (int row = 1; row < kRows; ++row) value = Op::apply(value, T(scratch[base + row * kLanes]));
  }
  return value;
}

/// The values of a warp's threads, in each of them.
template <class Op, class T>
__device__ T combine_warp(T value) {
  for (int offset = 16; offset > 0; offset /= 2) value = Op::apply(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

/// The values of all lanes of several warps, in every thread. All threads of the block take part.
template <class Op, int kLanes, class T, class Scratch>
__device__ T combine_lanes(T value, Scratch& scratch) {
  value = combine_warp<Op>(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < kLanes / 32; ++warp) value = Op::apply(value, T(scratch[warp]));
  return value;
}

/// Element i of `count`, over the results of all chunks, in double, in row 0 of each active lane: row r takes every
/// kRows-th chunk from r on, and neighbouring halves of the rows are combined. All threads of the block take part.
template <class Op, int kRows, class T, class Scratch>
__device__ T combine_chunks(Global<const T> parts, long long i, long long count, long long chunks, bool active,
                            Scratch& scratch) {
  const int row = threadIdx.y;
  const int place = row * 32 + threadIdx.x;
  if (active && row < chunks) {
    double value = parts[row * count + i];
    for (long long chunk = row + kRows; chunk < chunks; chunk += kRows)
      value = Op::apply(value, double(parts[chunk * count + i]));
    scratch[place] = value;
  }
  for (int half = kRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (active && row < half && row + half < chunks)
      scratch[place] = Op::apply(double(scratch[place]), double(scratch[place + half * 32]));
  }
  return active && row == 0 ? T(double(scratch[place])) : T(0);
}
