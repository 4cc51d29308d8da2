// Reads the statements of a .mox text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "compiler/analysis/condition_guards.h"
#include "compiler/expression/functions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/scans.h"
#include "compiler/text/definition_parser.h"
#include "compiler/text/expr_parser.h"
#include "compiler/text/foreign_words.h"
#include "compiler/text/parsed_text.h"
#include "compiler/text/role_parser.h"
#include "compiler/text/scan_parser.h"
#include "compiler/text/use_parser.h"

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
        names_(tokens, functions_),
        definitions_(tokens, program_, functions_, names_) {}

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
    program_.default_dtype = definitions_.dtype();
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

  void dims() {
    parse_list(tokens_, [&] {
      DimDecl dim{std::string(definitions_.new_name("a dim").text), std::nullopt, false};
      dim.dynamic = tokens_.accept("dynamic");
      if (tokens_.accept("=")) dim.value = tokens_.expect_integer("the number of elements");
      program_.dims.push_back(std::move(dim));
    });
  }

  void indices() {
    parse_list(tokens_, [&] {
      const Token name = definitions_.new_name("an index");
      Range range;
      if (tokens_.accept(":"))
        range = Range::extent(parse_affine(tokens_, definitions_.dim_resolver()));
      else if (tokens_.accept("in"))
        range = parse_range(tokens_, definitions_.dim_resolver());
      else
        tokens_.fail_expected("`:` or `in`", fmt::format("write {0}:N or {0} in 0..N", name.text));
      program_.indices.push_back({std::string(name.text), std::move(range)});
    });
  }

  void inputs() {
    parse_list(tokens_, [&] {
      InputDecl input = declared("an input");
      input.domain = definitions_.value_domain();
      program_.inputs.push_back(std::move(input));
    });
  }

  /// Name, shape and dtype.
  InputDecl declared(const std::string& what) {
    InputDecl input;
    input.name = definitions_.new_name(what).text;
    if (tokens_.accept("[")) input.shape = parse_affine_list(tokens_, definitions_.dim_resolver());
    input.dtype = definitions_.optional_dtype();
    return input;
  }

  // ---- What makes a model ----

  void parameters() {
    parse_list(tokens_, [&] { starting("parameter", InputRole::Parameter); });
  }
  void states() {
    parse_list(tokens_, [&] { starting("state", InputRole::State); });
  }

  void starting(const std::string& word, InputRole role) {
    InputDecl input = declared("a " + word);
    const Token relation = tokens_.peek();
    if (definitions_.value_domain() != ValueDomain::Any)
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
    Definition definition = definitions_.head(name, true);
    std::size_t position = program_.definitions.size();
    definition.body = definitions_.body(definition, position);
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

  void def() {
    names_.check_new(program_, tokens_.peek(), "a function");
    define_function(program_, functions_, read_signature(tokens_));
  }

  void derivative() { declare_derivative(program_, functions_, read_derivative(tokens_, functions_)); }

  void reduction() {
    functions_.reductions.add(
        read_reduction(tokens_, program_, names_, functions_, [this] { return definitions_.value_domain(); }));
  }

  void scan() { parse_scan(tokens_, program_, definitions_); }

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

  void let() { definition(definitions_.new_name("a definition"), false); }

  void output() {
    Definition* defined = tokens_.at_name() ? program_.find_definition(tokens_.peek().text) : nullptr;
    const bool marks_only = defined && tokens_.peek_second().kind == TokenKind::Newline;
    if (!marks_only) return definition(definitions_.new_name("an output"), true);
    tokens_.next();
    defined->output = true;
  }

  void definition(const Token& name, bool is_output) {
    Definition result = definitions_.head(name, is_output);
    std::size_t position = program_.definitions.size();
    result.body = definitions_.body(result, position);
    program_.definitions.push_back(std::move(result));
  }

  TokenStream& tokens_;
  Reading& reading_;
  Program& program_;
  TextFunctions& functions_;
  Names names_;
  DefinitionParser definitions_;
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
