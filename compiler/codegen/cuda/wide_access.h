#pragma once
// Wide accesses: several neighbouring elements of a tensor by one instruction, where all of them are aligned.
#include "compiler/loop/lower.h"

namespace moxie::cuda_text {

struct KernelShape;

/// Whether the vector loop walks along the fastest axis, of a known extent that `width` divides, and nowhere else.
bool is_wide(const BufferDecl& buffer, const std::vector<Affine>& subscripts, Symbol vector, int width);

/// The most elements of the vector loop that a thread can load and store at once: 1, 2 or 4. More than one only where a
/// kernel maps elements to elements, without sums or scratch, and stores all of them so.
int widest_access(const LoweredKernel& kernel, const KernelShape& shape);

/// What one element of a map costs.
struct ElementCost {
  double operations = 0;  // in multiply-adds
  double bytes = 0;       // of device memory
};
ElementCost element_cost(const LoweredKernel& kernel, const KernelShape& shape);

}  // namespace moxie::cuda_text
