#include <density.h>
#include <stdio.h>

int main(void) {
  const float x[2] = {0, 1}, point[3] = {0, 1, 3}, ones[2] = {1, 1};
  float density[2], slope[3];
  char workspace[1 << 16];
  moxie_message message;
  density_grad_arguments a = {2, {x, 2}, {point, 3}, {ones, 2}, {density, 2}, {slope, 3}};
  if (density_grad(&a, workspace, sizeof workspace, &message) != moxie_ok) {
    printf("%s\n", message.text);
    return 1;
  }
  printf("density %.4f %.4f, slope %.4f\n", density[0], density[1], slope[2]);
  return 0;
}
