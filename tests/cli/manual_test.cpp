// Completion scripts and manual pages are made of the options that --help shows: every one of them is in all.
#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/skip.h"

using namespace moxie;
using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

/// The words that begin the lines of a help text and match.
std::set<std::string> words_of(const std::string& help, const std::regex& pattern) {
  std::set<std::string> words;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, pattern)) continue;
    std::string names = match[1];
    for (std::smatch name; std::regex_search(names, name, std::regex("--[a-z0-9-]+")); names = name.suffix())
      words.insert(name.str());
    if (!match[1].str().starts_with('-')) words.insert(match[1]);
  }
  return words;
}

/// The options of a command, for train those of every model: its help text shows one model's at a time.
std::set<std::string> options_of(const Workshop& shop, const std::vector<std::string>& command) {
  std::set<std::string> options;
  for (const char* model : {"", "gpn", "mlp", "probact", "sp-gru", "own.mox"}) {
    std::vector<std::string> words = command;
    if (!command.empty() && command[0] == "train" && *model != '\0') words.emplace_back(model);
    words.emplace_back("--help");
    options.merge(words_of(shop.moxie(words).out, std::regex("^  (-[^ ]+)")));
  }
  return options;
}

/// A command with all commands below it; `check` sees each with its options.
template <class Check>
void visit_commands(const Workshop& shop, const std::vector<std::string>& command, const Check& check) {
  std::vector<std::string> words = command;
  check(command, options_of(shop, command));
  words.emplace_back("--help");
  const std::string help = shop.moxie(words).out;
  const std::size_t heading = std::min(help.find("\nSubcommands:\n"), help.size());
  for (const std::string& name : words_of(help.substr(heading), std::regex("^  ([a-z]+) "))) {
    words.back() = name;
    visit_commands(shop, words, check);
  }
}

/// Text of a page without what only roff reads.
std::string plain(const std::string& roff) {
  return std::regex_replace(std::regex_replace(roff, std::regex(R"(\\f[BIR])"), ""), std::regex(R"(\\-)"), "-");
}

bool has_program(const Workshop& shop, const std::string& name) { return shop.shell("command -v " + name).code == 0; }

/// The script of a shell, which it must be able to read.
void check_syntax(const std::string& shell) {
  const Workshop shop;
  if (!has_program(shop, shell)) return test::skip("there is no " + shell);
  shop.write("script", shop.moxie({"completion", shell}).out);
  const Outcome outcome = shop.shell(shell + " -n script");
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(outcome.err.empty());
}

/// `complaints` prints what `program` has against a $page. Pages have no date, so that builds can be repeated.
void check_pages(const std::string& program, const std::string& complaints) {
  const Workshop shop;
  if (!has_program(shop, program)) return test::skip("there is no " + program);
  REQUIRE(shop.moxie({"help", "--man", "pages"}).code == 0);
  const Outcome outcome =
      shop.shell("for page in pages/*.1; do " + complaints + "; done | grep -v 'missing date' | cat");
  CHECK_MESSAGE(outcome.out.empty(), outcome.out);
}

}  // namespace

TEST_CASE("every option of every command is in the completion scripts and in the manual pages") {
  const Workshop shop;
  const Outcome written = shop.moxie({"help", "--man", "share/man1"});
  REQUIRE_MESSAGE(written.code == 0, written.err);
  const std::string bash = shop.moxie({"completion"}).out, zsh = shop.moxie({"completion", "zsh"}).out,
                    fish = shop.moxie({"completion", "fish"}).out;
  CHECK(bash == shop.moxie({"completion", "bash"}).out);
  int options = 0;
  visit_commands(shop, {}, [&](const std::vector<std::string>& command, const std::set<std::string>& names) {
    std::string words, function = "_moxie_moxie";
    for (const std::string& word : command) words += " " + word, function += "_" + word;
    const std::string page =
        plain(read_file(shop.path("share/man1/moxie" + (command.empty() ? "" : "-" + command[0]) + ".1")));
    const std::size_t start = command.size() < 2 ? 0 : page.find("\n.SS moxie" + words + "\n");
    REQUIRE_MESSAGE(start < page.size(), words);
    const std::size_t at = zsh.find("\n" + function + "() {");
    REQUIRE_MESSAGE(at != zsh.npos, words);
    const std::string zsh_options = zsh.substr(at, zsh.find("\n}\n", at) - at);
    const std::size_t line = bash.find("    \"moxie" + words + "\") words=\"");
    REQUIRE_MESSAGE(line != bash.npos, words);
    const std::string bash_words = bash.substr(line, bash.find(" ;;", line) - line) + " ";
    for (const std::string& name : names) {
      CAPTURE(words);
      CAPTURE(name);
      CHECK(std::regex_search(page.substr(start), std::regex("\n(-[a-z], )?(--[a-z0-9-]+, )*" + name + "[=,\n]")));
      CHECK(std::regex_search(zsh_options, std::regex("[)*]" + name + "[=\\[]")));
      CHECK(std::regex_search(bash_words, std::regex("[\" ]" + name + "[\" ]")));
      CHECK(std::regex_search(fish, std::regex("'__moxie_at moxie" + words + "'[^\n']* -l " + name.substr(2) + " ")));
      ++options;
    }
  });
  CHECK(options > 200);
  const std::string page = read_file(shop.path("share/man1/moxie.1"));
  for (const char* part : {"MOXIE_CACHE_DIR", ".SH EXIT STATUS", "moxie\\-train\\fR(1)"}) CHECK(contains(page, part));
  CHECK(contains(read_file(shop.path("share/man1/moxie-run.1")), ".SH EXAMPLES\n.nf\n  moxie run density.mox"));
}

TEST_CASE("manual pages go to a folder that can be made, and are for all commands") {
  const Workshop shop;
  const Outcome topic = shop.moxie({"help", "train", "--man", "pages"});
  CHECK(topic.code == 2);
  CHECK(contains(topic.err, "--man writes the pages of all commands; leave out 'train'"));
  shop.write("file", "");
  const Outcome folder = shop.moxie({"help", "--man", "file/pages"});
  CHECK(folder.code == 1);
  CHECK(contains(folder.err, "cannot make the folder file/pages"));
  CHECK(shop.moxie({"completion", "tcsh"}).code == 2);
}

TEST_CASE("zsh reads its completion script" * doctest::test_suite("zsh")) { check_syntax("zsh"); }

TEST_CASE("fish reads its completion script, and completes by it" * doctest::test_suite("fish")) {
  check_syntax("fish");
  const Workshop shop;
  if (!has_program(shop, "fish")) return;
  shop.write("moxie.fish", shop.moxie({"completion", "fish"}).out);
  const auto completed = [&](const std::string& words) {
    return shop.shell("fish --no-config -c 'source moxie.fish; complete -C \"moxie " + words + "\"'").out;
  };
  CHECK(completed("tr").starts_with("train\t"));
  CHECK(completed("train gpn --propa").starts_with("--propagate\t"));
  CHECK(completed("aot des").starts_with("describe\t"));
  CHECK(completed("run --device cuda-").starts_with("cuda-emu\t"));
  CHECK(completed("completion z").starts_with("zsh"));
}

TEST_CASE("man shows the manual pages without a warning" * doctest::test_suite("man")) {
  check_pages("man", "man --warnings -E UTF-8 -l $page 2>&1 >shown.txt");
}

TEST_CASE("mandoc has no complaint about the manual pages" * doctest::test_suite("mandoc")) {
  check_pages("mandoc", "mandoc -Tlint $page");
}
