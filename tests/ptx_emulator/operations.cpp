#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

OperationTable make_table() {
  OperationTable table;
  add_bit_operations(table);
  add_integer_operations(table);
  add_carry_operations(table);
  add_float_operations(table);
  add_rounded_operations(table);
  add_special_functions(table);
  add_comparisons(table);
  return table;
}

}  // namespace

const OperationTable& operations() {
  static const OperationTable table = make_table();
  return table;
}

}  // namespace moxie::ptx
