#include "compiler/fuse/phases.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/fuse/fusing_order.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using Names = std::set<std::string>;

bool goes_back(int phase) { return phase % 2 == 1; }

/// Whether a pass in this direction has not come to the step yet.
bool is_ahead(std::int64_t offset, bool backwards) { return backwards ? offset < 0 : offset > 0; }

/// One attempt, in which some definitions are stored whole and some have nothing to do with time.
class Attempt {
 public:
  Attempt(TimedProgram timed, Names& whole, Names& untimed) : whole_(whole), untimed_(untimed) {
    phases_.timed = std::move(timed);
  }

  /// False where it takes another attempt, for which `whole` or `untimed` has grown.
  bool run() {
    find_whole();
    for (const std::span<const Definition> group : groups_of(program())) find_home(group);
    int last = 0;
    for (const auto& [name, phase] : phases_.home) last = std::max(last, is_of_time(name) ? phase : 0);
    phases_.phases.resize(static_cast<std::size_t>(last) + 1);
    for (int phase = last; phase >= 0; --phase) {
      if (!plan(phase)) return false;
    }
    return true;
  }

  Phases take() { return std::move(phases_); }

 private:
  const Program& program() const { return phases_.timed.program; }
  const TimedProgram& timed() const { return phases_.timed; }
  bool is_of_time(const std::string& name) const { return timed().is_timed(name) || timed().is_sum(name); }

  /// Outputs are stored whole, and what is not read step by step.
  void find_whole() {
    for (const Definition& definition : program().definitions) {
      if (definition.output && timed().is_timed(definition.name)) whole_.insert(definition.name);
      for (const TimedRead& read : timed_reads(timed(), definition)) {
        if (read.offset) continue;
        whole_.insert(read.tensor);
        if (timed().steps(definition) && program().find_definition(read.tensor)->scan == definition.scan)
          refuse(definition, read.tensor);
      }
    }
  }

  [[noreturn]] static void refuse(const Definition& definition, const std::string& read) {
    throw TypeError(fmt::format(
        "line {}: `{}` reads `{}` at steps that are no fixed number of steps away, but a scan that recomputes its "
        "steps from checkpoints has only steps near this one; leave out `recompute every`, or define it outside of the "
        "scan",
        definition.line, definition.name, read));
  }

  void find_home(std::span<const Definition> group) {
    const Definition& first = group[0];
    const bool steps = timed().steps(first);
    const bool backwards = steps && first.scan->backwards;
    int home = 0;
    for (const Definition& member : group) {
      for (const std::string& name : tensors_read(member.body)) {
        const Definition* read = program().find_definition(name);
        if (!read || (first.scan && read->scan == first.scan)) continue;
        const bool waits =
            timed().is_sum(name) || (timed().is_timed(name) && waits_for(member, name, steps, backwards));
        home = std::max(home, phases_.home.at(name) + (waits ? 1 : 0));
      }
    }
    if (steps && goes_back(home) != backwards) ++home;
    for (const Definition& member : group) phases_.home[member.name] = home;
  }

  /// Whether the reader needs a phase in which the tensor was complete before.
  bool waits_for(const Definition& reader, const std::string& tensor, bool steps, bool backwards) const {
    return std::ranges::any_of(timed_reads(timed(), reader), [&](const TimedRead& read) {
      return read.tensor == tensor && (!read.offset || (steps && is_ahead(*read.offset, backwards)));
    });
  }

  /// Closes what the phase has to compute over what that reads.
  bool plan(int number) {
    Phase& phase = phases_.phases[static_cast<std::size_t>(number)];
    phase.backwards = goes_back(number);
    std::vector<std::string> open;
    for (const Definition& definition : program().definitions) {
      const bool is_here = is_of_time(definition.name) && phases_.home.at(definition.name) == number;
      if (is_here && whole_.contains(definition.name)) phase.whole.insert(definition.name);
      if (is_here && (timed().is_sum(definition.name) || whole_.contains(definition.name)))
        open.push_back(definition.name);
      if (phases_.stored.contains({number, definition.name})) open.push_back(definition.name);
    }
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (!phase.computes.insert(name).second) continue;
      const Definition& definition = *program().find_definition(name);
      for (const TimedRead& read : timed_reads(timed(), definition)) {
        if (!read.offset || is_there(read.tensor, number)) continue;
        open.push_back(read.tensor);
        if (*read.offset != 0 && !add_halo(number, definition, read.tensor, *read.offset)) return false;
      }
    }
    // A chunk that is shorter than what it stores passes on what it was given.
    for (const auto& [key, stored] : phases_.stored) {
      if (key.first == number) (phase.backwards ? phase.later : phase.before)[key.second] = {stored.steps, number};
    }
    return true;
  }

  /// Whether all steps were stored before the phase.
  bool is_there(const std::string& tensor, int phase) const {
    return whole_.contains(tensor) && phases_.home.at(tensor) < phase;
  }

  bool add_halo(int number, const Definition& reader, const std::string& tensor, std::int64_t offset) {
    Phase& phase = phases_.phases[static_cast<std::size_t>(number)];
    const bool ahead = is_ahead(offset, phase.backwards);
    const int writer = ahead ? writer_before(number, tensor) : number;
    if (writer < 0) return give_up(number, reader, tensor);
    const std::int64_t steps = std::abs(offset);
    Halo& halo = (offset < 0 ? phase.before : phase.later)[tensor];
    halo = {std::max(halo.steps, steps), writer};
    StoredSteps& stored = phases_.stored[{writer, tensor}];
    stored.steps = std::max(stored.steps, steps);
    stored.checkpoints |= ahead;
    return true;
  }

  /// The last phase before that which goes the other way and can compute the tensor; -1 if there is none.
  int writer_before(int number, const std::string& tensor) const {
    for (int phase = number - 1; phase >= phases_.home.at(tensor); --phase) {
      if (goes_back(phase) != goes_back(number)) return phase;
    }
    return -1;
  }

  bool give_up(int number, const Definition& reader, const std::string& tensor) {
    if (phases_.home.at(tensor) < number)
      whole_.insert(tensor);
    else if (timed().steps(reader))
      refuse(reader, tensor);
    else
      untimed_.insert(reader.name);
    return false;
  }

  Names& whole_;
  Names& untimed_;
  Phases phases_;
};

}  // namespace

std::optional<Phases> phases_of(const Program& program, const Clock& clock) {
  Names whole, untimed;
  while (true) {
    Attempt attempt(timed_program(program, clock, untimed), whole, untimed);
    if (!attempt.run()) continue;
    Phases phases = attempt.take();
    const auto checkpoints = [](const auto& stored) { return stored.second.checkpoints; };
    return std::ranges::any_of(phases.stored, checkpoints) ? std::optional(std::move(phases)) : std::nullopt;
  }
}

}  // namespace moxie
