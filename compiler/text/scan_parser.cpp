#include "compiler/text/scan_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "compiler/builder/skewed_scan.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

class ScanParser {
 public:
  ScanParser(TokenStream& tokens, Program& program, DefinitionParser& definitions)
      : tokens_(tokens), program_(program), definitions_(definitions) {}

  void run() {
    const Token index = tokens_.expect_name("the index that the scan steps through");
    Scan scan{last_scan(program_) + 1, tokens_.accept("backwards")};
    std::vector<Token> indices{index};
    std::array<bool, 2> is_backwards{scan.backwards};
    if (tokens_.accept(",")) {
      indices.push_back(tokens_.expect_name("the index that the scan steps through inside the first one"));
      is_backwards[1] = tokens_.accept("backwards");
    }
    if (tokens_.accept("recompute")) scan.checkpoints = checkpoints();
    tokens_.expect(
        "{",
        "write scan t {, scan t backwards {, scan i, j { or scan t recompute every 64 {, and } on a line of its own");
    std::size_t first = program_.definitions.size();
    std::vector<std::size_t> bodies;
    end_line();
    while (!tokens_.at("}")) bodies.push_back(scanned_head(indices, scan));
    if (bodies.empty())
      tokens_.fail<ParseError>(index, "this scan is empty", "define a tensor inside it: let h[t] = ...");
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      tokens_.seek(bodies[k]);
      const Definition definition = program_.definitions[first + k];
      const Expr read = definitions_.body(definition, first);
      program_.definitions[first + k].body = read;
      end_line();
    }
    tokens_.expect("}");
    if (indices.size() == 2) skew(index, first, is_backwards, scan);
  }

 private:
  void skew(const Token& at, std::size_t first, const std::array<bool, 2>& is_backwards, const Scan& scan) {
    const bool recomputes = std::ranges::any_of(program_.definitions.begin() + static_cast<std::ptrdiff_t>(first),
                                                program_.definitions.end(), &Definition::recomputed);
    if (scan.checkpoints || recomputes)
      tokens_.fail<TypeError>(at, "a scan over two indices is kept whole", "leave `recompute` out, and write let");
    try {
      skew_scan(program_, first, is_backwards, scan.number);
    } catch (const ShapeError& error) {
      tokens_.fail<ShapeError>(at, error.what());
    } catch (const TypeError& error) {
      tokens_.fail<TypeError>(at, error.what());
    }
  }

  Checkpoints checkpoints() {
    tokens_.expect("every", "write scan t recompute every 64 {, or every sqrt for the square root of the steps");
    if (tokens_.accept("sqrt")) return {};
    const Token at = tokens_.peek();
    const Affine every = parse_affine(tokens_, definitions_.dim_resolver());
    if (const std::string problem = spacing_problem(program_, every); !problem.empty())
      tokens_.fail<ShapeError>(at, "checkpoints are taken every 1, 2, 3, .. steps: " + problem, kSpacingRemedy);
    return {every};
  }

  void end_line() {
    if (tokens_.peek().kind != TokenKind::Newline) tokens_.fail_expected("the end of the line");
    tokens_.next();
  }

  /// Reads a line of a scan but for its body, whose position it returns.
  std::size_t scanned_head(const std::vector<Token>& indices, const Scan& scan) {
    const bool is_output = tokens_.accept("output");
    const bool is_recomputed = !is_output && tokens_.accept("recompute");
    if (!is_output && !is_recomputed)
      tokens_.expect("let", "a scan holds definitions, let, output or recompute, and ends with a line `}`");
    const std::size_t start = tokens_.position();
    const Token name = definitions_.new_name("a definition");
    if (is_recomputed && name.text == "every" && !tokens_.at("[")) {
      tokens_.seek(start);
      tokens_.fail<ParseError>(
          name, "`recompute every` is about all definitions of a scan",
          fmt::format("write it where the scan begins: scan {} recompute every 64 {{", indices[0].text));
    }
    Definition definition = definitions_.head(name, is_output);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      if (k < definition.axes.size() && definition.axes[k].name == indices[k].text) continue;
      tokens_.fail<ShapeError>(name,
                               fmt::format("`{}` does not have `{}` as its {} axis", name.text, indices[k].text,
                                           k == 0 ? "first" : "second"),
                               fmt::format("in this scan write {}[{}{}{},...], or define it outside", name.text,
                                           indices[0].text, k == 0 ? "" : ",", k == 0 ? "" : indices[1].text));
    }
    definition.scan = scan;
    definition.recomputed = is_recomputed;
    program_.definitions.push_back(std::move(definition));
    const std::size_t body = tokens_.position();
    while (tokens_.peek().kind != TokenKind::Newline) tokens_.next();
    tokens_.next();
    return body;
  }

  TokenStream& tokens_;
  Program& program_;
  DefinitionParser& definitions_;
};

}  // namespace

void parse_scan(TokenStream& tokens, Program& program, DefinitionParser& definitions) {
  ScanParser(tokens, program, definitions).run();
}

}  // namespace moxie
