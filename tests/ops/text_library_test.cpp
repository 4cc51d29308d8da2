// Texts that include files and use formulas of the catalogue.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "compiler/text/text_library.h"
#include "ops/catalogue.h"

using namespace moxie;
namespace fs = std::filesystem;

namespace {

/// A folder of its own, gone in the end.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fs::path("moxie_text_library_" + std::to_string(++count_))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  static inline int count_ = 0;
  fs::path path_;
};

Program parse_file(const std::string& path, const std::vector<fs::path>& folders = {}) {
  TextLibrary library = catalogue_library();
  library.includes_files = true;
  library.folders = folders;
  std::ifstream stream(path);
  return parse(std::string(std::istreambuf_iterator<char>(stream), {}), path, library);
}

std::string message_of(const std::string& path, const std::vector<fs::path>& folders = {}) {
  try {
    parse_file(path, folders);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string message_of_use(const std::string& use) {
  const std::string head = "dim S, N, R\nindex s:S, n:N\ninput x[S,N], V[R,N], lambda[N] > 0, w[N,N,N]\n";
  try {
    parse(head + use + "\n", "test.mox", catalogue_library());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_holds(const std::string& message, const std::string& fragment) {
  CAPTURE(message);
  CHECK(message.find(fragment) != std::string::npos);
}

}  // namespace

TEST_CASE("the statements of an included file stand where it is included, once") {
  const Folder folder;
  folder.write("parts/shapes.mox", "dim S dynamic, N\nindex s:S, n:N\n");
  folder.write("parts/functions.mox", "include \"shapes.mox\"\ndef twice(a) = 2*a\n");
  const std::string main = folder.write("main.mox",
                                        "include \"parts/functions.mox\"\ninclude \"parts/shapes.mox\"\n"
                                        "input x[S,N]\noutput y[s,n] = twice(x[s,n])\n");
  const Program program = parse_file(main);
  CHECK(program.name == "main");
  CHECK(program.definitions.back().body ==
        parse("dim S, N\nindex s:S, n:N\ninput x[S,N]\noutput y[s,n] = 2*x[s,n]\n").definitions.back().body);
}

TEST_CASE("an included file is read from the folder of the including one, below, or where the user says") {
  const Folder folder, elsewhere;
  folder.write("secret.mox", "dim N\n");
  elsewhere.write("shared.mox", "dim N\n");
  const std::string upwards = folder.write("below/up.mox", "include \"../secret.mox\"\n");
  check_holds(message_of(upwards), "`../secret.mox` lies outside of the folder of this file");
  check_holds(message_of(upwards), "up.mox:1:9");
  CHECK(message_of(upwards, {folder.path()}).empty());
  const std::string absolute = folder.write("a.mox", "include \"" + (folder.path() / "secret.mox").string() + "\"\n");
  check_holds(message_of(absolute), "is no path relative to this file");
  fs::create_symlink(elsewhere.path() / "shared.mox", folder.path() / "link.mox");
  check_holds(message_of(folder.write("b.mox", "include \"link.mox\"\n")), "lies outside of the folder");
  check_holds(message_of(folder.write("c.mox", "include \"shared.mox\"\n")), "there is no file `shared.mox`");
  CHECK(message_of((folder.path() / "c.mox").string(), {elsewhere.path()}).empty());
  check_holds(message_of(folder.write("d.mox", "include \"below\"\n")), "`below` is no file");
  check_holds(message_of(folder.write("e.mox", "include \"secret.mox\n")), "is never closed");
  check_holds(message_of(folder.write("f.mox", "include secret\n")), "the name of a file expected");
}

TEST_CASE("what is wrong in an included file is shown with where it is included") {
  const Folder folder;
  folder.write("bad.mox", "dim N\ninput x[M]\n");
  const std::string message = message_of(folder.write("main.mox", "# first\ninclude \"bad.mox\"\n"));
  check_holds(message, "bad.mox:2:9: dim `M` is not declared");
  check_holds(message, "main.mox:2:9: included from here");
  folder.write("functions.mox", "def f(a) = a*b\n");
  check_holds(message_of(folder.write("g.mox", "include \"functions.mox\"\n")), "functions.mox:1:14: `b` is not");
  folder.write("index.mox", "dim N\ninput V[N]\ndef f(k) = V[k]\n");
  const std::string call = message_of(folder.write("h.mox", "include \"index.mox\"\ninput w\nlet y = f(w)\n"));
  check_holds(call, "index.mox:3:14: parameter `k` stands in a subscript");
  check_holds(call, "h.mox:3:9: in this call of `f`");
}

TEST_CASE("files that include themselves are refused with the chain") {
  const Folder folder;
  folder.write("b.mox", "include \"c.mox\"\n");
  folder.write("c.mox", "include \"a.mox\"\n");
  const std::string message = message_of(folder.write("a.mox", "include \"b.mox\"\n"));
  check_holds(message, "a.mox` includes itself: ");
  for (const char* link : {"a.mox -> ", "b.mox -> ", "c.mox -> "}) check_holds(message, link);
}

TEST_CASE("a text without a folder includes nothing, and one without a catalogue uses nothing") {
  CHECK_THROWS_AS(parse("include \"a.mox\"\n"), ParseError);
  CHECK_THROWS_AS(parse("use gpn.kernel() as k\n"), TypeError);
}

TEST_CASE("a formula of the catalogue comes in with its inputs bound and its definitions named") {
  Program program = parse(
      "dim B dynamic, H, P = 3\nindex b:B, h:H, p:P\ninput x[B,H], c[P,H], lambda[H] > 0, s\n"
      "use gpn.kernel(a = x, V = c, lambda) as k\n"
      "use gpn.kernel(a = x, V = c, lambda) as again(alpha = beta)\n"
      "output y[b,h] = sum[p](k.alpha[b,p,h] - beta[b,p,h]) + s\noutput k.alpha\n",
      "test.mox", catalogue_library());
  verify(program);
  program.name = "";
  CHECK(print(parse(print(program))) == print(program));
  const TensorValues got = evaluate(program, {{"B", 1}, {"H", 2}},
                                    {{"x", {1, 2}}, {"c", {1, 1, 0, 2, 3, 4}}, {"lambda", {1, 2}}, {"s", {7}}});
  CHECK(got.at("y") == std::vector<double>{7, 7});
  CHECK(got.at("k.alpha")[0] == 1);
  CHECK(got.at("k.alpha")[2] == doctest::Approx(std::exp(-0.5)));
}

TEST_CASE("without a name of its own a use leaves the formula's names, and some of them may be changed") {
  const std::string head = "dim S, N, R\nindex s:S, n:N, r:R\ninput a[S,N], V[R,N], lambda[N] > 0\n";
  const auto definitions = [&](const std::string& use) {
    std::vector<std::string> names;
    for (const Definition& definition : parse(head + use, "", catalogue_library()).definitions)
      names.push_back(definition.name);
    return names;
  };
  CHECK(definitions("use gpn.kernel(a, V, lambda)\n") == std::vector<std::string>{"alpha"});
  CHECK(definitions("use gpn.kernel(a, V, lambda) as (alpha = k)\n") == std::vector<std::string>{"k"});
  CHECK(definitions("use gpn.kernel(a, V, lambda) as g(alpha = k)\n") == std::vector<std::string>{"k"});
}

TEST_CASE("a definition of a formula may be bound: what it needed alone goes") {
  const Program program = parse(
      "dim S, N, R\ninput mu[S,N], var[S,N] >= 0, V[R,N], lambda[N] > 0, sigma[N], khat[N,R,R], beta[R,N]\n"
      "use gpn.response_variance(mu, var, V, lambda, sigma, kappa = khat, beta)\noutput variance\n",
      "", catalogue_library());
  verify(program);
  CHECK_FALSE(program.find_definition("K"));
  CHECK_FALSE(program.find_definition("kappa"));
  bool reads = false;
  visit(program.find_definition("M")->body,
        [&](const Expr& e) { reads = reads || (e->kind == NodeKind::Access && e->tensor == "khat"); });
  CHECK(reads);
}

TEST_CASE("texts include what formulas of the catalogue share, unless they have a file of that name") {
  const std::string text = "include \"functions/gpn.mox\"\ninput x\noutput y = kernel(x, 2)\n";
  CHECK(parse(text, "", catalogue_library()).definitions.back().body ==
        parse("input x\noutput y = exp(-x^2/(2*2^2))\n").definitions.back().body);
  const Folder folder;
  const std::string main = folder.write("main.mox", text);
  CHECK(parse_file(main).definitions.size() == 1);
  folder.write("functions/gpn.mox", "def kernel(x, l) = x + l\n");
  CHECK(parse_file(main).definitions.back().body == parse("input x\noutput y = x + 2\n").definitions.back().body);
}

TEST_CASE("a formula of the catalogue says the same as a file of the user's") {
  for (const Op& op : catalogue()) {
    CAPTURE(op.name);
    const Folder folder;
    CHECK(print(parse_file(folder.write(std::string(op.name) + ".mox", std::string(op.text)))) ==
          print(load_op(op.name)));
  }
}

TEST_CASE("a use that does not fit is shown where it stands") {
  check_holds(message_of_use("use gpn.kernal(a = x) as k"), "did you mean `gpn.kernel`");
  check_holds(message_of_use("use gpn.kernel(a = x, V) as k"), "test.mox:4:5: ");
  check_holds(message_of_use("use gpn.kernel(a = x, V) as k"), "its input 'lambda' is not bound");
  check_holds(message_of_use("use gpn.kernel(a = x, V, lamda = lambda) as k"), "did you mean `lambda`");
  check_holds(message_of_use("use gpn.kernel(a = y, V, lambda) as k"), "test.mox:4:20: `y` is no tensor");
  check_holds(message_of_use("use gpn.kernel(a = w, V, lambda) as k"), "tensor 'w' that is bound to it has [N,N,N]");
  check_holds(message_of_use("use gpn.kernel(a = x, a = x, V, lambda) as k"), "`a` is bound twice");
  check_holds(message_of_use("use gpn.kernel(a = x, V, lambda) k"), "the end of the statement expected");
  check_holds(message_of_use("use gpn.kernel(a = x, V, lambda)\nuse gpn.kernel(a = x, V, lambda)"),
              "`alpha` cannot name a definition of this formula");
  check_holds(message_of_use("use gpn.kernel(a = x, V, lambda) as k(alfa = y)"), "it defines alpha");
  check_holds(message_of_use("use gpn.kernel(a = x, V, lambda) as k(alpha = x)"), "it is already an input");
  check_holds(message_of_use("use gpn.kernel(a = x, V, lambda) as k\nuse gpn.kernel(a = x, V, lambda) as k"),
              "`k.alpha` cannot name");
}
