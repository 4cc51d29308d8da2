// What a library of linear algebra leaves to kernels: bringing matrices into its order and back, and looking at its
// results. An element (i, j) of a matrix lies at i * row + j * column from its first.

constexpr int kBlock = 256;

/// Which elements are copied: all; the lower or the upper triangle, with zeros beside it; the lower triangle and its
/// mirror image; none, but those of the unit matrix.
enum Part { kAll, kLower, kUpper, kMirrored, kUnit };

template <class T>
__device__ T element_of(const T* in, long long row, long long column, long long i, long long j, long long part) {
  if (part == kUnit) return T(i == j);
  if ((part == kLower && j > i) || (part == kUpper && i > j)) return 0;
  const bool swapped = part == kMirrored && j > i;
  return in[(swapped ? j : i) * row + (swapped ? i : j) * column];
}

/// out[i,j] := row_signs[i] * column_signs[j] * in[i,j], where there are signs. `in` may be `out`: no thread changes
/// what another reads.
template <class T>
__device__ void copy_matrix(T* out, long long out_row, long long out_column, const T* in, long long in_row,
                            long long in_column, long long rows, long long columns, long long part, const T* row_signs,
                            const T* column_signs) {
  const long long threads = (long long)(gridDim.x) * kBlock;
  for (long long e = (long long)(blockIdx.x) * kBlock + threadIdx.x; e < rows * columns; e += threads) {
    // Neighbouring threads write neighbours.
    const long long i = out_column == 1 ? e / columns : e % rows;
    const long long j = out_column == 1 ? e % columns : e / rows;
    T value = element_of(in, in_row, in_column, i, j, part);
    if (row_signs) value *= row_signs[i];
    if (column_signs) value *= column_signs[j];
    out[i * out_row + j * out_column] = value;
  }
}

template <class T>
__device__ T not_a_number() {
  return T(__longlong_as_double(0x7ff8000000000000ll));
}

template <class T>
__device__ bool is_finite(T value) {
  return value - value == 0;
}

/// The smallest of the numbers that the threads of a block have, which `all` has room for.
__device__ inline long long smallest(long long value, long long* all) {
  all[threadIdx.x] = value;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && all[threadIdx.x + half] < all[threadIdx.x]) all[threadIdx.x] = all[threadIdx.x + half];
    __syncthreads();
  }
  return all[0];
}

/// What is asked of the diagonal of a factor.
enum Pivot { kPositive, kNotZero, kFiniteNotZero, kConverged };

template <class T>
__device__ bool is_good(T value, long long wanted) {
  if (wanted == kPositive) return value > 0;
  const bool is_not_zero = value > 0 || value < 0;
  return is_not_zero && (wanted == kNotZero || is_finite(value));
}

/// One block fails for the first bad pivot: for the one that the library stopped at, as `info` says, else for one that
/// it went over. A factorisation without pivots has converged where `info` is 0.
template <class T>
__device__ void check_pivots(const T* diagonal, long long step, long long count, long long wanted, const int* info,
                             Status* status, long long check, long long number, long long scan_step) {
  if (wanted == kConverged) {
    if (threadIdx.x == 0 && *info != 0) fail(status, check, number, 0, scan_step, 0, not_a_number<double>());
    return;
  }
  long long mine = count;
  for (long long i = threadIdx.x; i < count && mine == count; i += kBlock) {
    if (!is_good(diagonal[i * step], wanted)) mine = i;
  }
  __shared__ long long all[kBlock];
  long long pivot = smallest(mine, all);
  if (wanted == kPositive && *info > 0) pivot = *info - 1;
  if (threadIdx.x != 0 || pivot >= count) return;
  double value = diagonal[pivot * step];
  if (wanted == kFiniteNotZero) value = is_finite(value) ? 0 : not_a_number<double>();
  fail(status, check, number, pivot, scan_step, 0, value);
}

/// Fails where an element is NaN or infinite, and makes it 0: iterations of the library might not end.
template <class T>
__device__ void check_finite(T* values, long long count, Status* status, long long check, long long number,
                             long long scan_step) {
  const long long threads = (long long)(gridDim.x) * kBlock;
  for (long long e = (long long)(blockIdx.x) * kBlock + threadIdx.x; e < count; e += threads) {
    if (is_finite(values[e])) continue;
    values[e] = 0;
    fail(status, check, number, 0, scan_step, 0, not_a_number<double>());
  }
}

/// -1 where an element is negative, else 1.
template <class T>
__device__ void signs_of(T* signs, const T* values, long long step, long long count) {
  const long long i = (long long)(blockIdx.x) * kBlock + threadIdx.x;
  if (i < count) signs[i] = values[i * step] < 0 ? -1 : 1;
}

/// One block for each vector: the sign of the first component that is at least 0.9 times as large as the largest, as
/// kLeadingShare of compiler/reference/dense_eigen.h has it.
template <class T>
__device__ void signs_of_vectors(T* signs, const T* vectors, long long vector, long long component, long long count) {
  __shared__ T largest[kBlock];
  const T* mine = vectors + blockIdx.x * vector;
  largest[threadIdx.x] = 0;
  for (long long k = threadIdx.x; k < count; k += kBlock) {
    const T size = fabs(mine[k * component]);
    if (size > largest[threadIdx.x]) largest[threadIdx.x] = size;
  }
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && largest[threadIdx.x + half] > largest[threadIdx.x])
      largest[threadIdx.x] = largest[threadIdx.x + half];
    __syncthreads();
  }
  const double bound = 0.9 * double(largest[0]);
  long long leading = count;
  for (long long k = threadIdx.x; k < count && leading == count; k += kBlock) {
    if (fabs(double(mine[k * component])) >= bound) leading = k;
  }
  __shared__ long long all[kBlock];
  leading = smallest(leading, all);
  if (threadIdx.x == 0) signs[blockIdx.x] = leading < count && mine[leading * component] < 0 ? -1 : 1;
}

/// One block: the product of the diagonal of a factor whose row i was exchanged with row swaps[i] - 1, or the sum of
/// the logarithms of its magnitudes.
template <class T>
__device__ void determinant_of(T* out, const T* diagonal, long long step, long long count, const int* swaps,
                               long long is_log) {
  __shared__ T parts[kBlock];
  T mine = is_log ? 0 : 1;
  for (long long i = threadIdx.x; i < count; i += kBlock) {
    const T value = diagonal[i * step];
    if (is_log)
      mine += log(fabs(value));
    else
      mine *= swaps[i] == i + 1 ? value : -value;
  }
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const T other = parts[threadIdx.x + half];
      parts[threadIdx.x] = is_log ? parts[threadIdx.x] + other : parts[threadIdx.x] * other;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = parts[0];
}

#define ENTRIES(T)                                                                                                     \
  extern "C" __global__ void copy_matrix_##T(T* out, long long out_row, long long out_column, const T* in,             \
                                             long long in_row, long long in_column, long long rows, long long columns, \
                                             long long part, const T* row_signs, const T* column_signs) {              \
    copy_matrix(out, out_row, out_column, in, in_row, in_column, rows, columns, part, row_signs, column_signs);        \
  }                                                                                                                    \
  extern "C" __global__ void check_pivots_##T(const T* diagonal, long long step, long long count, long long wanted,    \
                                              const int* info, Status* status, long long check, long long number,      \
                                              long long scan_step) {                                                   \
    check_pivots(diagonal, step, count, wanted, info, status, check, number, scan_step);                               \
  }                                                                                                                    \
  extern "C" __global__ void check_finite_##T(T* values, long long count, Status* status, long long check,             \
                                              long long number, long long scan_step) {                                 \
    check_finite(values, count, status, check, number, scan_step);                                                     \
  }                                                                                                                    \
  extern "C" __global__ void signs_of_##T(T* signs, const T* values, long long step, long long count) {                \
    signs_of(signs, values, step, count);                                                                              \
  }                                                                                                                    \
  extern "C" __global__ void signs_of_vectors_##T(T* signs, const T* vectors, long long vector, long long component,   \
                                                  long long count) {                                                   \
    signs_of_vectors(signs, vectors, vector, component, count);                                                        \
  }                                                                                                                    \
  extern "C" __global__ void determinant_of_##T(T* out, const T* diagonal, long long step, long long count,            \
                                                const int* swaps, long long is_log) {                                  \
    determinant_of(out, diagonal, step, count, swaps, is_log);                                                         \
  }

ENTRIES(float)
ENTRIES(double)
