// Several neighbouring elements, loaded and stored by one instruction. Their address must be a multiple of their size.
template <class T, int kWidth>
struct Wide {
  T element[kWidth];
  __device__ __forceinline__ T& operator[](int k) { return element[k]; }
  __device__ __forceinline__ T operator[](int k) const { return element[k]; }
};

/// Several neighbouring elements of a type that has no vectors of its own.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Packed {
  T element[kWidth];
};

/// The instruction's own type, and how it and Wide become each other.
template <class T, int kWidth>
struct Vector {
  using Type = Packed<T, kWidth>;
  static __device__ __forceinline__ Wide<T, kWidth> unpack(Type v) {
    Wide<T, kWidth> wide;
    for (int k = 0; k < kWidth; ++k) wide.element[k] = v.element[k];
    return wide;
  }
  static __device__ __forceinline__ Type pack(const Wide<T, kWidth>& wide) {
    Type v;
    for (int k = 0; k < kWidth; ++k) v.element[k] = wide.element[k];
    return v;
  }
};
template <>
struct Vector<float, 2> {
  using Type = float2;
  static __device__ __forceinline__ Wide<float, 2> unpack(float2 v) { return {{v.x, v.y}}; }
  static __device__ __forceinline__ float2 pack(const Wide<float, 2>& w) { return make_float2(w[0], w[1]); }
};
template <>
struct Vector<float, 4> {
  using Type = float4;
  static __device__ __forceinline__ Wide<float, 4> unpack(float4 v) { return {{v.x, v.y, v.z, v.w}}; }
  static __device__ __forceinline__ float4 pack(const Wide<float, 4>& w) { return make_float4(w[0], w[1], w[2], w[3]); }
};
template <>
struct Vector<int, 2> {
  using Type = int2;
  static __device__ __forceinline__ Wide<int, 2> unpack(int2 v) { return {{v.x, v.y}}; }
  static __device__ __forceinline__ int2 pack(const Wide<int, 2>& w) { return make_int2(w[0], w[1]); }
};
template <>
struct Vector<int, 4> {
  using Type = int4;
  static __device__ __forceinline__ Wide<int, 4> unpack(int4 v) { return {{v.x, v.y, v.z, v.w}}; }
  static __device__ __forceinline__ int4 pack(const Wide<int, 4>& w) { return make_int4(w[0], w[1], w[2], w[3]); }
};
template <>
struct Vector<double, 2> {
  using Type = double2;
  static __device__ __forceinline__ Wide<double, 2> unpack(double2 v) { return {{v.x, v.y}}; }
  static __device__ __forceinline__ double2 pack(const Wide<double, 2>& w) { return make_double2(w[0], w[1]); }
};

template <int kWidth, class T>
__device__ __forceinline__ Wide<T, kWidth> load_wide(Global<const T> from, long long i) {
  return Vector<T, kWidth>::unpack(*pointer_cast<const typename Vector<T, kWidth>::Type>(from + i));
}
template <class T, int kWidth>
__device__ __forceinline__ void store_wide(Global<T> to, long long i, const Wide<T, kWidth>& value) {
  *pointer_cast<typename Vector<T, kWidth>::Type>(to + i) = Vector<T, kWidth>::pack(value);
}
