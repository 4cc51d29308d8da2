// moxie aot: formulas as libraries with a plain C interface, for machines without moxie.
#include "tools/commands/aot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "ops/formula_file.h"
#include "runtime/aot/interface.h"
#include "runtime/aot/library.h"
#include "runtime/atomic_file.h"
#include "tools/commands/kept_files.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

struct AotOptions {
  std::vector<std::string> programs, targets, dims, grad, wrt, folders;
  std::string dtype, precision, folder, name, depfile;
  bool dry_run = false;
};

/// What the formula is called.
std::string formula_name(const std::string& source) {
  if (source == kStandardInput) return "formula";
  return is_file_name(source) ? fs::path(source).stem().string() : source;
}

/// What is asked of several formulas goes to those that have it; one at least must.
std::vector<std::string> known_outputs(const Program& program, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const std::string& name : chosen_outputs(program, names)) {
    const Definition* definition = program.find_definition(name);
    if (definition && definition->output) known.push_back(name);
  }
  return known;
}

std::vector<std::string> known_inputs(const Program& program, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const std::string& name : names) {
    if (program.find_input(name)) known.push_back(name);
  }
  return known;
}

void require_used(const char* option, const std::vector<std::string>& names, const std::vector<Program>& programs,
                  std::vector<std::string> (*known)(const Program&, const std::vector<std::string>&)) {
  for (const std::string& name : names) {
    const bool used = std::ranges::any_of(programs, [&](const Program& p) { return !known(p, {name}).empty(); });
    if (!used) throw UsageError(fmt::format("{} {}: none of the formulas has it", option, name));
  }
}

DimValues dims_of(const AotOptions& options, const std::vector<Program>& programs) {
  DimValues dims;
  for (const std::string& text : options.dims) {
    const std::string name = text.substr(0, text.find('='));
    const auto owner = std::ranges::find_if(programs, [&](const Program& p) { return p.find_dim(name) != nullptr; });
    dims.merge(parse_dims({text}, owner == programs.end() ? programs.front() : *owner));
  }
  return dims;
}

aot::LibraryRequest request_of(const AotOptions& options, const ProgramSource& load) {
  for (const std::string& source : options.programs) keep_file("--depfile", options.depfile, source);
  std::vector<Program> programs;
  for (const std::string& source : options.programs) {
    programs.push_back(load({source, {}, options.dtype, options.precision, options.folders}));
    require_outputs(programs.back());
  }
  require_used("--grad", options.grad, programs, known_outputs);
  require_used("--wrt", options.wrt, programs, known_inputs);
  aot::LibraryRequest request;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    const std::string formula = formula_name(options.programs[k]);
    request.functions.push_back({aot::function_name(formula), programs[k]});
    const auto grad = known_outputs(programs[k], options.grad);
    if (grad.empty()) continue;
    const auto wrt = known_inputs(programs[k], options.wrt);
    request.functions.push_back(
        {aot::c_name(formula) + "_grad", with_gradients(programs[k], options.programs[k], grad, wrt)});
  }
  request.name = options.name.empty() ? request.functions.front().name : aot::c_name(options.name);
  request.dims = dims_of(options, programs);
  for (const std::string& target : options.targets) request.targets.push_back(aot::parse_target(target));
  if (options.targets.empty()) request.targets.push_back(aot::parse_target(aot::default_target()));
  return request;
}

/// As make reads it: the library depends on the .mox files.
std::string depfile_text(const AotOptions& options, const aot::Library& library) {
  std::string text;
  const auto append = [&](const std::string& path) {
    for (const char c : path) text += c == ' ' || c == '#' ? std::string{'\\', c} : c == '$' ? "$$" : std::string(1, c);
  };
  append((fs::path(options.folder) / library.archive_name).string());
  text += ":";
  for (const std::string& source : options.programs) {
    if (!fs::exists(source)) continue;
    text += " \\\n  ";
    append(source);
  }
  return text + "\n";
}

/// A line for each with its size.
std::string list_of_files(const AotOptions& options, const aot::Library& library) {
  const fs::path folder = options.folder;
  std::string text;
  for (const auto& [name, bytes] :
       {std::pair(library.archive_name, library.archive.size()), std::pair(library.header_name, library.header.size()),
        std::pair(library.manifest_name, library.manifest.size())})
    text += fmt::format("{:>9} bytes  {}\n", bytes, (folder / name).string());
  return text;
}

int make(const AotOptions& options, const ProgramSource& load) {
  if (options.programs.empty()) throw UsageError("name the formulas: .mox files, or built-in ones (see `moxie ops`)");
  if (options.folder.empty()) throw UsageError("name the folder of the library: -o DIR");
  const aot::Library library = aot::make_library(request_of(options, load));
  if (options.dry_run) {
    fmt::print("{}", list_of_files(options, library));
    return 0;
  }
  aot::write_library(library, options.folder);
  if (!options.depfile.empty()) atomic_write(options.depfile, depfile_text(options, library));
  return 0;
}

}  // namespace

Work add_aot(OptionParser& parser, const ProgramSource& source) {
  auto options = std::make_shared<AotOptions>();
  parser.add_option("program", options->programs, ".mox files, or names of built-in formulas (see `moxie ops`)");
  parser.add_option("-o,--out", options->folder, "the folder of the library; it is made if it is not there");
  parser
      .add_option("--target", options->targets,
                  fmt::format("what the code is for, one or several of a kind: {}; {} if not given",
                              fmt::join(aot::known_targets(), ", "), aot::default_target()))
      .comma_separated();
  parser.add_option("--name", options->name, "of the library; that of the first formula if not given");
  parser
      .add_option(
          "--dim", options->dims,
          "values of static dims, such as N=5,R=14, and typical values of dynamic ones, which the loops are chosen for")
      .comma_separated();
  parser.add_option("--dtype", options->dtype, "the default dtype of the formulas: f32 or f64").one_of({"f32", "f64"});
  add_precision_option(parser, options->precision);
  add_include_option(parser, options->folders);
  add_gradient_options(parser, options->grad, options->wrt);
  parser.add_option("--depfile", options->depfile, "also write what the library depends on, as make and ninja read it");
  parser.add_flag("--dry-run", options->dry_run, "compile, and list the files instead of writing them");
  return [options, source] { return make(*options, source); };
}

}  // namespace moxie
