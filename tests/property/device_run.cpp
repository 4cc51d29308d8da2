#include "tests/property/device_run.h"

namespace moxie::test {
namespace {

void set_inputs(Session& session, const Program& program, const DimValues& dims, const TensorValues& inputs) {
  for (const InputDecl& input : program.inputs) {
    session.set(input.name,
                make_host_tensor(input.dtype, extents_of(program, input.name, dims), inputs.at(input.name)));
  }
}

TensorValues outputs_of(const Session& session, const Program& program) {
  TensorValues values;
  for (const Definition& definition : program.definitions) {
    if (definition.output) values[definition.name] = to_doubles(session.get(definition.name));
  }
  return values;
}

}  // namespace

TensorValues run(Session& session, const Program& program, const DimValues& dims, const TensorValues& inputs) {
  set_inputs(session, program, dims, inputs);
  session.set_random_state(0, 0);
  session.run();
  return outputs_of(session, program);
}

DimValues hidden_dims(const Program& program, const DimValues& dims) {
  DimValues hidden;
  for (const DimDecl& dim : program.dims) {
    bool shown = !dim.dynamic;
    for (const InputDecl& input : program.inputs) {
      for (const Affine& extent : input.shape)
        shown |= extent.terms().size() == 1 && extent.mentions(Symbol::dim(dim.name));
    }
    if (!shown) hidden[dim.name] = dims.at(dim.name);
  }
  return hidden;
}

TensorValues run(const std::shared_ptr<Device>& device, const Program& program, const DimValues& dims,
                 const TensorValues& inputs) {
  Session session(program, hidden_dims(program, dims), device);
  return run(session, program, dims, inputs);
}

Sample in_double(Sample sample) {
  sample.program.default_dtype = DType::f64;
  for (InputDecl& input : sample.program.inputs) input.dtype = DType::f64;
  for (Definition& definition : sample.program.definitions) definition.dtype = DType::f64;
  return sample;
}

Sample with_half_inputs(Sample sample) {
  bool other = false;
  for (InputDecl& input : sample.program.inputs) {
    if (!holds_integers(input.dtype)) input.dtype = (other = !other) ? DType::f16 : DType::bf16;
  }
  return sample;
}

}  // namespace moxie::test
