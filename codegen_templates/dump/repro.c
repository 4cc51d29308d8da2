/* Runs one kernel of moxie alone, on what it read in a run, and compares with what it wrote there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct buffer {
  const char *tensor, *file;
  size_t bytes;
  int written, dtype; /* 0: float, 1: double, 2: int, 3: long long, 4 and 5: unsigned char, 6: f16, 7: bf16 */
};
#include "launch.h"

struct status {
  long long failed, check, coordinates[4];
  double value;
};
void KERNEL(void *const *buffers, const long long *arguments, void *scratch, struct status *status);

enum { BUFFERS = sizeof buffers / sizeof *buffers, CALLS = sizeof arguments / sizeof *arguments, TIMES = 20 };

static void *aligned(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!memory) exit((fprintf(stderr, "out of memory\n"), 2));
  memset(memory, 0, (bytes + 127) / 64 * 64);
  return memory;
}

static void read_bytes(const char *file, const char *suffix, void *to, size_t bytes) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", file, suffix);
  FILE *f = fopen(name, "rb");
  if (!f || fread(to, 1, bytes, f) != bytes) exit((fprintf(stderr, "%s cannot be read; run this in its folder\n", name), 2));
  fclose(f);
}

/* A number of 16 bits with that many bits of mantissa. */
static double half(unsigned bits, int mantissa) {
  int exponents = (1 << (15 - mantissa)) - 1, exponent = (bits >> mantissa) & exponents;
  double fraction = bits & ((1u << mantissa) - 1), sign = bits >> 15 ? -1 : 1;
  if (exponent == exponents) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent != 0) fraction += 1 << mantissa;
  return sign * ldexp(fraction, (exponent != 0 ? exponent : 1) - exponents / 2 - mantissa);
}

static double element(const void *memory, size_t k, int dtype) {
  switch (dtype) {
    case 1: return ((const double *)memory)[k];
    case 2: return ((const int *)memory)[k];
    case 3: return (double)((const long long *)memory)[k];
    case 4: case 5: return ((const unsigned char *)memory)[k];
    case 6: case 7: return half(((const unsigned short *)memory)[k], dtype == 6 ? 10 : 7);
    default: return ((const float *)memory)[k];
  }
}

/* Gives 1 if the buffer is not what the run left. */
static int compare(const struct buffer *b, const void *memory) {
  char *wanted = aligned(b->bytes);
  read_bytes(b->file, "after", wanted, b->bytes);
  static const size_t sizes[] = {4, 8, 4, 8, 1, 1, 2, 2};
  size_t count = b->bytes / sizes[b->dtype], first = count;
  double worst = 0;
  for (size_t k = 0; k < count; ++k) {
    double difference = fabs(element(memory, k, b->dtype) - element(wanted, k, b->dtype));
    if (difference > worst) worst = difference;
    if (first == count && difference != 0) first = k;
  }
  int same = memcmp(memory, wanted, b->bytes) == 0;
  if (same) printf("%s: the same bits, %zu elements\n", b->tensor, count);
  else printf("%s: differs by at most %g, first at element %zu of %zu\n", b->tensor, worst, first, count);
  free(wanted);
  return !same;
}

int main(void) {
  void *memory[BUFFERS], *scratch = aligned(SCRATCH_BYTES);
  for (int k = 0; k < BUFFERS; ++k) memory[k] = aligned(buffers[k].bytes);
  double best = 1e30;
  for (int run = 0; run < TIMES; ++run) {
    for (int k = 0; k < BUFFERS; ++k) read_bytes(buffers[k].file, "before", memory[k], buffers[k].bytes);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int call = 0; call < CALLS; ++call) {
      struct status status = {0};
      KERNEL(memory, arguments[call], scratch, &status);
      if (status.failed) printf("check %lld failed with %g\n", status.check, status.value);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    if (seconds < best) best = seconds;
  }
  printf("%.3f us on one thread, best of %d\n", 1e6 * best, TIMES);
  int failures = 0;
  for (int k = 0; k < BUFFERS; ++k) failures += buffers[k].written ? compare(&buffers[k], memory[k]) : 0;
  return failures ? 1 : 0;
}
