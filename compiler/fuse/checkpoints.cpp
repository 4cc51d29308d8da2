#include "compiler/fuse/checkpoints.h"

#include <algorithm>

#include "compiler/fuse/fusing_order.h"
#include "compiler/fuse/phase_program.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

std::optional<Clock> first_clock(const Program& program) {
  for (const Definition& definition : program.definitions) {
    if (auto clock = clock_of(definition)) return clock;
  }
  return std::nullopt;
}

Program without_checkpoints(Program program, const Clock& clock) {
  for (Definition& definition : program.definitions) {
    if (clock_of(definition) == clock) definition.scan->checkpoints.reset();
  }
  return program;
}

InputDecl as_input(const Definition& definition) {
  InputDecl input{definition.name, definition.dtype, {}, definition.domain};
  for (const AxisDecl& axis : definition.axes) input.shape.push_back(axis.extent);
  return input;
}

/// The parts of a Program in the order in which they run: before each phase, what does not depend on time.
class Parts {
 public:
  explicit Parts(const Phases& phases) : phases_(phases), dims_(chunk_dims(phases.timed.program, phases.timed.clock)) {}

  std::vector<ProgramPart> run() {
    std::vector<ProgramPart> parts;
    std::vector<Definition> behind;
    for (int number = 0; number <= last_home(); ++number) {
      add_plain(parts, number, std::move(behind));
      behind.clear();
      if (number >= std::ssize(phases_.phases) || phases_.phases[static_cast<std::size_t>(number)].computes.empty())
        continue;
      parts.push_back(phase_program(phases_, number, dims_));
      behind = std::move(parts.back().copies_behind);
      parts.back().copies_behind.clear();
    }
    add_plain(parts, last_home() + 1, std::move(behind));
    connect(parts);
    return parts;
  }

 private:
  int last_home() const {
    int last = 0;
    for (const auto& [name, home] : phases_.home) last = std::max(last, home);
    return last;
  }

  bool is_of_time(const std::string& name) const { return phases_.timed.is_timed(name) || phases_.timed.is_sum(name); }

  void add_plain(std::vector<ProgramPart>& parts, int number, std::vector<Definition> first) const {
    ProgramPart part{phases_.timed.program, std::nullopt};
    part.program.definitions = std::move(first);
    for (const Definition& definition : phases_.timed.program.definitions) {
      if (!is_of_time(definition.name) && phases_.home.at(definition.name) == number)
        part.program.definitions.push_back(definition);
    }
    if (!part.program.definitions.empty()) parts.push_back(std::move(part));
  }

  /// What a part reads of others is an input to it, and an output of the part that has it.
  static void connect(std::vector<ProgramPart>& parts) {
    std::map<std::string, InputDecl> known;
    std::set<std::string> read_elsewhere;
    for (ProgramPart& part : parts) {
      std::set<std::string> read;
      for (const Definition& definition : part.program.definitions) read.merge(tensors_read(definition.body));
      if (part.slices) {
        for (const auto& [name, view] : part.slices->views) read_elsewhere.insert(view.tensor);
      }
      for (const std::string& name : read) {
        if (part.program.find_definition(name) || !known.contains(name)) continue;
        read_elsewhere.insert(name);
        if (!part.program.find_input(name)) part.program.inputs.push_back(known.at(name));
      }
      for (const Definition& result : part.results) known.emplace(result.name, as_input(result));
      if (part.slices) continue;
      for (const Definition& definition : part.program.definitions)
        known.emplace(definition.name, as_input(definition));
    }
    for (ProgramPart& part : parts) {
      if (part.slices) continue;
      for (Definition& definition : part.program.definitions)
        definition.output |= read_elsewhere.contains(definition.name);
    }
  }

  const Phases& phases_;
  const ChunkDims dims_;
};

Expr renamed(const Expr& expr, const std::map<std::string, std::string>& names) {
  const Expr inner = map_children(expr, [&](const Expr& child) { return renamed(child, names); });
  if (inner->kind != NodeKind::Access) return inner;
  const auto name = names.find(inner->tensor);
  return name == names.end() ? inner : access_to(name->second, inner);
}

}  // namespace

bool has_checkpoints(const Program& program) { return first_clock(program).has_value(); }

std::vector<ProgramPart> in_chunks(const Program& program) {
  const auto clock = first_clock(program);
  if (!clock) return {{program, std::nullopt}};
  const Program trimmed = leave_scans(program);
  const auto phases = phases_of(trimmed, *clock);
  if (!phases) return in_chunks(without_checkpoints(program, *clock));
  std::vector<ProgramPart> parts;
  for (ProgramPart& part : Parts(*phases).run()) {
    if (part.slices)
      parts.push_back(std::move(part));
    else
      std::ranges::move(in_chunks(part.program), std::back_inserter(parts));
  }
  return parts;
}

ProgramPart with_own_names(ProgramPart part, const std::set<std::string>& shared, std::set<std::string>& taken) {
  std::map<std::string, std::string> names;
  std::set<std::string> used = taken;
  const auto rename = [&](std::string& name) {
    std::string own = name;
    for (int k = 2; used.contains(own); ++k) own = name + "." + std::to_string(k);
    used.insert(own);
    if (own != name) names.emplace(name, own);
    name = std::move(own);
  };
  for (Definition& definition : part.program.definitions) {
    if (part.slices || !shared.contains(definition.name)) rename(definition.name);
  }
  if (part.slices) {
    for (InputDecl& input : part.program.inputs) {
      if (part.slices->views.contains(input.name)) rename(input.name);
    }
    std::map<std::string, SliceView> views;
    for (auto& [name, view] : part.slices->views) {
      const auto own = names.find(name);
      views.emplace(own == names.end() ? name : own->second, std::move(view));
    }
    part.slices->views = std::move(views);
  }
  for (Definition& definition : part.program.definitions) definition.body = renamed(definition.body, names);
  taken = std::move(used);
  return part;
}

}  // namespace moxie
