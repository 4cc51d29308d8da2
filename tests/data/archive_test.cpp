#include "data/archive.h"

#include <doctest/doctest.h>

#include "data/compression.h"
#include "data/file.h"
#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;

namespace {

constexpr std::size_t kLimit = 1 << 20;

// printf 'hello\n' | gzip -9n
const std::string kHello(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\xe7\x02\x00\x20\x30\x3a\x36\x06\x00\x00\x00", 26);

std::string octal(std::size_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; value /= 8) text[i] = static_cast<char>('0' + value % 8);
  return text;
}

std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, octal(content.size(), 11));
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(148, 8, "        ");
  std::size_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  header.replace(148, 7, octal(sum, 6) + '\0');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

const std::string kTarEnd(1024, '\0');

}  // namespace

TEST_CASE("gunzip reads one or several members") {
  CHECK(is_gzip(kHello));
  CHECK_FALSE(is_gzip("\x1f"));
  CHECK(gunzip(kHello, "f", kLimit) == "hello\n");
  CHECK(gunzip(kHello + kHello, "f", kLimit) == "hello\nhello\n");
}

TEST_CASE("gunzip refuses truncated, damaged and oversized data") {
  for (std::size_t size = 2; size < kHello.size(); ++size) {
    CAPTURE(size);
    CHECK(data_error([&] {
            gunzip(kHello.substr(0, size), "f.gz", kLimit);
          }).find("f.gz: the compressed data is truncated") == 0);
  }
  std::string wrong_sum = kHello;
  wrong_sum[18] ^= 1;
  CHECK(data_error([&] { gunzip(wrong_sum, "f.gz", kLimit); }) ==
        "f.gz: the compressed data is damaged after 6 decompressed bytes (incorrect data check)");
  CHECK(data_error([&] { gunzip(kHello + "xyz", "f.gz", kLimit); }) == "f.gz: 3 bytes follow the compressed data");
  CHECK(data_error([&] { gunzip(kHello, "f.gz", 5); }) == "f.gz: decompresses to more than the 5 bytes allowed");
}

TEST_CASE("raw deflate round trip") {
  std::string text;
  for (std::int64_t i = 0; i < 100'000; ++i) text += static_cast<char>(i * i >> 3);
  CHECK(inflate_raw(deflate_raw(text), "f", kLimit) == text);
  CHECK(inflate_raw(deflate_raw(""), "f", kLimit).empty());
}

TEST_CASE("files are read plain or compressed") {
  const test::DataFolder folder;
  CHECK(read_whole_file(folder.write("plain", "abc")) == "abc");
  CHECK(read_whole_file(folder.write("packed", kHello)) == "hello\n");
  const auto missing = folder.path() / "missing";
  CHECK(data_error([&] { read_whole_file(missing); }) ==
        missing.string() + ": cannot be opened: No such file or directory");
  CHECK(data_error([&] { read_whole_file(folder.path()); }) == folder.path().string() + ": is a folder, not a file");
  CHECK(data_error([&] { read_whole_file(folder.path() / "plain", 2); }).find("is larger than the 2 bytes allowed") !=
        std::string::npos);
}

/// A gzip file of zeros.
std::string packed_zeros(std::size_t count) {
  std::uint32_t sum = ~std::uint32_t{0};
  for (std::size_t bit = 0; bit < 8 * count; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
  std::string packed = std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + deflate_raw(std::string(count, '\0'));
  for (const std::uint32_t word : {~sum, static_cast<std::uint32_t>(count)})
    for (int k = 0; k < 4; ++k) packed += static_cast<char>(word >> 8 * k & 0xff);
  return packed;
}

TEST_CASE("small files do not become gigabytes, and large ones are refused before they are read") {
  constexpr std::size_t kMiB = 1 << 20;
  CHECK(decompressed_limit(0, kMaxFileBytes) == 256 * kMiB);
  CHECK(decompressed_limit(2 * kMiB, kMaxFileBytes) == 400 * kMiB);
  CHECK(decompressed_limit(kMaxFileBytes, kMaxFileBytes) == kMaxFileBytes);
  CHECK(decompressed_limit(~std::size_t{0}, 5) == 5);
  const std::string zeros = packed_zeros(kMiB);
  std::string bomb;
  for (int k = 0; k < 257; ++k) bomb += zeros;
  REQUIRE(bomb.size() < kMiB);
  const test::DataFolder folder;
  CHECK(read_whole_file(folder.write("zeros", zeros)) == std::string(kMiB, '\0'));
  CHECK(data_error([&] { read_whole_file(folder.write("bomb", bomb)); }).find("decompresses to more than") !=
        std::string::npos);
  std::filesystem::resize_file(folder.write("hole", ""), std::uintmax_t{1} << 40);  // takes no room on the disk
  CHECK(data_error([&] { read_whole_file(folder.path() / "hole"); }).find("is larger than") != std::string::npos);
}

TEST_CASE("tar: files in order, folders skipped") {
  const std::string archive =
      tar_member("d/", "", '5') + tar_member("d/a", "one") + tar_member("b", std::string(513, 'x')) + kTarEnd;
  const auto members = read_tar(archive, "t.tar");
  REQUIRE(members.size() == 2);
  CHECK(members[0] == ArchiveMember{"d/a", "one"});
  CHECK(members[1] == ArchiveMember{"b", std::string(513, 'x')});
}

TEST_CASE("tar: damage is named") {
  const std::string member = tar_member("a", "one");
  CHECK(data_error([&] { read_tar(member, "t"); }) == "t: the archive is truncated: no end mark after 1 members");
  CHECK(data_error([&] { read_tar(member.substr(0, 514), "t"); }) == "t: member 'a' is truncated: 2 of 3 bytes");
  CHECK(data_error([&] { read_tar(std::string(512, 'x'), "t"); }) ==
        "t: no ustar header at byte 0; is it a tar archive?");
  std::string damaged = member;
  damaged[1] = 'b';
  CHECK(data_error([&] { read_tar(damaged + kTarEnd, "t"); }) == "t: the header at byte 0 is damaged (wrong checksum)");
  CHECK(data_error([&] { read_tar(tar_member("a", "", '2') + kTarEnd, "t"); }) ==
        "t: member 'a' is neither a file nor a folder (type '2')");
}

TEST_CASE("zip round trip, stored and deflated") {
  const std::vector<ArchiveMember> members{{"a.npy", "one"}, {"empty", ""}, {"long", std::string(5000, 'z')}};
  for (const bool compress : {false, true}) {
    CAPTURE(compress);
    CHECK(read_zip(write_zip(members, compress), "z", kLimit) == members);
    CHECK(write_zip(members, compress) == write_zip(members, compress));
  }
  CHECK(read_zip(write_zip({}, true), "z", kLimit).empty());
}

TEST_CASE("zip: damage is named") {
  const std::string archive = write_zip({{"a", "one"}}, false);
  CHECK(data_error([&] { read_zip("PK", "z", kLimit); }) == "z: is not a zip archive, or is truncated (no end record)");
  CHECK(data_error([&] { read_zip(archive, "z", 2); }) == "z: member 'a' exceeds the 2 bytes allowed");
  std::string content = archive;
  content[31] = 'O';
  CHECK(data_error([&] { read_zip(content, "z", kLimit); }) == "z: member 'a' is damaged (wrong checksum)");
  const std::size_t directory = archive.find("PK\x01\x02");
  std::string encrypted = archive, method = archive, far = archive, zip64 = archive, signature = archive;
  encrypted[directory + 8] = 1;
  method[directory + 10] = 12;
  far[directory + 42] = 100;
  zip64.replace(directory + 20, 4, "\xff\xff\xff\xff");
  signature[directory] = 'Q';
  CHECK(data_error([&] { read_zip(encrypted, "z", kLimit); }) ==
        "z: member 'a' is encrypted; only plain archives are read");
  CHECK(data_error([&] { read_zip(method, "z", kLimit); }) ==
        "z: member 'a' uses compression method 12; only stored and deflated members are read");
  CHECK(data_error([&] { read_zip(far, "z", kLimit); }) == "z: member 'a' has no local header");
  CHECK(data_error([&] { read_zip(zip64, "z", kLimit); }) ==
        "z: member 'a' uses zip64; only archives below 4 GiB are read");
  CHECK(data_error([&] { read_zip(signature, "z", kLimit); }) == "z: the zip directory is damaged at entry 1 of 1");
}
