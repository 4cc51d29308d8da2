#include "compiler/loop/lower_qr.h"

#include "compiler/loop/householder_writer.h"

namespace moxie {
namespace {

class QrWriter : public AlgebraWriter {
 public:
  using AlgebraWriter::AlgebraWriter;

  QrArrays run(const std::vector<LoopIndex>& batch, bool wants_q) {
    const ArrayId a = tall("matrix");
    check_shape();
    load_matrix(a);
    const std::uint32_t check = declare_check(batch);
    HouseholderWriter reflections(nest_, program_, root_, varying_, a, rows_);
    reflections.reduce(
        [&](Index j, ValueId length) { check_value(check, batch, j, binary(">", length, number(0)), length); });
    return {wants_q ? reflections.orthogonal() : ArrayId{}, reflections.upper()};
  }
};

}  // namespace

QrArrays lower_qr(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                  const std::vector<LoopIndex>& batch, bool wants_q) {
  return QrWriter(nest, program, root, varying).run(batch, wants_q);
}

}  // namespace moxie
