// CUDA's vector types.
#pragma once

#define MOXIE_VECTOR(T, Element, alignment2, alignment4)                         \
  struct alignas(alignment2) T##2 { Element x, y; };                             \
  struct T##3 { Element x, y, z; };                                              \
  struct alignas(alignment4) T##4 { Element x, y, z, w; };                       \
  inline T##2 make_##T##2(Element x, Element y) { return {x, y}; }               \
  inline T##3 make_##T##3(Element x, Element y, Element z) { return {x, y, z}; } \
  inline T##4 make_##T##4(Element x, Element y, Element z, Element w) { return {x, y, z, w}; }
MOXIE_VECTOR(float, float, 8, 16)
MOXIE_VECTOR(double, double, 16, 16)
MOXIE_VECTOR(int, int, 8, 16)
MOXIE_VECTOR(longlong, long long, 16, 16)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
