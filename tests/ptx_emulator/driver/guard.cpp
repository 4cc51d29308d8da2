#include "tests/ptx_emulator/driver/guard.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <string_view>

namespace moxie::ptx {
namespace {

struct Demand {
  std::string_view call;
  int error = 0, which = 1;  // the first call is number 1
};

int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(':')) text.remove_prefix(1);
  return number;
}

Demand read_demand(std::string_view text) {
  Demand demand;
  const std::size_t colon = std::min(text.find(':'), text.size());
  demand.call = text.substr(0, colon);
  text.remove_prefix(std::min(colon + 1, text.size()));
  demand.error = take_number(text);
  if (!text.empty()) demand.which = take_number(text);
  return demand;
}

struct ErrorName {
  Reason reason;
  const char* name;
};
constexpr ErrorName kNames[] = {
    {Reason::none, "CUDA_SUCCESS"},
    {Reason::invalid_value, "CUDA_ERROR_INVALID_VALUE"},
    {Reason::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {Reason::invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
    {Reason::invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
    {Reason::invalid_ptx, "CUDA_ERROR_INVALID_PTX"},
    {Reason::invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
    {Reason::not_found, "CUDA_ERROR_NOT_FOUND"},
    {Reason::not_ready, "CUDA_ERROR_NOT_READY"},
    {Reason::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {Reason::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {Reason::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {Reason::illegal_instruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {Reason::misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {Reason::launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
    {Reason::capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {Reason::capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
};

}  // namespace

void fail_on_demand(const char* call) {
  static std::map<std::string, int> calls;  // since the demand was made
  static std::string made;
  const char* text = std::getenv("PTX_EMULATOR_FAIL");
  if (text == nullptr) text = "";
  if (made != text) calls.clear();
  made = text;
  const Demand demand = read_demand(made);
  if (demand.call != call || ++calls[call] != demand.which) return;
  const auto reason = static_cast<Reason>(demand.error);
  if (is_lasting(reason)) device().lose(reason);
  throw Fault(reason, fmt::format("call {} of {} was asked to fail", demand.which, call));
}

int report(const Fault& fault) {
  device().last_error = fault.what();
  return static_cast<int>(fault.reason());
}

const char* error_name(int error) {
  for (const ErrorName& known : kNames) {
    if (static_cast<int>(known.reason) == error) return known.name;
  }
  return nullptr;
}

}  // namespace moxie::ptx
