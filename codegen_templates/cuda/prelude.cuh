// What generated kernels call their surroundings. The emulator brings its own, checked forms of the same names.
#ifndef MOXIE_CUDA_EMULATION

template <class T>
using Global = T* __restrict__;
#define EXTENT(pointer, count)
#define SHARED(T, name, count) __shared__ T name[count]

/// The same memory as elements of another type.
template <class U, class T>
__device__ __forceinline__ U* pointer_cast(T* p) {
  return reinterpret_cast<U*>(p);
}

/// `count` elements of a workspace, from a byte on.
template <class T>
__device__ __forceinline__ T* slice(unsigned char* memory, long long byte, long long) {
  return reinterpret_cast<T*>(memory + byte);
}

#endif
