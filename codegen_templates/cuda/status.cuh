// What a failed check leaves behind: the fields of KernelStatus.
struct Status {
  long long failed, check, coordinates[4];
  double value;
};

/// The first thread to come here writes: of all launches so far, one after the other.
__device__ inline void fail(Global<Status> status, long long check, long long c0, long long c1, long long c2,
                            long long c3, double value) {
  if (atomicCAS(reinterpret_cast<unsigned long long*>(&status->failed), 0ull, 1ull) != 0) return;
  status->check = check;
  status->coordinates[0] = c0;
  status->coordinates[1] = c1;
  status->coordinates[2] = c2;
  status->coordinates[3] = c3;
  status->value = value;
}
