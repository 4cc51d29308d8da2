#pragma once
// Sequences of frames as a network sees and predicts them, with maps of its uncertainty.
#include <string>

#include "learn/scores.h"

namespace moxie {

/// Whether targets are frames, as those of moving-mnist.
bool has_frames(const Encoding& encoding);

/// For each of the first samples a table of strips, a frame beside the other: what was read, the target, the mean that
/// was predicted and its standard deviation. `encoding` has frames.
std::string frame_tables(const Prediction& prediction, const Samples& samples, const Encoding& encoding);

}  // namespace moxie
