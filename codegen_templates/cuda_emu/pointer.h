// Pointers that check every access: subscripts against extents, and stamps for races.
#pragma once
#include "machine.h"

#define MOXIE_INLINE inline __attribute__((always_inline))

namespace moxie_emulation {

static Machine* machine = nullptr;

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<const T> {
  using Type = T;
};

template <class T>
class Reference;

template <class T>
class Pointer {
 public:
  using Value = typename Plain<T>::Type;
  static constexpr u32 granules = sizeof(T) / kGranule;  // elements smaller than a granule are checked for bounds only

  Pointer() = default;
  Pointer(decltype(nullptr)) {}
  Pointer(Region region, const char* name, Space space)
      : data_(static_cast<T*>(region.data)),
        shadow_(region.shadow),
        count_(region.bytes / i64(sizeof(T))),
        name_(name),
        space_(space) {}

  operator Pointer<const T>() const {
    Pointer<const T> same;
    same.copy(data_, shadow_, count_, origin_, name_, space_);
    return same;
  }

  /// Elements that may be touched.
  void set_extent(i64 count, const char* name) {
    name_ = name;
    if (count > count_) machine->too_long(name, count, count_);
    count_ = count;
  }

  MOXIE_INLINE auto operator[](i64 i) const {
    if constexpr (__is_same(T, const Value))
      return (*this + i).load();
    else
      return Reference<T>(*this + i);
  }
  MOXIE_INLINE auto operator*() const { return (*this)[0]; }
  /// Members of a struct: within bounds, but not checked for races.
  T* operator->() const { return element(); }

  MOXIE_INLINE Pointer operator+(i64 i) const {
    Pointer moved = *this;
    moved.origin_ += i;
    return moved;
  }
  MOXIE_INLINE Pointer operator-(i64 i) const { return *this + -i; }
  MOXIE_INLINE Pointer& operator+=(i64 i) { return origin_ += i, *this; }
  MOXIE_INLINE Pointer& operator++() { return *this += 1; }
  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(const Pointer&) const = default;

  MOXIE_INLINE Value load() const {
    T* at = element();
    for (u32 k = 0; k < granules; ++k) {
      Shadow& shadow = shadow_[origin_ * granules + k];
      if (shadow.read != machine->stamp) machine->read(shadow, place());
    }
    return *at;
  }
  MOXIE_INLINE void store(const Value& value) const {
    T* at = element();
    for (u32 k = 0; k < granules; ++k) {
      Shadow& shadow = shadow_[origin_ * granules + k];
      if (shadow.write != machine->stamp || shadow.read != 0) machine->write(shadow, place());
    }
    *at = value;
  }
  /// The address for an atomic operation.
  T* atomic() const {
    T* at = element();
    for (u32 k = 0; k < granules; ++k) machine->atomic(shadow_[origin_ * granules + k], place());
    return at;
  }

  /// The same memory from here on as elements of another type.
  template <class U>
  Pointer<U> cast() const {
    char* at = reinterpret_cast<char*>(const_cast<Value*>(data_ + origin_));
    if (reinterpret_cast<u64>(at) % alignof(U) != 0) machine->misaligned(place(), alignof(U));
    const i64 bytes = (count_ - origin_) * i64(sizeof(T));
    return {Region{at, shadow_ + origin_ * i64(sizeof(T)) / kGranule, bytes}, name_, space_};
  }

  void copy(T* data, Shadow* shadow, i64 count, i64 origin, const char* name, Space space) {
    data_ = data, shadow_ = shadow, count_ = count, origin_ = origin, name_ = name, space_ = space;
  }

 private:
  Place place() const { return {name_, origin_, space_}; }
  MOXIE_INLINE T* element() const {
    if (u64(origin_) >= u64(count_)) machine->outside(place(), count_);
    return data_ + origin_;
  }

  T* data_ = nullptr;
  Shadow* shadow_ = nullptr;
  i64 count_ = 0, origin_ = 0;
  const char* name_ = "null";
  Space space_ = Space::global;
};

template <class T>
class Reference {
 public:
  MOXIE_INLINE explicit Reference(const Pointer<T>& at) : at_(at) {}
  MOXIE_INLINE operator T() const { return at_.load(); }
  MOXIE_INLINE T operator=(T value) const { return at_.store(value), value; }
  MOXIE_INLINE T operator=(const Reference& other) const { return *this = T(other); }
  MOXIE_INLINE T operator+=(T value) const { return *this = T(*this) + value; }
  MOXIE_INLINE T operator-=(T value) const { return *this = T(*this) - value; }
  MOXIE_INLINE T operator*=(T value) const { return *this = T(*this) * value; }
  MOXIE_INLINE T operator/=(T value) const { return *this = T(*this) / value; }
  MOXIE_INLINE T operator|=(T value) const { return *this = T(*this) | value; }
  MOXIE_INLINE T operator&=(T value) const { return *this = T(*this) & value; }
  MOXIE_INLINE T operator++() const { return *this += T(1); }
  MOXIE_INLINE Pointer<T> operator&() const { return at_; }

 private:
  Pointer<T> at_;
};

/// One per declaration. Blocks run one after the other, so that one array serves them all.
template <class T, i64 count>
struct SharedArray {
  alignas(16) unsigned char bytes[count * sizeof(T)];
  Shadow shadow[(count * sizeof(T) + kGranule - 1) / kGranule];
  u64 claimed;  // the block that uses it

  Pointer<T> pointer(const char* name) {
    if (claimed != machine->block_start) {
      claimed = machine->block_start;
      machine->claim_shared(name, sizeof bytes);
    }
    return {Region{bytes, shadow, sizeof bytes}, name, Space::shared};
  }
};

}  // namespace moxie_emulation

template <class T>
using Pointer = moxie_emulation::Pointer<T>;
template <class T>
using Global = moxie_emulation::Pointer<T>;

/// The same memory as elements of another type: vectors, for example.
template <class U, class T>
Pointer<U> pointer_cast(const Pointer<T>& p) {
  return p.template cast<U>();
}

/// `count` elements of a workspace, from a byte on.
template <class T>
Pointer<T> slice(const Pointer<unsigned char>& memory, long long byte, long long count) {
  Pointer<T> part = (memory + byte).template cast<T>();
  part.set_extent(count, "workspace");
  return part;
}

#define EXTENT(pointer, count) (pointer).set_extent((count), #pointer)
#define SHARED(T, name, count)                                   \
  static moxie_emulation::SharedArray<T, (count)> name##_array_; \
  const Pointer<T> name = name##_array_.pointer(#name)
#define DYNAMIC_SHARED(T, name) \
  const Pointer<T> name(moxie_emulation::machine->dynamic_shared(), #name, moxie_emulation::Space::shared)

template <class T>
T __ldg(const Pointer<T>& p) {
  return p.load();
}
