#pragma once
// New definitions that hold what the derivative of one definition computes once.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/diff/gates.h"
#include "compiler/diff/inversion.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"

namespace moxie {

class LocalDefinitions {
 public:
  /// The names are `prefix` + NAME.1, NAME.2, .., where NAME is the definition that was opened as `open`. What has the
  /// steps of its scan among its axes becomes part of that scan. All but `open` must outlive this.
  LocalDefinitions(ProgramBuilder& builder, const Definition& definition, const OpenDefinition& open,
                   std::string prefix, Gates& gates);

  /// The first axis, if the definition is part of a scan.
  const std::optional<Symbol>& step() const { return step_; }

  /// `let [indices] = body`, read at the indices.
  Expr let(const std::vector<Symbol>& indices, const std::vector<IndexBox>& boxes, const Expr& body, DType dtype);
  /// An expression with reductions in a definition over those open indices that it depends on, where these have bounds
  /// in dims; else over all of them, or as it is.
  Expr stored(const Expr& expr, const IterationDomain& domain, DType dtype);

  /// The boxes of the variables. What has the steps of a scan among its axes has all of them.
  std::optional<std::vector<IndexBox>> boxes_for(const IterationDomain& domain,
                                                 const std::vector<Symbol>& variables) const;
  /// The points of the domain over each point of the boxes of `kept`.
  Preimage project(const IterationDomain& domain, const std::vector<Symbol>& kept,
                   const std::vector<IndexBox>& boxes) const;

 private:
  ProgramBuilder& builder_;
  const Definition& definition_;
  std::string prefix_;
  Gates& gates_;
  std::vector<std::pair<Symbol, std::string>> names_;
  std::optional<Symbol> step_;
  int count_ = 0;
};

}  // namespace moxie
