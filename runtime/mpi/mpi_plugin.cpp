// The MPI plugin: the only file that knows MPI.
#include "runtime/mpi/mpi_plugin.h"

#include <mpi.h>

#include <memory>
#include <string>

namespace {

std::string& last_message() {
  static std::string text;
  return text;
}

/// 0, or what MPI says of its error.
int result_of(int code) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  last_message().assign(text, static_cast<std::size_t>(length));
  return 1;
}

int find_local_ranks(moxie_mpi_world& world) {
  MPI_Comm local = MPI_COMM_NULL;
  if (const int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local)) return code;
  int code = MPI_Comm_size(local, &world.local);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(local, &world.local_rank);
  MPI_Comm_free(&local);
  return code;
}

int start(moxie_mpi_world* world) {
  int given = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given)) return result_of(code);
  if (given < MPI_THREAD_FUNNELED) {
    last_message() = "it allows no threads in a process (MPI_THREAD_FUNNELED)";
    return 1;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world->size);
  return result_of(find_local_ranks(*world));
}

void finish() { MPI_Finalize(); }
void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const char* library() {
  static const std::string text = [] {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(version, &length);
    return std::string(version, static_cast<std::size_t>(length));
  }();
  return text.c_str();
}

const char* last_error() { return last_message().c_str(); }

/// Hands a request over to the caller, who gives it back to test().
template <class Begin>
int begin(void** request, const Begin& call) {
  auto made = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
  const int failed = result_of(call(made.get()));
  *request = failed != 0 ? nullptr : static_cast<void*>(made.release());
  return failed;
}

int send(const void* data, int bytes, int to, int tag, void** request) {
  return begin(request,
               [&](MPI_Request* made) { return MPI_Isend(data, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, made); });
}

int receive(void* data, int bytes, int from, int tag, void** request) {
  return begin(request,
               [&](MPI_Request* made) { return MPI_Irecv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, made); });
}

int sum(void* values, int count, MPI_Datatype type, void** request) {
  return begin(request, [&](MPI_Request* made) {
    return MPI_Iallreduce(MPI_IN_PLACE, values, count, type, MPI_SUM, MPI_COMM_WORLD, made);
  });
}

int sum_f32(float* values, int count, void** request) { return sum(values, count, MPI_FLOAT, request); }
int sum_f64(double* values, int count, void** request) { return sum(values, count, MPI_DOUBLE, request); }

int test(void* request, int* done) {
  auto* tested = static_cast<MPI_Request*>(request);
  const int failed = result_of(MPI_Test(tested, done, MPI_STATUS_IGNORE));
  if (failed != 0 || *done != 0) delete tested;
  return failed;
}

constexpr moxie_mpi_functions kFunctions = {MOXIE_MPI_ABI, start,   finish,  abort_all, library, last_error,
                                            send,          receive, sum_f32, sum_f64,   test};

}  // namespace

extern "C" __attribute__((visibility("default"))) moxie_mpi_plugin_fn moxie_mpi_plugin;

const moxie_mpi_functions* moxie_mpi_plugin() { return &kFunctions; }
