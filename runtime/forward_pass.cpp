#include "runtime/forward_pass.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

constexpr const char* kRowInputs[] = {"x", "target"};

std::span<const float> rows_of(const SampleRows& data, const std::string& input) {
  return input == "x" ? data.x : data.target;
}

/// Appends the rows of one batch, or adds its share of the mean.
void collect(const Definition& output, std::span<const std::byte> bytes, std::size_t rows, std::size_t all,
             RowValues& result) {
  if (output.axes.empty()) {
    std::vector<double> value;
    append_doubles(output.dtype, bytes, value);
    result.values.resize(1);
    result.values[0] += value[0] * static_cast<double>(rows) / static_cast<double>(all);
    return;
  }
  result.columns = bytes.size() / size_of(output.dtype) / rows;
  result.values.reserve(result.columns * all);
  append_doubles(output.dtype, bytes, result.values);
}

}  // namespace

ForwardPass::ForwardPass(const Program& program, std::shared_ptr<Device> device, std::size_t batch)
    : session_(program, {}, std::move(device)), batch_(batch) {}

void ForwardPass::set(const std::map<std::string, HostTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (session_.program().find_input(name)) session_.set(name, tensor);
  }
}

std::map<std::string, RowValues> ForwardPass::run(const SampleRows& data) {
  const Program& program = session_.program();
  std::map<std::string, RowValues> results;
  for (const char* input : kRowInputs) {
    if (program.find_input(input))
      check_rows(program, input, rows_of(data, input), data.rows, checks_inputs(session_.device().program_options()));
  }
  for (std::size_t begin = 0; begin < data.rows; begin += batch_) {
    const std::size_t rows = std::min(batch_, data.rows - begin);
    const bool resizes = room_ != rows;
    room_ = 0;  // until all inputs have the size of this batch
    for (const char* input : kRowInputs) {
      if (program.find_input(input)) load(input, rows_of(data, input), {begin, rows, data.rows, resizes});
    }
    room_ = rows;
    session_.run();
    for (const Definition& definition : program.definitions) {
      if (definition.output)
        collect(definition, session_.read(definition.name), rows, data.rows, results[definition.name]);
    }
  }
  return results;
}

void ForwardPass::load(const std::string& input, std::span<const float> values, const Batch& batch) {
  if (batch.resizes) make_room(session_, input, batch.rows);
  const std::size_t width = values.size() / batch.all;
  copy_as(session_.program().dtype_of(input), values.subspan(batch.begin * width, batch.rows * width),
          session_.write(input, Session::Domain::checked));
}

}  // namespace moxie
