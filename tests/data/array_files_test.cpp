// The readers of arrays: IDX, .npy and .npz.
#include <doctest/doctest.h>

#include <cmath>

#include "data/archive.h"
#include "data/idx.h"
#include "data/npy.h"
#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;

namespace {

std::string npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}
std::string npy_error(const std::string& bytes) {
  return data_error([&] { parse_npy(bytes, "f.npy"); });
}
std::string idx_error(const std::string& bytes) {
  return data_error([&] { parse_idx(bytes, "f"); });
}
const std::vector<float> kSix{0, 1, 2, 3, 4, 5};
NpyArray six(std::vector<std::size_t> shape) { return make_npy_array<float>(std::move(shape), kSix); }

}  // namespace

TEST_CASE("idx: shape and values") {
  const IdxArray array = parse_idx(std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
                                               "abcdef",
                                               18),
                                   "f");
  CHECK(array.shape == std::vector<std::size_t>{2, 3});
  CHECK(array.values == std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  CHECK(parse_idx(std::string("\0\0\x08\x01\0\0\0\0", 8), "f").values.empty());
}

TEST_CASE("idx: damage is named") {
  CHECK(idx_error("") == "f: is not an IDX file: it must begin with two zero bytes");
  CHECK(idx_error("abcd") == "f: is not an IDX file: it must begin with two zero bytes");
  CHECK(idx_error(std::string("\0\0\x0d\x01", 4)) ==
        "f: holds elements of IDX type 0x0d; only unsigned bytes (0x08) are read");
  CHECK(idx_error(std::string("\0\0\x08\0", 4)) == "f: the IDX array has no dimensions");
  CHECK(idx_error(std::string("\0\0\x08\x02\0\0\0\x02", 8)) == "f: is truncated within the IDX header of 2 dimensions");
  CHECK(idx_error(std::string("\0\0\x08\x01\0\0\0\x02x", 9)) ==
        "f: the IDX header promises a shape of (2) bytes, but 1 follow it");
  const std::string huge("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  CHECK(idx_error(huge).find("promises a shape of (4294967295 x 4294967295 x 4294967295) bytes, but 0 follow") !=
        std::string::npos);
}

TEST_CASE("npy: elements of fewer bits are numbers, too") {
  const auto values = [](const std::string& descr, const std::string& data) {
    const std::string shape = std::to_string(data.size() / (descr.back() - '0'));
    const NpyArray array =
        parse_npy(npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + ",)}", data), "f");
    CHECK(parse_npy(print_npy(array), "f") == array);
    return array.to<double>();
  };
  // As numpy.array([1, -2, 65504, 2**-24, inf], "<f2").tobytes() writes them.
  CHECK(values("<f2", std::string("\x00\x3c\x00\xc0\xff\x7b\x01\x00\x00\x7c", 10)) ==
        std::vector<double>{1, -2, 65504, 0x1p-24, INFINITY});
  CHECK(values("|i1", "\x80\xff") == std::vector<double>{-128, -1});
  CHECK(values("<i2", std::string("\x00\x80\xff\xff", 4)) == std::vector<double>{-32768, -1});
  CHECK(values("<u2", "\xff\xff") == std::vector<double>{65535});
  CHECK(values("<u4", "\xff\xff\xff\xff") == std::vector<double>{4294967295});
}

TEST_CASE("npy round trip for every type") {
  for (const std::vector<std::size_t>& shape : std::vector<std::vector<std::size_t>>{{6}, {2, 3}, {1, 6, 1}}) {
    const NpyArray array = six(shape);
    const std::string bytes = print_npy(array);
    CHECK((bytes.size() - array.bytes.size()) % 64 == 0);
    CHECK(parse_npy(bytes, "f") == array);
    CHECK(array.to<double>() == std::vector<double>{0, 1, 2, 3, 4, 5});
  }
  const std::vector<double> doubles{1.5, -2};
  CHECK(parse_npy(print_npy(make_npy_array<double>({2}, doubles)), "f").to<float>() == std::vector<float>{1.5F, -2});
  const std::vector<std::int64_t> whole{-7};
  CHECK(parse_npy(print_npy(make_npy_array<std::int64_t>({}, whole)), "f").to<float>() == std::vector<float>{-7});
  const NpyArray bytes = parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "\xff\x01"), "f");
  CHECK(bytes.to<float>() == std::vector<float>{255, 1});
  const NpyArray truths =
      parse_npy(npy("{'descr':'|b1','fortran_order':True,'shape':(2,),}\n", std::string("\1\0", 2)), "f");
  CHECK(truths.to<float>() == std::vector<float>{1, 0});
  const NpyArray ints =
      parse_npy(npy("{\"descr\": \"<i4\", 'fortran_order': False, 'shape': (1,)}", "\xfe\xff\xff\xff"), "f");
  CHECK(ints.to<double>() == std::vector<double>{-2});
  CHECK(six({2, 3}).size() == 6);
  CHECK_THROWS_WITH_AS(six({2, 2}), "an array of shape (2, 2) cannot hold 6 values", ShapeError);
}

TEST_CASE("npy: Fortran order becomes C order") {
  const NpyArray array = parse_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", "adbecf"), "f");
  CHECK(array.bytes == "abcdef");
  const NpyArray cube = parse_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2)}", "01234567"), "f");
  CHECK(cube.bytes == "04261537");
  CHECK(parse_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 0, 2)}", ""), "f").bytes.empty());
}

TEST_CASE("npy: damage is named") {
  CHECK(npy_error("NUMPY") == "f.npy: is not an .npy file: it must begin with \\x93NUMPY and a version");
  CHECK(npy_error(std::string("\x93NUMPY\x09\0\0\0", 10)) == "f.npy: .npy version 9 is not read; known: 1 2 3");
  CHECK(npy_error(std::string("\x93NUMPY\x01\0\x50", 9)) == "f.npy: is truncated within the header");
  CHECK(npy_error(std::string("\x93NUMPY\x01\0\x50\0{", 11)) == "f.npy: is truncated within the header");
  CHECK(npy_error(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234")) ==
        "f.npy: elements of type '>f4' are not read; known: <f4 <f8 <i4 <i8 |u1 |b1 <f2 |i1 <i2 <u2 <u4");
  CHECK(npy_error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234")) ==
        "f.npy: shape (2) of '<f4' does not fit the 4 bytes of data");
  CHECK(npy_error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "12345")).find("does not fit") !=
        std::string::npos);
  CHECK(npy_error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", ""))
            .find("does not fit the 0 bytes") != std::string::npos);
}

TEST_CASE("npy: a bad header is named with its place") {
  const auto header_error = [](const std::string& header) { return npy_error(npy(header, "")); };
  CHECK(header_error("") == "f.npy: bad .npy header at byte 0: '{' expected");
  CHECK(header_error("{'descr' 3") == "f.npy: bad .npy header at byte 9: ':' expected");
  CHECK(header_error("{'descr': '<f4") == "f.npy: bad .npy header at byte 11: a string has no end");
  CHECK(header_error("{'x': 1}") == "f.npy: bad .npy header at byte 5: key 'x' is unknown or repeated");
  CHECK(header_error("{'fortran_order': Maybe}") == "f.npy: bad .npy header at byte 18: 'False' expected");
  CHECK(header_error("{'shape': (-1,)}") == "f.npy: bad .npy header at byte 11: an extent must be a whole number");
  CHECK(header_error("{'descr': '<f4'}") ==
        "f.npy: bad .npy header at byte 16: one of the keys descr, fortran_order, shape is missing");
}

TEST_CASE("npz round trip") {
  const NpyArrays arrays{{"mu", six({2, 3})}, {"var", six({6})}};
  for (const bool compress : {false, true}) CHECK(parse_npz(print_npz(arrays, compress), "f.npz") == arrays);
}

TEST_CASE("npz: foreign, repeated and damaged members are named") {
  const std::string array = print_npy(six({6}));
  CHECK(data_error([&] { parse_npz(write_zip({{"a.txt", ""}}, false), "f.npz"); }) ==
        "f.npz: member 'a.txt' is not an .npy file");
  CHECK(data_error([&] { parse_npz(write_zip({{"a.npy", array}, {"a.npy", array}}, false), "f.npz"); }) ==
        "f.npz: holds array 'a' twice");
  CHECK(data_error([&] {
          parse_npz(write_zip({{"a.npy", "x"}}, false), "f.npz");
        }).find("f.npz:a.npy: is not an .npy file") == 0);
}
