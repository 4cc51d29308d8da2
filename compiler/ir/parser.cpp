// Reads the statements of a .mox text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "compiler/ir/condition_guards.h"
#include "compiler/ir/expr_parser.h"
#include "compiler/ir/foreign_words.h"
#include "compiler/ir/functions.h"
#include "compiler/ir/parsed_text.h"
#include "compiler/ir/role_parser.h"
#include "compiler/ir/scans.h"
#include "compiler/ir/skewed_scan.h"
#include "compiler/ir/use_parser.h"

namespace moxie {
namespace {

/// A text that was opened; functions that it defines are read again as long as the Program grows.
struct OpenText {
  OpenText(std::string given, std::string_view file) : text(std::move(given)), source(text, file), tokens(source) {}
  std::string text;
  SourceText source;
  TokenStream tokens;
};

/// What a text shares with those that it includes.
struct Reading {
  const TextLibrary& library;
  Program program;
  TextFunctions functions;
  std::vector<IncludedFile> chain;               // from the outermost file to the one that is read
  std::set<std::filesystem::path> done;          // a file is included once
  std::vector<std::unique_ptr<OpenText>> texts;  // included ones
};

class ProgramParser {
 public:
  ProgramParser(TokenStream& tokens, Reading& reading)
      : tokens_(tokens),
        reading_(reading),
        program_(reading.program),
        functions_(reading.functions),
        names_(tokens, functions_) {}

  void run() {
    while (tokens_.peek().kind != TokenKind::End) {
      statement();
      if (tokens_.peek().kind != TokenKind::Newline) tokens_.fail_expected("the end of the statement");
      tokens_.next();
    }
  }

 private:
  struct Statement {
    std::string_view word;
    void (ProgramParser::*read)();
  };

  void statement() {
    if (tokens_.at("recompute"))
      tokens_.fail<ParseError>(tokens_.peek(), "`recompute` stands outside of a scan",
                               "here write let; in scans, what is recomputed is not kept from step to step");
    static constexpr auto statements = std::to_array<Statement>({{"dim", &ProgramParser::dims},
                                                                 {"index", &ProgramParser::indices},
                                                                 {"input", &ProgramParser::inputs},
                                                                 {"parameter", &ProgramParser::parameters},
                                                                 {"state", &ProgramParser::states},
                                                                 {"let", &ProgramParser::let},
                                                                 {"output", &ProgramParser::output},
                                                                 {"predict", &ProgramParser::predict},
                                                                 {"loss", &ProgramParser::loss},
                                                                 {"next", &ProgramParser::next},
                                                                 {"scan", &ProgramParser::scan},
                                                                 {"def", &ProgramParser::def},
                                                                 {"derivative", &ProgramParser::derivative},
                                                                 {"reduction", &ProgramParser::reduction},
                                                                 {"use", &ProgramParser::use},
                                                                 {"include", &ProgramParser::include},
                                                                 {"dtype", &ProgramParser::default_dtype},
                                                                 {"precision", &ProgramParser::precision}});
    const auto it = std::ranges::find_if(statements, [&](const Statement& s) { return tokens_.at(s.word); });
    if (it == statements.end()) {
      std::vector<std::string> words;
      for (const Statement& known : statements) words.emplace_back(known.word);
      std::string hint = did_you_mean(tokens_.peek().text, words);
      if (hint.empty()) hint = said_here(tokens_.peek().text);
      if (hint.empty() && tokens_.peek().kind == TokenKind::Mark)
        hint = "inside brackets, a statement goes on in the next line";
      if (hint.empty()) hint = fmt::format("a line starts with one of: {}", fmt::join(words, ", "));
      tokens_.fail_expected("a statement", hint);
    }
    tokens_.next();
    (this->*it->read)();
  }

  template <class Item>
  void list(Item item) {
    do item();
    while (tokens_.accept(","));
  }

  Token new_name(const std::string& what) {
    const Token name = tokens_.expect_name("the name of " + what);
    names_.check_new(program_, name, what);
    return name;
  }

  NameResolver dim_resolver() {
    return {[this](const Token& name) { return names_.resolve_dim(program_, name); },
            [this](const Affine& dims) { return value_in_text(program_, dims); }};
  }

  /// What holds for the whole program comes before all declarations.
  void check_first(std::string_view word) {
    const bool first =
        program_.dims.empty() && program_.indices.empty() && program_.inputs.empty() && program_.definitions.empty();
    if (!first)
      tokens_.fail<ParseError>(tokens_.peek(), fmt::format("`{}` must be the first statement", word),
                               "move it to the top");
  }

  void default_dtype() {
    check_first("dtype");
    const Token token = tokens_.peek();
    program_.default_dtype = dtype();
    if (!is_stored_as_computed(program_.default_dtype))
      tokens_.fail<TypeError>(token, "the default dtype is f32 or f64",
                              "declare tensors of other dtypes one by one: input index[S]: i32");
  }

  void precision() {
    check_first("precision");
    const auto named = precision_named(tokens_.peek().text);
    if (!named) tokens_.fail_expected("`strict`, `fast` or `accurate`");
    tokens_.next();
    program_.precision = *named;
  }

  DType dtype() {
    const std::optional<DType> named = dtype_named(tokens_.peek().text);
    if (!named) tokens_.fail_expected(dtype_names());
    tokens_.next();
    return *named;
  }

  DType optional_dtype() { return tokens_.accept(":") ? dtype() : program_.default_dtype; }

  void dims() {
    list([&] {
      DimDecl dim{std::string(new_name("a dim").text), std::nullopt, false};
      dim.dynamic = tokens_.accept("dynamic");
      if (tokens_.accept("=")) dim.value = tokens_.expect_integer("the number of elements");
      program_.dims.push_back(std::move(dim));
    });
  }

  void indices() {
    list([&] {
      const Token name = new_name("an index");
      Range range;
      if (tokens_.accept(":"))
        range = Range::extent(parse_affine(tokens_, dim_resolver()));
      else if (tokens_.accept("in"))
        range = parse_range(tokens_, dim_resolver());
      else
        tokens_.fail_expected("`:` or `in`", fmt::format("write {0}:N or {0} in 0..N", name.text));
      program_.indices.push_back({std::string(name.text), std::move(range)});
    });
  }

  void inputs() {
    list([&] {
      InputDecl input = declared("an input");
      input.domain = value_domain();
      program_.inputs.push_back(std::move(input));
    });
  }

  /// Name, shape and dtype.
  InputDecl declared(const std::string& what) {
    InputDecl input;
    input.name = new_name(what).text;
    if (tokens_.accept("[")) input.shape = parse_affine_list(tokens_, dim_resolver());
    input.dtype = optional_dtype();
    return input;
  }

  // ---- What makes a model ----

  void parameters() {
    list([&] { starting("parameter", InputRole::Parameter); });
  }
  void states() {
    list([&] { starting("state", InputRole::State); });
  }

  void starting(const std::string& word, InputRole role) {
    InputDecl input = declared("a " + word);
    const Token relation = tokens_.peek();
    if (value_domain() != ValueDomain::Any)
      tokens_.fail<TypeError>(relation, fmt::format("a {} takes any value: training moves it freely", word),
                              fmt::format("leave the domain out, and where a sign is needed write softplus({0}) or "
                                          "exp({0})",
                                          input.name));
    input.role = role;
    input.start = parse_initialiser(tokens_, program_, names_, word, input);
    program_.inputs.push_back(std::move(input));
  }

  void predict() { output_with_role(OutputRole::Prediction); }

  void loss() {
    const auto before = std::ranges::find(program_.definitions, OutputRole::Loss, &Definition::role);
    if (before != program_.definitions.end())
      tokens_.fail<TypeError>(tokens_.peek(), fmt::format("there is a loss already: `{}`", before->name),
                              "training minimises one number: add the terms up in one loss, and write let for each");
    const Token name = tokens_.peek();
    output_with_role(OutputRole::Loss);
    const Definition& loss = *program_.find_definition(name.text);
    if (!loss.axes.empty())
      tokens_.fail<ShapeError>(
          name, fmt::format("the loss `{}` is not a scalar: it has {} axes", name.text, loss.axes.size()),
          fmt::format("training minimises one number: write loss {} = sum[{}](...)/{}", name.text, loss.axes[0].name,
                      print(loss.axes[0].extent)));
  }

  void output_with_role(OutputRole role) {
    const Token name = tokens_.peek();
    output();
    Definition& definition = *program_.find_definition(name.text);
    if (definition.scan)
      tokens_.fail<TypeError>(
          name, fmt::format("`{}` belongs to a scan", name.text),
          "predict and loss stand outside of scans, and read what a scan holds: predict y[..] = h[..]");
    definition.role = role;
  }

  void next() {
    const Token name = tokens_.expect_name("the name of a state");
    const InputDecl* state = program_.find_input(name.text);
    if (!state || state->role != InputRole::State)
      tokens_.fail<TypeError>(name, fmt::format("`{}` is no state", name.text),
                              fmt::format("declare it above: state {}[...] init zeros", name.text));
    const std::string target = std::string(kNextPrefix) + std::string(name.text);
    if (program_.find_definition(target))
      tokens_.fail<TypeError>(name, fmt::format("the next value of `{}` is defined already", name.text),
                              "one `next` for each state");
    Definition definition = head(name, true);
    std::size_t position = program_.definitions.size();
    definition.body = body(definition, position);
    definition.name = target;
    definition.role = OutputRole::Next;
    if (definition.dtype != state->dtype || shape_of(definition) != state->shape)
      tokens_.fail<ShapeError>(
          name, fmt::format("the next value of `{}` is of another shape or dtype than the state", name.text),
          fmt::format("the state was declared as {}", print_input(*state)));
    program_.definitions.push_back(std::move(definition));
  }

  static std::vector<Affine> shape_of(const Definition& definition) {
    std::vector<Affine> shape;
    for (const AxisDecl& axis : definition.axes) shape.push_back(axis.extent);
    return shape;
  }

  static std::string print_input(const InputDecl& input) {
    std::vector<std::string> extents;
    for (const Affine& extent : input.shape) extents.push_back(print(extent));
    const std::string axes = extents.empty() ? "" : fmt::format("[{}]", fmt::join(extents, ","));
    return fmt::format("{}{}: {}", input.name, axes, to_string(input.dtype));
  }

  /// `>= 0`, `< 1`, or both with `and` between them.
  ValueDomain value_domain() {
    ValueDomain domain;
    if (!value_bound(domain)) return domain;
    const Token joint = tokens_.peek();
    if (tokens_.accept("and") && !value_bound(domain))
      tokens_.fail_expected("the other bound", "a domain with two bounds is declared `>= 0 and < 1`");
    if (tokens_.at("and")) tokens_.fail<ParseError>(tokens_.peek(), "a domain has two bounds at most");
    if (joint.text == "and" && !(domain.low && domain.high))
      tokens_.fail<ParseError>(joint, "a domain has one bound below and one above", "write `>= 0 and < 1`");
    return domain;
  }

  /// Whether a bound follows, which then is the domain's.
  bool value_bound(ValueDomain& domain) {
    const std::string_view relation = tokens_.peek().text;
    const bool is_low = relation == ">" || relation == ">=";
    if (!is_low && relation != "<" && relation != "<=") return false;
    tokens_.next();
    const double number = parse_number(tokens_, program_, names_,
                                       "a tensor may be declared `> 0`, `>= 0`, `< 0` or `<= 0`, or so with other "
                                       "numbers, also with two: `>= 0 and <= 1`");
    (is_low ? domain.low : domain.high) = ValueDomain::Bound{number, relation.size() == 1};
    return true;
  }

  void def() {
    names_.check_new(program_, tokens_.peek(), "a function");
    define_function(program_, functions_, read_signature(tokens_));
  }

  void derivative() { declare_derivative(program_, functions_, read_derivative(tokens_, functions_)); }

  void reduction() {
    functions_.reductions.add(read_reduction(tokens_, program_, names_, functions_, [this] { return value_domain(); }));
  }

  void use() { parse_use(tokens_, program_, names_, reading_.library); }

  // ---- Included files: their statements stand as if they were written here ----

  void include() {
    const Token name = tokens_.peek();
    if (name.kind != TokenKind::String) tokens_.fail_expected("the name of a file", "write include \"file.mox\"");
    tokens_.next();
    const IncludedFile file = found(name);
    check_cycle(name, file);
    if (!reading_.done.insert(file.path).second) return;
    try {
      reading_.texts.push_back(std::make_unique<OpenText>(file.text, file.shown));
      reading_.chain.push_back({file.path, file.shown, ""});
      ProgramParser(reading_.texts.back()->tokens, reading_).run();
      reading_.chain.pop_back();
    } catch (const ParseError& error) {
      throw ParseError(included_from(name, error), error.details());
    } catch (const TypeError& error) {
      throw TypeError(included_from(name, error), error.details());
    } catch (const ShapeError& error) {
      throw ShapeError(included_from(name, error), error.details());
    }
  }

  /// A file, or else a text that comes with the library.
  IncludedFile found(const Token& name) const {
    const std::string_view written = name.text.substr(1, name.text.size() - 2);
    const TextLibrary& library = reading_.library;
    const auto shared = library.shared_text ? library.shared_text(written) : std::nullopt;
    const auto as_shared = [&] { return IncludedFile{written, std::string(written), std::string(*shared)}; };
    if (!library.includes_files && shared) return as_shared();
    if (!library.includes_files)
      tokens_.fail<ParseError>(name, "this text is read without its folder, so it includes no files");
    try {
      return read_included(reading_.chain.back().shown, written, library.folders);
    } catch (const DataError& error) {
      if (shared) return as_shared();
      tokens_.fail<ParseError>(name, error.what(),
                               "files are included from the folder of this file and below, and from those that "
                               "`--include FOLDER` names");
    }
  }

  void check_cycle(const Token& name, const IncludedFile& file) const {
    constexpr std::size_t kMaxChain = 32;
    const auto first = std::ranges::find(reading_.chain, file.path, &IncludedFile::path);
    std::string chain;
    for (auto link = first; link != reading_.chain.end(); ++link) chain += link->shown + " -> ";
    if (first != reading_.chain.end())
      tokens_.fail<ParseError>(name, fmt::format("`{}` includes itself: {}{}", first->shown, chain, file.shown));
    if (reading_.chain.size() >= kMaxChain)
      tokens_.fail<ParseError>(name, fmt::format("files include each other more than {} deep", kMaxChain));
  }

  std::string included_from(const Token& name, const Error& error) const {
    return error.what() + ("\n" + tokens_.source().describe(name.offset, "included from here", ""));
  }

  void let() { definition(new_name("a definition"), false); }

  void output() {
    Definition* defined = tokens_.at_name() ? program_.find_definition(tokens_.peek().text) : nullptr;
    const bool marks_only = defined && tokens_.peek_second().kind == TokenKind::Newline;
    if (!marks_only) return definition(new_name("an output"), true);
    tokens_.next();
    defined->output = true;
  }

  void definition(const Token& name, bool is_output) {
    Definition result = head(name, is_output);
    std::size_t position = program_.definitions.size();
    result.body = body(result, position);
    program_.definitions.push_back(std::move(result));
  }

  /// Up to the equals sign.
  Definition head(const Token& name, bool is_output) {
    Definition result;
    result.name = name.text;
    result.output = is_output;
    result.line = tokens_.source().line_of(name.offset);
    if (tokens_.accept("[")) result.axes = axes();
    names_.unbind(result.axes.size());
    result.dtype = optional_dtype();
    result.domain = value_domain();
    tokens_.expect("=", fmt::format("write {} {}[i,j] = expression", is_output ? "output" : "let", name.text));
    return result;
  }

  /// Scans of reductions that the text defines are written above `position`, which moves on with them.
  Expr body(const Definition& definition, std::size_t& position) {
    DefinitionSite site{program_, definition, position};
    functions_.reductions.site = &site;
    Expr result = body(definition);
    functions_.reductions.site = nullptr;
    position = site.position;
    return result;
  }

  Expr body(const Definition& definition) {
    for (std::size_t k = 0; k < definition.axes.size(); ++k) {
      const AxisDecl& axis = definition.axes[k];
      names_.bind({axis.name, Symbol::axis(static_cast<std::uint32_t>(k)), axis.range});
    }
    Expr result = ExprParser(tokens_, program_, names_, definition.axes.size()).disjunction().expr;
    names_.unbind(definition.axes.size());
    const bool is_condition = result->kind == NodeKind::Call && result->function->result == ResultType::Truth;
    const bool is_stored = is_condition && definition.dtype == DType::boolean;
    return is_stored ? call("where", {result, constant(1), constant(0)}) : result;
  }

  // ---- Scans: the definitions may read each other, so that all heads are read before the bodies ----

  void scan() {
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
      const Expr read = body(definition, first);
      program_.definitions[first + k].body = read;
      end_line();
    }
    tokens_.expect("}");
    if (indices.size() == 2) skew(index, first, is_backwards, scan);
  }

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
    const Affine every = parse_affine(tokens_, dim_resolver());
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
    const Token name = new_name("a definition");
    if (is_recomputed && name.text == "every" && !tokens_.at("[")) {
      tokens_.seek(start);
      tokens_.fail<ParseError>(
          name, "`recompute every` is about all definitions of a scan",
          fmt::format("write it where the scan begins: scan {} recompute every 64 {{", indices[0].text));
    }
    Definition definition = head(name, is_output);
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

  std::vector<AxisDecl> axes() {
    std::vector<AxisDecl> result;
    if (tokens_.accept("]")) return result;
    list([&] {
      const Token name = tokens_.peek();
      const Symbol symbol = Symbol::axis(static_cast<std::uint32_t>(result.size()));
      Binding axis = ExprParser::parse_binder(tokens_, program_, names_, symbol);
      const Affine extent =
          tokens_.accept("of") ? parse_affine(tokens_, dim_resolver()) : default_extent(name, axis.range);
      result.push_back({axis.name, extent, axis.range});
      names_.bind(std::move(axis));
    });
    tokens_.expect("]");
    return result;
  }

  Affine default_extent(const Token& name, const Range& range) {
    if (const std::optional<Affine> extent = axis_extent(program_, name.text, range)) return *extent;
    if (find_index(program_, name.text) && !starts_at_zero(range)) {
      tokens_.fail<ShapeError>(
          name, fmt::format("index `{}` does not start at 0 and cannot be an axis", name.text),
          fmt::format("an axis runs from 0: write [{} in 0..N] under another name and shift the subscripts",
                      name.text));
    }
    tokens_.fail<ShapeError>(name, fmt::format("the extent of axis `{}` cannot be seen from its range", name.text),
                             fmt::format("say how many elements are stored: {0} of N, or {0} in ... of N", name.text));
  }

  static bool starts_at_zero(const Range& range) {
    return std::ranges::all_of(range.lows, [](const Bound& low) { return low.value == Affine(0); });
  }

  TokenStream& tokens_;
  Reading& reading_;
  Program& program_;
  TextFunctions& functions_;
  Names names_;
};

/// Scans are numbered in the order in which they stand; those of reductions stand above what they were written for.
void number_scans(Program& program) {
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (Definition& definition : program.definitions) {
    if (!definition.scan) continue;
    const auto next = static_cast<std::uint32_t>(numbers.size() + 1);
    definition.scan->number = numbers.try_emplace(definition.scan->number, next).first->second;
  }
}

/// `models/gpn.mox` -> `gpn`; no name for text that is not from a .mox file.
std::string program_name(std::string_view file) {
  constexpr std::string_view kExtension = ".mox";
  if (!file.ends_with(kExtension)) return "";
  file.remove_suffix(kExtension.size());
  return std::string(file.substr(file.find_last_of("/\\") + 1));
}

}  // namespace

Program parse(std::string_view text, std::string_view file) { return parse(text, file, TextLibrary()); }

Program parse(std::string_view text, std::string_view file, const TextLibrary& library) {
  return parse_text(text, file, library).program;
}

ParsedText parse_text(std::string_view text, std::string_view file, const TextLibrary& library) {
  const SourceText source(text, file);
  TokenStream tokens(source);
  Reading reading{library, {}, {}, {}, {}, {}};
  std::error_code unknown;
  reading.chain.push_back({std::filesystem::weakly_canonical(file, unknown), std::string(file), ""});
  try {
    ProgramParser(tokens, reading).run();
    number_scans(reading.program);
    for (Definition& definition : reading.program.definitions)
      definition.body = with_ordered_conditions(reading.program, definition);
    reading.program.name = program_name(file);
    const auto& reductions = reading.functions.reductions.all();
    return {std::move(reading.program), {reductions.begin(), reductions.end()}};
  } catch (const CompileError& overflow) {
    tokens.fail<ParseError>(tokens.peek(), overflow.what());
  }
}

}  // namespace moxie
