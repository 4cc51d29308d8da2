#include <kernels.h>
#include <stdio.h>

int main(void) {
  const float x[2] = {1, 2};
  float y[2];
  scaled_arguments a = {2, {x, 2}, {y, 2}};
  if (scaled(&a, 0, 0, 0) != moxie_ok) return 1;
  printf("scaled %g %g\n", y[0], y[1]);
  return 0;
}
