#include <mean.h>
#include <stdio.h>

int main(void) {
  const float mu = 1, var = 0, V = 0, U = 2, noise = 0, lambda = 1;
  float mean;
  char workspace[1 << 16];
  gpn_response_mean_arguments a = {1, {&mu, 1}, {&var, 1}, {&V, 1}, {&U, 1}, {&noise, 1}, {&lambda, 1}, {&mean, 1}};
  if (gpn_response_mean(&a, workspace, sizeof workspace, 0) != moxie_ok) return 1;
  printf("mean %.4f\n", mean);
  return 0;
}
