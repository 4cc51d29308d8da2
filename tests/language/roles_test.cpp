// Parameters, states, predictions and the loss of a Program, in text and in C++.
#include <doctest/doctest.h>

#include <string>

#include "compiler/builder/builder.h"
#include "compiler/support/error.h"
#include "tests/language/sample_programs.h"

using namespace moxie;

namespace {

const std::string kHead = "dim S dynamic, H = 3\nindex s:S, h:H\ninput x[S,H]\n";

template <class E>
void check_fails(const std::string& text, const std::vector<std::string>& fragments) {
  CAPTURE(text);
  std::string message;
  try {
    parse(kHead + text + "\n", "m.mox");
  } catch (const E& error) {
    message = error.what();
  }
  for (const std::string& fragment : fragments) {
    CAPTURE(fragment);
    CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
  }
}

Program model_in_cpp() {
  Program p;
  const Dim S = p.dim("S", dynamic), H = p.dim("H", 3);
  const Index s(S, "s"), h(H, "h");
  const Tensor x = p.input("x", {S, H}), target = p.input("target", {S});
  const Tensor w = p.parameter("w", {H}, Initialiser::glorot());
  const Tensor a = p.state("a", {H}, Initialiser::zeros());
  const Tensor mean = p.predict("mean", {s}, sum(h, w(h) * x(s, h)));
  p.loss("error", sum(s, sq(target(s) - mean(s))) / S);
  p.next(a, {h}, (a(h) + w(h)) / 2);
  return p;
}

}  // namespace

TEST_CASE("roles are attributes of inputs and outputs") {
  const Program program = parse(kHead + "parameter w[H] init normal(0.1), b init zeros\nstate a: f64 init ones\n" +
                                "predict mean[s] = sum[h](w[h]*x[s,h]) + b\nloss l = sum[s](mean[s])/S\n" +
                                "next a: f64 = a/2\noutput y = l\n");
  CHECK(program.find_input("x")->role == InputRole::Data);
  CHECK(program.find_input("w")->role == InputRole::Parameter);
  CHECK(program.find_input("w")->start == Initialiser::normal(0.1));
  CHECK(program.find_input("a")->role == InputRole::State);
  CHECK(program.find_input("a")->start == Initialiser::constant(1));
  CHECK(program.find_definition("mean")->role == OutputRole::Prediction);
  CHECK(program.find_definition("l")->role == OutputRole::Loss);
  CHECK(program.find_definition("next.a")->role == OutputRole::Next);
  CHECK(program.find_definition("y")->role == OutputRole::Value);
  for (const Definition& definition : program.definitions) CHECK(definition.output);
}

TEST_CASE("a definition becomes a prediction or the loss as it becomes an output") {
  const Program program = parse(kHead + "let y[s] = x[s,0]\npredict y\nlet e = 0\nloss e\n");
  CHECK(print(program) == kHead + "predict y[s] = x[s,0]\nloss e = 0\n");
}

TEST_CASE("the C++ form of a model is its text form") {
  const Program program = model_in_cpp();
  verify(program);
  CHECK(without_lines(parse(print(program))) == program);
  CHECK(print(program) ==
        "dim S dynamic, H = 3\nindex s:S, i:H, h:H\ninput x[S,H], target[S]\nparameter w[H] init glorot\n"
        "state a[H] init zeros\npredict mean[s] = sum[i](w[i]*x[s,i])\n"
        "loss error = sum[s]((target[s] - mean[s])^2)/S\nnext a[h] = (a[h] + w[h])/2\n");
}

TEST_CASE("wrong roles are shown with a remedy") {
  check_fails<ParseError>("parameter w[H]", {"m.mox:4:15: `init` expected", "say how it starts: parameter w init"});
  check_fails<ParseError>("parameter w[H], v init ones", {"m.mox:4:15: `init` expected"});
  check_fails<ParseError>("parameter w[H] init xavier", {"m.mox:4:21: `xavier` is no way to start", "known: zeros"});
  check_fails<ParseError>("parameter w[H] init glorott", {"did you mean `glorot`?"});
  check_fails<ParseError>("parameter w[H] init constant", {"`constant` does not take 0 numbers", "constant(0.5)"});
  check_fails<ParseError>("parameter w[H] init constant(H)", {"this is no number", "write init constant(0.5)"});
  check_fails<TypeError>("parameter w init glorot", {"m.mox:4:18", "it depends on extents, and a scalar has none"});
  check_fails<TypeError>("parameter w init normal(-1)", {"a standard deviation is not negative"});
  check_fails<TypeError>("parameter w[H] > 0 init ones", {"m.mox:4:16", "takes any value", "softplus(w)"});
  check_fails<ShapeError>("loss l[s] = x[s,0]",
                          {"m.mox:4:6: the loss `l` is not a scalar", "write loss l = sum[s](...)/S"});
  check_fails<TypeError>("loss l = 0\nloss m = 1", {"m.mox:5:6: there is a loss already: `l`", "add the terms up"});
  check_fails<TypeError>("predict y[s] = x[s,0]\npredict y[s] = 1", {"m.mox:5:9: `y` cannot name", "choose another"});
  check_fails<TypeError>("next a = 1", {"m.mox:4:6: `a` is no state", "declare it above"});
  check_fails<TypeError>("state a init zeros\nnext a = 1\nnext a = 2", {"m.mox:6:6", "is defined already"});
  check_fails<ShapeError>("state a init zeros\nnext a[h] = 1", {"m.mox:5:6", "the state was declared as a: f32"});
  check_fails<TypeError>("scan s {\n  let y[s] = x[s,0]\n}\npredict y", {"m.mox:7:9: `y` belongs to a scan"});
}

TEST_CASE("wrong roles in C++ are refused and change nothing") {
  Program program = model_in_cpp();
  const Program before = program;
  CHECK_THROWS_WITH_AS(program.parameter("v", {}, Initialiser::glorot()),
                       "`v` cannot start as glorot: it depends on extents, and a scalar has none", TypeError);
  CHECK_THROWS_WITH_AS(program.loss("other", 0), "`error` and `other` are both the loss; add them up in one definition",
                       TypeError);
  CHECK_THROWS_AS(program.next(Tensor("w", 1), {}, 0), TypeError);
  CHECK(program == before);
}
