#include "data/table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;

namespace {

Table table_of(std::string_view text, const TableOptions& options = {}) { return parse_table(text, "t.csv", options); }
std::string parse_error(std::string_view text, const TableOptions& options = {}) {
  return data_error([&] { table_of(text, options); });
}
TableOptions without_header() {
  TableOptions options;
  options.header = false;
  return options;
}
std::vector<std::string> words(const Column& column) {
  std::vector<std::string> result;
  for (const std::uint32_t code : column.codes) result.push_back(column.categories[code]);
  return result;
}

}  // namespace

TEST_CASE("separators are found, and may be given") {
  const std::string with_mark = std::string("\xef\xbb\xbf") + "1,a\n2,b\n";
  for (const char* text :
       {"1,a\n2,b\n", "1;a\n2;b", " 1 a\n\t2\t\tb \n", "1 , a\r\n2 , b\r\n\r\n", with_mark.c_str()}) {
    CAPTURE(text);
    const Table table = table_of(text);
    REQUIRE(table.columns.size() == 2);
    CHECK(table.columns[0].numbers == std::vector<double>{1, 2});
    CHECK(words(table.columns[1]) == std::vector<std::string>{"a", "b"});
  }
  TableOptions blanks;
  blanks.separator = Separator::Blanks;
  CHECK(words(table_of("a;b c,d\n", blanks).columns[1]) == std::vector<std::string>{"c,d"});
  CHECK(table_of("\"a,b\";2\n").columns.size() == 2);
}

TEST_CASE("comments and empty lines are skipped; rows remember their line") {
  const Table table = table_of("# a comment\n\n1,2\n  \n  # more\n3,4\n\n");
  REQUIRE(table.rows() == 2);
  CHECK(table.origins[0].line == 3);
  CHECK(table.origins[1].line == 6);
}

TEST_CASE("a header has an empty first name, as pandas writes it, or names that are known") {
  CHECK(table_of(",b,y\n0,1.5,2\n1,2.5,3\n").columns[1].name == "b");
  CHECK(table_of(",f,m\n3,m,f\n").columns[1].name == "column 2");
  TableOptions known;
  known.kinds = {{"b", ColumnKind::Categorical}};
  CHECK(table_of("a,b\nx,y\n", known).rows() == 1);
  CHECK(parse_error("a,b\n", known) == "t.csv: holds no rows");
}

TEST_CASE("a header is found, refused or demanded") {
  CHECK(table_of("age,name\n1,a\n").columns[0].name == "age");
  CHECK(table_of("a,b\nc,d\n").rows() == 2);
  CHECK(table_of("a,b\n1,2\n",
                 [] {
                   TableOptions o = without_header();
                   o.categorical = {"1", "2"};
                   return o;
                 }())
            .rows() == 2);
  TableOptions header;
  header.header = true;
  CHECK(table_of("a,\n1,x\n", header).columns[1].name == "column 2");
  CHECK(parse_error("a,b\n", header) == "t.csv: holds no rows");
  CHECK(parse_error("") == "t.csv: holds no rows");
  CHECK(parse_error("a,a\n1,2\n") == "t.csv:1: two columns have the name 'a'");
}

TEST_CASE("quoted fields") {
  const Table table = table_of("\"a, b\",1\n\"say \"\"hi\"\"\" ,2\n\"two\nlines\",3\nx\"y,4\n");
  CHECK(words(table.columns[0]) == std::vector<std::string>{"a, b", "say \"hi\"", "two\nlines", "x\"y"});
  CHECK(table.origins[3].line == 5);
  CHECK(parse_error("1,2\n3,\"abc\n") == "t.csv:2: the quoted field 'abc?' has no end");
  CHECK(parse_error("\"a\"b,1\n") == "t.csv:1: 'b,1' follows the quoted field 'a'; a separator must");
}

TEST_CASE("numbers and categories") {
  const Table table = table_of("+1.5e1,b,?\n?,a,x\n-2,,y\n");
  CHECK(table.columns[0].kind == ColumnKind::Numeric);
  CHECK(table.columns[0].numbers[0] == 15);
  CHECK(std::isnan(table.columns[0].numbers[1]));
  CHECK(table.columns[1].categories == std::vector<std::string>{"?", "a", "b"});
  CHECK(words(table.columns[2]) == std::vector<std::string>{"?", "x", "y"});
  TableOptions options;
  options.categorical = {"-1"};
  CHECK(table_of("1,2\n3,4\n", options).columns[1].kind == ColumnKind::Categorical);
  options.kinds = {{"column 1", ColumnKind::Categorical}, {"absent", ColumnKind::Numeric}};
  CHECK(table_of("1,2\n3,4\n", options).columns[0].kind == ColumnKind::Categorical);
}

TEST_CASE("what is no finite number is named with file, line, column and text") {
  CHECK(parse_error("age,n\n1,2\n3,4x\n") ==
        "t.csv:3: column 2 'n': '4x' is not a number; if it stands for a missing value, say --missing '4x'; if the "
        "column "
        "holds categories, say --categorical");
  CHECK(parse_error("1,2\n3,1,5\n") == "t.csv:2: the row has 3 columns, but the one of line 1 has 2");
  for (const std::string text : {"nan", "inf", "-inf", "NaN", "1e999"}) {
    CAPTURE(text);
    CHECK(parse_error("1,2\n3," + text + "\n") ==
          "t.csv:2: column 2: '" + text + "' is not a finite number; write ? for a missing value");
  }
  CHECK(parse_error("1\n" + std::string(50, 'w')).find("'" + std::string(40, 'w') + "...'") != std::string::npos);
  CHECK(parse_error(std::string_view("1\0", 2)) == "t.csv: is not text: byte 1 is zero");
}

TEST_CASE("columns by name and by number") {
  const Table table = table_of("a,b,3\n1,2,x\n", [] {
    TableOptions o;
    o.header = true;
    return o;
  }());
  CHECK(table.find("b") == 1);
  CHECK(table.find("1") == 0);
  CHECK(table.find("-1") == 2);
  CHECK(table.find("3") == 2);
  CHECK(data_error([&] { table.find("c"); }) == "t.csv: has no column 'c'; it has 3: 'a' 'b' '3'");
  CHECK(data_error([&] { table.find("0"); }) == "t.csv: has no column '0'; it has 3: 'a' 'b' '3'");
  CHECK_FALSE(table.find_name("1").has_value());
}

TEST_CASE("tables are put below each other") {
  const Table both = concatenate(table_of("1,b\n"), parse_table("2,a\n3,b\n", "u.csv"));
  CHECK(both.columns[0].numbers == std::vector<double>{1, 2, 3});
  CHECK(words(both.columns[1]) == std::vector<std::string>{"b", "a", "b"});
  CHECK(both.place(2, 1) == "u.csv:2: column 2");
  CHECK(data_error([] { concatenate(table_of("1,2\n"), parse_table("1\n", "u.csv")); }) ==
        "u.csv: has 1 columns, but t.csv has 2");
  CHECK(data_error([] { concatenate(table_of("1\n"), parse_table("a\n", "u.csv")); }) ==
        "u.csv: column 1 'column 1' differs in name or kind from 'column 1' of t.csv");
}

TEST_CASE("categories are renamed and merged") {
  Column column = table_of("yes.\nno\nyes\n").columns[0];
  rename_categories(column, [](std::string_view name) { return std::string(name.substr(0, name.find('.'))); });
  CHECK(column.categories == std::vector<std::string>{"no", "yes"});
  CHECK(words(column) == std::vector<std::string>{"yes", "no", "yes"});
}
