/* Reads the features of samples, separated by spaces, and prints the probability of every class.
 * cc -std=c99 predict.c -L. -lmodel -o predict */
#include <stdio.h>
#include <stdlib.h>

#include "model_weights.h"

int main(void) {
  static float weights[model_weights], x[model_features], probability[model_outputs];
  FILE *file = fopen("weights.bin", "rb");
  if (!file || fread(weights, sizeof(float), model_weights, file) != model_weights) return 1;
  model_arguments a = {.S = 1};
  a.features.data = x, a.features.count = model_features;
  a.probability.data = probability, a.probability.count = model_outputs;
  model_set_weights(&a, weights);
  int64_t bytes = 0;
  moxie_message message = {""};
  if (model_workspace(&a, &bytes, &message) != moxie_ok) return puts(message.text), 1;
  void *workspace = malloc((size_t)bytes + 1);
  for (int k = 0; scanf("%f", &x[k]) == 1; k = (k + 1) % model_features) {
    if (k < model_features - 1) continue;
    if (model(&a, workspace, bytes, &message) != moxie_ok) return puts(message.text), 1;
    for (int c = 0; c < model_outputs; ++c)
      printf("%s %.6f%c", model_output_names[c], probability[c], c < model_outputs - 1 ? ' ' : '\n');
  }
  return 0;
}
