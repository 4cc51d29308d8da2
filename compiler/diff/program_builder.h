#pragma once
// A Program that grows while it is differentiated: new definitions over open indices, under names that are still free.
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// What a new definition takes over from the one it stems from, and the name it would like.
struct LetHead {
  std::string wanted_name;
  DType dtype;
  int line;
  std::optional<Scan> scan = {};
};

/// An open index that becomes an axis: element 0 of the axis is index value `first`.
struct OpenAxis {
  Symbol index;
  Affine first;
  AxisDecl axis;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(Program program) : program_(std::move(program)) {}

  const Program& program() const { return program_; }
  /// Keeps a name for a definition that comes later.
  void reserve(const std::string& name) { reserved_.insert(name); }
  Program take() { return std::move(program_); }

  /// `wanted`, or with _2, _3, ... behind it if that is taken.
  std::string free_name(const std::string& wanted) const;
  void add_input(InputDecl input) { program_.inputs.push_back(std::move(input)); }
  void add_definition(Definition definition) { program_.definitions.push_back(std::move(definition)); }
  /// Gives a definition that was added before its body; throws TypeError for an unknown name.
  void set_body(const std::string& name, const Expr& body);
  /// From the definition at `first` on, those outside of any scan go behind the others.
  void move_behind_scans(std::size_t first);
  /// Adds `let name[axes] = body` with the open indices as axes and returns the access that reads it at these indices.
  Expr add_let(const LetHead& head, const std::vector<OpenAxis>& axes, const Expr& body);

  /// Axes 0 <= i < extent with names: `preferred` where it is not empty and fits, else a declared index of that range,
  /// else a new one; none of `used`.
  std::vector<AxisDecl> axes_for(const std::vector<Affine>& extents, const std::vector<std::string>& preferred = {},
                                 std::set<std::string> used = {}) const;

 private:
  bool is_taken(const std::string& name) const;
  std::string axis_name(const Affine& extent, const std::string& preferred, const std::set<std::string>& used) const;

  Program program_;
  std::set<std::string> reserved_;
};

}  // namespace moxie
