#pragma once
// The C interface between moxie and its MPI plugin, a shared library that is loaded where ranks train together. Open
// MPI and MPICH have different handles: the plugin is compiled against the one that this machine has.
#include <stddef.h>

/// What a plugin and the library that loads it must have in common: the number is raised with every change below.
#define MOXIE_MPI_ABI "moxie " MOXIE_VERSION ", MPI plugin interface 2"

extern "C" {

/// Where the process stands among its ranks. `local` is the number of ranks on this machine, and `local_rank`
/// its place among them.
struct moxie_mpi_world {
  int rank, size, local, local_rank;
};

/// Functions that give an int give 0, or another number after a failure, which last_error() tells. Requests are made by
/// send, receive and sum, and are gone when test has set `done`. One thread at a time calls.
struct moxie_mpi_functions {
  const char* abi;  // MOXIE_MPI_ABI of the plugin
  int (*start)(moxie_mpi_world* world);
  void (*finish)();
  void (*abort)(int code);
  const char* (*library)();  // "Open MPI v4.1.4, ..."
  const char* (*last_error)();
  int (*send)(const void* data, int bytes, int to, int tag, void** request);
  int (*receive)(void* data, int bytes, int from, int tag, void** request);
  int (*sum_f32)(float* values, int count, void** request);  // over all ranks, in place, in any order
  int (*sum_f64)(double* values, int count, void** request);
  int (*test)(void* request, int* done);
};

/// The functions, never released.
using moxie_mpi_plugin_fn = const moxie_mpi_functions*();
}
