/* Reads the features of samples, separated by spaces, and prints
//@classes
 * the probability of every class, and then whatever else the model predicts.
//@values
 * the mean and the variance of every target, and then whatever else the model predicts.
//@others
 * what the model predicts.
//@every kind
 * cc -std=c99 predict.c -L. -lmodel -o predict */
#include <stdio.h>
#include <stdlib.h>

#include "model_weights.h"

int main(void) {
  static float weights[model_weights], x[model_features], others[model_others + 1];
//@classes
  static float probability[model_outputs];
//@values
  static float mean[model_outputs], variance[model_outputs];
//@every kind
  FILE *file = fopen("weights.bin", "rb");
  if (!file || fread(weights, sizeof(float), model_weights, file) != model_weights) return 1;
  model_arguments a = {.S = 1};
  a.features.data = x, a.features.count = model_features;
//@classes
  a.probability.data = probability, a.probability.count = model_outputs;
//@values
  a.mean.data = mean, a.mean.count = model_outputs;
  a.variance.data = variance, a.variance.count = model_outputs;
//@every kind
  model_set_weights(&a, weights);
  model_set_others(&a, others);
  int64_t bytes = 0;
  moxie_message message = {""};
  if (model_workspace(&a, &bytes, &message) != moxie_ok) return puts(message.text), 1;
  void *workspace = malloc((size_t)bytes + 1);
  for (int k = 0; scanf("%f", &x[k]) == 1; k = (k + 1) % model_features) {
    if (k < model_features - 1) continue;
    if (model(&a, workspace, bytes, &message) != moxie_ok) return puts(message.text), 1;
//@classes
    for (int c = 0; c < model_outputs; ++c)
      printf("%s%s %.6f", c > 0 ? " " : "", model_output_names[c], probability[c]);
    for (int i = 0; i < model_others; ++i) printf(" %s %.6g", model_other_names[i], others[i]);
//@values
    for (int c = 0; c < model_outputs; ++c)
      printf("%s%s %.6g %.6g", c > 0 ? " " : "", model_output_names[c], mean[c], variance[c]);
    for (int i = 0; i < model_others; ++i) printf(" %s %.6g", model_other_names[i], others[i]);
//@others
    for (int i = 0; i < model_others; ++i) printf("%s%s %.6g", i > 0 ? " " : "", model_other_names[i], others[i]);
//@every kind
    putchar('\n');
  }
  return 0;
}
